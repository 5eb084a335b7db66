//! Removes dead stores: those that are overwritten in the same block before any read, and those to
//! a local variable that no path reads later.

use crate::body::{Body, ExternArg, Inst};
use crate::cfg::reverse_postorder;
use crate::entity::{Entity, HeaderId, VarId};
use crate::pipeline::{Pipeline, VarKind};
use std::collections::{HashMap, HashSet};

/// Maximum number of bits in all liveness sets of a body; beyond it, only stores within single
/// blocks are removed.
const MAX_LIVENESS_BITS: usize = 1 << 26;

pub(super) fn remove_dead_stores(pipeline: &mut Pipeline) {
    let mut controls = std::mem::take(&mut pipeline.controls);
    for control in controls.values_mut() {
        remove_overwritten_stores(&mut control.body, pipeline);
    }
    let locals = LocalIndex::new(pipeline);
    let liveness: Vec<Option<LocalLiveness>> =
        controls.values().map(|c| LocalLiveness::new(&c.body, &locals)).collect();
    // A local keeps its value from one control to the next, so a variable that a control reads
    // before it writes it is live at every exit.
    let at_end: Option<Vec<bool>> = liveness.iter().try_fold(vec![false; locals.count], |mut all, l| {
        let entry = l.as_ref()?.at_entry.iter();
        all.iter_mut().zip(entry).for_each(|(a, e)| *a |= *e);
        Some(all)
    });
    if let Some(at_end) = at_end {
        for control in controls.values_mut() {
            remove_unread_stores(&mut control.body, &locals, &at_end);
        }
    }
    pipeline.controls = controls;
}

/// Reports whether an instruction may read any variable.
fn may_read_any_variable(inst: &Inst) -> bool {
    match inst {
        // Externs may read metadata; parser instructions may leave the body.
        Inst::Extern { .. } => true,
        Inst::Extract(_) | Inst::ExtractVarbit(..) | Inst::Advance(_) | Inst::Lookahead(_) | Inst::Verify(..) => true,
        _ => false,
    }
}

/// Returns the headers that an instruction reads as a whole, or changes in validity: both depend on
/// earlier stores to fields.
fn observed_headers(inst: &Inst, p: &Pipeline) -> Vec<HeaderId> {
    let with_union = |h: HeaderId| {
        let union = p.headers.get(h).and_then(|h| h.union).and_then(|u| p.unions.get(u));
        union.map_or_else(|| vec![h], |u| u.members.clone())
    };
    match inst {
        Inst::SetValid(h) | Inst::SetInvalid(h) | Inst::Emit(h) => with_union(*h),
        Inst::CopyHeader { dst, src } => {
            let mut headers = with_union(*dst);
            headers.push(*src);
            headers
        }
        _ => Vec::new(),
    }
}

fn remove_overwritten_stores(body: &mut Body, p: &Pipeline) {
    for data in body.blocks.values_mut() {
        let mut pending: HashMap<VarId, usize> = HashMap::new();
        let mut dead = HashSet::new();
        for (n, inst) in data.insts.iter().enumerate() {
            match &inst.inst {
                Inst::Load(var) => {
                    pending.remove(var);
                }
                Inst::Store(var, _) => {
                    if let Some(earlier) = pending.insert(*var, n) {
                        dead.insert(earlier);
                    }
                }
                inst if may_read_any_variable(inst) => pending.clear(),
                inst => {
                    for header in observed_headers(inst, p) {
                        for field in p.headers.get(header).iter().flat_map(|h| &h.fields) {
                            pending.remove(field);
                        }
                    }
                }
            }
        }
        let mut n = 0;
        data.insts.retain(|_| {
            n += 1;
            !dead.contains(&(n - 1))
        });
    }
}

/// Dense numbering of the local variables.
struct LocalIndex {
    index: Vec<Option<usize>>,
    count: usize,
}

impl LocalIndex {
    /// Numbers the locals that only code accesses; variables with a meaning to the architecture or
    /// to tables are excluded.
    fn new(p: &Pipeline) -> Self {
        let mut special: HashSet<VarId> = p.intrinsics.values().copied().collect();
        special.extend(p.field_lists.values().flatten());
        special.extend(p.tables.values().filter_map(|t| t.meter_result));
        let mut locals = LocalIndex { index: Vec::new(), count: 0 };
        for (id, var) in p.vars.iter() {
            let plain = var.kind == VarKind::Local && !special.contains(&id);
            locals.index.push(plain.then_some(locals.count));
            locals.count += usize::from(plain);
        }
        locals
    }
    fn get(&self, var: VarId) -> Option<usize> {
        self.index.get(var.index()).copied().flatten()
    }
}

