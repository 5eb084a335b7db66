//! The values that instructions and terminators use, and the blocks that terminators lead to.

use crate::body::{Arg, BlockCall, Body, Inst, Term};
use crate::entity::{Block, Value};
use crate::types::Type;

impl Body {
    /// Type of a value; of one that does not exist (the verifier refuses it) `bit<0>`.
    pub fn value_type(&self, value: Value) -> Type {
        self.values.get(value).copied().unwrap_or(Type::Bit(0))
    }
}

impl Inst {
    /// Whether the instruction does nothing but compute. A lookahead may find too little data, so it is not one; nor are externs, most
    /// of which have state.
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
        // One walk serves reading and rewriting; the copy is a few words (or one short list for extern calls).
        self.clone().for_each_use_mut(|v| f(*v));
    }

    /// Replaces each value that the instruction uses.
    pub fn map_values(&mut self, mut f: impl FnMut(Value) -> Value) {
        self.for_each_use_mut(|v| *v = f(*v));
    }

    /// Calls `f` for each place in the instruction that holds a used value.
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
                        Arg::Value(v) => f(v),
                        Arg::Values(values) => values.iter_mut().for_each(&mut f),
                        Arg::Str(_) | Arg::Vars(_) | Arg::Table(_) | Arg::Action(_) => {}
                    }
                }
            }
        }
    }
}

impl Term {
    /// Calls `f` for each value that the terminator uses, in order, repeats included.
    pub fn for_each_use(&self, mut f: impl FnMut(Value)) {
        match self {
            Term::Branch { cond, .. } => f(*cond),
            Term::Switch { value, .. } => f(*value),
            Term::Apply { keys, .. } => keys.iter().copied().for_each(&mut f),
            Term::Jump(_) | Term::Return | Term::Exit | Term::Reject => {}
        }
        self.for_each_call(|call| call.args.iter().copied().for_each(&mut f));
    }

    /// Replaces each value that the terminator uses.
    pub fn map_values(&mut self, mut f: impl FnMut(Value) -> Value) {
        match self {
            Term::Branch { cond, .. } => *cond = f(*cond),
            Term::Switch { value, .. } => *value = f(*value),
            Term::Apply { keys, .. } => keys.iter_mut().for_each(|k| *k = f(*k)),
            Term::Jump(_) | Term::Return | Term::Exit | Term::Reject => {}
        }
        self.for_each_call_mut(|call| call.args.iter_mut().for_each(|a| *a = f(*a)));
    }

    /// Calls `f` for each jump with arguments; not for the arms of a table application, whose targets take what the table gives.
    pub fn for_each_call(&self, mut f: impl FnMut(&BlockCall)) {
        match self {
            Term::Jump(call) => f(call),
            Term::Branch { then, els, .. } => {
                f(then);
                f(els);
            }
            Term::Switch { cases, default, .. } => {
                cases.iter().for_each(|(_, call)| f(call));
                f(default);
            }
            Term::Apply { .. } | Term::Return | Term::Exit | Term::Reject => {}
        }
    }

    /// As [`Term::for_each_call`], to rewrite them.
    pub fn for_each_call_mut(&mut self, mut f: impl FnMut(&mut BlockCall)) {
        match self {
            Term::Jump(call) => f(call),
            Term::Branch { then, els, .. } => {
                f(then);
                f(els);
            }
            Term::Switch { cases, default, .. } => {
                cases.iter_mut().for_each(|(_, call)| f(call));
                f(default);
            }
            Term::Apply { .. } | Term::Return | Term::Exit | Term::Reject => {}
        }
    }

    /// The blocks that may come next, in order, repeats included.
    pub fn successors(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        self.for_each_call(|call| blocks.push(call.block));
        if let Term::Apply { arms, .. } = self {
            blocks.extend(arms.iter().map(|arm| arm.block));
        }
        blocks
    }

    /// Replaces each block that may come next.
    pub fn map_blocks(&mut self, mut f: impl FnMut(Block) -> Block) {
        self.for_each_call_mut(|call| call.block = f(call.block));
        if let Term::Apply { arms, .. } = self {
            arms.iter_mut().for_each(|arm| arm.block = f(arm.block));
        }
    }
}
