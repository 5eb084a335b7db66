//! Statements, and the declarations among them: an instance's initialiser has functions, which have statements.

use super::{Annotations, Arg, BinaryOp, ConstDecl, Expr, Ident, Param, Span, Type, TypeParam, VarDecl};

/// A statement, or a declaration in a block.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Which statement.
    pub kind: StmtKind,
    /// The whole statement with its semicolon.
    pub span: Span,
}

/// The ways to write a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `target = value;` or `target op= value;`
    Assign {
        /// What is assigned to.
        target: Expr,
        /// The operator of `op=`; `None` for `=`.
        op: Option<BinaryOp>,
        /// Where `=` or `op=` stands.
        op_span: Span,
        /// The value.
        value: Expr,
    },
    /// A call for its effect. The expression is an [`super::ExprKind::Call`] (or, in wrong programs, a
    /// [`super::ExprKind::Construct`], or [`super::ExprKind::Error`]).
    Call(Expr),
    /// `T.apply(args);` or `T<A>.apply(args);`: instantiates a parser or control without constructor
    /// arguments and applies it in place.
    DirectApply {
        /// The parser's or control's type.
        ty: Type,
        /// Arguments of `apply`.
        args: Vec<Arg>,
    },
    /// `{ ... }`
    Block(Block),
    /// `if (condition) then_branch else else_branch`
    If {
        /// The condition.
        condition: Expr,
        /// If true.
        then_branch: Box<Stmt>,
        /// If false.
        else_branch: Option<Box<Stmt>>,
    },
    /// `switch (subject) { ... }`
    Switch {
        /// `t.apply().action_run` or any expression with equality.
        subject: Expr,
        /// The cases, in order.
        cases: Vec<SwitchCase>,
    },
    /// `for (init; condition; update) body`
    For(Box<ForStmt>),
    /// `for (T x in collection) body`
    ForIn(Box<ForInStmt>),
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `return;` or `return value;`
    Return(Option<Expr>),
    /// `exit;`
    Exit,
    /// `;`
    Empty,
    /// A constant of the block.
    Const(ConstDecl),
    /// A variable of the block.
    Var(VarDecl),
    /// An instance in a block: accepted by the grammar, refused by the checker with a good message.
    Instance(InstanceDecl),
    /// Where no statement could be parsed. A diagnostic has been given.
    Error,
}

/// `{ ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Annotations in front of the brace.
    pub annotations: Annotations,
    /// The statements.
    pub stmts: Vec<Stmt>,
    /// From brace to brace.
    pub span: Span,
}

/// One label of a `switch`, with its block.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchCase {
    /// The label; [`super::ExprKind::Default`] for `default`.
    pub label: Expr,
    /// The block; `None` falls through to the next label's.
    pub block: Option<Block>,
    /// The whole case.
    pub span: Span,
}

/// `for (init; condition; update) body`
#[derive(Clone, PartialEq, Debug)]
pub struct ForStmt {
    /// Annotations in front of `for`, such as `@unroll`.
    pub annotations: Annotations,
    /// Declarations and assignments before the loop.
    pub init: Vec<Stmt>,
    /// Goes on while true.
    pub condition: Expr,
    /// After each turn.
    pub update: Vec<Stmt>,
    /// The body.
    pub body: Stmt,
}

/// `for (T x in collection) body`
#[derive(Clone, PartialEq, Debug)]
pub struct ForInStmt {
    /// Annotations in front of `for`.
    pub annotations: Annotations,
    /// Annotations of the variable.
    pub var_annotations: Annotations,
    /// The variable's type.
    pub ty: Type,
    /// The variable.
    pub var: Ident,
    /// A list, a stack, or a range ([`BinaryOp::Range`]).
    pub collection: Expr,
    /// The body.
    pub body: Stmt,
}

/// `T(args) x;` or `T(args) x = { ... };`
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceDecl {
    /// Annotations, such as `@name`.
    pub annotations: Annotations,
    /// The type that is instantiated.
    pub ty: Type,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// The instance's name.
    pub name: Ident,
    /// The block that implements abstract methods, if any was written.
    pub initializer: Option<Vec<ObjMember>>,
    /// The whole declaration.
    pub span: Span,
}

/// A member of an instance's initialiser block.
#[derive(Clone, PartialEq, Debug)]
pub enum ObjMember {
    /// An implementation of an abstract method.
    Function(FunctionDecl),
    /// An instance that the methods use.
    Instance(InstanceDecl),
}

/// `T f<X>(params) { ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct FunctionDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// Type of the result.
    pub result: Type,
    /// The name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Parameters.
    pub params: Vec<Param>,
    /// The body.
    pub body: Block,
    /// The whole declaration.
    pub span: Span,
}
