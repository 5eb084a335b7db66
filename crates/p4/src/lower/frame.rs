//! Calls that are being lowered: what names stand for in them, and what happens when they end.

use super::known::{Known, ObjectId};
use super::place::Place;
use super::value::{Access, Val};
use crate::hir::{self, LocalId, Ty};
use crate::span::Span;
use ir::{Block, Value};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What a variable or parameter stands for at the moment.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// Storage.
    Place(Place),
    /// A value that nothing assigns to.
    Val(Val),
    /// Something known at compile time: a packet, an object.
    Known(Known),
}

/// What names mean in the code that is lowered.
#[derive(Clone, Debug)]
pub(super) struct Context {
    pub(super) this: ObjectId,
    pub(super) scope: String,
    pub(super) subst: Rc<HashMap<hir::TypeParamId, Ty>>,
}

/// An activation of a function, action, control or parser.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Where `return` goes, made when first needed.
    pub(super) ret: Option<Block>,
    /// What `return` gives, and to where.
    pub(super) result: Option<(Ty, ResultTo)>,
    /// What is copied back to the caller's l-values at the end, also at the end by `exit`.
    pub(super) copy_outs: Vec<CopyOut>,
    /// Where `exit` copies them, made when first needed.
    pub(super) exit: Option<Block>,
    /// The loops around the statement at hand.
    pub(super) loops: Vec<LoopTargets>,
    /// Bindings that hold again after the activation.
    pub(super) saved: Vec<(LocalId, Option<Binding>)>,
    /// Storage that is free again after the activation.
    pub(super) owned: Vec<(LocalId, Place)>,
    /// The variables whose declaration was met.
    pub(super) declared: HashSet<LocalId>,
}

/// Where a result goes.
#[derive(Clone, Debug)]
pub(super) enum ResultTo {
    /// The parameter of the return block.
    Param(Value),
    Place(Place),
}

/// Where `break` and `continue` go.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoopTargets {
    pub(super) on_break: Block,
    pub(super) on_continue: Block,
}

/// A copy back to the caller.
#[derive(Clone, Debug)]
pub(super) struct CopyOut {
    pub(super) to: Access,
    pub(super) from: Place,
    pub(super) ty: Ty,
    pub(super) span: Span,
}

/// Parameters, bound.
#[derive(Debug, Default)]
pub(super) struct Bound {
    pub(super) bindings: Vec<(LocalId, Binding)>,
    pub(super) copy_outs: Vec<CopyOut>,
    pub(super) owned: Vec<(LocalId, Place)>,
}

/// An argument that was evaluated before its call.
#[derive(Clone, Debug)]
pub(super) enum Prepared {
    /// Of an `in` parameter.
    Val(Val),
    /// Of an `out` or `inout` parameter: the l-value, saved.
    Access(Access),
}
