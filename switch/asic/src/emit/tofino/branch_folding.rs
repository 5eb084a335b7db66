//! Branch folding and tail merging: merges branches to equal exits.
//!
//! Each branch of a program is a logical table in a stage, and a stage has sixteen of them. A chain
//! of checks with separate exits therefore takes several stages, although the checks are
//! independent. Checks with equal exits merge into one condition, as long as a gateway can evaluate
//! it.
//!
//! ```text
//! if (c) { exit; } exit;                              ->  exit;
//! if (a) { exit; } if (b) { exit; }                   ->  if (a || b) { exit; }
//! if (c) { if (a) { exit; } } else if (b) { exit; }   ->  if (c && a || !c && b) { exit; }
//! if (h.isValid()) { f } else { g }
//! if (h.isValid()) { i } else { j }                   ->  if (h.isValid()) { f i } else { g j }
//! ```

use super::exits::{is_exit, is_used_outside, redirect_edges};
use super::gateway::{CondLiteral, fits_gateway};
use ir::*;
use num_bigint::BigUint;
use std::collections::{HashMap, HashSet};

/// Applies the rules until none matches.
pub(super) fn fold_branches(body: &mut Body) {
    loop {
        let found = merge_equal_exits(body)
            || skip_computing_block(body)
            || thread_validity_branch(body)
            || combine_checks_in_row(body)
            || combine_checks_of_arms(body);
        if !found {
            break;
        }
        body.empty_unreachable();
    }
    ir::passes::remove_dead_values(body);
}

/// Returns the condition and both targets of a branch without block arguments.
fn branch_of(body: &Body, block: Block) -> Option<(Value, Block, Block)> {
    match &body.blocks[block].term.as_ref()?.term {
        Terminator::Branch { cond, then, els } if then.args.is_empty() && els.args.is_empty() => {
            Some((*cond, then.block, els.block))
        }
        _ => None,
    }
}

fn set_branch(body: &mut Body, block: Block, cond: Value, [then, els]: [Block; 2]) {
    if let Some(data) = &mut body.blocks[block].term {
        data.term = Terminator::Branch { cond, then: BlockCall::to(then), els: BlockCall::to(els) };
    }
}

/// Returns whether two exits have the same instructions and terminator.
fn same_exit(body: &Body, a: Block, b: Block) -> bool {
    let (left, right) = (&body.blocks[a], &body.blocks[b]);
    let mut names: HashMap<Value, Value> = HashMap::new();
    let pairs = left.insts.iter().zip(&right.insts);
    left.insts.len() == right.insts.len()
        && pairs.into_iter().all(|(l, r)| {
            let mut renamed = r.inst.clone();
            renamed.map_values(|v| names.get(&v).copied().unwrap_or(v));
            names.extend(r.results.iter().copied().zip(l.results.iter().copied()));
            renamed == l.inst
        })
        && exit_term(body, a) == exit_term(body, b)
}

/// Returns the terminator of an exit, also if it is in a separate block.
fn exit_term(body: &Body, block: Block) -> Option<&Terminator> {
    let term = &body.blocks[block].term.as_ref()?.term;
    match term {
        Terminator::Jump(call) => body.blocks[call.block].term.as_ref().map(|t| &t.term),
        _ => Some(term),
    }
}

/// Replaces a branch between equal exits by a jump.
fn merge_equal_exits(body: &mut Body) -> bool {
    for block in ir::reverse_postorder(body) {
        let Some((_, then, els)) = branch_of(body, block) else { continue };
        if then == els || is_exit(body, then) && is_exit(body, els) && same_exit(body, then, els) {
            let loc = body.blocks[block].term.as_ref().map(|t| t.loc).unwrap_or_default();
            body.blocks[block].term = Some(TerminatorData { term: Terminator::Jump(BlockCall::to(then)), loc });
            return true;
        }
    }
    false
}

/// Redirects edges past a block that only computes and jumps.
fn skip_computing_block(body: &mut Body) -> bool {
    let plain = |data: &BlockData| data.params.is_empty() && data.insts.iter().all(|i| i.inst.is_pure());
    for block in ir::reverse_postorder(body) {
        let data = &body.blocks[block];
        let to = match data.term.as_ref().map(|t| &t.term) {
            Some(Terminator::Jump(call)) if call.args.is_empty() && call.block != block => call.block,
            _ => continue,
        };
        let used = data.insts.iter().flat_map(|i| &i.results).any(|v| is_used_outside(body, *v, block));
        if !plain(data) || used || body.entry == Some(block) {
            continue;
        }
        for from in body.blocks.keys().collect::<Vec<_>>() {
            redirect_edges(body, from, [block, to]);
        }
        return true;
    }
    false
}

/// Returns whether a block only computes and branches, and `from` is its only predecessor.
fn only_decides(body: &Body, cfg: &Cfg, block: Block, from: Block) -> bool {
    let data = &body.blocks[block];
    cfg.predecessors(block) == [from] && data.params.is_empty() && data.insts.iter().all(|i| i.inst.is_pure())
}

