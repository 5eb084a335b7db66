//! Copies of header fields that a parser makes in another state than the one that extracts the header. The chip's parser copies bytes while
//! they go by: behind that they are gone (p4c's tofino back-end: `parde/lowered/hoist_common_match_operations.cpp`, "Shifting extract to negative
//! position"). So the state only notes that it would have copied, and the control copies first of all. A `select` that asks for the copy asks for
//! the field itself, which the chip keeps for that; states that other ways lead to as well are there once more for that. What a later state writes
//! over such a copy the control writes, too.

use super::parser_writes::comes_to;
use super::preparer::{Copied, Preparer};
use ir::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Blocks that are copied for one way through the parser.
const MAX_CLONED: usize = 64;

impl Preparer {
    /// Whether a field has at the begin of the control what the parser has extracted.
    pub(super) fn stays(body: &Body, field: VarId, header: HeaderId) -> bool {
        let again = |block: Block, insts: &[InstData]| {
            let at = insts.iter().position(|i| i.inst == Inst::Extract(header));
            at.is_some_and(|at| comes_to(body, block, at + 1, |i| *i == Inst::Extract(header)))
        };
        let written = |i: &InstData| matches!(i.inst, Inst::Store(v, _) if v == field);
        !body.blocks.iter().any(|(block, data)| again(block, &data.insts)) && !body.insts().any(written)
    }

    /// Leaves copies of what has gone by to the control, and what is written over them.
    pub(super) fn copies_of_what_went_by(&mut self, body: &mut Body) {
        let stores = |body: &Body| {
            let of = |(b, data): (Block, &BlockData)| {
                let at = |(n, i): (usize, &InstData)| matches!(i.inst, Inst::Store(..)).then_some((b, n));
                data.insts.iter().enumerate().filter_map(at).collect::<Vec<_>>()
            };
            body.blocks.iter().flat_map(of).collect::<Vec<_>>()
        };
        let mut refused: BTreeSet<(Block, VarId)> = BTreeSet::new();
        loop {
            let late = stores(body).into_iter().find_map(|(b, n)| {
                let (to, from) = self.is_late_copy(body, b, n)?;
                (!refused.contains(&(b, to))).then_some((b, n, to, from))
            });
            let Some((block, at, to, from)) = late else { return };
            if !copied_for(body, block, at, to, &from) {
                refused.insert((block, to));
                continue;
            }
            let what = match &from {
                Inst::Load(field) => {
                    crate::emit::names::flat(self.p.vars[*field].name.split_once('.').map_or("field", |(_, rest)| rest))
                }
                _ => "constant".to_owned(),
            };
            let count = self.copied.iter().filter(|c| c.from == from).count() + 1;
            let name = format!("{}.copy_{what}_{count}", self.meta);
            let flag = self.add_var(&name, Type::Bool, VarKind::Meta);
            self.copied.push(Copied { flag, to, from });
            let yes = body.values.push(Type::Bool);
            let loc = body.blocks[block].insts[at].loc;
            let set = [
                InstData { inst: Inst::Const(Const::bool(true)), results: vec![yes], loc },
                InstData { inst: Inst::Store(flag, yes), results: Vec::new(), loc },
            ];
            body.blocks[block].insts.splice(at..=at, set);
        }
    }

    /// What is stored, if the control can do that: a field that stays, or a constant.
    fn source(&self, body: &Body, value: Value) -> Option<(Inst, Option<HeaderId>)> {
        match &body.definition(value)?.inst {
            Inst::Load(field) => match self.p.vars[*field].kind {
                VarKind::Field(header, _) if Self::stays(body, *field, header) => {
                    Some((Inst::Load(*field), Some(header)))
                }
                _ => None,
            },
            constant @ Inst::Const(_) => Some((constant.clone(), None)),
            _ => None,
        }
    }

    /// A store of a field whose header another block extracts, or behind another write: the variable, and what it gets.
    fn is_late_copy(&self, body: &Body, block: Block, at: usize) -> Option<(VarId, Inst)> {
        let insts = &body.blocks[block].insts;
        let Inst::Store(to, value) = insts[at].inst else { return None };
        let (from, header) = self.source(body, value)?;
        let here = header.is_none_or(|header| insts[..at].iter().any(|i| i.inst == Inst::Extract(header)));
        let plain = matches!(self.p.vars[to].kind, VarKind::Meta | VarKind::Local);
        let flags: Vec<VarId> = self.copied.iter().filter(|c| c.to == to).map(|c| c.flag).collect();
        let after = |(b, n): (Block, usize), (other, m): (Block, usize)| {
            if b == other { n > m } else { body.leads_to(other, b) }
        };
        let any = |wanted: &dyn Fn(&Inst, (Block, usize)) -> bool| {
            body.blocks.iter().any(|(b, data)| data.insts.iter().enumerate().any(|(n, i)| wanted(&i.inst, (b, n))))
        };
        let here_at = (block, at);
        // What the control copies comes behind all that the parser writes.
        let is_store = |i: &Inst| matches!(i, Inst::Store(var, _) if *var == to);
        let second = header.is_some() && any(&|i, other| is_store(i) && after(here_at, other));
        let behind_copy =
            any(&|i, other| matches!(i, Inst::Store(var, _) if flags.contains(var)) && after(here_at, other));
        let unknown = |i: &Inst| matches!(i, Inst::Store(var, v) if *var == to && self.source(body, *v).is_none());
        let overwritten = any(&|i, other| unknown(i) && after(other, here_at));
        ((!here || second || behind_copy) && plain && !overwritten).then_some((to, from))
    }

