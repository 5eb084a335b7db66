//! Last uses of values and writes of variables, which decide whether a load can use the variable
//! itself.

use ir::{Block, Body, Entity, ExternArg, ExternFn, Inst, Pipeline, Terminator, Value, VarId, VarKind};
use std::collections::HashMap;

/// For each value, its last use and whether all uses are in one block.
pub(super) struct LastUses {
    uses: HashMap<Value, (Block, usize, bool)>,
}

impl LastUses {
    /// Finds the uses of values in these blocks, which are in the order of their code. A use has
    /// the position of its instruction in the block; the terminator comes after the last one.
    pub fn new(body: &Body, blocks: &[Block]) -> LastUses {
        let mut uses: HashMap<Value, (Block, usize, bool)> = HashMap::new();
        for block in blocks {
            let data = &body.blocks[*block];
            let mut note_use = |value: Value, position: usize| {
                let entry = uses.entry(value).or_insert((*block, position, true));
                entry.2 &= entry.0 == *block;
                entry.1 = position;
            };
            for (position, data) in data.insts.iter().enumerate() {
                for_each_operand(&data.inst, |value| note_use(value, position));
            }
            if let Some(term) = &data.term {
                for_each_term_operand(&term.term, |value| note_use(value, data.insts.len()));
            }
        }
        LastUses { uses }
    }

    /// Returns the position of the last use, if all uses are in this block.
    pub fn last_in_block(&self, block: Block, value: Value) -> Option<usize> {
        self.uses.get(&value).filter(|(b, _, only)| *b == block && *only).map(|(_, position, _)| *position)
    }
}

/// Positions at which a block writes variables.
pub(super) struct VariableWrites {
    stores: HashMap<VarId, Vec<usize>>,
    /// Positions that can change any field of a header.
    headers: Vec<usize>,
    anything: Vec<usize>,
    field: Vec<bool>,
}

impl VariableWrites {
    /// Finds the instructions of one block that write variables.
    pub fn new(pipeline: &Pipeline, insts: &[ir::InstData]) -> VariableWrites {
        let is_field = |v: &ir::Var| matches!(v.kind, VarKind::Field(..));
        let field = pipeline.vars.values().map(is_field).collect();
        let mut writes = VariableWrites { stores: HashMap::new(), headers: Vec::new(), anything: Vec::new(), field };
        for (position, data) in insts.iter().enumerate() {
            match &data.inst {
                Inst::Store(var, _) => writes.stores.entry(*var).or_default().push(position),
                Inst::SetValid(_)
                | Inst::SetInvalid(_)
                | Inst::CopyHeader { .. }
                | Inst::Extract(_)
                | Inst::ExtractVarbit(..) => writes.headers.push(position),
                Inst::Extern { func, .. } if writes_variables(*func) => writes.anything.push(position),
                _ => {}
            }
        }
        writes
    }

    /// Returns whether the variable can be written after `from` and before `to`.
    pub fn has_write_between(&self, var: VarId, from: usize, to: usize) -> bool {
        let any = |positions: &[usize]| positions.iter().any(|p| *p > from && *p < to);
        let is_field = self.field.get(var.index()).copied().unwrap_or(true);
        any(&self.anything) || is_field && any(&self.headers) || self.stores.get(&var).is_some_and(|s| any(s))
    }
}

/// Returns whether the function itself sets variables of the program (the architecture's metadata).
fn writes_variables(func: ExternFn) -> bool {
    matches!(func, ExternFn::MarkToDrop | ExternFn::VerifyChecksum | ExternFn::VerifyChecksumWithPayload)
}

/// Calls `visit` for each value that the instruction reads.
fn for_each_operand(inst: &Inst, mut visit: impl FnMut(Value)) {
    match inst {
        Inst::Store(_, a)
        | Inst::Unary(_, a)
        | Inst::Cast(_, a)
        | Inst::Slice { value: a, .. }
        | Inst::ExtractVarbit(_, a)
        | Inst::Advance(a) => visit(*a),
        Inst::Binary(_, a, b) | Inst::Concat(a, b) | Inst::Verify(a, b) => {
            visit(*a);
            visit(*b);
        }
        Inst::Select { cond, then, els } => [*cond, *then, *els].into_iter().for_each(visit),
        Inst::InValueSet(_, keys) => keys.iter().copied().for_each(visit),
        Inst::Extern { args, .. } => {
            for arg in args {
                match arg {
                    ExternArg::Value(value) => visit(*value),
                    ExternArg::Values(values) => values.iter().copied().for_each(&mut visit),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Calls `visit` for each value that the terminator reads.
fn for_each_term_operand(term: &Terminator, mut visit: impl FnMut(Value)) {
    match term {
        Terminator::Jump(target) => target.args.iter().copied().for_each(visit),
        Terminator::Branch { cond, then, els } => {
            visit(*cond);
            then.args.iter().chain(&els.args).copied().for_each(visit);
        }
        Terminator::Switch { value, cases, default } => {
            visit(*value);
            for (_, target) in cases {
                target.args.iter().copied().for_each(&mut visit);
            }
            default.args.iter().copied().for_each(visit);
        }
        Terminator::Apply { keys, .. } => keys.iter().copied().for_each(visit),
        Terminator::Return | Terminator::Exit | Terminator::Reject => {}
    }
}
