//! State of inlined calls: name bindings, and actions at their end.

use super::const_value::{ConstValue, ObjectInstanceId};
use super::storage::Storage;
use super::value::{LValue, RValue};
use crate::hir::{self, LocalId, Ty};
use crate::span::Span;
use ir::{Block, Value};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Current meaning of a variable or parameter.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// Storage.
    Storage(Storage),
    /// A value that is never assigned.
    Value(RValue),
    /// A compile-time known value: a packet, an object.
    Const(ConstValue),
}

/// Object, name scope and type substitution of the lowered code.
#[derive(Clone, Debug)]
pub(super) struct LoweringContext {
    pub(super) current_object: ObjectInstanceId,
    pub(super) scope: String,
    pub(super) subst: Rc<HashMap<hir::TypeParamId, Ty>>,
}

/// An inlined call of a function, action, control or parser.
#[derive(Debug, Default)]
pub(super) struct InlineFrame {
    /// Block to which `return` jumps; created on demand.
    pub(super) ret: Option<Block>,
    /// Type and target of the returned value.
    pub(super) result: Option<(Ty, ReturnTarget)>,
    /// Copies to the caller's l-values at the end, including an end by `exit`.
    pub(super) copy_outs: Vec<CopyOut>,
    /// Block in which `exit` performs the copies; created on demand.
    pub(super) exit: Option<Block>,
    /// Loops around the current statement.
    pub(super) loops: Vec<LoopTargets>,
    /// Bindings to restore after the call.
    pub(super) saved: Vec<(LocalId, Option<Binding>)>,
    /// Storage to release after the call.
    pub(super) owned: Vec<(LocalId, Storage)>,
    /// Variables that are already declared.
    pub(super) declared: HashSet<LocalId>,
}

/// Target of a returned value.
#[derive(Clone, Debug)]
pub(super) enum ReturnTarget {
    /// Parameter of the return block.
    Param(Value),
    Storage(Storage),
}

/// Targets of `break` and `continue`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopTargets {
    pub(super) on_break: Block,
    pub(super) on_continue: Block,
}

/// A copy-out to the caller.
#[derive(Clone, Debug)]
pub(super) struct CopyOut {
    pub(super) to: LValue,
    pub(super) from: Storage,
    pub(super) ty: Ty,
    pub(super) span: Span,
}

/// Bindings of the parameters of a call.
#[derive(Debug, Default)]
pub(super) struct BoundParams {
    pub(super) bindings: Vec<(LocalId, Binding)>,
    pub(super) copy_outs: Vec<CopyOut>,
    pub(super) owned: Vec<(LocalId, Storage)>,
}

/// An argument evaluated before its call.
#[derive(Clone, Debug)]
pub(super) enum PreparedArg {
    /// Value for an `in` parameter.
    Value(RValue),
    /// L-value for an `out` or `inout` parameter.
    LValue(LValue),
}