    /// Copies in the order in which a packet meets them, the last one first: it is the one that counts.
    pub(super) fn copies_in_order(&mut self, parser: &Body) {
        let order = reverse_postorder(parser);
        let stores =
            |b: &Block, flag| parser.blocks[*b].insts.iter().any(|i| matches!(i.inst, Inst::Store(v, _) if v == flag));
        let place = |copied: &Copied| order.iter().position(|b| stores(b, copied.flag));
        self.copied.sort_by_key(|copied| std::cmp::Reverse(place(copied)));
    }

    /// What the control copies before anything else.
    pub(super) fn copies_first(&mut self, body: &mut Body, entry: Block) -> Block {
        let mut by_target: BTreeMap<VarId, Vec<Copied>> = BTreeMap::new();
        for copied in std::mem::take(&mut self.copied) {
            by_target.entry(copied.to).or_default().push(copied);
        }
        let mut first = entry;
        for (_, all) in by_target {
            let behind = first;
            for Copied { flag, to, from } in all.into_iter().rev() {
                let ty = self.p.vars[to].ty;
                let [cond, value] = [Type::Bool, ty].map(|ty| body.values.push(ty));
                let set = vec![InstData::new(from, vec![value]), InstData::new(Inst::Store(to, value), Vec::new())];
                let then = body.push_block(Vec::new(), set, Term::Jump(BlockCall::to(behind)));
                let ask = vec![InstData::new(Inst::Load(flag), vec![cond])];
                first = body.push_block(
                    Vec::new(),
                    ask,
                    Term::Branch { cond, then: BlockCall::to(then), els: BlockCall::to(first) },
                );
            }
        }
        first
    }
}

/// Makes what comes behind a copy ask for the field instead of the variable. False, and nothing is changed, if it can't.
fn copied_for(body: &mut Body, block: Block, at: usize, var: VarId, from: &Inst) -> bool {
    let loads = |data: &[InstData]| data.iter().any(|i| i.inst == Inst::Load(var));
    if loads(&body.blocks[block].insts[at + 1..]) {
        return false;
    }
    // Blocks that the copy reaches, and of those the ones that lead to one that asks for it.
    let stores = |b: &Block| body.blocks[*b].insts.iter().any(|i| matches!(i.inst, Inst::Store(v, _) if v == var));
    let asks = |b: &Block| loads(&body.blocks[*b].insts);
    let (mut reached, mut todo) = (BTreeSet::new(), body.blocks[block].successors());
    while let Some(b) = todo.pop() {
        if stores(&b) {
            if asks(&b) {
                return false;
            }
        } else if reached.insert(b) {
            todo.extend(body.blocks[b].successors());
        }
    }
    let mut asking: BTreeSet<Block> = reached.iter().copied().filter(asks).collect();
    loop {
        let leads = |b: &Block| !asking.contains(b) && body.blocks[*b].successors().iter().any(|n| asking.contains(n));
        let more: Vec<Block> = reached.iter().copied().filter(leads).collect();
        if more.is_empty() {
            break;
        }
        asking.extend(more);
    }
    let cloned: Vec<Block> = asking.into_iter().collect();
    if cloned.len() > MAX_CLONED {
        return false;
    }
    // Values that cross from block to block would need a name for each way.
    let defined: HashSet<Value> = cloned
        .iter()
        .flat_map(|b| {
            body.blocks[*b].insts.iter().flat_map(|i| i.results.clone()).chain(body.blocks[*b].params.clone())
        })
        .collect();
    let crosses = body.blocks.values().any(|data| {
        let mut own: HashSet<Value> = data.params.iter().copied().collect();
        own.extend(data.insts.iter().flat_map(|i| i.results.iter().copied()));
        let mut found = false;
        let mut check = |v: Value| found |= defined.contains(&v) && !own.contains(&v);
        data.insts.iter().for_each(|i| i.inst.for_each_use(&mut check));
        data.term.iter().for_each(|t| t.term.for_each_use(&mut check));
        found
    });
    if crosses {
        return false;
    }
    let mut clones: BTreeMap<Block, Block> = BTreeMap::new();
    for b in &cloned {
        let mut data = again(body, *b);
        data.insts.iter_mut().filter(|i| i.inst == Inst::Load(var)).for_each(|i| i.inst = from.clone());
        clones.insert(*b, body.blocks.push(data));
    }
    let redirect = |body: &mut Body, b: Block| {
        if let Some(term) = &mut body.blocks[b].term {
            term.term.for_each_call_mut(|call| call.block = clones.get(&call.block).copied().unwrap_or(call.block));
        }
    };
    clones.values().for_each(|b| redirect(body, *b));
    redirect(body, block);
    for (b, copy) in &clones {
        if let Some(state) = body.states.iter().find(|s| s.block == *b).cloned() {
            let name = format!("{}_{}", state.name, body.states.len());
            body.states.push(State { name, block: *copy, loc: state.loc });
        }
    }
    true
}

/// A block again, with values of its own.
pub(super) fn again(body: &mut Body, block: Block) -> BlockData {
    let mut data = body.blocks[block].clone();
    let mut names: BTreeMap<Value, Value> = BTreeMap::new();
    for value in data.params.iter_mut().chain(data.insts.iter_mut().flat_map(|i| &mut i.results)) {
        let new = body.values.push(body.value_type(*value));
        names.insert(*value, new);
        *value = new;
    }
    let new = |v: Value| names.get(&v).copied().unwrap_or(v);
    data.insts.iter_mut().for_each(|i| i.inst.map_values(new));
    data.term.iter_mut().for_each(|t| t.term.map_values(new));
    data
}
