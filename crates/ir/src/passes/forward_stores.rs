//! Store-to-load forwarding: replaces a load by the value stored or loaded last.
//!
//! Nothing in between may change the variable.
//!
//! Available values are tracked along straight lines: through a block, and into a block with one
//! predecessor. A store to a field of a header has no effect while the header is invalid, so it
//! counts only where the header is known to be valid. An instruction that changes the validity of a
//! header invalidates the values of its fields and of those of the other members of its union.

use crate::body::{Body, ExternArg, Inst, Terminator};
use crate::cfg::Cfg;
use crate::entity::{Block, Entity, HeaderId, Value, VarId};
use crate::passes::merge_blocks::rename_values;
use crate::pipeline::{Pipeline, VarKind};
use std::collections::HashMap;

/// Maximum number of facts carried from block to block; it keeps the time linear.
const MAX_CARRIED: usize = 256;

pub(super) fn forward_stores(pipeline: &mut Pipeline) {
    let mut controls = std::mem::take(&mut pipeline.controls);
    for control in controls.values_mut() {
        forward_body(&mut control.body, pipeline);
    }
    pipeline.controls = controls;
}

/// Replaces loads in a body by values that are known at that point. A block with a single
/// predecessor continues with the values known at the end of that; any other block starts with
/// none.
fn forward_body(body: &mut Body, pipeline: &Pipeline) {
    let cfg = Cfg::new(body);
    let mut at_end: HashMap<Block, AvailableValues> = HashMap::new();
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    for block in cfg.reverse_postorder() {
        let mut available = match cfg.predecessors(*block) {
            [predecessor] if cfg.is_reachable(*predecessor) && Some(*block) != body.entry => {
                at_end.get(predecessor).cloned().unwrap_or_default()
            }
            _ => AvailableValues::default(),
        };
        let mut data = std::mem::take(&mut body.blocks[*block]);
        data.insts.retain_mut(|inst| {
            inst.inst.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            let (Inst::Load(var), [result]) = (&inst.inst, &inst.results[..]) else {
                available.apply_inst(&inst.inst, pipeline);
                return true;
            };
            match available.vars.get(var) {
                Some(value) if body.values.get(*value) == body.values.get(*result) => {
                    renamed[result.index()] = Some(*value);
                    false
                }
                _ => {
                    available.vars.insert(*var, *result);
                    true
                }
            }
        });
        if let Some(term) = &data.term {
            available.apply_terminator(&term.term, pipeline);
        }
        body.blocks[*block] = data;
        // A larger set is dropped, because copying sets per block could take quadratic time.
        if available.vars.len() + available.valid.len() <= MAX_CARRIED {
            at_end.insert(*block, available);
        }
    }
    rename_values(body, &renamed);
}

#[derive(Clone, Default)]
struct AvailableValues {
    /// The value that a load of each variable would return.
    vars: HashMap<VarId, Value>,
    /// Known validity of headers.
    valid: HashMap<HeaderId, bool>,
}

impl AvailableValues {
    /// Updates the known values by the effect of an instruction: a store makes its value known,
    /// unless it is to a field of a header that may be invalid; other effects make values unknown.
    fn apply_inst(&mut self, inst: &Inst, pipeline: &Pipeline) {
        match inst {
            Inst::Store(var, value) => match pipeline.vars.get(*var).map(|v| v.kind) {
                Some(VarKind::Field(header, _)) if self.valid.get(&header) != Some(&true) => {
                    self.vars.remove(var);
                }
                Some(_) => {
                    self.vars.insert(*var, *value);
                }
                None => {}
            },
            // Making a valid header valid changes nothing.
            Inst::SetValid(h) if self.valid.get(h) == Some(&true) => {}
            Inst::SetValid(h) => self.invalidate_header(*h, Some(true), pipeline),
            Inst::SetInvalid(h) => self.invalidate_header(*h, Some(false), pipeline),
            Inst::CopyHeader { dst, src } => {
                let valid = self.valid.get(src).copied();
                self.invalidate_header(*dst, valid, pipeline);
            }
            Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
                self.invalidate_header(*h, Some(true), pipeline);
                self.invalidate_intrinsics(pipeline);
            }
            Inst::Advance(_) | Inst::Lookahead(_) | Inst::Verify(..) => self.invalidate_intrinsics(pipeline),
            Inst::Extern { args, .. } => {
                self.invalidate_intrinsics(pipeline);
                for var in args.iter().flat_map(|a| if let ExternArg::Vars(vars) = a { vars.as_slice() } else { &[] }) {
                    self.vars.remove(var);
                }
            }
            Inst::Const(_)
            | Inst::Load(_)
            | Inst::Unary(..)
            | Inst::Binary(..)
            | Inst::Cast(..)
            | Inst::Slice { .. }
            | Inst::Concat(..)
            | Inst::Select { .. }
            | Inst::IsValid(_)
            | Inst::PacketLength
            | Inst::InValueSet(..)
            | Inst::Emit(_) => {}
        }
    }

    /// Forgets the values of a header's fields and records its validity.
    fn invalidate_header(&mut self, header: HeaderId, valid: Option<bool>, p: &Pipeline) {
        let union = p.headers.get(header).and_then(|h| h.union).and_then(|u| p.unions.get(u));
        for member in union.map_or(&[header][..], |u| u.members.as_slice()) {
            for field in p.headers.get(*member).iter().flat_map(|h| &h.fields) {
                self.vars.remove(field);
            }
            self.valid.remove(member);
        }
        if let Some(valid) = valid {
            self.valid.insert(header, valid);
        }
    }

    /// Forgets the values of intrinsics, because the architecture may have written them.
    fn invalidate_intrinsics(&mut self, p: &Pipeline) {
        self.vars.retain(|var, _| p.vars.get(*var).is_some_and(|v| v.kind != VarKind::Intrinsic));
    }

    fn apply_terminator(&mut self, term: &Terminator, p: &Pipeline) {
        if let Terminator::Apply { table, .. } = term {
            self.invalidate_intrinsics(p);
            if let Some(var) = p.tables.get(*table).and_then(|t| t.meter_result) {
                self.vars.remove(&var);
            }
        }
    }
}
