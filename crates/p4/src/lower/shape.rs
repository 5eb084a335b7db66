//! What values of a type consist of.

use crate::hir::Ty;
use ir::{HeaderTypeId, Type};
use std::rc::Rc;
use std::sync::Arc;

/// A field of a struct, header or union; an element of a tuple.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Name; of tuple elements `f0`, `f1`, ...
    pub(super) name: Arc<str>,
    /// Type, without type parameters.
    pub(super) ty: Ty,
}

/// What values of a type consist of.
#[derive(Clone, Debug)]
pub(super) enum Shape {
    Scalar(Type),
    /// Structs and tuples.
    Struct(Rc<[Member]>),
    Header(HeaderTypeId, Rc<[Member]>),
    Union(Rc<[Member]>),
    /// Element type and size.
    Stack(Ty, u32),
    /// Element type; of known length only when there is a value.
    List(Ty),
    /// `int`, `string`, `match_kind`: compile time only.
    Known,
    Void,
    /// Externs, objects and what errors left behind.
    Opaque,
}
