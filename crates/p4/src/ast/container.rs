//! Parsers and controls.

use super::{
    ActionDecl, Annotations, Block, ConstDecl, Expr, Ident, InstanceDecl, Keyset, Param, Span, Stmt, TableDecl, Type,
    TypeParam, VarDecl,
};

/// A parser, or a parser's type.
#[derive(Clone, PartialEq, Debug)]
pub struct ParserDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// Type parameters; a parser with a body has none.
    pub type_params: Vec<TypeParam>,
    /// Run-time parameters (of `apply`).
    pub params: Vec<Param>,
    /// `None` for a type declaration (`parser P(...);`).
    pub body: Option<ParserBody>,
    /// The whole declaration.
    pub span: Span,
}

/// The text between a parser's braces.
#[derive(Clone, PartialEq, Debug)]
pub struct ParserBody {
    /// Constructor parameters.
    pub constructor_params: Vec<Param>,
    /// Declarations before the states.
    pub locals: Vec<Local>,
    /// The states.
    pub states: Vec<ParserState>,
    /// From brace to brace.
    pub span: Span,
}

/// A declaration in a parser or control.
#[derive(Clone, PartialEq, Debug)]
pub enum Local {
    /// `const T x = e;`
    Const(ConstDecl),
    /// `T x;`
    Var(VarDecl),
    /// `T(args) x;`
    Instance(InstanceDecl),
    /// `value_set<T>(n) x;` (parsers)
    ValueSet(ValueSetDecl),
    /// `action` (controls)
    Action(ActionDecl),
    /// `table` (controls)
    Table(TableDecl),
}

impl Local {
    /// Returns the declared name.
    pub fn name(&self) -> &Ident {
        match self {
            Local::Const(d) => &d.name,
            Local::Var(d) => &d.name,
            Local::Instance(d) => &d.name,
            Local::ValueSet(d) => &d.name,
            Local::Action(d) => &d.name,
            Local::Table(d) => &d.name,
        }
    }
}

/// `value_set<T>(size) name;`
#[derive(Clone, PartialEq, Debug)]
pub struct ValueSetDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// Type of an element.
    pub ty: Type,
    /// Maximum number of elements.
    pub size: Expr,
    /// The name.
    pub name: Ident,
    /// The whole declaration.
    pub span: Span,
}

/// `state s { ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct ParserState {
    /// Annotations.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// The transition; `None` (nothing written) means `reject`.
    pub transition: Option<Transition>,
    /// The whole state.
    pub span: Span,
}

/// `transition ...`
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    /// The next state.
    pub kind: TransitionKind,
    /// From `transition` to the end.
    pub span: Span,
}

/// Next state of a transition.
#[derive(Clone, PartialEq, Debug)]
pub enum TransitionKind {
    /// A fixed state.
    State(Ident),
    /// `select (exprs) { cases }`
    Select {
        /// The matched expressions.
        exprs: Vec<Expr>,
        /// The cases, in order.
        cases: Vec<SelectCase>,
    },
}

/// `keyset: state;`
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// The key set.
    pub keyset: Keyset,
    /// The next state.
    pub state: Ident,
    /// The whole case.
    pub span: Span,
}

/// A control, or a control's type.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// Type parameters; a control with a body has none.
    pub type_params: Vec<TypeParam>,
    /// Run-time parameters (of `apply`).
    pub params: Vec<Param>,
    /// `None` for a type declaration (`control C(...);`).
    pub body: Option<ControlBody>,
    /// The whole declaration.
    pub span: Span,
}

/// The text between a control's braces.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlBody {
    /// Constructor parameters.
    pub constructor_params: Vec<Param>,
    /// Declarations before `apply`.
    pub locals: Vec<Local>,
    /// The `apply` block.
    pub apply: Block,
    /// From brace to brace.
    pub span: Span,
}
