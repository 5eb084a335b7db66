//! [`BodyDecoder`]: state of the decoding of one body.

use crate::decode::error::DecodeFault;
use crate::decode::layout::RegisterLayout;
use crate::program::{BlockCode, InstIndex, InstOrigin, Op, Reg};
use ir::{BlockCall, Body, Entity, Pipeline, SourceLoc, Value, VarId};

/// Granularity of the decoded code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeGranularity {
    /// As few instructions as possible.
    Short,
    /// One instruction for each IR instruction (none for a constant) and at least one for each
    /// block. Each value has words of its own that it shares with no other value or variable.
    PerInstruction,
}

/// State of the decoding of one body: the registers of values and the code emitted up to now.
pub(super) struct BodyDecoder<'a> {
    pub pipeline: &'a Pipeline,
    pub layout: &'a mut RegisterLayout,
    pub body: &'a Body,
    pub code: BlockCode,
    pub form: CodeGranularity,
    pub loc: SourceLoc,
    pub origin: InstOrigin,
    pub regs: Vec<Option<Reg>>,
    /// Position of each block in the order of emission.
    pub order: Vec<Option<usize>>,
    /// First instruction of each label. A label is a block or a stub, i.e. a sequence of moves on
    /// an edge.
    pub labels: Vec<Option<InstIndex>>,
    /// Stubs still to emit for edges that need moves and a jump: label, edge.
    pub stubs: Vec<(u32, BlockCall)>,
}

impl BodyDecoder<'_> {
    /// Returns the register of a value.
    ///
    /// A use that no definition dominates reads 0 here, because the verifier reports it.
    pub fn value(&mut self, value: Value) -> Result<Reg, DecodeFault> {
        let ty = *self.body.values.get(value).ok_or_else(|| format!("{value} does not exist"))?;
        let layout = &mut *self.layout;
        Ok(*self.regs[value.index()].get_or_insert_with(|| layout.alloc_value(ty)))
    }

    /// Returns the register of a variable.
    pub fn var(&self, var: VarId) -> Result<Reg, DecodeFault> {
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
    pub fn emit_move(&mut self, d: Reg, a: Reg) {
        match d.words {
            1 => self.emit(Op::Mov1 { d: d.first_word, a: a.first_word }),
            n => self.emit(Op::MovN { d: d.first_word, a: a.first_word, n }),
        }
    }
}
