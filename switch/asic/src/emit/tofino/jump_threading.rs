//! Jump threading: a branch whose outcome a predecessor knows, or can decide itself, is decided
//! there.
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

use super::exits::{before_lookups, is_exit, is_used_outside, redirect};
use crate::emit::coalesce::is_local;
use ir::*;
use std::collections::{HashMap, HashSet};

/// Instructions of a decision that is made once for each branch.
const MAX_ASKED: usize = 8;
/// Branches that a decision is made in.
const MAX_BRANCHES: usize = 4;

/// Rewrites a body.
pub(super) fn thread_jumps(p: &Pipeline, body: &mut Body) {
    for _ in 0..body.blocks.len() {
        let cfg = Cfg::new(body);
        let blocks: Vec<Block> = cfg.reverse_postorder().to_vec();
        if !blocks.into_iter().any(|b| duplicate_decision(p, body, &cfg, b) || leave_at_once(p, body, &cfg, b)) {
            break;
        }
        body.empty_unreachable();
    }
}

/// Makes a decision about a variable in each of the branches that set it. False if there is none in
/// this block.
fn duplicate_decision(p: &Pipeline, body: &mut Body, cfg: &Cfg, join: Block) -> bool {
    let data = body.blocks[join].clone();
    let Some(TermData { term: Term::Branch { cond, then, els }, loc }) = data.term.clone() else { return false };
    let ways: Vec<Block> = cfg.predecessors(join).to_vec();
    let fits = data.params.is_empty()
        && data.insts.len() <= MAX_ASKED
        && data.insts.iter().all(|i| i.inst.is_pure())
        && (2..=MAX_BRANCHES).contains(&ways.len())
        && body.entry != Some(join);
    // It comes there by one edge, which hands nothing over.
    let comes = |b: &Block| {
        let mut edges = 0;
        let mut plain = true;
        if let Some(term) = &body.blocks[*b].term {
            term.term.for_each_call(|call| {
                edges += usize::from(call.block == join);
                plain &= call.block != join || call.args.is_empty();
            });
        }
        edges == 1 && plain
    };
    let distinct = ways.iter().collect::<HashSet<_>>().len() == ways.len();
    if !fits || !distinct || !ways.iter().all(comes) {
        return false;
    }
    let stored = |b: Block, var: VarId| {
        body.blocks[b].insts.iter().rev().find_map(|i| match i.inst {
            Inst::Store(v, value) if v == var => Some(value),
            _ => None,
        })
    };
    let carried: Vec<VarId> = data
        .insts
        .iter()
        .filter_map(|i| match i.inst {
            Inst::Load(var) if is_local(p, var) => Some(var),
            _ => None,
        })
        .filter(|var| ways.iter().all(|b| stored(*b, *var).is_some()))
        .collect();
    let outside = data.insts.iter().flat_map(|i| &i.results).any(|v| is_used_outside(body, *v, join));
    let out =
        |call: &BlockCall| is_exit(body, call.block) && call.args.is_empty() && cfg.predecessors(call.block).len() == 1;
    if carried.is_empty() || outside || !(out(&then) || out(&els)) || ![&then, &els].iter().all(|c| c.args.is_empty()) {
        return false;
    }
    let stored: HashMap<(Block, VarId), Value> =
        ways.iter().flat_map(|b| carried.iter().filter_map(|v| Some(((*b, *v), stored(*b, *v)?)))).collect();
    for from in ways {
        let way = own_edge(body, from, join);
        let mut names: HashMap<Value, Value> = HashMap::new();
        for inst in &data.insts {
            if let Inst::Load(var) = inst.inst
                && let Some(value) = stored.get(&(from, var))
            {
                names.insert(inst.results[0], *value);
                continue;
            }
            let mut inst = inst.clone();
            inst.inst.map_values(|v| names.get(&v).copied().unwrap_or(v));
            let new = body.values.push(body.value_type(inst.results[0]));
            names.insert(inst.results[0], new);
            inst.results = vec![new];
            body.blocks[way].insts.push(inst);
        }
        let cond = names.get(&cond).copied().unwrap_or(cond);
        let fixed = match body.definition(cond).map(|i| &i.inst) {
            Some(Inst::Const(c)) => Some(c.bits != num_bigint::BigUint::ZERO),
            _ => None,
        };
        let mut edge = |call: &BlockCall| BlockCall { block: copy_if_exit(body, call.block), args: Vec::new() };
        let term = match fixed {
            Some(true) => Term::Jump(edge(&then)),
            Some(false) => Term::Jump(edge(&els)),
            None => Term::Branch { cond, then: edge(&then), els: edge(&els) },
        };
        body.blocks[way].term = Some(TermData { term, loc });
    }
    true
}

