//! Local variables that only carry a decision from one `if` to the next one.
//!
//! - A variable with a value that an `if` changes is a choice between two values, which can be made anywhere before (`sooner`).
//! - Where branches set a variable and what follows them drops the packet by it, each branch asks for itself: a variable is written in one step
//!   and asked for in the next.
//! - Where a variable has just been set to a constant, and what follows leaves by it, it leaves at once.

use crate::emit::coalesce::is_local;
use ir::*;
use std::collections::{HashMap, HashSet};

/// Instructions of a decision that is made once for each branch.
const MAX_ASKED: usize = 8;
/// Branches that a decision is made in.
const MAX_WAYS: usize = 4;
/// Instructions of a way out that is there once for each of them.
const MAX_OUT: usize = 16;

/// Rewrites a body.
pub(in crate::emit) fn forked(p: &Pipeline, body: &mut Body) {
    chosen(p, body);
    for _ in 0..body.blocks.len() {
        let cfg = Cfg::new(body);
        let blocks: Vec<Block> = cfg.reverse_postorder().to_vec();
        if !blocks.into_iter().any(|b| asked_in_each(p, body, &cfg, b) || left_at_once(p, body, &cfg, b)) {
            break;
        }
        body.empty_unreachable();
    }
    forward(p, body);
    ir::passes::drop_unused(body);
}

/// `x = a; if (c) { x = b; }` is `x = c ? b : a`.
fn chosen(p: &Pipeline, body: &mut Body) {
    let cfg = Cfg::new(body);
    for head in cfg.reverse_postorder().to_vec() {
        let Some(TermData { term: Term::Branch { cond, then, els }, loc }) = body.blocks[head].term.clone() else {
            continue;
        };
        let alone = |b: Block| cfg.predecessors(b).len() == 1 && body.blocks[b].params.is_empty();
        let plain = |call: &BlockCall| call.args.is_empty();
        let joins = |arm: Block, other: &BlockCall| {
            let to = body.blocks[arm].term.as_ref().map(|t| &t.term);
            matches!(to, Some(Term::Jump(call)) if call.block == other.block && plain(call))
        };
        let (arm, join, holds) = match (alone(then.block), alone(els.block)) {
            (true, _) if plain(&then) && plain(&els) && joins(then.block, &els) => (then.block, els, true),
            (_, true) if plain(&then) && plain(&els) && joins(els.block, &then) => (els.block, then, false),
            _ => continue,
        };
        // The arm sets that variable alone.
        let insts = body.blocks[arm].insts.clone();
        let Some((InstData { inst: Inst::Store(var, b), .. }, before)) = insts.split_last() else { continue };
        let narrow = matches!(p.vars[*var].ty, Type::Bit(1..=32));
        if !is_local(p, *var) || !narrow || !before.iter().all(|i| i.inst.is_pure()) || before.len() > MAX_ASKED {
            continue;
        }
        let own = &body.blocks[head].insts;
        let Some(at) = own.iter().rposition(|i| matches!(i.inst, Inst::Store(v, _) if v == *var)) else { continue };
        let Inst::Store(_, a) = own[at].inst else { continue };
        let elsewhere = before.iter().flat_map(|i| &i.results).any(|v| is_used_outside(body, *v, arm));
        if own[at..].iter().chain(before).any(|i| i.inst == Inst::Load(*var)) || elsewhere {
            continue;
        }
        let value = body.values.push(p.vars[*var].ty);
        let (then, els) = if holds { (*b, a) } else { (a, *b) };
        let data = &mut body.blocks[head];
        data.insts.remove(at);
        data.insts.extend(before.iter().cloned());
        data.insts.push(InstData { inst: Inst::Select { cond, then, els }, results: vec![value], loc });
        data.insts.push(InstData { inst: Inst::Store(*var, value), results: Vec::new(), loc });
        data.term = Some(TermData { term: Term::Jump(join), loc });
        body.blocks[arm].insts.clear();
    }
}

