//! Exits: blocks in which a packet leaves the control, with the queries of passes on them.

use ir::*;
use std::collections::HashSet;

/// Maximum number of instructions of an exit that may be duplicated.
const MAX_EXIT: usize = 16;

/// Returns the blocks that no lookup precedes. Code after a lookup can be part of an action, which
/// must be the same at every application of its table.
pub(super) fn blocks_before_lookups(body: &Body) -> HashSet<Block> {
    let next = |block: Block| body.blocks[block].term.iter().flat_map(|t| t.term.successors()).collect::<Vec<_>>();
    let applies =
        |b: &Block| matches!(body.blocks[*b].term, Some(TerminatorData { term: Terminator::Apply { .. }, .. }));
    let mut behind = HashSet::new();
    let mut open: Vec<Block> = body.blocks.keys().filter(applies).flat_map(next).collect();
    while let Some(block) = open.pop() {
        if behind.insert(block) {
            open.extend(next(block));
        }
    }
    body.blocks.keys().filter(|b| !behind.contains(b)).collect()
}

/// Redirects the edges of `from` that target the first block to the second one.
pub(super) fn redirect_edges(body: &mut Body, from: Block, [to, other]: [Block; 2]) {
    if let Some(term) = &mut body.blocks[from].term {
        term.term.for_each_call_mut(|call| {
            if call.block == to {
                call.block = other;
            }
        });
    }
}

/// Returns whether a packet leaves the control in this block, which does little else.
pub(super) fn is_exit(body: &Body, block: Block) -> bool {
    let data = &body.blocks[block];
    let is_empty_exit = |b: Block| {
        let data = &body.blocks[b];
        data.insts.is_empty()
            && matches!(data.term.as_ref().map(|t| &t.term), Some(Terminator::Exit | Terminator::Return))
    };
    let ends_control = match data.term.as_ref().map(|t| &t.term) {
        Some(Terminator::Exit | Terminator::Return) => true,
        Some(Terminator::Jump(call)) => is_empty_exit(call.block) && call.args.is_empty(),
        _ => false,
    };
    let is_exit_inst = |i: &InstData| match &i.inst {
        Inst::Store(..) | Inst::Const(_) | Inst::SetInvalid(_) => true,
        Inst::Extern { object, func, .. } => {
            object.is_none() && matches!(func, ExternFn::DropPacket | ExternFn::SendToPort)
        }
        _ => false,
    };
    data.params.is_empty() && data.insts.len() <= MAX_EXIT && ends_control && data.insts.iter().all(is_exit_inst)
}

/// Returns whether another block uses a value.
pub(super) fn is_used_outside(body: &Body, value: Value, block: Block) -> bool {
    body.blocks.iter().filter(|(b, _)| *b != block).any(|(_, data)| {
        let mut used = false;
        data.insts.iter().for_each(|i| i.inst.for_each_use(|v| used |= v == value));
        data.term.iter().for_each(|t| t.term.for_each_use(|v| used |= v == value));
        used
    })
}
