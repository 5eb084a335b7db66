//! Removes dead stores, which nothing can read.
//! They are overwritten in the same block before any read, or go to a local variable that no path
//! reads later.

use crate::body::{Body, ExternArg, Inst};
use crate::cfg::reverse_postorder;
use crate::entity::{Entity, HeaderId, VarId};
use crate::pipeline::{Pipeline, VarKind};
use std::collections::{HashMap, HashSet};

/// Maximum number of bits in all liveness sets of a body; beyond it, only stores within single
/// blocks are removed.
const MAX_LIVENESS_BITS: usize = 1 << 26;

/// Removes dead stores from all controls: first those that are overwritten in their block, then
/// those to locals that no control reads later. The second part is left out if its sets would be
/// too large.
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
    let live_at_end: Option<Vec<bool>> = liveness.iter().try_fold(vec![false; locals.count], |mut union, control| {
        let at_entry = control.as_ref()?.at_entry.iter();
        union.iter_mut().zip(at_entry).for_each(|(is_live, is_live_at_entry)| *is_live |= *is_live_at_entry);
        Some(union)
    });
    if let Some(live_at_end) = live_at_end {
        for control in controls.values_mut() {
            remove_unread_stores(&mut control.body, &locals, &live_at_end);
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

/// Removes stores to variables that the same block overwrites before any read. `pending` has the
/// index of the last store to each variable that nothing has read since.
fn remove_overwritten_stores(body: &mut Body, pipeline: &Pipeline) {
    for data in body.blocks.values_mut() {
        let mut pending: HashMap<VarId, usize> = HashMap::new();
        let mut dead = HashSet::new();
        for (index, inst) in data.insts.iter().enumerate() {
            match &inst.inst {
                Inst::Load(var) => {
                    pending.remove(var);
                }
                Inst::Store(var, _) => {
                    if let Some(earlier) = pending.insert(*var, index) {
                        dead.insert(earlier);
                    }
                }
                inst if may_read_any_variable(inst) => pending.clear(),
                inst => {
                    for header in observed_headers(inst, pipeline) {
                        for field in pipeline.headers.get(header).iter().flat_map(|h| &h.fields) {
                            pending.remove(field);
                        }
                    }
                }
            }
        }
        let mut index = 0;
        data.insts.retain(|_| {
            index += 1;
            !dead.contains(&(index - 1))
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
            if let Some(local_index) = locals.get(*var) {
                live[local_index] = false;
            }
        }
        Inst::Load(var) => {
            if let Some(local_index) = locals.get(*var) {
                live[local_index] = true;
            }
        }
        Inst::Extern { args, .. } => {
            for var in args.iter().flat_map(|a| if let ExternArg::Vars(vars) = a { vars.as_slice() } else { &[] }) {
                if let Some(local_index) = locals.get(*var) {
                    live[local_index] = true;
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
        // Backwards, because liveness flows from a block to its predecessors.
        for block in order.iter().rev() {
            let mut live_here = live_out(body, *block, &live, at_end);
            for inst in body.blocks[*block].insts.iter().rev() {
                transfer_backward(&inst.inst, locals, &mut live_here);
                merge_exit_liveness(&inst.inst, &mut live_here, at_end);
            }
            if live[block.index()] != live_here {
                live[block.index()] = live_here;
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

/// Removes stores to locals that are not live after them. `at_end` are the locals that are live at
/// all exits of the body.
fn remove_unread_stores(body: &mut Body, locals: &LocalIndex, at_end: &[bool]) {
    let Some(live) = live_at_start(body, locals, at_end) else { return };
    for block in reverse_postorder(body) {
        let mut live_here = live_out(body, block, &live, at_end);
        let data = &mut body.blocks[block];
        let mut keep = vec![true; data.insts.len()];
        for (index, inst) in data.insts.iter().enumerate().rev() {
            if let Inst::Store(var, _) = &inst.inst
                && locals.get(*var).is_some_and(|local_index| !live_here[local_index])
            {
                keep[index] = false;
            }
            transfer_backward(&inst.inst, locals, &mut live_here);
            merge_exit_liveness(&inst.inst, &mut live_here, at_end);
        }
        let mut index = 0;
        data.insts.retain(|_| {
            index += 1;
            keep[index - 1]
        });
    }
}