/// Whether something in another block uses a value.
pub(super) fn is_used_outside(body: &Body, value: Value, block: Block) -> bool {
    body.blocks.iter().filter(|(b, _)| *b != block).any(|(_, data)| {
        let mut used = false;
        data.insts.iter().for_each(|i| i.inst.for_each_use(|v| used |= v == value));
        data.term.iter().for_each(|t| t.term.for_each_use(|v| used |= v == value));
        used
    })
}

/// Loads of a local that is stored once are what is stored; what nothing loads is not stored.
fn forward(p: &Pipeline, body: &mut Body) {
    let cfg = Cfg::new(body);
    let (mut stores, mut loads) = (HashMap::<VarId, Vec<_>>::new(), HashMap::<VarId, Vec<_>>::new());
    for (block, data) in body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            match inst.inst {
                Inst::Store(var, value) => stores.entry(var).or_default().push((block, n, value)),
                Inst::Load(var) => loads.entry(var).or_default().push((block, n, inst.results[0])),
                _ => {}
            }
        }
    }
    // The body itself is not in the pipeline while it is rewritten.
    let elsewhere: HashSet<VarId> = p
        .insts()
        .filter_map(|i| match i.inst {
            Inst::Load(var) | Inst::Store(var, _) => Some(var),
            _ => None,
        })
        .collect();
    let mut known: HashMap<Value, Value> = HashMap::new();
    let mut gone: HashSet<VarId> = HashSet::new();
    for (var, all) in stores.iter().filter(|(var, _)| is_local(p, **var) && !elsewhere.contains(var)) {
        let loads = loads.get(var).map_or(&[][..], Vec::as_slice);
        let fits = match all[..] {
            [(block, n, value)] => {
                let behind = |b: Block, m: usize| if b == block { m > n } else { cfg.dominates(block, b) };
                let fits = loads.iter().all(|(b, m, _)| behind(*b, *m));
                known.extend(loads.iter().filter(|_| fits).map(|(.., load)| (*load, value)));
                fits
            }
            _ => loads.is_empty(),
        };
        if fits {
            gone.insert(*var);
        }
    }
    let of = |mut v: Value| {
        while let Some(next) = known.get(&v) {
            v = *next;
        }
        v
    };
    for data in body.blocks.values_mut() {
        data.insts.retain(|i| !matches!(i.inst, Inst::Load(var) | Inst::Store(var, _) if gone.contains(&var)));
        data.insts.iter_mut().for_each(|i| i.inst.map_values(of));
        data.term.iter_mut().for_each(|t| t.term.map_values(of));
    }
}

/// Makes a decision about a variable in each of the branches that set it. False if there is none in this block.
fn asked_in_each(p: &Pipeline, body: &mut Body, cfg: &Cfg, join: Block) -> bool {
    let data = body.blocks[join].clone();
    let Some(TermData { term: Term::Branch { cond, then, els }, loc }) = data.term.clone() else { return false };
    let ways: Vec<Block> = cfg.predecessors(join).to_vec();
    let fits = data.params.is_empty()
        && data.insts.len() <= MAX_ASKED
        && data.insts.iter().all(|i| i.inst.is_pure())
        && (2..=MAX_WAYS).contains(&ways.len())
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
    let out = |call: &BlockCall| {
        is_way_out(body, call.block) && call.args.is_empty() && cfg.predecessors(call.block).len() == 1
    };
    if carried.is_empty() || outside || !(out(&then) || out(&els)) || ![&then, &els].iter().all(|c| c.args.is_empty()) {
        return false;
    }
    let stored: HashMap<(Block, VarId), Value> =
        ways.iter().flat_map(|b| carried.iter().filter_map(|v| Some(((*b, *v), stored(*b, *v)?)))).collect();
    for from in ways {
        let way = own_way(body, from, join);
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
        let mut edge = |call: &BlockCall| BlockCall { block: again(body, call.block), args: Vec::new() };
        let term = match fixed {
            Some(true) => Term::Jump(edge(&then)),
            Some(false) => Term::Jump(edge(&els)),
            None => Term::Branch { cond, then: edge(&then), els: edge(&els) },
        };
        body.blocks[way].term = Some(TermData { term, loc });
    }
    true
}

