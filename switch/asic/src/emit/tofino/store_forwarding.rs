//! Store-to-load forwarding for local variables that are stored once, and dead-store elimination
//! for those without loads.
//!
//! ```text
//! t = a + b;
//! if (c) { x = t; }    ->    if (c) { x = a + b; }
//! ```

use crate::emit::coalesce::is_local;
use ir::*;
use std::collections::{HashMap, HashSet};

/// Forwards the stores of a body that is not part of the pipeline during the pass.
pub(super) fn forward_single_stores(p: &Pipeline, body: &mut Body) {
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
    let used_elsewhere: HashSet<VarId> = p
        .insts()
        .filter_map(|i| match i.inst {
            Inst::Load(var) | Inst::Store(var, _) => Some(var),
            _ => None,
        })
        .collect();
    let mut forwarded: HashMap<Value, Value> = HashMap::new();
    let mut removed: HashSet<VarId> = HashSet::new();
    for (var, var_stores) in stores.iter().filter(|(var, _)| is_local(p, **var) && !used_elsewhere.contains(var)) {
        let loads = loads.get(var).map_or(&[][..], Vec::as_slice);
        let is_forwardable = match var_stores[..] {
            [(block, n, value)] => {
                let is_after = |b: Block, m: usize| if b == block { m > n } else { cfg.dominates(block, b) };
                let is_forwardable = loads.iter().all(|(b, m, _)| is_after(*b, *m));
                forwarded.extend(loads.iter().filter(|_| is_forwardable).map(|(.., load)| (*load, value)));
                is_forwardable
            }
            _ => loads.is_empty(),
        };
        if is_forwardable {
            removed.insert(*var);
        }
    }
    let resolve = |mut v: Value| {
        while let Some(next) = forwarded.get(&v) {
            v = *next;
        }
        v
    };
    for data in body.blocks.values_mut() {
        data.insts.retain(|i| !matches!(i.inst, Inst::Load(var) | Inst::Store(var, _) if removed.contains(&var)));
        data.insts.iter_mut().for_each(|i| i.inst.map_values(resolve));
        data.term.iter_mut().for_each(|t| t.term.map_values(resolve));
    }
    ir::passes::remove_dead_values(body);
}
