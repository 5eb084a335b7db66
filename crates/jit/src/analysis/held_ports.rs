//! Does a packet give the ports, and shares of quotas, that it takes to an entry in the stage that took
//! them?
//!
//! What a packet has taken belongs to the next entry that the packet adds. If that entry is
//! added in the same stage, additions in other stages move no ports, and packets need not run one by
//! one. The usual function takes a port, adds a session, and ends if it could not:
//!
//! ```text
//! lease = pool.take(...);
//! is_added = add_entry_pair(...);
//! if (!is_added) { drop; exit }
//! ```

use ir::{Block, BlockData, Body, ExternFn, Inst, Pipeline, Terminator, UnaryOp, Value, added_table};
use std::collections::HashSet;

/// Returns whether each packet that takes a port adds an entry, or ends, before it applies a table. A
/// stage ends at a table.
pub fn ports_stay_in_stage(pipeline: &Pipeline) -> bool {
    pipeline.controls.values().all(|control| ports_stay_in_body(&control.body))
}

fn ports_stay_in_body(body: &Body) -> bool {
    // Blocks that a packet with a port enters.
    let mut open: Vec<Block> = Vec::new();
    let mut seen: HashSet<Block> = HashSet::new();
    for block in body.blocks.values() {
        if let Some(take) = block.insts.iter().rposition(|data| takes_lease(&data.inst)) {
            let Some(next) = holders_behind(body, block, take + 1) else { return false };
            open.extend(next);
        }
    }
    while let Some(block) = open.pop() {
        if seen.insert(block) {
            let Some(next) = holders_behind(body, &body.blocks[block], 0) else { return false };
            open.extend(next);
        }
    }
    true
}

/// Returns whether an instruction takes a port, or a share of a quota.
pub fn takes_lease(inst: &Inst) -> bool {
    matches!(inst, Inst::Extern { func: ExternFn::PortPoolTake | ExternFn::EntryQuotaTake, .. })
}

/// Returns the blocks that a packet enters with its port, from the instruction at index `from` of
/// `block` on. `None`: it applies a table or leaves the body with it.
fn holders_behind(body: &Body, block: &BlockData, from: usize) -> Option<Vec<Block>> {
    let term = &block.term.as_ref()?.term;
    let addition = block.insts[from..].iter().find(|data| added_table(&data.inst).is_some());
    if let Some(is_added) = addition.and_then(|data| data.results.first()) {
        // From here on, only a packet whose entry was not added has a port.
        return match term {
            Terminator::Branch { cond, els, .. } if cond == is_added => Some(vec![els.block]),
            Terminator::Branch { cond, then, .. } if is_negation(body, *cond, *is_added) => Some(vec![then.block]),
            Terminator::Exit => Some(Vec::new()),
            _ => None,
        };
    }
    match term {
        Terminator::Apply { .. } | Terminator::Return => None,
        term => Some(term.successors()),
    }
}

fn is_negation(body: &Body, value: Value, of: Value) -> bool {
    let inst = body.defining_inst(value).map(|data| &data.inst);
    matches!(inst, Some(Inst::Unary(UnaryOp::LogicalNot, operand)) if *operand == of)
}

#[cfg(test)]
mod tests {
    use super::ports_stay_in_body;
    use ir::{
        Block, BlockCall, Body, Entity, ExternArg, ExternFn, ExternId, Inst, InstData, TableId, Terminator, Type,
    };

    /// What the packets of a body do, after the port is taken, if their entry is not added.
    fn body(of_refused: Terminator) -> Body {
        let mut body = Body::default();
        let is_added = body.values.push(Type::Bool);
        let call = |func, object, args| Inst::Extern { object, func, args };
        let take = InstData::new(call(ExternFn::PortPoolTake, Some(ExternId::from_index(0)), vec![]), vec![]);
        let table = TableId::from_index(0);
        let add = InstData::new(call(ExternFn::AddEntry, None, vec![ExternArg::Table(table)]), vec![is_added]);
        let next = |index| BlockCall::to(Block::from_index(index));
        body.push_block(vec![], vec![take], Terminator::Jump(next(1)));
        let branch = Terminator::Branch { cond: is_added, then: next(2), els: next(3) };
        body.push_block(vec![], vec![add], branch);
        let apply = Terminator::Apply { table: TableId::from_index(1), keys: vec![], arms: vec![] };
        body.push_block(vec![], vec![], apply);
        body.push_block(vec![], vec![], of_refused);
        body.entry = Some(Block::from_index(0));
        body
    }

    #[test]
    fn a_packet_without_an_entry_ends_or_has_its_port_elsewhere() {
        assert!(ports_stay_in_body(&body(Terminator::Exit)));
        assert!(!ports_stay_in_body(&body(Terminator::Jump(BlockCall::to(Block::from_index(2))))));
        assert!(!ports_stay_in_body(&body(Terminator::Return)), "the deparser could add an entry");
    }
}