/// Returns both edges of a branch: target, other target, and whether the edge is taken if the
/// condition holds.
fn both_edges((_, then, els): (Value, Block, Block)) -> [(Block, Block, bool); 2] {
    [(then, els, true), (els, then, false)]
}

/// Check that has the same exit as a preceding one.
struct SharedExitCheck {
    block: Block,
    /// Target if the check passes.
    onward: Block,
    cond: Value,
    /// Whether the exit is taken if the condition holds.
    holds: bool,
}

/// Returns the checks after a branch that only take an equal exit.
fn following_checks(body: &Body, cfg: &Cfg, [first, second, out]: [Block; 3]) -> Vec<SharedExitCheck> {
    let (mut found, mut from, mut block) = (Vec::new(), first, second);
    while block != out && only_decides(body, cfg, block, from) {
        let Some(decides) = branch_of(body, block) else { break };
        let again = both_edges(decides).into_iter().find(|(o, ..)| is_exit(body, *o) && same_exit(body, out, *o));
        let Some((_, onward, holds)) = again else { break };
        found.push(SharedExitCheck { block, onward, cond: decides.0, holds });
        (from, block) = (block, onward);
    }
    found
}

/// Removes the computation of the last check, with its operands from the other checks, and returns
/// it.
fn take_computation(body: &mut Body, checks: &[SharedExitCheck]) -> Vec<InstData> {
    let Some((last, others)) = checks.split_last() else { return Vec::new() };
    let own = std::mem::take(&mut body.blocks[last.block].insts);
    let mut needed: HashSet<Value> = HashSet::from([last.cond]);
    own.iter().for_each(|i| i.inst.for_each_use(|v| _ = needed.insert(v)));
    let mut found = vec![own];
    for check in others.iter().rev() {
        let mut all = std::mem::take(&mut body.blocks[check.block].insts);
        for inst in all.iter().rev() {
            if inst.results.iter().any(|v| needed.contains(v)) {
                inst.inst.for_each_use(|v| _ = needed.insert(v));
            }
        }
        let moved = all.extract_if(.., |i| i.results.iter().any(|v| needed.contains(v))).collect();
        body.blocks[check.block].insts = all;
        found.push(moved);
    }
    found.into_iter().rev().flatten().collect()
}

/// Combines checks in a row: `if (a) { out } if (b) { out } if (c) { out }` becomes `if (a || c) {
/// out } if (b) { out }`, for the first combination that fits a gateway.
fn combine_checks_in_row(body: &mut Body) -> bool {
    let cfg = Cfg::new(body);
    for first in cfg.reverse_postorder().to_vec() {
        let Some(first_branch) = branch_of(body, first) else { continue };
        for (exit, second, holds) in both_edges(first_branch).into_iter().filter(|(exit, ..)| is_exit(body, *exit)) {
            let checks = following_checks(body, &cfg, [first, second, exit]);
            let a = CondLiteral { cond: first_branch.0, holds };
            let literal = |check: &SharedExitCheck| CondLiteral { cond: check.cond, holds: check.holds };
            let Some(combined) = checks.iter().position(|check| fits_gateway(body, &[&[a], &[literal(check)]])) else {
                continue;
            };
            let moved = take_computation(body, &checks[..=combined]);
            body.blocks[first].insts.extend(moved);
            let cond = add_disjunction(body, first, &[&[a], &[literal(&checks[combined])]]);
            let onward = if combined == 0 { checks[0].onward } else { second };
            set_branch(body, first, cond, [exit, onward]);
            if let Some(previous) = combined.checked_sub(1) {
                redirect_edges(body, checks[previous].block, [checks[combined].block, checks[combined].onward]);
            }
            return true;
        }
    }
    false
}

