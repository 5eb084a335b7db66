//! The typed program: the output of checking and the input of lowering.
//!
//! Declarations live in arenas of [`Program`] and refer to each other by index. Annotations are
//! those of the syntax tree.

mod dump;
mod expr;
mod stmt;
mod ty;
mod verify;
mod walk;

pub use dump::dump;
pub use expr::*;
pub use stmt::*;
pub use ty::*;
pub use verify::verify;
pub use walk::{for_children, walk_call, walk_expr, walk_expr_mut, walk_stmts};

use crate::ast::{Annotations, Direction, StructKind};
use crate::span::Span;
use num_bigint::BigInt;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);
        impl $name {
            /// Returns the index into the arena.
            pub fn index(self) -> usize { self.0 as usize }
        }
    )*};
}

ids! {
    /// Index into [`Program::enums`].
    EnumId;
    /// Index into [`Program::structs`].
    StructId;
    /// Index into [`Program::newtypes`].
    NewTypeId;
    /// Index into [`Program::externs`].
    ExternId;
    /// Index into [`Program::extern_functions`].
    ExternFnId;
    /// Index into [`Program::functions`].
    FunctionId;
    /// Index into [`Program::actions`].
    ActionId;
    /// Index into [`Program::tables`].
    TableId;
    /// Index into [`Program::objects`].
    TypeDeclId;
    /// Index into [`Program::instances`].
    InstanceId;
    /// Index into [`Program::locals`].
    LocalId;
    /// Index into [`Program::value_sets`].
    ValueSetId;
    /// Index into [`Program::type_params`].
    TypeParamId;
}

/// A checked program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The types.
    pub types: Types,
    /// Names of type parameters.
    pub type_params: Vec<Arc<str>>,
    /// Enumerations.
    pub enums: Vec<Enum>,
    /// Structs, headers, unions.
    pub structs: Vec<Struct>,
    /// `type` declarations.
    pub newtypes: Vec<NewType>,
    /// Members of `error`, in order of declaration (core.p4's first).
    pub errors: Vec<Arc<str>>,
    /// Members of `match_kind`.
    pub match_kinds: Vec<Arc<str>>,
    /// Extern object types.
    pub externs: Vec<Extern>,
    /// Extern functions.
    pub extern_functions: Vec<Method>,
    /// Functions with a body, including those of initialiser blocks.
    pub functions: Vec<Function>,
    /// Actions, global and local.
    pub actions: Vec<Action>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Parsers, controls, packages and their types.
    pub objects: Vec<Object>,
    /// Named instances, global and local.
    pub instances: Vec<Instance>,
    /// All variables and parameters.
    pub locals: Vec<Local>,
    /// Value sets.
    pub value_sets: Vec<ValueSet>,
    /// Global instances in order, including `main`.
    pub globals: Vec<InstanceId>,
    /// The instance named `main`, if it is of a package type.
    pub main: Option<InstanceId>,
}

/// An enumeration.
#[derive(Clone, Debug)]
pub struct Enum {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// `bit<W>` or `int<W>` of a serialisable enum.
    pub underlying: Option<Ty>,
    /// Members; each has a value if and only if `underlying` is set.
    pub members: Vec<(Arc<str>, Option<BigInt>)>,
    /// Span of the declaration.
    pub span: Span,
}

/// A struct, header or union.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Struct, header or union.
    pub kind: StructKind,
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Type parameters; field types mention them as [`TyKind::Param`].
    pub type_params: Vec<TypeParamId>,
    /// Fields.
    pub fields: Vec<Field>,
    /// Span of the declaration.
    pub span: Span,
}

/// A field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name.
    pub name: Arc<str>,
    /// Type.
    pub ty: Ty,
    /// Annotations.
    pub annotations: Annotations,
    /// Unique numbers of its `@field_list` annotations (v1model), in the order written.
    pub field_lists: Vec<u32>,
    /// Span of the declaration.
    pub span: Span,
}

/// `type T X;`
#[derive(Clone, Debug)]
pub struct NewType {
    /// Name.
    pub name: Arc<str>,
    /// Annotations (`@p4runtime_translation`).
    pub annotations: Annotations,
    /// The underlying type.
    pub of: Ty,
    /// Span of the declaration.
    pub span: Span,
}

/// An extern object type.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Methods in order.
    pub methods: Vec<Method>,
    /// Constructors in order.
    pub constructors: Vec<Method>,
    /// Span of the declaration.
    pub span: Span,
}

/// A prototype: extern function, method or constructor.
#[derive(Clone, Debug)]
pub struct Method {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Own type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Parameters.
    pub params: Vec<LocalId>,
    /// Result; void for constructors.
    pub result: Ty,
    /// Whether the instance implements the method.
    pub is_abstract: bool,
    /// Span of the declaration.
    pub span: Span,
}

/// A function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name.
    pub name: Arc<str>,
    /// Type parameters.
    pub type_params: Vec<TypeParamId>,
    /// Parameters.
    pub params: Vec<LocalId>,
    /// Result.
    pub result: Ty,
    /// Body.
    pub body: Vec<Stmt>,
    /// Span of the declaration.
    pub span: Span,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Parameters; directionless ones last.
    pub params: Vec<LocalId>,
    /// Body.
    pub body: Vec<Stmt>,
    /// The control that declares it; `None` for a global action.
    pub owner: Option<TypeDeclId>,
    /// Span of the declaration.
    pub span: Span,
}

