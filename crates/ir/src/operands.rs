//! Visitors for operands of instructions and terminators, and for successors.

use crate::body::{BlockCall, Body, ExternArg, Inst, Terminator};
use crate::entity::{Block, Value};
use crate::types::Type;

impl Body {
    /// Returns the type of a value; `bit<0>` for one that does not exist (the verifier rejects it).
    pub fn value_type(&self, value: Value) -> Type {
        self.values.get(value).copied().unwrap_or(Type::Bit(0))
    }
}

impl Inst {
    /// Reports whether the instruction only computes its result. A lookahead is not pure, because
    /// it can fail for lack of data; externs are not, because most have state.
    pub fn is_pure(&self) -> bool {
        match self {
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
            | Inst::InValueSet(..) => true,
            Inst::Store(..)
            | Inst::SetValid(_)
            | Inst::SetInvalid(_)
            | Inst::CopyHeader { .. }
            | Inst::Extract(_)
            | Inst::ExtractVarbit(..)
            | Inst::Advance(_)
            | Inst::Lookahead(_)
            | Inst::Verify(..)
            | Inst::Emit(_)
            | Inst::Extern { .. } => false,
        }
    }
    /// Calls `f` for each value that the instruction uses, in order, repeats included.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        if let Inst::Const(_) = self {
            return;
        }
        // One visitor serves reading and rewriting. The copy is cheap: a few words (or one short
        // list for extern calls).
        self.clone().for_each_use_mut(|v| f(*v));
    }

    /// Replaces each value that the instruction uses.
    pub fn map_values(&mut self, mut f: impl FnMut(Value) -> Value) {
        self.for_each_use_mut(|v| *v = f(*v));
    }

    /// Calls `f` for each operand slot of the instruction.
    pub fn for_each_use_mut(&mut self, mut f: impl FnMut(&mut Value)) {
        match self {
            Inst::Const(_)
            | Inst::Load(_)
            | Inst::IsValid(_)
            | Inst::SetValid(_)
            | Inst::SetInvalid(_)
            | Inst::CopyHeader { .. }
            | Inst::Extract(_)
            | Inst::Lookahead(_)
            | Inst::PacketLength
            | Inst::Emit(_) => {}
            Inst::Store(_, v)
            | Inst::Unary(_, v)
            | Inst::Cast(_, v)
            | Inst::Slice { value: v, .. }
            | Inst::ExtractVarbit(_, v)
            | Inst::Advance(v) => f(v),
            Inst::Binary(_, a, b) | Inst::Concat(a, b) | Inst::Verify(a, b) => {
                f(a);
                f(b);
            }
            Inst::Select { cond, then, els } => {
                f(cond);
                f(then);
                f(els);
            }
            Inst::InValueSet(_, values) => values.iter_mut().for_each(f),
            Inst::Extern { args, .. } => {
                for arg in args {
                    match arg {
                        ExternArg::Value(v) => f(v),
                        ExternArg::Values(values) => values.iter_mut().for_each(&mut f),
                        ExternArg::Str(_) | ExternArg::Vars(_) | ExternArg::Table(_) | ExternArg::Action(_) => {}
                    }
                }
            }
        }
    }
}

impl Terminator {
    /// Calls `f` for each value that the terminator uses, in order, repeats included.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        match self {
            Terminator::Branch { cond, .. } => f(*cond),
            Terminator::Switch { value, .. } => f(*value),
            Terminator::Apply { keys, .. } => keys.iter().copied().for_each(&mut f),
            Terminator::Jump(_) | Terminator::Return | Terminator::Exit | Terminator::Reject => {}
        }
        self.for_each_call(|call| call.args.iter().copied().for_each(&mut f));
    }

    /// Replaces each value that the terminator uses.
    pub fn map_values(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Terminator::Branch { cond, .. } => *cond = f(*cond),
            Terminator::Switch { value, .. } => *value = f(*value),
            Terminator::Apply { keys, .. } => keys.iter_mut().for_each(|k| *k = f(*k)),
            Terminator::Jump(_) | Terminator::Return | Terminator::Exit | Terminator::Reject => {}
        }
        self.for_each_call_mut(|call| call.args.iter_mut().for_each(|a| *a = f(*a)));
    }

    /// Calls `f` for each jump with arguments. The arms of a table application are skipped, because
    /// the table supplies their arguments.
    pub fn for_each_call(&self, mut f: impl FnMut(&BlockCall)) {
        match self {
            Terminator::Jump(call) => f(call),
            Terminator::Branch { then, els, .. } => {
                f(then);
                f(els);
            }
            Terminator::Switch { cases, default, .. } => {
                cases.iter().for_each(|(_, call)| f(call));
                f(default);
            }
            Terminator::Apply { .. } | Terminator::Return | Terminator::Exit | Terminator::Reject => {}
        }
    }

    /// Calls `f` for each jump with arguments, for rewriting; see [`Terminator::for_each_call`].
    pub fn for_each_call_mut(&mut self, mut f: impl FnMut(&mut BlockCall)) {
        match self {
            Terminator::Jump(call) => f(call),
            Terminator::Branch { then, els, .. } => {
                f(then);
                f(els);
            }
            Terminator::Switch { cases, default, .. } => {
                cases.iter_mut().for_each(|(_, call)| f(call));
                f(default);
            }
            Terminator::Apply { .. } | Terminator::Return | Terminator::Exit | Terminator::Reject => {}
        }
    }

    /// Returns the successor blocks in order, repeats included.
    pub fn successors(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        self.for_each_call(|call| blocks.push(call.block));
        if let Terminator::Apply { arms, .. } = self {
            blocks.extend(arms.iter().map(|arm| arm.block));
        }
        blocks
    }

    /// Replaces each successor block.
    pub fn map_blocks(&mut self, mut f: impl FnMut(Block) -> Block) {
        self.for_each_call_mut(|call| call.block = f(call.block));
        if let Terminator::Apply { arms, .. } = self {
            arms.iter_mut().for_each(|arm| arm.block = f(arm.block));
        }
    }
}
