//! Deferral of header copies from the parser to the control.
//!
//! The chip's parser can copy bytes only while it extracts them (p4c's tofino back-end:
//! `parde/lowered/hoist_common_match_operations.cpp`, "Shifting extract to negative position"). A
//! copy in a later state therefore sets a flag, and the control performs the copy first. A `select`
//! on the copy reads the field itself, which the chip keeps for that purpose; states that other
//! paths reach as well are cloned for it. Constants that later states store to the copy's target
//! are deferred as well.

use super::legalizer::{DeferredCopy, Legalizer};
use super::parser_store_sinking::reaches_inst;
use ir::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Maximum number of blocks that are cloned for one path through the parser.
const MAX_CLONED: usize = 64;

impl Legalizer {
    /// Returns whether a field still has its extracted value at the start of the control.
    pub(super) fn keeps_extracted_value(body: &Body, field: VarId, header: HeaderId) -> bool {
        let again = |block: Block, insts: &[InstData]| {
            let at = insts.iter().position(|i| i.inst == Inst::Extract(header));
            at.is_some_and(|at| reaches_inst(body, block, at + 1, |i| *i == Inst::Extract(header)))
        };
        let written = |i: &InstData| matches!(i.inst, Inst::Store(v, _) if v == field);
        !body.blocks.iter().any(|(block, data)| again(block, &data.insts)) && !body.insts().any(written)
    }

    /// Defers copies of fields extracted in earlier states, and later stores to the same variables:
    /// the parser only sets a flag, and the control copies. Copies that cannot be deferred stay.
    pub(super) fn defer_late_copies(&mut self, body: &mut Body) {
        let stores = |body: &Body| {
            let block_stores = |(b, data): (Block, &BlockData)| {
                let position_of_store =
                    |(n, i): (usize, &InstData)| matches!(i.inst, Inst::Store(..)).then_some((b, n));
                data.insts.iter().enumerate().filter_map(position_of_store).collect::<Vec<_>>()
            };
            body.blocks.iter().flat_map(block_stores).collect::<Vec<_>>()
        };
        let mut kept: BTreeSet<(Block, VarId)> = BTreeSet::new();
        loop {
            let next = stores(body).into_iter().find_map(|(b, n)| {
                let (var, source) = self.deferrable_copy(body, b, n)?;
                (!kept.contains(&(b, var))).then_some((b, n, var, source))
            });
            let Some((block, index, var, source)) = next else { return };
            if !forward_copy(body, block, index, var, &source) {
                kept.insert((block, var));
                continue;
            }
            let source_name = match &source {
                Inst::Load(field) => crate::emit::names::to_identifier(
                    self.p.vars[*field].name.split_once('.').map_or("field", |(_, rest)| rest),
                ),
                _ => "constant".to_owned(),
            };
            let count = self.deferred_copies.iter().filter(|c| c.from == source).count() + 1;
            let name = format!("{}.copy_{source_name}_{count}", self.meta);
            let flag = self.add_var(&name, Type::Bool, VarKind::Meta);
            self.deferred_copies.push(DeferredCopy { flag, to: var, from: source });
            let one = body.values.push(Type::Bool);
            let loc = body.blocks[block].insts[index].loc;
            let set = [
                InstData { inst: Inst::Const(Const::bool(true)), results: vec![one], loc },
                InstData { inst: Inst::Store(flag, one), results: Vec::new(), loc },
            ];
            body.blocks[block].insts.splice(index..=index, set);
        }
    }

    /// Returns the source of a store, if the control can read it: a field that keeps its extracted
    /// value, or a constant.
    fn copy_source(&self, body: &Body, value: Value) -> Option<(Inst, Option<HeaderId>)> {
        match &body.defining_inst(value)?.inst {
            Inst::Load(field) => match self.p.vars[*field].kind {
                VarKind::Field(header, _) if Self::keeps_extracted_value(body, *field, header) => {
                    Some((Inst::Load(*field), Some(header)))
                }
                _ => None,
            },
            constant @ Inst::Const(_) => Some((constant.clone(), None)),
            _ => None,
        }
    }

    /// Returns target and source of a store that must be deferred: the field's header is extracted
    /// in another block, or the store follows another write.
    fn deferrable_copy(&self, body: &Body, block: Block, index: usize) -> Option<(VarId, Inst)> {
        let insts = &body.blocks[block].insts;
        let Inst::Store(target, value) = insts[index].inst else { return None };
        let (source, header) = self.copy_source(body, value)?;
        let is_extracted_here =
            header.is_none_or(|header| insts[..index].iter().any(|i| i.inst == Inst::Extract(header)));
        let is_metadata = matches!(self.p.vars[target].kind, VarKind::Meta | VarKind::Local);
        let flags: Vec<VarId> = self.deferred_copies.iter().filter(|c| c.to == target).map(|c| c.flag).collect();
        let after = |(b, n): (Block, usize), (other, m): (Block, usize)| {
            if b == other { n > m } else { body.can_reach(other, b) }
        };
        let any_inst = |matches: &dyn Fn(&Inst, (Block, usize)) -> bool| {
            body.blocks.iter().any(|(b, data)| data.insts.iter().enumerate().any(|(n, i)| matches(&i.inst, (b, n))))
        };
        let position = (block, index);
        // Deferred copies execute after all writes of the parser.
        let is_store = |i: &Inst| matches!(i, Inst::Store(var, _) if *var == target);
        let is_overwriting = header.is_some() && any_inst(&|i, other| is_store(i) && after(position, other));
        let is_after_flag =
            any_inst(&|i, other| matches!(i, Inst::Store(var, _) if flags.contains(var)) && after(position, other));
        let is_undeferrable_store =
            |i: &Inst| matches!(i, Inst::Store(var, v) if *var == target && self.copy_source(body, *v).is_none());
        let is_overwritten_later = any_inst(&|i, other| is_undeferrable_store(i) && after(other, position));
        ((!is_extracted_here || is_overwriting || is_after_flag) && is_metadata && !is_overwritten_later)
            .then_some((target, source))
    }

