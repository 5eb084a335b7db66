//! Store sinking in the parser: metadata is written once on each path.
//!
//! ```text
//! state a { m = 1; transition select(x) ... }  ->  state a { transition select(x) ... }
//! state b { m = 2; }                               state b { m = 2; }
//! state c { }                                      state c { m = 1; }
//! ```
//!
//! A parser state can only move bits of the packet and constants to metadata. On Tofino 1 a second
//! write on a path does not overwrite the first one; both are ORed (p4c's tofino back-end,
//! `parde/check_parser_multi_write`). Therefore the first of two writes moves to the paths without
//! the second one.

use super::legalizer::Legalizer;
use ir::*;
use std::collections::HashSet;

impl Legalizer {
    /// Replaces computed values that a state stores by zero, and reports them.
    pub(super) fn drop_parser_computation(&mut self, body: &mut Body) {
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let computed_value = |inst: &InstData| match inst.inst {
                Inst::Store(_, value) => Self::is_computed(body, value).then_some(value),
                _ => None,
            };
            let computed_stores: Vec<(usize, Value)> = body.blocks[block]
                .insts
                .iter()
                .enumerate()
                .filter_map(|(index, inst)| Some((index, computed_value(inst)?)))
                .collect();
            for (index, value) in computed_stores.into_iter().rev() {
                let loc = body.blocks[block].insts[index].loc;
                self.report_left_out(loc, "an expression that is computed in the parser, which only moves bits");
                let zero = body.values.push(body.values[value]);
                let Inst::Store(var, _) = body.blocks[block].insts[index].inst else { continue };
                let set = [
                    InstData { inst: Inst::Const(Const::new(body.values[zero], 0u8)), results: vec![zero], loc },
                    InstData { inst: Inst::Store(var, zero), results: Vec::new(), loc },
                ];
                body.blocks[block].insts.splice(index..=index, set);
            }
        }
    }

    /// Returns whether a value needs more than slices, casts and concatenation.
    fn is_computed(body: &Body, value: Value) -> bool {
        match body.defining_inst(value).map(|i| &i.inst) {
            Some(Inst::Slice { value, .. } | Inst::Cast(_, value)) => Self::is_computed(body, *value),
            Some(Inst::Concat(a, b)) => Self::is_computed(body, *a) || Self::is_computed(body, *b),
            Some(Inst::Binary(..) | Inst::Unary(..) | Inst::Select { .. } | Inst::PacketLength) => true,
            Some(Inst::IsValid(_) | Inst::InValueSet(..)) => true,
            _ => false,
        }
    }

    /// Moves the first of two writes of metadata to the paths without the second one.
    pub(super) fn sink_overwritten_stores(&mut self, body: &mut Body) {
        // Stores that cannot be moved; they are not tried again.
        let mut stuck: HashSet<(Block, VarId)> = HashSet::new();
        while let Some((block, at, var)) = self.find_overwritten_store(body, &stuck) {
            if !Self::sink_store(body, block, at, var) {
                stuck.insert((block, var));
                let loc = body.blocks[block].insts[at].loc;
                let name = self.p.vars[var].name.clone();
                let what =
                    format!("`{name}`, which is written twice on one path through the parser: Tofino 1 ORs the values");
                self.report_left_out(loc, what);
            }
        }
    }

    /// Returns a write of metadata that a later write overwrites: block, index, variable.
    fn find_overwritten_store(&self, body: &Body, stuck: &HashSet<(Block, VarId)>) -> Option<(Block, usize, VarId)> {
        for (block, data) in body.blocks.iter() {
            for (at, inst) in data.insts.iter().enumerate() {
                let Inst::Store(var, _) = inst.inst else { continue };
                let field = matches!(self.p.vars[var].kind, VarKind::Field(..));
                if !field && !stuck.contains(&(block, var)) && reaches_inst(body, block, at + 1, |i| stores_var(i, var))
                {
                    return Some((block, at, var));
                }
            }
        }
        None
    }

    /// Moves the write `index` (of an instruction) past the end of its block: into the successor,
    /// or into a new block on each edge. Drops it if each path writes the variable again first.
    /// Returns `false` if that is impossible.
    fn sink_store(body: &mut Body, block: Block, index: usize, var: VarId) -> bool {
        let later = &body.blocks[block].insts[index + 1..];
        if later.iter().any(|i| i.inst == Inst::Load(var)) {
            return false;
        }
        if later.iter().any(|i| stores_var(&i.inst, var)) {
            body.blocks[block].insts.remove(index);
            return true;
        }
        let cfg = Cfg::new(body);
        let Some(term) = body.blocks[block].term.clone() else { return false };
        let inst = body.blocks[block].insts[index].clone();
        if let Terminator::Jump(call) = &term.term {
            let next = call.block;
            let is_only_pred = cfg.predecessors(next) == [block] && next != block && body.entry != Some(next);
            match first_access_is_store(body, next, var) {
                Some(true) => {}
                None if is_only_pred => body.blocks[next].insts.push(inst.clone()),
                _ => return false,
            }
            body.blocks[block].insts.remove(index);
            return true;
        }
        let mut changed = term.clone();
        for call in branch_edges(&mut changed.term) {
            if first_access_is_store(body, call.block, var) != Some(true) {
                let onward = TerminatorData { term: Terminator::Jump(call.clone()), loc: term.loc };
                let edge_block = BlockData { params: Vec::new(), insts: vec![inst.clone()], term: Some(onward) };
                *call = BlockCall::to(body.blocks.push(edge_block));
            }
        }
        body.blocks[block].term = Some(changed);
        body.blocks[block].insts.remove(index);
        true
    }
}

fn stores_var(inst: &Inst, var: VarId) -> bool {
    matches!(inst, Inst::Store(v, _) if *v == var)
}

/// Returns whether the first access to the variable in a block is a store (`true`) or a load
/// (`false`); `None` if there is no access.
fn first_access_is_store(body: &Body, block: Block, var: VarId) -> Option<bool> {
    body.blocks[block].insts.iter().find_map(|i| match i.inst {
        Inst::Store(v, _) if v == var => Some(true),
        Inst::Load(v) if v == var => Some(false),
        _ => None,
    })
}

/// Returns whether a path from a position in a block reaches an instruction for which `wanted`
/// holds.
pub(super) fn reaches_inst(body: &Body, block: Block, from: usize, wanted: impl Fn(&Inst) -> bool) -> bool {
    let mut seen = HashSet::new();
    let mut todo = vec![(block, from)];
    while let Some((at, from)) = todo.pop() {
        if body.blocks[at].insts[from..].iter().any(|i| wanted(&i.inst)) {
            return true;
        }
        let next = body.blocks[at].successors().into_iter();
        todo.extend(next.filter(|b| seen.insert(*b)).map(|b| (b, 0)));
    }
    false
}

/// Returns the edges of a branch or switch.
fn branch_edges(term: &mut Terminator) -> Vec<&mut BlockCall> {
    match term {
        Terminator::Branch { then, els, .. } => vec![then, els],
        Terminator::Switch { cases, default, .. } => cases.iter_mut().map(|(_, call)| call).chain([default]).collect(),
        _ => Vec::new(),
    }
}
