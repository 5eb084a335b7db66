//! Where values are used last and variables are written: whether a load can be the variable itself.

use crate::decode::call;
use ir::{Block, Body, Entity, Inst, Pipeline, Value, VarId, VarKind};
use std::collections::HashMap;

/// For each value, the only block that uses it and the last position there.
pub(super) struct LastUses {
    uses: HashMap<Value, (Block, usize, bool)>,
}

impl LastUses {
    pub fn new(body: &Body, blocks: &[Block]) -> LastUses {
        let mut uses: HashMap<Value, (Block, usize, bool)> = HashMap::new();
        for block in blocks {
            let data = &body.blocks[*block];
            let mut note = |value: Value, position: usize| {
                let entry = uses.entry(value).or_insert((*block, position, true));
                entry.2 &= entry.0 == *block;
                entry.1 = position;
            };
            for (position, data) in data.insts.iter().enumerate() {
                call::for_each_operand(&data.inst, |value| note(value, position));
            }
            if let Some(term) = &data.term {
                call::for_each_term_operand(&term.term, |value| note(value, data.insts.len()));
            }
        }
        LastUses { uses }
    }

    /// The last use, if all are in this block.
    pub fn within(&self, block: Block, value: Value) -> Option<usize> {
        self.uses.get(&value).filter(|(b, _, only)| *b == block && *only).map(|(_, position, _)| *position)
    }
}

/// Where a block writes variables.
pub(super) struct Writes {
    stores: HashMap<VarId, Vec<usize>>,
    /// Positions at which whole headers, or anything, may change.
    headers: Vec<usize>,
    anything: Vec<usize>,
    field: Vec<bool>,
}

impl Writes {
    pub fn new(pipeline: &Pipeline, insts: &[ir::InstData]) -> Writes {
        let is_field = |v: &ir::Var| matches!(v.kind, VarKind::Field(..));
        let field = pipeline.vars.values().map(is_field).collect();
        let mut writes = Writes { stores: HashMap::new(), headers: Vec::new(), anything: Vec::new(), field };
        for (position, data) in insts.iter().enumerate() {
            match &data.inst {
                Inst::Store(var, _) => writes.stores.entry(*var).or_default().push(position),
                Inst::SetValid(_)
                | Inst::SetInvalid(_)
                | Inst::CopyHeader { .. }
                | Inst::Extract(_)
                | Inst::ExtractVarbit(..) => writes.headers.push(position),
                Inst::Extern { func, .. } if call::writes_variables(*func) => writes.anything.push(position),
                _ => {}
            }
        }
        writes
    }

    /// Whether the variable may be written after `from` and before `to`.
    pub fn between(&self, var: VarId, from: usize, to: usize) -> bool {
        let any = |positions: &[usize]| positions.iter().any(|p| *p > from && *p < to);
        let is_field = self.field.get(var.index()).copied().unwrap_or(true);
        any(&self.anything) || is_field && any(&self.headers) || self.stores.get(&var).is_some_and(|s| any(s))
    }
}
