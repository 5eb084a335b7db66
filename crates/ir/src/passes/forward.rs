//! Loads of what is known already: the value stored last, or loaded last with nothing in between that could change it.
//!
//! Knowledge is kept along straight lines: through a block, and into a block that has one way in. A field of a header needs care:
//! a store to it has no effect while the header is invalid, and so counts only where the header is known to be valid; whatever
//! changes the validity of a header makes its fields (and those of its union's other members) unknown.

use crate::body::{Arg, Body, Inst, Term};
use crate::cfg::Cfg;
use crate::entity::{Block, Entity, HeaderId, Value, VarId};
use crate::passes::thread::rename_values;
use crate::pipeline::{Pipeline, VarKind};
use std::collections::HashMap;

/// More than so much is not carried from block to block, so that time stays linear.
const MAX_CARRIED: usize = 256;

pub(super) fn run(pipeline: &mut Pipeline) {
    let mut controls = std::mem::take(&mut pipeline.controls);
    for control in controls.values_mut() {
        body(&mut control.body, pipeline);
    }
    pipeline.controls = controls;
}

fn body(body: &mut Body, pipeline: &Pipeline) {
    let cfg = Cfg::new(body);
    let mut at_end: HashMap<Block, Knowledge> = HashMap::new();
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    for block in cfg.reverse_postorder() {
        let mut known = match cfg.predecessors(*block) {
            [only] if cfg.is_reachable(*only) && Some(*block) != body.entry => {
                at_end.get(only).cloned().unwrap_or_default()
            }
            _ => Knowledge::default(),
        };
        let mut data = std::mem::take(&mut body.blocks[*block]);
        data.insts.retain_mut(|inst| {
            inst.inst.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            let (Inst::Load(var), [result]) = (&inst.inst, &inst.results[..]) else {
                known.inst(&inst.inst, pipeline);
                return true;
            };
            match known.vars.get(var) {
                Some(value) if body.values.get(*value) == body.values.get(*result) => {
                    renamed[result.index()] = Some(*value);
                    false
                }
                _ => {
                    known.vars.insert(*var, *result);
                    true
                }
            }
        });
        if let Some(term) = &data.term {
            known.term(&term.term, pipeline);
        }
        body.blocks[*block] = data;
        if known.vars.len() + known.valid.len() <= MAX_CARRIED {
            at_end.insert(*block, known);
        }
    }
    rename_values(body, &renamed);
}

#[derive(Clone, Default)]
struct Knowledge {
    /// What a load of the variable would give.
    vars: HashMap<VarId, Value>,
    /// Whether the header is valid.
    valid: HashMap<HeaderId, bool>,
}

impl Knowledge {
    fn inst(&mut self, inst: &Inst, p: &Pipeline) {
        match inst {
            Inst::Store(var, value) => match p.vars.get(*var).map(|v| v.kind) {
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
            Inst::SetValid(h) => self.header(*h, Some(true), p),
            Inst::SetInvalid(h) => self.header(*h, Some(false), p),
            Inst::CopyHeader { dst, src } => {
                let valid = self.valid.get(src).copied();
                self.header(*dst, valid, p);
            }
            Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
                self.header(*h, Some(true), p);
                self.forget_intrinsics(p);
            }
            Inst::Advance(_) | Inst::Lookahead(_) | Inst::Verify(..) => self.forget_intrinsics(p),
            Inst::Extern { args, .. } => {
                self.forget_intrinsics(p);
                for var in args.iter().flat_map(|a| if let Arg::Vars(vars) = a { vars.as_slice() } else { &[] }) {
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

    /// Nothing is known of a header's fields any more; its validity is.
    fn header(&mut self, header: HeaderId, valid: Option<bool>, p: &Pipeline) {
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

    /// The architecture may have written its own metadata.
    fn forget_intrinsics(&mut self, p: &Pipeline) {
        self.vars.retain(|var, _| p.vars.get(*var).is_some_and(|v| v.kind != VarKind::Intrinsic));
    }

    fn term(&mut self, term: &Term, p: &Pipeline) {
        if let Term::Apply { table, .. } = term {
            self.forget_intrinsics(p);
            if let Some(var) = p.tables.get(*table).and_then(|t| t.meter_result) {
                self.vars.remove(&var);
            }
        }
    }
}