    /// Sorts the copies so that the last one on a packet's path comes first, because it determines
    /// the value.
    pub(super) fn sort_deferred_copies(&mut self, parser: &Body) {
        let order = reverse_postorder(parser);
        let stores =
            |b: &Block, flag| parser.blocks[*b].insts.iter().any(|i| matches!(i.inst, Inst::Store(v, _) if v == flag));
        let place = |copied: &DeferredCopy| order.iter().position(|b| stores(b, copied.flag));
        self.deferred_copies.sort_by_key(|copied| std::cmp::Reverse(place(copied)));
    }

    /// Adds the deferred copies before the entry of the control. Returns the new entry.
    pub(super) fn add_deferred_copies(&mut self, body: &mut Body, entry: Block) -> Block {
        let mut by_target: BTreeMap<VarId, Vec<DeferredCopy>> = BTreeMap::new();
        for copied in std::mem::take(&mut self.deferred_copies) {
            by_target.entry(copied.to).or_default().push(copied);
        }
        let mut first = entry;
        for (_, copies) in by_target {
            let continuation = first;
            for DeferredCopy { flag, to: var, from: source } in copies.into_iter().rev() {
                let ty = self.p.vars[var].ty;
                let [cond, value] = [Type::Bool, ty].map(|ty| body.values.push(ty));
                let copy = vec![InstData::new(source, vec![value]), InstData::new(Inst::Store(var, value), Vec::new())];
                let then = body.push_block(Vec::new(), copy, Terminator::Jump(BlockCall::to(continuation)));
                let test = vec![InstData::new(Inst::Load(flag), vec![cond])];
                first = body.push_block(
                    Vec::new(),
                    test,
                    Terminator::Branch { cond, then: BlockCall::to(then), els: BlockCall::to(first) },
                );
            }
        }
        first
    }
}

/// Replaces loads of the variable after a copy (instruction `index` of the block) by the copy's
/// source. Blocks that other paths reach as well are cloned. Returns `false` without a change if
/// that is impossible.
fn forward_copy(body: &mut Body, block: Block, index: usize, var: VarId, from: &Inst) -> bool {
    let loads = |data: &[InstData]| data.iter().any(|i| i.inst == Inst::Load(var));
    if loads(&body.blocks[block].insts[index + 1..]) {
        return false;
    }
    // Blocks that the copy reaches, reduced to those from which a load is reachable.
    let stores = |b: &Block| body.blocks[*b].insts.iter().any(|i| matches!(i.inst, Inst::Store(v, _) if v == var));
    let has_load = |b: &Block| loads(&body.blocks[*b].insts);
    let (mut reached, mut unvisited) = (BTreeSet::new(), body.blocks[block].successors());
    while let Some(b) = unvisited.pop() {
        if stores(&b) {
            if has_load(&b) {
                return false;
            }
        } else if reached.insert(b) {
            unvisited.extend(body.blocks[b].successors());
        }
    }
    let mut before_loads: BTreeSet<Block> = reached.iter().copied().filter(has_load).collect();
    loop {
        let leads_to_load = |b: &Block| {
            !before_loads.contains(b) && body.blocks[*b].successors().iter().any(|n| before_loads.contains(n))
        };
        let added: Vec<Block> = reached.iter().copied().filter(leads_to_load).collect();
        if added.is_empty() {
            break;
        }
        before_loads.extend(added);
    }
    let cloned: Vec<Block> = before_loads.into_iter().collect();
    if cloned.len() > MAX_CLONED {
        return false;
    }
    // Values that cross blocks would need a block parameter for each path.
    let defined: HashSet<Value> = cloned
        .iter()
        .flat_map(|b| {
            body.blocks[*b].insts.iter().flat_map(|i| i.results.clone()).chain(body.blocks[*b].params.clone())
        })
        .collect();
    let has_crossing_value = body.blocks.values().any(|data| {
        let mut own_values: HashSet<Value> = data.params.iter().copied().collect();
        own_values.extend(data.insts.iter().flat_map(|i| i.results.iter().copied()));
        let mut is_crossing = false;
        let mut check = |v: Value| is_crossing |= defined.contains(&v) && !own_values.contains(&v);
        data.insts.iter().for_each(|i| i.inst.for_each_use(&mut check));
        data.term.iter().for_each(|t| t.term.for_each_use(&mut check));
        is_crossing
    });
    if has_crossing_value {
        return false;
    }
    let mut clones: BTreeMap<Block, Block> = BTreeMap::new();
    for b in &cloned {
        let mut data = clone_block(body, *b);
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
            body.states.push(ParserStateBlock { name, block: *copy, loc: state.loc });
        }
    }
    true
}

/// Clones a block with new values.
pub(super) fn clone_block(body: &mut Body, block: Block) -> BlockData {
    let mut data = body.blocks[block].clone();
    let mut copies: HashMap<Value, Value> = HashMap::new();
    for param in &mut data.params {
        let copy = body.values.push(body.value_type(*param));
        copies.insert(std::mem::replace(param, copy), copy);
    }
    data.insts = copy_insts(&data.insts, &mut body.values, &mut copies);
    data.term.iter_mut().for_each(|term| term.term.map_values(|value| copies.get(&value).copied().unwrap_or(value)));
    data
}