/// What comes to a decision that it has made already, by setting a variable to a constant, leaves
/// without it. False if there is none in this block.
fn leave_at_once(p: &Pipeline, body: &mut Body, cfg: &Cfg, join: Block) -> bool {
    let data = &body.blocks[join];
    let Some(Term::Branch { cond, then, els }) = data.term.as_ref().map(|t| &t.term) else { return false };
    if !data.params.is_empty() || !data.insts.iter().all(|i| i.inst.is_pure()) {
        return false;
    }
    let of_join: HashSet<Value> = data.insts.iter().flat_map(|i| &i.results).copied().collect();
    let own = |block: Block| {
        let mut own = true;
        body.blocks[block].insts.iter().for_each(|i| i.inst.for_each_use(|v| own &= !of_join.contains(&v)));
        own
    };
    let leaves = |call: &BlockCall| call.args.is_empty() && is_exit(body, call.block) && own(call.block);
    let before = before_lookups(body);
    let found = cfg.predecessors(join).iter().filter(|from| before.contains(from)).find_map(|from| {
        let jumps = matches!(body.blocks[*from].term.as_ref().map(|t| &t.term), Some(Term::Jump(_)));
        let to = if jumps && known(p, body, [*from, join], *cond)? { then } else { els };
        (jumps && leaves(to)).then_some((*from, to.block))
    });
    let Some((from, out)) = found else { return false };
    let out = copy_if_exit(body, out);
    redirect(body, from, [join, out]);
    true
}

/// What a condition of a block is for what comes there from another one, if what that has set says
/// so.
fn known(p: &Pipeline, body: &Body, way: [Block; 2], cond: Value) -> Option<bool> {
    match &body.definition(cond)?.inst {
        Inst::Unary(UnaryOp::LogicalNot, a) => known(p, body, way, *a).map(|holds| !holds),
        Inst::Binary(op @ (BinaryOp::Eq | BinaryOp::Ne), a, b) => {
            let same = number(p, body, way, *a)? == number(p, body, way, *b)?;
            Some(same == (*op == BinaryOp::Eq))
        }
        Inst::Load(_) => number(p, body, way, cond).map(|n| *n != num_bigint::BigUint::ZERO),
        _ => None,
    }
}

fn number<'b>(p: &Pipeline, body: &'b Body, [from, at]: [Block; 2], value: Value) -> Option<&'b num_bigint::BigUint> {
    let loaded = body.blocks[at].insts.iter().find_map(|i| match i.inst {
        Inst::Load(var) if i.results == [value] && matches!(p.vars[var].kind, VarKind::Meta | VarKind::Local) => {
            Some(var)
        }
        _ => None,
    });
    let Some(var) = loaded else { return super::instructions::constant(body, value) };
    let stored = body.blocks[from].insts.iter().rev().find_map(|i| match i.inst {
        Inst::Store(v, value) if v == var => Some(value),
        _ => None,
    });
    super::instructions::constant(body, stored?)
}

/// The block that only goes on to another one, or a new one on the edge to it.
fn own_edge(body: &mut Body, from: Block, to: Block) -> Block {
    if matches!(body.blocks[from].term.as_ref().map(|t| &t.term), Some(Term::Jump(_))) {
        return from;
    }
    let loc = body.blocks[from].term.as_ref().map(|t| t.loc).unwrap_or_default();
    let onward = TermData { term: Term::Jump(BlockCall::to(to)), loc };
    let way = body.blocks.push(BlockData { params: Vec::new(), insts: Vec::new(), term: Some(onward) });
    redirect(body, from, [to, way]);
    way
}

/// The block; a copy if it is an exit.
fn copy_if_exit(body: &mut Body, block: Block) -> Block {
    if !is_exit(body, block) {
        return block;
    }
    let data = super::copies::again(body, block);
    body.blocks.push(data)
}
