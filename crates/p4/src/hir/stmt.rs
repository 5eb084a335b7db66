//! Typed statements.

use super::{Call, Expr, InstanceId, KeysetItem, LocalId, TableId};
use crate::ast;
use crate::span::Span;

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Which.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// A block with its own scope.
    Block(Vec<Stmt>),
    /// A variable comes into being; without initialiser it is zero (headers: invalid).
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
        /// What is compared.
        on: Expr,
        /// The cases, `default` among them.
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
        /// What is iterated over.
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

/// What `for (v in ...)` iterates over.
#[derive(Clone, PartialEq, Debug)]
pub enum ForRange {
    /// From the first to the second, both included, evaluated once.
    Range(Expr, Expr),
    /// The elements of a stack or list.
    Elements(Expr),
}

/// A case of a switch over a table's action: the fall-through labels are gathered.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchActionCase {
    /// Indices into [`super::Table::actions`].
    pub actions: Vec<usize>,
    /// Whether `default` is among the labels.
    pub default: bool,
    /// The statement; `None` when the last labels have none.
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
    /// Which.
    pub kind: TransitionKind,
    /// Where.
    pub span: Span,
}

/// Where a state goes.
#[derive(Clone, PartialEq, Debug)]
pub enum TransitionKind {
    /// Always there.
    State(StateRef),
    /// By value. If no case matches: error NoMatch, reject.
    Select {
        /// Scalars (struct and tuple arguments are flattened).
        exprs: Vec<Expr>,
        /// In order; the first that matches.
        cases: Vec<SelectCase>,
    },
}

/// A case of a select.
#[derive(Clone, PartialEq, Debug)]
pub struct SelectCase {
    /// One column for each expression, or a single `Any` or `ValueSet` for all of them.
    pub keyset: Vec<KeysetItem>,
    /// Where it goes.
    pub target: StateRef,
    /// Where it is written.
    pub span: Span,
}

/// A parser state as a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StateRef {
    /// Index into [`super::ParserBody::states`].
    State(usize),
    /// `accept`
    Accept,
    /// `reject`
    Reject,
}