/// The blocks that no lookup comes before. What is behind one may be an action's, which is the same wherever its table is applied.
pub(super) fn before_lookups(body: &Body) -> HashSet<Block> {
    let next = |block: Block| body.blocks[block].term.iter().flat_map(|t| t.term.successors()).collect::<Vec<_>>();
    let applies = |b: &Block| matches!(body.blocks[*b].term, Some(TermData { term: Term::Apply { .. }, .. }));
    let mut behind = HashSet::new();
    let mut open: Vec<Block> = body.blocks.keys().filter(applies).flat_map(next).collect();
    while let Some(block) = open.pop() {
        if behind.insert(block) {
            open.extend(next(block));
        }
    }
    body.blocks.keys().filter(|b| !behind.contains(b)).collect()
}

/// What comes to a decision that it has made already, by setting a variable to a constant, leaves without it. False if there is none in this block.
fn left_at_once(p: &Pipeline, body: &mut Body, cfg: &Cfg, join: Block) -> bool {
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
    let leaves = |call: &BlockCall| call.args.is_empty() && is_way_out(body, call.block) && own(call.block);
    let before = before_lookups(body);
    let found = cfg.predecessors(join).iter().filter(|from| before.contains(from)).find_map(|from| {
        let jumps = matches!(body.blocks[*from].term.as_ref().map(|t| &t.term), Some(Term::Jump(_)));
        let to = if jumps && known(p, body, [*from, join], *cond)? { then } else { els };
        (jumps && leaves(to)).then_some((*from, to.block))
    });
    let Some((from, out)) = found else { return false };
    let out = again(body, out);
    lead(body, from, [join, out]);
    true
}

/// What a condition of a block is for what comes there from another one, if what that has set says so.
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
    let Some(var) = loaded else { return super::simpler::constant(body, value) };
    let stored = body.blocks[from].insts.iter().rev().find_map(|i| match i.inst {
        Inst::Store(v, value) if v == var => Some(value),
        _ => None,
    });
    super::simpler::constant(body, stored?)
}

/// The block that only goes on to another one, or a new one on the edge to it.
fn own_way(body: &mut Body, from: Block, to: Block) -> Block {
    if matches!(body.blocks[from].term.as_ref().map(|t| &t.term), Some(Term::Jump(_))) {
        return from;
    }
    let loc = body.blocks[from].term.as_ref().map(|t| t.loc).unwrap_or_default();
    let onward = TermData { term: Term::Jump(BlockCall::to(to)), loc };
    let way = body.blocks.push(BlockData { params: Vec::new(), insts: Vec::new(), term: Some(onward) });
    lead(body, from, [to, way]);
    way
}

/// A block goes on at another one wherever it went on at the first.
pub(super) fn lead(body: &mut Body, from: Block, [to, other]: [Block; 2]) {
    if let Some(term) = &mut body.blocks[from].term {
        term.term.for_each_call_mut(|call| {
            if call.block == to {
                call.block = other;
            }
        });
    }
}

/// Whether a packet leaves in this block.
pub(super) fn is_way_out(body: &Body, block: Block) -> bool {
    let data = &body.blocks[block];
    let leaf = |b: Block| {
        let data = &body.blocks[b];
        data.insts.is_empty() && matches!(data.term.as_ref().map(|t| &t.term), Some(Term::Exit | Term::Return))
    };
    let leaves = match data.term.as_ref().map(|t| &t.term) {
        Some(Term::Exit | Term::Return) => true,
        Some(Term::Jump(call)) => leaf(call.block) && call.args.is_empty(),
        _ => false,
    };
    let plain = |i: &InstData| match &i.inst {
        Inst::Store(..) | Inst::Const(_) | Inst::SetInvalid(_) => true,
        Inst::Extern { object, func, .. } => {
            object.is_none() && matches!(func, ExternFn::DropPacket | ExternFn::SendToPort)
        }
        _ => false,
    };
    data.params.is_empty() && data.insts.len() <= MAX_OUT && leaves && data.insts.iter().all(plain)
}

/// The block; a copy if it is a way out.
fn again(body: &mut Body, block: Block) -> Block {
    if !is_way_out(body, block) {
        return block;
    }
    let data = super::copies::again(body, block);
    body.blocks.push(data)
}
