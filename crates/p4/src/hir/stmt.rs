//! Typed statements.

use super::{Call, Expr, InstanceId, KeysetItem, LocalId, TableId};
use crate::ast;
use crate::span::Span;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Kind.
    pub kind: StmtKind,
    /// Source span.
    pub span: Span,
}

/// Kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// A block with its own scope.
    Block(Vec<Stmt>),
    /// A variable declaration. Without initialiser the variable is zero (headers: invalid).
    Var(LocalId, Option<Expr>),
    /// An instance declared in a block.
    Instance(InstanceId),
    /// `left = right`, or `left op= right`.
    Assign {
        /// An l-value.
        left: Expr,
        /// The operator of an op-assignment.
        op: Option<ast::BinaryOp>,
        /// Value.
        right: Expr,
    },
    /// A call.
    Call(Box<Call>),
    /// `if`
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    /// `switch (t.apply().action_run)`
    SwitchAction {
        /// The table.
        table: TableId,
        /// The cases.
        cases: Vec<SwitchActionCase>,
    },
    /// `switch (expr)`
    SwitchValue {
        /// The compared value.
        on: Expr,
        /// The cases, including `default`.
        cases: Vec<SwitchValueCase>,
    },
    /// `for (init; cond; update) body`
    For {
        /// Declarations and assignments.
        init: Vec<Stmt>,
        /// Condition.
        cond: Expr,
        /// Updates.
        update: Vec<Stmt>,
        /// Body.
        body: Box<Stmt>,
    },
    /// `for (v in lo..hi) body`, or over the elements of a stack, list or tuple-like aggregate.
    ForIn {
        /// The loop variable.
        var: LocalId,
        /// The range or collection.
        over: ForRange,
        /// Body.
        body: Box<Stmt>,
    },
    /// `break`
    Break,
    /// `continue`
    Continue,
    /// `return`
    Return(Option<Expr>),
    /// `exit`
    Exit,
}

/// Range or collection of a `for (v in ...)` loop.
#[derive(Clone, PartialEq, Debug)]
pub enum ForRange {
    /// From the first to the second value, both included. Both are evaluated once.
    Range(Expr, Expr),
    /// The elements of a stack or list.
    Elements(Expr),
}

/// A case of a switch over a table's action, with all labels that fall through to it.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchActionCase {
    /// Indices into [`super::Table::actions`].
    pub actions: Vec<usize>,
    /// Whether `default` is among the labels.
    pub default: bool,
    /// The statement; `None` if the last labels have none.
    pub body: Option<Stmt>,
}

/// A case of a switch over a value.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchValueCase {
    /// Literals of the type of the switch expression.
    pub values: Vec<Expr>,
    /// Whether `default` is among the labels.
    pub default: bool,
    /// The statement.
    pub body: Option<Stmt>,
}

/// `transition`
#[derive(Clone, PartialEq, Debug)]
pub struct Transition {
    /// Kind.
    pub kind: TransitionKind,
    /// Source span.
    pub span: Span,
}

/// Next state of a transition.
#[derive(Clone, PartialEq, Debug)]
pub enum TransitionKind {
    /// A fixed state.
    State(StateRef),
    /// A state selected by value. If no case matches, the parser rejects with error NoMatch.
    Select {
        /// Scalars (struct and tuple arguments are flattened).
        exprs: Vec<Expr>,
        /// The cases in order; the first match wins.
        cases: Vec<SelectCase>,
    },
}

/// A case of a select.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// One item for each expression, or a single `Any` or `ValueSet` for all of them.
    pub keyset: Vec<KeysetItem>,
    /// Next state.
    pub target: StateRef,
    /// Source span.
    pub span: Span,
}

/// Target of a transition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateRef {
    /// Index into [`super::ParserBody::states`].
    State(usize),
    /// `accept`
    Accept,
    /// `reject`
    Reject,
}
