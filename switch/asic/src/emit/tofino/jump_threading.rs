//! Jump threading: moves a branch into a predecessor that knows or can compute its outcome.
//!
//! A variable that carries a decision from one `if` to the next is written in one stage and read in
//! the next one.
//!
//! ```text
//! if (c) { d = a; } else { d = b; }           if (c) { if (a) { exit; } }
//! if (d) { exit; }                      ->    else   { if (b) { exit; } }
//!
//! if (c) { error = 1; }                       if (c) { error = 1; exit; }
//! if (error != 0) { exit; }             ->    if (error != 0) { exit; }
//! ```

use super::exits::{blocks_before_lookups, is_exit, is_used_outside, redirect_edges};
use crate::emit::coalesce::is_local;
use ir::*;
use std::collections::{HashMap, HashSet};

/// Maximum number of instructions of a decision that is duplicated.
const MAX_DECISION_INSTS: usize = 8;
/// Maximum number of predecessors that a decision is duplicated into.
const MAX_BRANCHES: usize = 4;

/// Threads the jumps of a body.
pub(super) fn thread_jumps(p: &Pipeline, body: &mut Body) {
    for _ in 0..body.blocks.len() {
        let cfg = Cfg::new(body);
        let blocks: Vec<Block> = cfg.reverse_postorder().to_vec();
        if !blocks.into_iter().any(|b| duplicate_decision(p, body, &cfg, b) || thread_known_exit(p, body, &cfg, b)) {
            break;
        }
        body.empty_unreachable();
    }
}

/// Duplicates a branch on a variable into each predecessor that stores the variable. Returns
/// `false` if the block is no such branch.
fn duplicate_decision(p: &Pipeline, body: &mut Body, cfg: &Cfg, join: Block) -> bool {
    let data = body.blocks[join].clone();
    let Some(TerminatorData { term: Terminator::Branch { cond, then, els }, loc }) = data.term.clone() else {
        return false;
    };
    let preds: Vec<Block> = cfg.predecessors(join).to_vec();
    let is_small_decision = data.params.is_empty()
        && data.insts.len() <= MAX_DECISION_INSTS
        && data.insts.iter().all(|i| i.inst.is_pure())
        && (2..=MAX_BRANCHES).contains(&preds.len())
        && body.entry != Some(join);
    // The predecessor must have a single edge to the block, without arguments.
    let has_one_plain_edge = |b: &Block| {
        let mut edges = 0;
        let mut has_no_args = true;
        if let Some(term) = &body.blocks[*b].term {
            term.term.for_each_call(|call| {
                edges += usize::from(call.block == join);
                has_no_args &= call.block != join || call.args.is_empty();
            });
        }
        edges == 1 && has_no_args
    };
    let are_distinct = preds.iter().collect::<HashSet<_>>().len() == preds.len();
    if !is_small_decision || !are_distinct || !preds.iter().all(has_one_plain_edge) {
        return false;
    }
    let last_stored = |b: Block, var: VarId| {
        body.blocks[b].insts.iter().rev().find_map(|i| match i.inst {
            Inst::Store(v, value) if v == var => Some(value),
            _ => None,
        })
    };
    let stored_vars: Vec<VarId> = data
        .insts
        .iter()
        .filter_map(|i| match i.inst {
            Inst::Load(var) if is_local(p, var) => Some(var),
            _ => None,
        })
        .filter(|var| preds.iter().all(|b| last_stored(*b, *var).is_some()))
        .collect();
    let is_used_later = data.insts.iter().flat_map(|i| &i.results).any(|v| is_used_outside(body, *v, join));
    let is_own_exit =
        |call: &BlockCall| is_exit(body, call.block) && call.args.is_empty() && cfg.predecessors(call.block).len() == 1;
    if stored_vars.is_empty()
        || is_used_later
        || !(is_own_exit(&then) || is_own_exit(&els))
        || ![&then, &els].iter().all(|c| c.args.is_empty())
    {
        return false;
    }
    let stored: HashMap<(Block, VarId), Value> =
        preds.iter().flat_map(|b| stored_vars.iter().filter_map(|v| Some(((*b, *v), last_stored(*b, *v)?)))).collect();
    for pred in preds {
        let edge_block = split_edge(body, pred, join);
        let stored_value = |data: &InstData| match data.inst {
            Inst::Load(var) => stored.get(&(pred, var)).copied(),
            _ => None,
        };
        let (loads, others): (Vec<InstData>, Vec<InstData>) =
            data.insts.iter().cloned().partition(|data| stored_value(data).is_some());
        let known = loads.iter().filter_map(|load| Some((load.results[0], stored_value(load)?)));
        let mut renamed: HashMap<Value, Value> = known.collect();
        let copied = copy_insts(&others, &mut body.values, &mut renamed);
        body.blocks[edge_block].insts.extend(copied);
        let cond = renamed.get(&cond).copied().unwrap_or(cond);
        let known_outcome = match body.defining_inst(cond).map(|i| &i.inst) {
            Some(Inst::Const(c)) => Some(c.bits != num_bigint::BigUint::ZERO),
            _ => None,
        };
        let mut target = |call: &BlockCall| BlockCall { block: copy_if_exit(body, call.block), args: Vec::new() };
        let term = match known_outcome {
            Some(true) => Terminator::Jump(target(&then)),
            Some(false) => Terminator::Jump(target(&els)),
            None => Terminator::Branch { cond, then: target(&then), els: target(&els) },
        };
        body.blocks[edge_block].term = Some(TerminatorData { term, loc });
    }
    true
}

