//! Removes unreferenced local variables and local headers.
//! Metadata and the parsed representation are kept, because people inspect them.

use crate::body::{ExternArg, Inst};
use crate::entity::{Entity, EntityMap, HeaderId, VarId};
use crate::pipeline::{Pipeline, VarKind};

/// Removes local variables and local headers that no code names, and renumbers the references to
/// all others. Headers of unions remain, because the union names them.
pub(super) fn remove_unused_variables(pipeline: &mut Pipeline) {
    let used = UsedEntities::new(pipeline);
    let keep_header: Vec<bool> = pipeline
        .headers
        .iter()
        .map(|(id, h)| !h.local || h.union.is_some() || used.is_header_used(pipeline, id))
        .collect();
    let keep_var = |(id, var): (VarId, &crate::Var)| match var.kind {
        VarKind::Local => used.vars[id.index()],
        VarKind::Field(header, _) => keep_header.get(header.index()).copied().unwrap_or(true),
        VarKind::Meta | VarKind::Intrinsic | VarKind::NextIndex(_) => true,
    };
    let keep_var: Vec<bool> = pipeline.vars.iter().map(keep_var).collect();
    if keep_var.iter().chain(&keep_header).all(|k| *k) {
        return;
    }
    let vars = retain_used(&mut pipeline.vars, &keep_var);
    let headers = retain_used(&mut pipeline.headers, &keep_header);
    // Removed entities are not referenced, so each reference has a new number.
    renumber_references(pipeline, |v| renumbered(&vars, v), |h| renumbered(&headers, h));
}

fn renumbered<E: Entity>(map: &[Option<E>], old: E) -> E {
    map.get(old.index()).copied().flatten().unwrap_or(old)
}

fn retain_used<E: Entity, V: Clone>(map: &mut EntityMap<E, V>, keep: &[bool]) -> Vec<Option<E>> {
    let mut kept = EntityMap::new();
    let renamed = map.values().zip(keep).map(|(v, keep)| keep.then(|| kept.push(v.clone()))).collect();
    *map = kept;
    renamed
}

/// Variables and headers that code and declarations reference.
struct UsedEntities {
    vars: Vec<bool>,
    headers: Vec<bool>,
}

impl UsedEntities {
    fn new(p: &Pipeline) -> Self {
        let mut used = UsedEntities { vars: vec![false; p.vars.len()], headers: vec![false; p.headers.len()] };
        for inst in p.controls.values().flat_map(|c| c.body.blocks.values()).flat_map(|d| &d.insts) {
            used.mark_inst(&inst.inst);
        }
        let special = p.intrinsics.values().chain(p.field_lists.values().flatten());
        let special = special.copied().chain(p.tables.values().filter_map(|t| t.meter_result));
        special.for_each(|v| used.mark_var(v));
        for header in p.stacks.values().flat_map(|s| &s.elements) {
            used.mark_header(*header);
        }
        used
    }
    fn mark_var(&mut self, var: VarId) {
        if let Some(slot) = self.vars.get_mut(var.index()) {
            *slot = true;
        }
    }
    fn mark_header(&mut self, header: HeaderId) {
        if let Some(slot) = self.headers.get_mut(header.index()) {
            *slot = true;
        }
    }
    /// Marks the variables and headers that an instruction names as used.
    fn mark_inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Load(v) | Inst::Store(v, _) => self.mark_var(*v),
            Inst::IsValid(h)
            | Inst::SetValid(h)
            | Inst::SetInvalid(h)
            | Inst::Extract(h)
            | Inst::ExtractVarbit(h, _)
            | Inst::Emit(h) => self.mark_header(*h),
            Inst::CopyHeader { dst, src } => {
                self.mark_header(*dst);
                self.mark_header(*src);
            }
            Inst::Extern { args, .. } => {
                for arg in args {
                    if let ExternArg::Vars(vars) = arg {
                        vars.iter().for_each(|v| self.mark_var(*v));
                    }
                }
            }
            _ => {}
        }
    }
    fn is_header_used(&self, p: &Pipeline, header: HeaderId) -> bool {
        let fields = p.headers.get(header).map(|h| h.fields.as_slice()).unwrap_or_default();
        self.headers[header.index()] || fields.iter().any(|f| self.vars.get(f.index()).copied().unwrap_or(true))
    }
}

/// Replaces each reference to a variable or header in the pipeline by its new number, which
/// `new_var` and `new_header` return.
fn renumber_references(
    pipeline: &mut Pipeline,
    new_var: impl Fn(VarId) -> VarId,
    new_header: impl Fn(HeaderId) -> HeaderId,
) {
    for data in pipeline.vars.values_mut() {
        if let VarKind::Field(h, _) = &mut data.kind {
            *h = new_header(*h);
        }
    }
    pipeline.headers.values_mut().flat_map(|h| &mut h.fields).for_each(|v| *v = new_var(*v));
    for stack in pipeline.stacks.values_mut() {
        stack.next = new_var(stack.next);
        stack.elements.iter_mut().for_each(|h| *h = new_header(*h));
    }
    pipeline.unions.values_mut().flat_map(|u| &mut u.members).for_each(|h| *h = new_header(*h));
    pipeline.intrinsics.values_mut().for_each(|v| *v = new_var(*v));
    pipeline.field_lists.values_mut().flatten().for_each(|v| *v = new_var(*v));
    pipeline.tables.values_mut().filter_map(|t| t.meter_result.as_mut()).for_each(|v| *v = new_var(*v));
    let blocks = pipeline.controls.values_mut().flat_map(|c| c.body.blocks.values_mut());
    for inst in blocks.flat_map(|d| &mut d.insts) {
        match &mut inst.inst {
            Inst::Load(v) | Inst::Store(v, _) => *v = new_var(*v),
            Inst::IsValid(h)
            | Inst::SetValid(h)
            | Inst::SetInvalid(h)
            | Inst::Extract(h)
            | Inst::ExtractVarbit(h, _)
            | Inst::Emit(h) => *h = new_header(*h),
            Inst::CopyHeader { dst, src } => {
                *dst = new_header(*dst);
                *src = new_header(*src);
            }
            Inst::Extern { args, .. } => {
                for arg in args {
                    if let ExternArg::Vars(vars) = arg {
                        vars.iter_mut().for_each(|v| *v = new_var(*v));
                    }
                }
            }
            _ => {}
        }
    }
}