/// Applies the liveness transfer function of an instruction, backwards: written variables are not
/// live before it, read variables are.
fn transfer_backward(inst: &Inst, locals: &LocalIndex, live: &mut [bool]) {
    match inst {
        Inst::Store(var, _) => {
            if let Some(n) = locals.get(*var) {
                live[n] = false;
            }
        }
        Inst::Load(var) => {
            if let Some(n) = locals.get(*var) {
                live[n] = true;
            }
        }
        Inst::Extern { args, .. } => {
            for var in args.iter().flat_map(|a| if let ExternArg::Vars(vars) = a { vars.as_slice() } else { &[] }) {
                if let Some(n) = locals.get(*var) {
                    live[n] = true;
                }
            }
        }
        _ => {}
    }
}

/// Locals that are live at the entry of a body, if none is live at its exits.
struct LocalLiveness {
    at_entry: Vec<bool>,
}

impl LocalLiveness {
    fn new(body: &Body, locals: &LocalIndex) -> Option<Self> {
        let none = vec![false; locals.count];
        let at_start = live_at_start(body, locals, &none)?;
        let entry = body.entry.and_then(|e| at_start.get(e.index()));
        Some(LocalLiveness { at_entry: entry.cloned().unwrap_or(none) })
    }
}

/// Returns the locals that are live at the start of each block; `at_end` are live at all exits of
/// the body. `None` if the sets would be too large.
fn live_at_start(body: &Body, locals: &LocalIndex, at_end: &[bool]) -> Option<Vec<Vec<bool>>> {
    if body.blocks.len().saturating_mul(locals.count) > MAX_LIVENESS_BITS / 8 {
        return None;
    }
    let order = reverse_postorder(body);
    let mut live = vec![vec![false; locals.count]; body.blocks.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for block in order.iter().rev() {
            let mut now = live_out(body, *block, &live, at_end);
            for inst in body.blocks[*block].insts.iter().rev() {
                transfer_backward(&inst.inst, locals, &mut now);
                merge_exit_liveness(&inst.inst, &mut now, at_end);
            }
            if live[block.index()] != now {
                live[block.index()] = now;
                changed = true;
            }
        }
    }
    Some(live)
}

/// Adds the variables that are live at exits if the instruction can leave the body.
fn merge_exit_liveness(inst: &Inst, live: &mut [bool], at_end: &[bool]) {
    if may_read_any_variable(inst) {
        live.iter_mut().zip(at_end).for_each(|(l, e)| *l |= *e);
    }
}

fn live_out(body: &Body, block: crate::Block, live: &[Vec<bool>], at_end: &[bool]) -> Vec<bool> {
    let successors = body.blocks[block].successors();
    if successors.is_empty() {
        return at_end.to_vec();
    }
    let mut out = vec![false; at_end.len()];
    for succ in successors {
        if let Some(succ) = live.get(succ.index()) {
            out.iter_mut().zip(succ).for_each(|(o, s)| *o |= *s);
        }
    }
    out
}

/// Removes stores to locals that are not live after them.
fn remove_unread_stores(body: &mut Body, locals: &LocalIndex, at_end: &[bool]) {
    let Some(live) = live_at_start(body, locals, at_end) else { return };
    for block in reverse_postorder(body) {
        let mut now = live_out(body, block, &live, at_end);
        let data = &mut body.blocks[block];
        let mut keep = vec![true; data.insts.len()];
        for (n, inst) in data.insts.iter().enumerate().rev() {
            if let Inst::Store(var, _) = &inst.inst
                && locals.get(*var).is_some_and(|v| !now[v])
            {
                keep[n] = false;
            }
            transfer_backward(&inst.inst, locals, &mut now);
            merge_exit_liveness(&inst.inst, &mut now, at_end);
        }
        let mut n = 0;
        data.insts.retain(|_| {
            n += 1;
            keep[n - 1]
        });
    }
}
