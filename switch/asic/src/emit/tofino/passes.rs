//! The passes that make what the controls compute cheap for a chip, in the order in which they run.
//!
//! A step is a stage or a logical table of one, and the chip has few of both: the passes remove
//! steps, and let steps stand side by side. A pass keeps the meaning of the pipeline. In builds
//! with debug assertions the verifier runs after each.

use super::{
    branch_folding, combine, dead_stores, hoist, hoist_keys, if_conversion, jump_threading, single_stores,
    value_numbering,
};
use ir::passes::Pass;
use ir::verify::Fault;
use ir::{Body, ControlKind, Pipeline, VarId};
use std::collections::BTreeSet;

/// Variables that the emitted text reads and the pipeline does not.
pub type Asked = [VarId];

/// The passes in order.
pub const PASSES: &[Pass<Asked>] = &[
    Pass {
        name: "dead-stores",
        reason: "Variables that only left-out code read (reasons of drops, whose counter is left out) make exits differ. First, so that \
                 exits are short and equal ones are found.",
        run: dead_stores::remove_dead_stores,
    },
    Pass {
        name: "if-conversion",
        reason: "An `if` around one store becomes a choice, which is arithmetic. Before the passes that look for control flow.",
        run: |p, _| in_controls(p, |p, body| if_conversion::convert_ifs(p, body)),
    },
    Pass {
        name: "jump-threading",
        reason: "A variable between two decisions is a stage between them. Leaves variables that nothing loads any more.",
        run: |p, _| in_controls(p, |p, body| jump_threading::thread_jumps(p, body)),
    },
    Pass {
        name: "single-stores",
        reason: "Locals stored once are values, which the passes for arithmetic can follow. After jump threading, which removed loads.",
        run: |p, _| in_controls(p, |p, body| single_stores::forward_single_stores(p, body)),
    },
    Pass {
        name: "dead-stores-at-exits",
        reason: "What nothing reads behind an exit is not set there. After jump threading, which copied exits; before branch folding, \
                 which looks for equal ones.",
        run: |p, asked| in_controls(p, |p, body| dead_stores::remove_dead_stores_at_exits(p, body, asked)),
    },
    Pass {
        name: "combine-arithmetic",
        reason: "Arithmetic in forms that ALUs and gateways have. Before branch folding, which asks what a gateway can decide.",
        run: |p, _| in_controls(p, |_, body| combine::combine_arithmetic(body)),
    },
    Pass {
        name: "branch-folding",
        reason: "Checks that end alike are one. Before hoisting, whose way up is shorter by the blocks that go.",
        run: |p, _| in_controls(p, |_, body| branch_folding::fold_branches(body)),
    },
    Pass {
        name: "constant-parameters",
        reason: "A parameter with one value is no variable. Before keys are hoisted: those that stay are variables.",
        run: |p, _| in_controls(p, |_, body| hoist_keys::remove_constant_parameters(body)),
    },
    Pass {
        name: "hoist-lookup-keys",
        reason: "Keys that a lookup does not decide about are computed beside it. Before other computations are hoisted, which keys wait for.",
        run: |p, _| in_controls(p, hoist_keys::hoist_lookup_keys),
    },
    Pass {
        name: "hoist-computations",
        reason: "Arithmetic stands before the decisions that it does not depend on. After the passes that move lookups and remove branches.",
        run: |p, _| in_controls(p, |p, body| hoist::hoist_computations(p, body)),
    },
    Pass {
        name: "value-numbering",
        reason: "Hoisting brings equal computations together in one block. Last.",
        run: |p, _| in_controls(p, |_, body| value_numbering::number_values(body)),
    },
];

/// Runs a pass over the bodies of the controls that packets pass; a body is not in the pipeline
/// meanwhile.
fn in_controls(p: &mut Pipeline, mut run: impl FnMut(&mut Pipeline, &mut Body)) {
    for id in p.controls.keys() {
        if matches!(p.controls[id].kind, ControlKind::MainControl | ControlKind::Ingress | ControlKind::Egress) {
            let mut body = std::mem::take(&mut p.controls[id].body);
            run(p, &mut body);
            p.controls[id].body = body;
        }
    }
}

/// Runs all passes; `observe` sees the pipeline after each.
///
/// # Panics
/// With debug assertions, if a pass breaks one of the IR's rules.
pub(in crate::emit) fn run_passes(p: &mut Pipeline, asked: &Asked, observe: &mut dyn FnMut(&Pass<Asked>, &Pipeline)) {
    let known = if cfg!(debug_assertions) { problems(p) } else { BTreeSet::new() };
    for pass in PASSES {
        (pass.run)(p, asked);
        observe(pass, p);
        if cfg!(debug_assertions) {
            let new: Vec<String> = problems(p).difference(&known).cloned().collect();
            assert!(new.is_empty(), "the IR is wrong after `{}`: {}", pass.name, new.join("; "));
        }
    }
}

/// What the verifier says of a pipeline, without places in bodies. A pipeline in a chip's shape
/// breaks rules already: PNA has no egress, and no parser that adds up checksums.
fn problems(p: &Pipeline) -> BTreeSet<String> {
    let faults = ir::verify::verify(p).err().unwrap_or_default();
    let line = |fault: Fault| format!("{:?} {:?}: {}", fault.declaration, fault.control, fault.problem);
    faults.into_iter().map(line).collect()
}
