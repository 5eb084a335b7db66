//! Properties of a program that need no flow graph.

use interp::host::architecture::{cpu_variable, drop_variable};
use ir::{Inst, Pipeline, VarId};

/// Returns whether a parser may leave its body at the instruction.
pub fn may_reject(inst: &Inst) -> bool {
    matches!(
        inst,
        Inst::Extract(_) | Inst::ExtractVarbit(..) | Inst::Advance(_) | Inst::Lookahead(_) | Inst::Verify(..)
    )
}

/// Returns the variables for the program's own reasons: of drops, and of packets to the CPU.
pub fn reason_vars(pipeline: &Pipeline) -> [Option<VarId>; 2] {
    [drop_variable(pipeline), cpu_variable(pipeline)]
}

/// Returns whether a body has a back edge.
pub fn has_loop(body: &ir::Body) -> bool {
    let cfg = ir::Cfg::new(body);
    let order = cfg.reverse_postorder();
    let position = |block: ir::Block| order.iter().position(|b| *b == block).unwrap_or(0);
    order.iter().enumerate().any(|(at, block)| {
        let term = body.blocks[*block].term.as_ref();
        term.is_some_and(|term| term.term.successors().into_iter().any(|next| position(next) <= at))
    })
}
