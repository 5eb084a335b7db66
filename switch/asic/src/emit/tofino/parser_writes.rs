//! Sinking of parser writes: metadata is written once on each path.
//!
//! ```text
//! state a { m = 1; transition select(x) ... }  ->  state a { transition select(x) ... }
//! state b { m = 2; }                               state b { m = 2; }
//! state c { }                                      state c { m = 1; }
//! ```
//!
//! A parser's state may do little with metadata. It moves bits of the packet and constants; and
//! what is written twice on one way is not overwritten on Tofino 1, but combined by OR (p4c's
//! tofino back-end, `parde/check_parser_multi_write`), so that the first of two writes has to move
//! to the ways that don't come to the second one.

use super::preparer::Preparer;
use ir::*;
use std::collections::HashSet;

impl Preparer {
    /// Takes out what a state would have to compute; it is zero from then on, and named.
    pub(super) fn moves_only(&mut self, body: &mut Body) {
        for n in 0..body.blocks.len() {
            let block = Block(u32::try_from(n).unwrap_or(u32::MAX));
            let computed = |inst: &InstData| match inst.inst {
                Inst::Store(_, value) => Self::is_computed(body, value).then_some(value),
                _ => None,
            };
            let found: Vec<(usize, Value)> = body.blocks[block]
                .insts
                .iter()
                .enumerate()
                .filter_map(|(at, inst)| Some((at, computed(inst)?)))
                .collect();
            for (at, value) in found.into_iter().rev() {
                let loc = body.blocks[block].insts[at].loc;
                self.leave_out(loc, "an expression that is computed in the parser, which only moves bits");
                let zero = body.values.push(body.values[value]);
                let Inst::Store(var, _) = body.blocks[block].insts[at].inst else { continue };
                let set = [
                    InstData { inst: Inst::Const(Const::new(body.values[zero], 0u8)), results: vec![zero], loc },
                    InstData { inst: Inst::Store(var, zero), results: Vec::new(), loc },
                ];
                body.blocks[block].insts.splice(at..=at, set);
            }
        }
    }

    /// Whether more than slices, widening and joining is needed for a value.
    fn is_computed(body: &Body, value: Value) -> bool {
        match body.definition(value).map(|i| &i.inst) {
            Some(Inst::Slice { value, .. } | Inst::Cast(_, value)) => Self::is_computed(body, *value),
            Some(Inst::Concat(a, b)) => Self::is_computed(body, *a) || Self::is_computed(body, *b),
            Some(Inst::Binary(..) | Inst::Unary(..) | Inst::Select { .. } | Inst::PacketLength) => true,
            Some(Inst::IsValid(_) | Inst::InValueSet(..)) => true,
            _ => false,
        }
    }

    /// Moves the first of two writes of metadata to the ways that do not come to the second one.
    pub(super) fn written_once(&mut self, body: &mut Body) {
        // What has nowhere to go stays, and is not tried again.
        let mut stuck: HashSet<(Block, VarId)> = HashSet::new();
        while let Some((block, at, var)) = self.overwritten(body, &stuck) {
            if !Self::sink(body, block, at, var) {
                stuck.insert((block, var));
                let loc = body.blocks[block].insts[at].loc;
                let name = self.p.vars[var].name.clone();
                let what =
                    format!("`{name}`, which is written twice on one way through the parser: Tofino 1 ORs the values");
                self.leave_out(loc, what);
            }
        }
    }

    /// A write of metadata behind which comes another one: block, place, variable.
    fn overwritten(&self, body: &Body, stuck: &HashSet<(Block, VarId)>) -> Option<(Block, usize, VarId)> {
        for (block, data) in body.blocks.iter() {
            for (at, inst) in data.insts.iter().enumerate() {
                let Inst::Store(var, _) = inst.inst else { continue };
                let field = matches!(self.p.vars[var].kind, VarKind::Field(..));
                if !field && !stuck.contains(&(block, var)) && comes_to(body, block, at + 1, |i| writes(i, var)) {
                    return Some((block, at, var));
                }
            }
        }
        None
    }

    /// Moves a write past the end of its block. False if it can't be moved.
    fn sink(body: &mut Body, block: Block, at: usize, var: VarId) -> bool {
        let rest = &body.blocks[block].insts[at + 1..];
        if rest.iter().any(|i| i.inst == Inst::Load(var)) {
            return false;
        }
        if rest.iter().any(|i| writes(&i.inst, var)) {
            body.blocks[block].insts.remove(at);
            return true;
        }
        let cfg = Cfg::new(body);
        let Some(term) = body.blocks[block].term.clone() else { return false };
        let inst = body.blocks[block].insts[at].clone();
        if let Term::Jump(call) = &term.term {
            let next = call.block;
            let alone = cfg.predecessors(next) == [block] && next != block && body.entry != Some(next);
            match first_touch(body, next, var) {
                Some(true) => {}
                None if alone => body.blocks[next].insts.push(inst.clone()),
                _ => return false,
            }
            body.blocks[block].insts.remove(at);
            return true;
        }
        let mut changed = term.clone();
        for call in calls(&mut changed.term) {
            if first_touch(body, call.block, var) != Some(true) {
                let onward = TermData { term: Term::Jump(call.clone()), loc: term.loc };
                let between = BlockData { params: Vec::new(), insts: vec![inst.clone()], term: Some(onward) };
                *call = BlockCall::to(body.blocks.push(between));
            }
        }
        body.blocks[block].term = Some(changed);
        body.blocks[block].insts.remove(at);
        true
    }
}

fn writes(inst: &Inst, var: VarId) -> bool {
    matches!(inst, Inst::Store(v, _) if *v == var)
}

/// Whether a block first writes the variable (true), or first reads it; `None` if it does neither.
fn first_touch(body: &Body, block: Block, var: VarId) -> Option<bool> {
    body.blocks[block].insts.iter().find_map(|i| match i.inst {
        Inst::Store(v, _) if v == var => Some(true),
        Inst::Load(v) if v == var => Some(false),
        _ => None,
    })
}

/// Whether some way from a place in a block comes to such an instruction.
pub(super) fn comes_to(body: &Body, block: Block, from: usize, wanted: impl Fn(&Inst) -> bool) -> bool {
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

/// The edges of a choice.
fn calls(term: &mut Term) -> Vec<&mut BlockCall> {
    match term {
        Term::Branch { then, els, .. } => vec![then, els],
        Term::Switch { cases, default, .. } => cases.iter_mut().map(|(_, call)| call).chain([default]).collect(),
        _ => Vec::new(),
    }
}
