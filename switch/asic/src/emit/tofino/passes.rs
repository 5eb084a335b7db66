//! Optimisation passes over the controls for Tofino, in the order of execution.
//!
//! A step takes a stage or a logical table of one, and the chip has few of both. The passes remove
//! steps and make steps independent. Each pass keeps the behaviour of the pipeline. In builds with
//! debug assertions the verifier runs after each pass.

use super::{
    branch_folding, code_hoisting, dead_store_elimination, if_conversion, instruction_combining, jump_threading,
    local_value_numbering, parameter_hoisting, store_forwarding,
};
use ir::passes::Pass;
use ir::verify::VerifierViolation;
use ir::{Body, ControlKind, Pipeline, VarId};
use std::collections::BTreeSet;

/// Variables that the emitted source reads but the pipeline does not.
pub type ExternallyReadVars = [VarId];

/// Passes in order of execution.
pub const PASSES: &[Pass<ExternallyReadVars>] = &[
    Pass {
        name: "dead-stores",
        reason: "Variables that only omitted code read (drop reasons with an omitted counter) make exits differ. First, so that \
                 exits are short and equal exits are found.",
        run: dead_store_elimination::remove_dead_stores,
    },
    Pass {
        name: "if-conversion",
        reason: "An `if` around one store becomes a selection, which is arithmetic. Before the passes on control flow.",
        run: |p, _| run_on_controls(p, |p, body| if_conversion::convert_ifs(p, body)),
    },
    Pass {
        name: "jump-threading",
        reason: "A variable between two branches takes a stage between them. Leaves variables without loads.",
        run: |p, _| run_on_controls(p, |p, body| jump_threading::thread_jumps(p, body)),
    },
    Pass {
        name: "single-stores",
        reason: "Locals stored once become values, which the arithmetic passes can follow. After jump threading, which removes loads.",
        run: |p, _| run_on_controls(p, |p, body| store_forwarding::forward_single_stores(p, body)),
    },
    Pass {
        name: "dead-stores-at-exits",
        reason: "Removes stores that nothing reads after an exit. After jump threading, which copies exits; before branch folding, \
                 which looks for equal exits.",
        run: |p, externally_read| {
            run_on_controls(p, |p, body| dead_store_elimination::remove_dead_stores_at_exits(p, body, externally_read))
        },
    },
    Pass {
        name: "combine-arithmetic",
        reason: "Arithmetic in forms that ALUs and gateways support. Before branch folding, which tests whether a gateway can evaluate a condition.",
        run: |p, _| run_on_controls(p, |_, body| instruction_combining::combine_arithmetic(body)),
    },
    Pass {
        name: "branch-folding",
        reason: "Merges checks with equal exits. Before hoisting, because it removes blocks on the path upwards.",
        run: |p, _| run_on_controls(p, |_, body| branch_folding::fold_branches(body)),
    },
    Pass {
        name: "constant-parameters",
        reason: "A parameter with one value needs no variable. Before keys are hoisted, because the remaining parameters become variables.",
        run: |p, _| run_on_controls(p, |_, body| parameter_hoisting::remove_constant_parameters(body)),
    },
    Pass {
        name: "hoist-lookup-keys",
        reason: "Keys that do not depend on a lookup are computed before it. Before other computations are hoisted, because keys depend on them.",
        run: |p, _| run_on_controls(p, parameter_hoisting::hoist_lookup_keys),
    },
    Pass {
        name: "hoist-computations",
        reason: "Arithmetic precedes the branches that it does not depend on. After the passes that move lookups and remove branches.",
        run: |p, _| run_on_controls(p, |p, body| code_hoisting::hoist_computations(p, body)),
    },
    Pass {
        name: "value-numbering",
        reason: "Hoisting moves equal computations to one block. Last.",
        run: |p, _| run_on_controls(p, |_, body| local_value_numbering::number_values(body)),
    },
];

/// Runs a pass over the controls' bodies. A body is removed from the pipeline during its pass.
fn run_on_controls(p: &mut Pipeline, mut run: impl FnMut(&mut Pipeline, &mut Body)) {
    for id in p.controls.keys() {
        if matches!(p.controls[id].kind, ControlKind::MainControl | ControlKind::Ingress | ControlKind::Egress) {
            let mut body = std::mem::take(&mut p.controls[id].body);
            run(p, &mut body);
            p.controls[id].body = body;
        }
    }
}

/// Runs all passes; `observe` receives the pipeline after each.
///
/// # Panics
/// With debug assertions, if a pass breaks an invariant of the IR.
pub(in crate::emit) fn run_passes(
    p: &mut Pipeline,
    externally_read: &ExternallyReadVars,
    observe: &mut dyn FnMut(&Pass<ExternallyReadVars>, &Pipeline),
) {
    let known = if cfg!(debug_assertions) { verifier_problems(p) } else { BTreeSet::new() };
    for pass in PASSES {
        (pass.run)(p, externally_read);
        observe(pass, p);
        if cfg!(debug_assertions) {
            let new: Vec<String> = verifier_problems(p).difference(&known).cloned().collect();
            assert!(new.is_empty(), "the IR is wrong after `{}`: {}", pass.name, new.join("; "));
        }
    }
}

/// Returns the verifier's findings without positions in bodies. A legalized pipeline has findings
/// before the passes, because PNA has no egress and no parser that adds up checksums.
fn verifier_problems(p: &Pipeline) -> BTreeSet<String> {
    let faults = ir::verify::verify(p).err().unwrap_or_default();
    let line = |fault: VerifierViolation| format!("{:?} {:?}: {}", fault.declaration, fault.control, fault.kind);
    faults.into_iter().map(line).collect()
}
