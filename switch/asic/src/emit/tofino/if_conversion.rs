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

/// Converts the `if`s of a body.
pub(super) fn convert_ifs(p: &Pipeline, body: &mut Body) {
    let cfg = Cfg::new(body);
    for head in cfg.reverse_postorder().to_vec() {
        let Some(TerminatorData { term: Terminator::Branch { cond, then, els }, loc }) = body.blocks[head].term.clone()
        else {
            continue;
        };
        let alone = |b: Block| cfg.predecessors(b).len() == 1 && body.blocks[b].params.is_empty();
        let plain = |call: &BlockCall| call.args.is_empty();
        let joins = |arm: Block, other: &BlockCall| {
            let to = body.blocks[arm].term.as_ref().map(|t| &t.term);
            matches!(to, Some(Terminator::Jump(call)) if call.block == other.block && plain(call))
        };
        let (arm, join, holds) = match (alone(then.block), alone(els.block)) {
            (true, _) if plain(&then) && plain(&els) && joins(then.block, &els) => (then.block, els, true),
            (_, true) if plain(&then) && plain(&els) && joins(els.block, &then) => (els.block, then, false),
            _ => continue,
        };
        // The variable must be the arm's only store.
        let insts = body.blocks[arm].insts.clone();
        let Some((InstData { inst: Inst::Store(var, b), .. }, before)) = insts.split_last() else { continue };
        let narrow = matches!(p.vars[*var].ty, Type::Bit(1..=32));
        if !is_local(p, *var) || !narrow || !before.iter().all(|i| i.inst.is_pure()) || before.len() > MAX_MOVED {
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
        data.term = Some(TerminatorData { term: Terminator::Jump(join), loc });
        body.blocks[arm].insts.clear();
    }
}