/// Redirects a predecessor that stores a constant to an exit, if the constant determines the
/// branch. Returns `false` if there is no such predecessor.
fn thread_known_exit(p: &Pipeline, body: &mut Body, cfg: &Cfg, join: Block) -> bool {
    let data = &body.blocks[join];
    let Some(Terminator::Branch { cond, then, els }) = data.term.as_ref().map(|t| &t.term) else { return false };
    if !data.params.is_empty() || !data.insts.iter().all(|i| i.inst.is_pure()) {
        return false;
    }
    let join_values: HashSet<Value> = data.insts.iter().flat_map(|i| &i.results).copied().collect();
    let is_independent = |block: Block| {
        let mut is_independent = true;
        body.blocks[block]
            .insts
            .iter()
            .for_each(|i| i.inst.for_each_use(|v| is_independent &= !join_values.contains(&v)));
        is_independent
    };
    let is_free_exit =
        |call: &BlockCall| call.args.is_empty() && is_exit(body, call.block) && is_independent(call.block);
    let before_lookups = blocks_before_lookups(body);
    let candidate = cfg.predecessors(join).iter().filter(|pred| before_lookups.contains(pred)).find_map(|pred| {
        let has_jump = matches!(body.blocks[*pred].term.as_ref().map(|t| &t.term), Some(Terminator::Jump(_)));
        let outcome = if has_jump && known_outcome(p, body, [*pred, join], *cond)? { then } else { els };
        (has_jump && is_free_exit(outcome)).then_some((*pred, outcome.block))
    });
    let Some((pred, exit)) = candidate else { return false };
    let exit = copy_if_exit(body, exit);
    redirect_edges(body, pred, [join, exit]);
    true
}

/// Returns the value of a condition for packets from a predecessor, if the predecessor's stores
/// determine it.
fn known_outcome(p: &Pipeline, body: &Body, way: [Block; 2], cond: Value) -> Option<bool> {
    match &body.defining_inst(cond)?.inst {
        Inst::Unary(UnaryOp::LogicalNot, a) => known_outcome(p, body, way, *a).map(|holds| !holds),
        Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) => {
            let same = known_bits(p, body, way, *a)? == known_bits(p, body, way, *b)?;
            Some(same == (*op == BinaryOp::Eq))
        }
        Inst::Load(_) => known_bits(p, body, way, cond).map(|n| *n != num_bigint::BigUint::ZERO),
        _ => None,
    }
}

fn known_bits<'b>(
    p: &Pipeline,
    body: &'b Body,
    [from, at]: [Block; 2],
    value: Value,
) -> Option<&'b num_bigint::BigUint> {
    let loaded = body.blocks[at].insts.iter().find_map(|i| match i.inst {
        Inst::Load(var) if i.results == [value] && matches!(p.vars[var].kind, VarKind::Meta | VarKind::Local) => {
            Some(var)
        }
        _ => None,
    });
    let Some(var) = loaded else { return super::instructions::constant_bits(body, value) };
    let stored = body.blocks[from].insts.iter().rev().find_map(|i| match i.inst {
        Inst::Store(v, value) if v == var => Some(value),
        _ => None,
    });
    super::instructions::constant_bits(body, stored?)
}

/// Returns a block for the edge: the predecessor if it only jumps, otherwise a new block.
fn split_edge(body: &mut Body, from: Block, to: Block) -> Block {
    if matches!(body.blocks[from].term.as_ref().map(|t| &t.term), Some(Terminator::Jump(_))) {
        return from;
    }
    let loc = body.blocks[from].term.as_ref().map(|t| t.loc).unwrap_or_default();
    let onward = TerminatorData { term: Terminator::Jump(BlockCall::to(to)), loc };
    let way = body.blocks.push(BlockData { params: Vec::new(), insts: Vec::new(), term: Some(onward) });
    redirect_edges(body, from, [to, way]);
    way
}

/// Returns the block, or a clone if it is an exit.
fn copy_if_exit(body: &mut Body, block: Block) -> Block {
    if !is_exit(body, block) {
        return block;
    }
    let data = super::deferred_parser_copies::clone_block(body, block);
    body.blocks.push(data)
}
