//! Compile-time known values: numbers, enumeration members, objects and packages.

use crate::ast::Annotations;
use crate::hir::{self, Ty};
use crate::span::Span;
use num_bigint::BigInt;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A compile-time known value.
#[derive(Clone, Debug)]
pub(super) enum ConstValue {
    Int(BigInt),
    Bool(bool),
    Text(Arc<str>),
    /// Index into the errors of the program.
    Error(usize),
    Enum(hir::EnumId, usize),
    /// A parser or control.
    Object(ObjectInstanceId),
    Extern(ir::ExternId),
    Package(Rc<PackageInstance>),
    /// The `packet_in` or `packet_out` of the block.
    Packet,
    /// A struct, tuple or list.
    Tuple(Rc<[ConstValue]>),
    /// A missing `@optional` argument.
    Missing,
}

/// Index of an instantiated parser or control.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct ObjectInstanceId(u32);

impl ObjectInstanceId {
    /// The top level, outside of all objects.
    pub(super) const OUTSIDE: ObjectInstanceId = ObjectInstanceId(0);

    pub(super) fn from_index(index: usize) -> Self {
        ObjectInstanceId(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An instantiated parser or control.
#[derive(Clone, Debug)]
pub(super) struct ObjectInstance {
    /// Declaration; `None` for the top level.
    pub(super) decl: Option<hir::TypeDeclId>,
    /// Control-plane name, the prefix of the names of its tables; empty for the top level.
    pub(super) path: String,
    /// Prefix of the names of its variables.
    pub(super) scope: String,
    /// Constructor arguments.
    pub(super) arguments: HashMap<hir::LocalId, ConstValue>,
    /// Instances that it declares.
    pub(super) instances: HashMap<hir::InstanceId, ConstValue>,
    pub(super) tables: HashMap<hir::TableId, ir::TableId>,
    pub(super) actions: HashMap<hir::ActionId, ir::ActionId>,
    pub(super) value_sets: HashMap<hir::ValueSetId, ir::ValueSetId>,
    /// Substitution of type parameters.
    pub(super) subst: Rc<HashMap<hir::TypeParamId, Ty>>,
    /// Number of enclosing objects.
    pub(super) depth: usize,
}

impl ObjectInstance {
    /// Creates the top level.
    pub(super) fn outside() -> Self {
        ObjectInstance {
            decl: None,
            path: String::new(),
            scope: String::new(),
            arguments: HashMap::new(),
            instances: HashMap::new(),
            tables: HashMap::new(),
            actions: HashMap::new(),
            value_sets: HashMap::new(),
            subst: Rc::default(),
            depth: 0,
        }
    }
}

/// An instantiated package.
#[derive(Clone, Debug)]
pub(super) struct PackageInstance {
    pub(super) decl: hir::TypeDeclId,
    pub(super) args: Vec<ConstValue>,
    pub(super) span: Span,
}

/// Names of an instance.
#[derive(Clone, Debug)]
pub(super) struct InstanceName {
    /// Control-plane name.
    pub(super) path: String,
    /// Prefix of the names of its variables.
    pub(super) scope: String,
    /// Annotations.
    pub(super) annotations: Rc<Annotations>,
    /// Whether it is an argument of a package. Such an instance is named by its type, as in p4c.
    pub(super) by_type: bool,
}