/// A parser, control or package, or a type of these.
#[derive(Clone, Debug)]
pub struct Object {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Type parameters. A parser or control with a body can have them, too;
    /// [`Construct::type_args`] contains their values.
    pub type_params: Vec<TypeParamId>,
    /// Parameters of `apply`; none for packages.
    pub params: Vec<LocalId>,
    /// Constructor parameters.
    pub constructor_params: Vec<LocalId>,
    /// Kind.
    pub kind: ObjectKind,
    /// Span of the declaration.
    pub span: Span,
}

/// Kind of an object.
#[derive(Clone, Debug)]
pub enum ObjectKind {
    /// `parser P(...);`
    ParserType,
    /// `control C(...);`
    ControlType,
    /// `package`
    Package,
    /// A parser with its body.
    Parser(ParserBody),
    /// A control with its body.
    Control(ControlBody),
}

/// A parser's body.
#[derive(Clone, Debug, Default)]
pub struct ParserBody {
    /// Declarations in order.
    pub locals: Vec<LocalDecl>,
    /// States in order.
    pub states: Vec<State>,
    /// Index of `start`.
    pub start: usize,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Statements.
    pub body: Vec<Stmt>,
    /// Next state.
    pub transition: Transition,
    /// Span of the declaration.
    pub span: Span,
}

/// A control's body.
#[derive(Clone, Debug, Default)]
pub struct ControlBody {
    /// Declarations in order.
    pub locals: Vec<LocalDecl>,
    /// The `apply` block.
    pub apply: Vec<Stmt>,
}

/// A declaration in a parser or control, except constants, which the checker replaces by their
/// values.
#[derive(Clone, Debug)]
pub enum LocalDecl {
    /// A variable, initialised at each application.
    Var(LocalId, Option<Expr>),
    /// An instance.
    Instance(InstanceId),
    /// An action.
    Action(ActionId),
    /// A table.
    Table(TableId),
    /// A value set.
    ValueSet(ValueSetId),
}

/// A named instance.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Constructor call.
    pub construct: Construct,
    /// Type.
    pub ty: Ty,
    /// Implementations of abstract methods: index of the method in the extern, and the function.
    pub methods: Vec<(usize, FunctionId)>,
    /// Instances of its initialiser block.
    pub members: Vec<InstanceId>,
    /// Span of the declaration.
    pub span: Span,
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Local {
    /// Name.
    pub name: Arc<str>,
    /// Type.
    pub ty: Ty,
    /// Kind.
    pub kind: LocalKind,
    /// Annotations.
    pub annotations: Annotations,
    /// Span of the declaration.
    pub span: Span,
}

/// Kind of a local.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalKind {
    /// A variable.
    Var,
    /// A parameter: its direction, default value, and whether it is `@optional`.
    Param(Direction, Option<Box<Expr>>, bool),
    /// A constructor parameter: its default value, and whether it is `@optional`. Known at
    /// instantiation.
    ConstructorParam(Option<Box<Expr>>, bool),
}

/// A parser value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// Type of an element.
    pub ty: Ty,
    /// Maximum number of elements: a literal, or an expression of constructor parameters.
    pub size: Expr,
    /// Span of the declaration.
    pub span: Span,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name.
    pub name: Arc<str>,
    /// Annotations.
    pub annotations: Annotations,
    /// The control that declares it.
    pub owner: TypeDeclId,
    /// Keys in order.
    pub keys: Vec<Key>,
    /// Actions in order. If the table has no default action and does not list `NoAction`, the
    /// checker appends it as `@defaultonly`.
    pub actions: Vec<TableAction>,
    /// Index into `actions`, and the directionless arguments.
    pub default_action: (usize, Vec<Expr>),
    /// `const default_action`
    pub const_default: bool,
    /// Entries in source order.
    pub entries: Vec<Entry>,
    /// `const entries`
    pub const_entries: bool,
    /// `size`: a literal, or an expression of constructor parameters.
    pub size: Option<Expr>,
    /// All other properties.
    pub properties: Vec<Property>,
    /// Span of the declaration.
    pub span: Span,
}

/// A key.
#[derive(Clone, Debug)]
pub struct Key {
    /// The key expression.
    pub expr: Expr,
    /// Index into [`Program::match_kinds`].
    pub match_kind: usize,
    /// Annotations.
    pub annotations: Annotations,
    /// Source span.
    pub span: Span,
}

/// An action in a table's list.
#[derive(Clone, Debug)]
pub struct TableAction {
    /// The action.
    pub action: ActionId,
    /// Arguments of its directional parameters, which come first.
    pub args: Vec<CallArg>,
    /// Order in which `args` are evaluated and copied out.
    pub order: EvalOrder,
    /// Annotations (`@tableonly`, `@defaultonly`, others).
    pub annotations: Annotations,
    /// Source span.
    pub span: Span,
}

/// An entry that the program declares.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One item for each matched key.
    pub keyset: Vec<KeysetItem>,
    /// Index into [`Table::actions`].
    pub action: usize,
    /// Directionless arguments.
    pub args: Vec<Expr>,
    /// The priority, if written.
    pub priority: Option<BigInt>,
    /// Whether the entry itself is `const`.
    pub is_const: bool,
    /// Annotations.
    pub annotations: Annotations,
    /// Source span.
    pub span: Span,
}

/// Another property of a table (`implementation`, `counters`, `meters`, `add_on_miss`,
/// `largest_priority_wins`, ...).
#[derive(Clone, Debug)]
pub struct Property {
    /// Name.
    pub name: Arc<str>,
    /// Annotations (`@name`).
    pub annotations: Annotations,
    /// `const`
    pub is_const: bool,
    /// The value; instances are [`ExprKind::Instance`] or [`ExprKind::Construct`]. `None` if the
    /// property is unknown and its value names nothing that exists.
    pub value: Option<Expr>,
    /// Source span.
    pub span: Span,
}
