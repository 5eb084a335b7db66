//! What is known when the program is instantiated: numbers, enumeration members, objects and packages.

use crate::ast::Annotations;
use crate::hir::{self, Ty};
use crate::span::Span;
use num_bigint::BigInt;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// Something known when the program is instantiated.
#[derive(Clone, Debug)]
pub(super) enum Known {
    Int(BigInt),
    Bool(bool),
    Text(Arc<str>),
    /// Index into the program's errors.
    Error(usize),
    Enum(hir::EnumId, usize),
    /// A parser or control.
    Object(ObjectId),
    Extern(ir::ExternId),
    Package(Rc<Package>),
    /// `packet_in` or `packet_out` of the block.
    Packet,
    /// Of a struct, tuple or list.
    Tuple(Rc<[Known]>),
    /// A missing `@optional` argument.
    Missing,
}

/// An instantiated parser or control.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct ObjectId(u32);

impl ObjectId {
    /// The top level, outside all objects.
    pub(super) const OUTSIDE: ObjectId = ObjectId(0);

    pub(super) fn from_index(index: usize) -> Self {
        ObjectId(index as u32)
    }

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An instantiated parser or control.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Its declaration; `None` for the top level.
    pub(super) decl: Option<hir::TypeDeclId>,
    /// Control-plane name, which those of its tables begin with; empty for the top level.
    pub(super) path: String,
    /// Name of its variables' prefix.
    pub(super) scope: String,
    /// Its constructor's arguments.
    pub(super) arguments: HashMap<hir::LocalId, Known>,
    /// The instances it declares.
    pub(super) instances: HashMap<hir::InstanceId, Known>,
    pub(super) tables: HashMap<hir::TableId, ir::TableId>,
    pub(super) actions: HashMap<hir::ActionId, ir::ActionId>,
    pub(super) value_sets: HashMap<hir::ValueSetId, ir::ValueSetId>,
    /// What the type parameters mean in it.
    pub(super) subst: Rc<HashMap<hir::TypeParamId, Ty>>,
    /// How many objects it is in.
    pub(super) depth: usize,
}

impl Object {
    /// The top level.
    pub(super) fn outside() -> Self {
        Object {
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
pub(super) struct Package {
    pub(super) decl: hir::TypeDeclId,
    pub(super) args: Vec<Known>,
    pub(super) span: Span,
}

/// What an instance is called.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    /// Control-plane name.
    pub(super) path: String,
    /// What its variables' names begin with.
    pub(super) scope: String,
    /// Its annotations.
    pub(super) annotations: Rc<Annotations>,
    /// Whether it is an argument of a package: then it is called by its type, as other compilers do.
    pub(super) by_type: bool,
}
