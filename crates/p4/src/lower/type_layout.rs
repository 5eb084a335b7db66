//! Layout of types: structure of their values.

use crate::hir::Ty;
use ir::{HeaderTypeId, Type};
use std::rc::Rc;
use std::sync::Arc;

/// A field of a struct, header or union, or an element of a tuple.
#[derive(Clone, Debug)]
pub(super) struct LayoutMember {
    /// Name; `f0`, `f1`, ... for tuple elements.
    pub(super) name: Arc<str>,
    /// Type, without type parameters.
    pub(super) ty: Ty,
}

/// Structure of the values of a type.
#[derive(Clone, Debug)]
pub(super) enum TypeLayout {
    Scalar(Type),
    /// A struct or tuple.
    Struct(Rc<[LayoutMember]>),
    Header(HeaderTypeId, Rc<[LayoutMember]>),
    Union(Rc<[LayoutMember]>),
    /// Element type and size.
    Stack(Ty, u32),
    /// Element type. The length is known only for a value.
    List(Ty),
    /// `int`, `string` or `match_kind`: compile-time only.
    CompileTime,
    Void,
    /// Externs, objects and types of rejected constructs.
    Opaque,
}