/// Threads a repeated validity test: `if (c) { a } else { b } if (c) { d } else { e }` becomes `if
/// (c) { a d } else { b e }`, where `c` is the validity of a header and the code in between does
/// not change it.
fn thread_validity_branch(body: &mut Body) -> bool {
    let cfg = Cfg::new(body);
    let validity = |value: Value| match body.defining_inst(value).map(|i| &i.inst) {
        Some(Inst::IsValid(header)) => Some(*header),
        _ => None,
    };
    let order = cfg.reverse_postorder().to_vec();
    for repeated in &order {
        let Some((cond, on_valid, on_invalid)) = branch_of(body, *repeated) else { continue };
        let Some(header) = validity(cond) else { continue };
        let data = &body.blocks[*repeated];
        let is_used_later = data.insts.iter().flat_map(|i| &i.results).any(|v| is_used_outside(body, *v, *repeated));
        let is_pure_block = data.params.is_empty() && data.insts.iter().all(|i| i.inst.is_pure());
        let Some(dominator) = cfg.immediate_dominator(*repeated).filter(|_| is_pure_block && !is_used_later) else {
            continue;
        };
        let Some((first, then, els)) =
            branch_of(body, dominator).filter(|(first, ..)| validity(*first) == Some(header))
        else {
            continue;
        };
        let is_between = |b: &Block| *b != *repeated && cfg.dominates(dominator, *b) && body.can_reach(*b, *repeated);
        let between: Vec<Block> = order.iter().copied().filter(|b| *b != dominator && is_between(b)).collect();
        let may_change = |data: &BlockData| {
            let is_pure_block = |i: &Inst| i.is_pure() || matches!(i, Inst::Store(..) | Inst::Extern { .. });
            data.applied_table().is_some() || !data.insts.iter().all(|i| is_pure_block(&i.inst))
        };
        // The test must be computed in the branching block, and no later instruction of it may
        // change the result.
        let later_insts = body.blocks[dominator].insts.iter().rev().take_while(|i| !i.results.contains(&first));
        let mut is_safe = !later_insts.clone().any(|i| !i.inst.is_pure() && !matches!(i.inst, Inst::Store(..)));
        is_safe &= body.blocks[dominator].insts.iter().any(|i| i.results.contains(&first));
        is_safe &= !between.iter().any(|b| may_change(&body.blocks[*b]));
        let target_from = |from: Block| match (from == dominator, cfg.dominates(then, from), cfg.dominates(els, from)) {
            (false, true, false) => Some(on_valid),
            (false, false, true) => Some(on_invalid),
            _ => None,
        };
        let has_one_pred = |b: Block| cfg.predecessors(b) == [dominator];
        let from: Vec<Block> = cfg.predecessors(*repeated).to_vec();
        if !is_safe
            || then == els
            || !has_one_pred(then)
            || !has_one_pred(els)
            || !from.iter().all(|b| target_from(*b).is_some())
        {
            continue;
        }
        for (from, to) in from.iter().filter_map(|b| Some((*b, target_from(*b)?))).collect::<Vec<_>>() {
            redirect_edges(body, from, [*repeated, to]);
        }
        return true;
    }
    false
}

/// Combines checks of both arms: `if (c) { if (a) { out } } else { if (b) { out } }` becomes `if (c
/// && a || !c && b) { out }`.
fn combine_checks_of_arms(body: &mut Body) -> bool {
    let cfg = Cfg::new(body);
    for head in cfg.reverse_postorder().to_vec() {
        let Some((cond, then, els)) = branch_of(body, head) else { continue };
        if then == els || ![then, els].iter().all(|b| only_decides(body, &cfg, *b, head)) {
            continue;
        }
        let (Some(left), Some(right)) = (branch_of(body, then), branch_of(body, els)) else { continue };
        let pairs = both_edges(left).into_iter().flat_map(|l| both_edges(right).map(|r| (l, r)));
        let shares_exit =
            |((out, left_onward, _), (right_exit, right_onward, _)): &((Block, Block, bool), (Block, Block, bool))| {
                left_onward == right_onward
                    && out != left_onward
                    && right_exit != left_onward
                    && is_exit(body, *out)
                    && same_exit(body, *out, *right_exit)
            };
        let Some(((out, onward, holds), (.., holds_too))) = { pairs }.find(shares_exit) else { continue };
        let literal = |cond, holds| CondLiteral { cond, holds };
        let parts =
            [[literal(cond, true), literal(left.0, holds)], [literal(cond, false), literal(right.0, holds_too)]];
        let parts: Vec<&[CondLiteral]> = parts.iter().map(|p| &p[..]).collect();
        if !body.blocks[onward].params.is_empty() || !fits_gateway(body, &parts) {
            continue;
        }
        for side in [then, els] {
            let moved = std::mem::take(&mut body.blocks[side].insts);
            body.blocks[head].insts.extend(moved);
        }
        let cond = add_disjunction(body, head, &parts);
        set_branch(body, head, cond, [out, onward]);
        return true;
    }
    false
}

/// Appends the disjunction of conjunctions to a block and returns its value.
fn add_disjunction(body: &mut Body, block: Block, any: &[&[CondLiteral]]) -> Value {
    let mut add = |inst: Inst| {
        let value = body.values.push(Type::Bool);
        body.blocks[block].insts.push(InstData::new(inst, vec![value]));
        value
    };
    let mut found = None;
    for all in any {
        let mut each = None;
        for part in *all {
            let own = if part.holds { part.cond } else { add(Inst::Unary(UnaryOp::LogicalNot, part.cond)) };
            each = Some(each.map_or(own, |so_far| add(Inst::Binary(BinaryOp::And, so_far, own))));
        }
        if let Some(each) = each {
            found = Some(found.map_or(each, |so_far| add(Inst::Binary(BinaryOp::Or, so_far, each))));
        }
    }
    found.unwrap_or_else(|| add(Inst::Const(Const::new(Type::Bool, BigUint::ZERO))))
}
