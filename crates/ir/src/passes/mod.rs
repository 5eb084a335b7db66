//! The passes, all of them, in the order in which they run; the verifier runs before the first and after each.
//!
//! A pass keeps the meaning of the pipeline: output packets, state, drop reasons. It also keeps what explanations need: source
//! positions of what stays, table applications, parser states, actions. Passes are robust rather than clever: what they make
//! faster is the interpreter and the reader of a dump.

mod compact;
mod dead_store;
mod dead_value;
mod fold;
mod forward;
mod reach;
mod thread;
mod unused;

pub use dead_value::drop_unused;

use crate::pipeline::Pipeline;
use crate::verify::{VerifyError, verify_after};

/// A pass. Those of a back-end may need to know more than the pipeline says: `C`.
#[derive(Clone, Copy, Debug)]
pub struct Pass<C: ?Sized + 'static = ()> {
    /// Name, as `terrace compile --dump` and `terrace emit --dump` take it.
    pub name: &'static str,
    /// What it does and why it is where it is.
    pub reason: &'static str,
    /// The pass itself. The pipeline has to verify.
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
        reason: "Lowering leaves blocks behind `return` and `exit`; nothing later has to look at them.",
        run: |p, ()| reach::run(p),
    },
    Pass {
        name: "merge-blocks",
        reason: "Jumps to empty blocks go on to their target, and straight lines become one block: the next two look at one \
                 block at a time.",
        run: |p, ()| thread::run(p),
    },
    Pass {
        name: "forward-stores",
        reason: "A load of what was stored or loaded just before becomes that value. Before folding, which so sees constants \
                 that went through a variable (arguments, copy-in and copy-out).",
        run: |p, ()| forward::run(p),
    },
    Pass {
        name: "fold-constants",
        reason: "Computes what constants determine; a branch on a constant becomes a jump.",
        run: |p, ()| fold::run(p),
    },
    Pass {
        name: "unreachable-blocks-2",
        reason: "Folded branches leave blocks that nothing leads to.",
        run: |p, ()| reach::run(p),
    },
    Pass { name: "merge-blocks-2", reason: "Folded branches leave straight lines.", run: |p, ()| thread::run(p) },
    Pass {
        name: "forward-stores-2",
        reason: "Longer blocks let more loads see their stores; no constants come of it often enough to fold again.",
        run: |p, ()| forward::run(p),
    },
    Pass {
        name: "dead-stores",
        reason: "Stores whose value nobody reads. After forwarding, which removed the reads.",
        run: |p, ()| dead_store::run(p),
    },
    Pass {
        name: "dead-values",
        reason: "Computations without effect whose results nobody uses. After dead stores, which used them.",
        run: |p, ()| dead_value::run(p),
    },
    Pass {
        name: "unused-variables",
        reason: "Local variables and local headers that no code names any more. After the code that named them is gone.",
        run: |p, ()| unused::run(p),
    },
    Pass {
        name: "compact",
        reason: "Numbers values in the order of their definitions: dense tables for engines, stable text for people. Last.",
        run: |p, ()| compact::run(p),
    },
];

/// When an observer is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Before the pass.
    Before,
    /// After the pass; the verifier has not run yet, so that also a broken pipeline can be looked at.
    After,
}

/// Runs all passes, with the verifier before the first and after each. `observe` sees the pipeline around each pass.
///
/// # Errors
/// If lowering or a pass left a pipeline that breaks the rules. The pipeline is then as that pass left it.
pub fn run_passes(
    pipeline: &mut Pipeline,
    mut observe: impl FnMut(&Pass, Moment, &Pipeline),
) -> Result<(), VerifyError> {
    verify_after("lowering", pipeline)?;
    for pass in PASSES {
        observe(pass, Moment::Before, pipeline);
        pass.run(pipeline);
        observe(pass, Moment::After, pipeline);
        verify_after(pass.name, pipeline)?;
    }
    Ok(())
}
