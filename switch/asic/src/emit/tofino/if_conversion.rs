//! If-conversion: an `if` that only assigns a local variable becomes a selection between two
//! values.
//!
//! ```text
//! x = a;                      x = c ? b : a;
//! if (c) { x = b; }    ->
//! ```
//!
//! A selection has no control flow, so it can be hoisted over lookups (`code_hoisting`).

use super::exits::is_used_outside;
use crate::emit::coalesce::is_local;
use ir::*;

/// Maximum number of instructions of an arm that become unconditional.
const MAX_MOVED: usize = 8;

/// Converts the `if`s of a body with one arm that only assigns a local: the arm's instructions move
/// to the block before the branch, and a `Select` chooses between the new and the previous value.
pub(super) fn convert_ifs(p: &Pipeline, body: &mut Body) {
    let cfg = Cfg::new(body);
    for head in cfg.reverse_postorder().to_vec() {
        let Some(TerminatorData { term: Terminator::Branch { cond, then, els }, loc }) = body.blocks[head].term.clone()
        else {
            continue;
        };
        let has_one_pred =
            |new_value: Block| cfg.predecessors(new_value).len() == 1 && body.blocks[new_value].params.is_empty();
        let has_no_args = |call: &BlockCall| call.args.is_empty();
        let leads_to = |arm: Block, other: &BlockCall| {
            let term = body.blocks[arm].term.as_ref().map(|t| &t.term);
            matches!(term, Some(Terminator::Jump(call)) if call.block == other.block && has_no_args(call))
        };
        let (arm, join, holds) = match (has_one_pred(then.block), has_one_pred(els.block)) {
            (true, _) if has_no_args(&then) && has_no_args(&els) && leads_to(then.block, &els) => {
                (then.block, els, true)
            }
            (_, true) if has_no_args(&then) && has_no_args(&els) && leads_to(els.block, &then) => {
                (els.block, then, false)
            }
            _ => continue,
        };
        // The variable must be the arm's only store.
        let insts = body.blocks[arm].insts.clone();
        let Some((InstData { inst: Inst::Store(var, new_value), .. }, before)) = insts.split_last() else { continue };
        let fits_alu = matches!(p.vars[*var].ty, Type::Bit(1..=32));
        if !is_local(p, *var) || !fits_alu || !before.iter().all(|i| i.inst.is_pure()) || before.len() > MAX_MOVED {
            continue;
        }
        let head_insts = &body.blocks[head].insts;
        let Some(store_index) = head_insts.iter().rposition(|i| matches!(i.inst, Inst::Store(v, _) if v == *var))
        else {
            continue;
        };
        let Inst::Store(_, old_value) = head_insts[store_index].inst else { continue };
        let is_used_later = before.iter().flat_map(|i| &i.results).any(|v| is_used_outside(body, *v, arm));
        if head_insts[store_index..].iter().chain(before).any(|i| i.inst == Inst::Load(*var)) || is_used_later {
            continue;
        }
        let value = body.values.push(p.vars[*var].ty);
        let (then, els) = if holds { (*new_value, old_value) } else { (old_value, *new_value) };
        let data = &mut body.blocks[head];
        data.insts.remove(store_index);
        data.insts.extend(before.iter().cloned());
        data.insts.push(InstData { inst: Inst::Select { cond, then, els }, results: vec![value], loc });
        data.insts.push(InstData { inst: Inst::Store(*var, value), results: Vec::new(), loc });
        data.term = Some(TerminatorData { term: Terminator::Jump(join), loc });
        body.blocks[arm].insts.clear();
    }
}
