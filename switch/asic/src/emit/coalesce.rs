//! Copy coalescing: a local that copies another variable is merged with it.
//!
//! Lowering copies arguments in and out where a callee could see the difference. After inlining
//! most of these copies are redundant: `meta` is copied, changed and copied back field by field. On
//! a chip each copy costs containers and stages. Two variables merge if neither is written while
//! the other is live, except by a copy of the other (Chaitin's rule for coalescing). Header fields
//! are excluded, because their reads and writes depend on validity.

use ir::passes::run_passes;
use ir::*;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Maximum product of blocks and variables; larger bodies are not coalesced.
const MAX_WORK: usize = 1 << 24;

/// Maximum number of merges in a control, because each computes liveness again.
const MAX_MERGES: usize = 256;

/// Returns the pipeline with coalesced copies: in each control, a local that is a copy of another
/// variable is replaced by that one, and the stores that became `x = x` are removed.
pub(super) fn coalesce(p: &Pipeline) -> Pipeline {
    let mut merged = p.clone();
    let mut changed = false;
    for n in 0..merged.controls.len() {
        let id = ControlId(u32::try_from(n).unwrap_or(u32::MAX));
        // `find_mergeable` recomputes liveness, because each merge changes it.
        for _ in 0..MAX_MERGES {
            let Some((local, other)) = find_mergeable(&merged, id) else { break };
            replace_variable(&mut merged.controls[id].body, local, other);
            changed = true;
        }
        if changed {
            let locals_and_meta =
                merged.vars.iter().filter(|(_, v)| matches!(v.kind, VarKind::Local | VarKind::Meta)).map(|(v, _)| v);
            let locals_and_meta: HashSet<VarId> = locals_and_meta.collect();
            remove_redundant_stores(&mut merged.controls[id].body, &locals_and_meta);
        }
    }
    // If the verifier rejects the result, which would be a bug here, the input is still correct.
    if changed && run_passes(&mut merged, |_, _, _| {}).is_ok() { merged } else { p.clone() }
}

/// Live variables at the end of each block.
struct LiveOut {
    at_end: HashMap<Block, HashSet<VarId>>,
}

/// Finds a local that can merge with another variable.
fn find_mergeable(p: &Pipeline, id: ControlId) -> Option<(VarId, VarId)> {
    let body = &p.controls[id].body;
    let vars: BTreeSet<VarId> = find_copies(p, body).into_iter().flat_map(|(a, b)| [a, b]).collect();
    if vars.is_empty() || vars.len().saturating_mul(body.blocks.len()) > MAX_WORK {
        return None;
    }
    let live = liveness(p, body, &vars);
    let pairs: BTreeSet<(VarId, VarId)> = find_copies(p, body).into_iter().collect();
    let elsewhere = |var: VarId| {
        let others = p.controls.iter().filter(|(c, _)| *c != id);
        others.into_iter().any(|(_, c)| super::mentions::Mentions::collect(p, &c.body).vars.contains(&var))
    };
    let pairs = pairs.into_iter().filter(|(local, _)| !elsewhere(*local));
    pairs.into_iter().find(|(local, other)| {
        p.vars[*local].ty == p.vars[*other].ty && !variables_interfere(body, &live, *local, *other)
    })
}

/// Returns whether only code writes a variable: a local that is not the result of a table's meter.
pub(super) fn is_local(p: &Pipeline, var: VarId) -> bool {
    p.vars[var].kind == VarKind::Local && p.tables.values().all(|t| t.meter_result != Some(var))
}

/// Returns pairs of variables that are copies; the first of a pair is replaced by the second.
fn find_copies(p: &Pipeline, body: &Body) -> Vec<(VarId, VarId)> {
    let is_local_or_meta = |v: VarId| matches!(p.vars[v].kind, VarKind::Local | VarKind::Meta);
    let mut found = Vec::new();
    for data in body.blocks.values() {
        let mut loaded: HashMap<Value, VarId> = HashMap::new();
        for inst in &data.insts {
            match &inst.inst {
                Inst::Load(var) => {
                    loaded.insert(inst.results[0], *var);
                }
                Inst::Store(dst, value) => {
                    if let Some(src) = loaded.get(value).copied()
                        && src != *dst
                        && is_local_or_meta(src)
                        && is_local_or_meta(*dst)
                    {
                        match (is_local(p, src), is_local(p, *dst)) {
                            (true, false) => found.push((src, *dst)),
                            (_, true) => found.push((*dst, src)),
                            _ => {}
                        }
                    }
                    loaded.retain(|_, var| var != dst);
                }
                _ => {}
            }
        }
    }
    found
}

