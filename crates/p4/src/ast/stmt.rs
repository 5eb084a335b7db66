//! Statements, and declarations that occur among or contain statements.

use super::{Annotations, Arg, BinaryOp, ConstDecl, Expr, Ident, Param, Span, Type, TypeParam, VarDecl};

/// A statement, or a declaration in a block.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Kind.
    pub kind: StmtKind,
    /// The whole statement including its semicolon.
    pub span: Span,
}

/// Syntactic forms of a statement.
#[derive(Clone, PartialEq, Debug)]
pub enum StmtKind {
    /// `target = value;` or `target op= value;`
    Assign {
        /// The assigned l-value.
        target: Expr,
        /// The operator of `op=`; `None` for `=`.
        op: Option<BinaryOp>,
        /// Span of `=` or `op=`.
        op_span: Span,
        /// The value.
        value: Expr,
    },
    /// A call for its effect. The expression is an [`super::ExprKind::Call`]. In wrong programs it
    /// can be a [`super::ExprKind::Construct`] or [`super::ExprKind::Error`].
    Call(Expr),
    /// `T.apply(args);` or `T<A>.apply(args);`: instantiates a parser or control without
    /// constructor arguments and applies it in place.
    DirectApply {
        /// Type of the parser or control.
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
        /// Executed if true.
        then_branch: Box<Stmt>,
        /// Executed if false.
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
    /// A constant declared in the block.
    Const(ConstDecl),
    /// A variable declared in the block.
    Var(VarDecl),
    /// An instance declared in a block. The parser accepts it so that the checker can reject it
    /// with a good message.
    Instance(InstanceDecl),
    /// A text that could not be parsed as a statement. An error was reported.
    Error,
}

/// `{ ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct Block {
    /// Annotations before the brace.
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
    /// The block; `None` falls through to the next label.
    pub block: Option<Block>,
    /// The whole case.
    pub span: Span,
}

/// `for (init; condition; update) body`
#[derive(Clone, PartialEq, Debug)]
pub struct ForStmt {
    /// Annotations before `for`, such as `@unroll`.
    pub annotations: Annotations,
    /// Declarations and assignments before the loop.
    pub init: Vec<Stmt>,
    /// Loop condition.
    pub condition: Expr,
    /// Executed after each iteration.
    pub update: Vec<Stmt>,
    /// The body.
    pub body: Stmt,
}

/// `for (T x in collection) body`
#[derive(Clone, PartialEq, Debug)]
pub struct ForInStmt {
    /// Annotations before `for`.
    pub annotations: Annotations,
    /// Annotations of the variable.
    pub var_annotations: Annotations,
    /// Type of the variable.
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
    /// The instantiated type.
    pub ty: Type,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// Name of the instance.
    pub name: Ident,
    /// The block that implements abstract methods.
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
