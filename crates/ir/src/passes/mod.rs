//! All passes in the order in which they run. The verifier runs before the first pass and after
//! each one.
//!
//! A pass preserves the meaning of the pipeline: output packets, state, drop reasons. It also
//! preserves what explanations need: source positions of the remaining code, table applications,
//! parser states, actions. Passes are kept simple, because they only speed up the interpreter and
//! make dumps readable.

mod dead_store;
mod dead_value;
mod fold_constants;
mod forward_stores;
mod merge_blocks;
mod one_pass;
mod packet_pass;
mod renumber_values;
mod thread_branches;
mod unreachable_blocks;
mod unused_variables;

pub use dead_value::remove_dead_values;
pub use packet_pass::{PacketPass, reads_pass_number, recirculates, specialise_packet_pass, without_recirculation};

use crate::pipeline::Pipeline;
use crate::verify::{VerifyError, verify_after};

/// A pass. Passes of a back-end can take additional context `C`.
#[derive(Clone, Copy, Debug)]
pub struct Pass<C: ?Sized + 'static = ()> {
    /// Name, as used by `terrace compile --dump` and `terrace emit --dump`.
    pub name: &'static str,
    /// The effect of the pass and the reason for its position.
    pub reason: &'static str,
    /// The implementation. The pipeline has to verify.
    pub run: fn(&mut Pipeline, &C),
}

impl Pass {
    /// Runs the pass alone. The pipeline has to verify.
    pub fn run(&self, pipeline: &mut Pipeline) {
        (self.run)(pipeline, &());
    }
}

/// The passes in order.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "unreachable-blocks",
        reason: "Lowering leaves blocks after `return` and `exit`; later passes need not handle them.",
        run: |p, ()| unreachable_blocks::remove_unreachable_blocks(p),
    },
    Pass {
        name: "merge-blocks",
        reason: "Redirects jumps to empty blocks and merges straight lines into one block, because the next two passes \
                 handle one block at a time.",
        run: |p, ()| merge_blocks::merge_blocks(p),
    },
    Pass {
        name: "forward-stores",
        reason: "Replaces a load by the value stored or loaded before. Before folding, so that it sees constants that went \
                 through a variable (arguments, copy-in and copy-out).",
        run: |p, ()| forward_stores::forward_stores(p),
    },
    Pass {
        name: "fold-constants",
        reason: "Computes constant expressions; a branch on a constant becomes a jump.",
        run: |p, ()| fold_constants::fold_constants(p),
    },
    Pass {
        name: "thread-branches",
        reason: "A jump to a branch on a constant argument goes to its target. After folding, which made the constants; \
                 before the next passes, because it leaves unreachable blocks and straight lines.",
        run: |p, ()| thread_branches::thread_branches(p),
    },
    Pass {
        name: "unreachable-blocks-2",
        reason: "Folded branches leave unreachable blocks.",
        run: |p, ()| unreachable_blocks::remove_unreachable_blocks(p),
    },
    Pass {
        name: "merge-blocks-2",
        reason: "Folded branches leave straight lines.",
        run: |p, ()| merge_blocks::merge_blocks(p),
    },
    Pass {
        name: "forward-stores-2",
        reason: "Longer blocks let more loads see their stores; this rarely yields constants, so folding does not run again.",
        run: |p, ()| forward_stores::forward_stores(p),
    },
    Pass {
        name: "dead-stores",
        reason: "Removes stores that are never read. After forwarding, which removed the reads.",
        run: |p, ()| dead_store::remove_dead_stores(p),
    },
    Pass {
        name: "dead-values",
        reason: "Removes pure computations with unused results. After dead stores, which used them.",
        run: |p, ()| dead_value::remove_dead_values_and_params(p),
    },
    Pass {
        name: "unused-variables",
        reason: "Removes local variables and local headers without references. After the code that referenced them was removed.",
        run: |p, ()| unused_variables::remove_unused_variables(p),
    },
    Pass {
        name: "compact",
        reason: "Numbers values in the order of their definitions, for dense tables in engines and stable text. Last.",
        run: |p, ()| renumber_values::renumber_values(p),
    },
];

/// Point at which an observer is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassPhase {
    /// Before the pass.
    Before,
    /// After the pass, before the verifier, so that an invalid pipeline can be inspected as well.
    After,
}

/// Runs all passes, with the verifier before the first and after each. `observe` is called with the
/// pipeline before and after each pass.
///
/// # Errors
/// Fails if lowering or a pass left a pipeline that breaks the rules. The pipeline is then as that
/// pass left it.
pub fn run_passes(
    pipeline: &mut Pipeline,
    mut observe: impl FnMut(&Pass, PassPhase, &Pipeline),
) -> Result<(), VerifyError> {
    verify_after("lowering", pipeline)?;
    for pass in PASSES {
        observe(pass, PassPhase::Before, pipeline);
        pass.run(pipeline);
        observe(pass, PassPhase::After, pipeline);
        verify_after(pass.name, pipeline)?;
    }
    Ok(())
}