fn listed_vars(inst: &Inst) -> Vec<VarId> {
    match inst {
        Inst::Extern { args, .. } => args
            .iter()
            .flat_map(|arg| match arg {
                ExternArg::Vars(vars) => vars.clone(),
                _ => Vec::new(),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Computes for each block which of `vars` are live at its end. Variables that blocks share are
/// live at the end of a body.
fn liveness(p: &Pipeline, body: &Body, vars: &BTreeSet<VarId>) -> LiveOut {
    let shared: HashSet<VarId> = vars.iter().copied().filter(|v| p.vars[*v].kind != VarKind::Local).collect();
    let mut at_start: HashMap<Block, HashSet<VarId>> = HashMap::new();
    let mut at_end: HashMap<Block, HashSet<VarId>> = HashMap::new();
    let order = Cfg::new(body).reverse_postorder().to_vec();
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().rev() {
            let data = &body.blocks[*block];
            let Some(term) = &data.term else { continue };
            let next = term.term.successors();
            let mut live: HashSet<VarId> = if next.is_empty() { shared.clone() } else { HashSet::new() };
            for succ in next {
                live.extend(at_start.get(&succ).into_iter().flatten());
            }
            at_end.insert(*block, live.clone());
            for inst in data.insts.iter().rev() {
                transfer_backward(&inst.inst, vars, &mut live);
            }
            if at_start.get(block) != Some(&live) {
                at_start.insert(*block, live);
                changed = true;
            }
        }
    }
    LiveOut { at_end }
}

fn transfer_backward(inst: &Inst, vars: &BTreeSet<VarId>, alive: &mut HashSet<VarId>) {
    match inst {
        Inst::Store(var, _) => {
            alive.remove(var);
        }
        Inst::Load(var) if vars.contains(var) => {
            alive.insert(*var);
        }
        other => alive.extend(listed_vars(other).into_iter().filter(|v| vars.contains(v))),
    }
}

/// Returns whether one variable is written, other than by a copy of the other, while the other is
/// live.
fn variables_interfere(body: &Body, live: &LiveOut, a: VarId, b: VarId) -> bool {
    let pair = BTreeSet::from([a, b]);
    for (block, data) in body.blocks.iter() {
        let Some(end) = live.at_end.get(&block) else { continue };
        // Values that equal the current content of a variable.
        let mut current: HashMap<Value, VarId> = HashMap::new();
        let mut copies: HashSet<usize> = HashSet::new();
        for (n, inst) in data.insts.iter().enumerate() {
            match &inst.inst {
                Inst::Load(var) if pair.contains(var) => {
                    current.insert(inst.results[0], *var);
                }
                Inst::Store(dst, value) if pair.contains(dst) => {
                    let source = current.get(value).copied();
                    if source.is_some() {
                        copies.insert(n);
                    }
                    if source != Some(*dst) {
                        current.retain(|_, var| var != dst);
                    }
                }
                _ => {}
            }
        }
        let mut live_vars: HashSet<VarId> = end.iter().copied().filter(|v| pair.contains(v)).collect();
        for (n, inst) in data.insts.iter().enumerate().rev() {
            if let Inst::Store(var, _) = &inst.inst
                && pair.contains(var)
            {
                let other = if *var == a { b } else { a };
                if live_vars.contains(&other) && !copies.contains(&n) {
                    return true;
                }
            }
            transfer_backward(&inst.inst, &pair, &mut live_vars);
        }
    }
    // A local starts as zero; if it is live at the entry, a merge would expose the other's
    // value.
    let Some(entry) = body.entry else { return true };
    let mut live_vars: HashSet<VarId> = live.at_end.get(&entry).cloned().unwrap_or_default();
    body.blocks[entry].insts.iter().rev().for_each(|inst| transfer_backward(&inst.inst, &pair, &mut live_vars));
    live_vars.contains(&a)
}

/// Replaces `local` by `other` and removes stores of the current content.
fn replace_variable(body: &mut Body, local: VarId, other: VarId) {
    for data in body.blocks.values_mut() {
        for inst in &mut data.insts {
            match &mut inst.inst {
                Inst::Load(var) | Inst::Store(var, _) if *var == local => *var = other,
                Inst::Extern { args, .. } => {
                    for arg in args {
                        if let ExternArg::Vars(vars) = arg {
                            vars.iter_mut().filter(|v| **v == local).for_each(|v| *v = other);
                        }
                    }
                }
                _ => {}
            }
        }
        let mut current: HashSet<Value> = HashSet::new();
        data.insts.retain(|inst| match &inst.inst {
            Inst::Load(var) if *var == other => {
                current.insert(inst.results[0]);
                true
            }
            Inst::Store(var, value) if *var == other => {
                let is_redundant = current.contains(value);
                if !is_redundant {
                    current.clear();
                    current.insert(*value);
                }
                !is_redundant
            }
            _ => true,
        });
    }
}

/// Removes stores of a value that was loaded from the same variable, if no store lies between.
/// `plain` has the variables that only loads and stores access; sites are (block's place in the
/// order, instruction). A body with a loop stays as it is, because sites then have no order.
fn remove_redundant_stores(body: &mut Body, plain: &HashSet<VarId>) {
    let cfg = Cfg::new(body);
    let order = cfg.reverse_postorder().to_vec();
    let block_order: HashMap<Block, usize> = order.iter().enumerate().map(|(n, b)| (*b, n)).collect();
    let has_back_edge =
        |b: &Block| body.blocks[*b].term.iter().any(|t| t.term.successors().iter().any(|s| cfg.dominates(*s, *b)));
    if order.iter().any(has_back_edge) {
        return;
    }
    let mut loads: HashMap<Value, (VarId, (usize, usize))> = HashMap::new();
    let mut stores: HashMap<VarId, Vec<(usize, usize)>> = HashMap::new();
    for block in &order {
        for (n, inst) in body.blocks[*block].insts.iter().enumerate() {
            match &inst.inst {
                Inst::Load(var) if plain.contains(var) => {
                    loads.insert(inst.results[0], (*var, (block_order[block], n)));
                }
                Inst::Store(var, _) => stores.entry(*var).or_default().push((block_order[block], n)),
                _ => {}
            }
        }
    }
    for block in order {
        let mut n = 0;
        let block_index = block_order[&block];
        body.blocks[block].insts.retain(|inst| {
            n += 1;
            let site = (block_index, n - 1);
            let Inst::Store(var, value) = &inst.inst else { return true };
            let Some((from, loaded)) = loads.get(value).filter(|(from, _)| from == var) else { return true };
            let is_between = |other: &(usize, usize)| *other > *loaded && *other < site;
            let is_redundant = !stores.get(from).is_some_and(|sites| sites.iter().any(is_between));
            if is_redundant && let Some(sites) = stores.get_mut(from) {
                sites.retain(|other| *other != site);
            }
            !is_redundant
        });
    }
}
