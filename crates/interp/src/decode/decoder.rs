//! [`Decoder`]: a body while it is decoded: where its values are, and the code so far.

use crate::decode::error::Fault;
use crate::decode::layout::Layout;
use crate::program::{Code, Op, Origin, Pc, Reg};
use ir::{BlockCall, Body, Entity, Loc, Pipeline, Value, VarId};

/// How a body is decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// In few instructions.
    Short,
    /// An instruction for each of the IR (none for a constant), at least one for each block, and slots for each value
    /// that no other value or variable has.
    PerInstruction,
}

/// A body while it is decoded.
pub(super) struct Decoder<'a> {
    pub pipeline: &'a Pipeline,
    pub layout: &'a mut Layout,
    pub body: &'a Body,
    pub code: Code,
    pub form: Form,
    pub loc: Loc,
    pub origin: Origin,
    pub regs: Vec<Option<Reg>>,
    /// Position of each block in the order of emission.
    pub order: Vec<Option<usize>>,
    /// Where each label (block, or stretch of moves before one) starts.
    pub labels: Vec<Option<Pc>>,
    /// Moves and a jump that some edges need, to be emitted: label, edge.
    pub stubs: Vec<(u32, BlockCall)>,
}

impl Decoder<'_> {
    /// A value's slots. A use that no definition dominates is the verifier's to find; here it reads
    /// 0.
    pub fn value(&mut self, value: Value) -> Result<Reg, Fault> {
        let ty = *self.body.values.get(value).ok_or_else(|| format!("{value} does not exist"))?;
        let layout = &mut *self.layout;
        Ok(*self.regs[value.index()].get_or_insert_with(|| layout.value(ty)))
    }

    /// A variable's slots.
    pub fn var(&self, var: VarId) -> Result<Reg, Fault> {
        match self.pipeline.vars.get(var) {
            Some(_) => Ok(self.layout.var(var)),
            None => Err(format!("{var} does not exist")),
        }
    }

    /// Appends an instruction.
    pub fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
        self.code.locs.push(self.loc);
        self.code.origins.push(self.origin);
    }

    /// Appends a move.
    pub fn mov(&mut self, d: Reg, a: Reg) {
        match d.words {
            1 => self.emit(Op::Mov1 { d: d.slot, a: a.slot }),
            n => self.emit(Op::MovN { d: d.slot, a: a.slot, n }),
        }
    }
}
