//! Typed expressions.
//!
//! Names are resolved, implicit casts are explicit, overloads are chosen, arguments are in
//! parameter order and `...` is expanded. Every compile-time known value that does not depend on
//! constructor parameters is a literal.

use super::{
    ActionId, EnumId, ExternFnId, ExternId, FunctionId, InstanceId, LocalId, TableId, Ty, TypeDeclId, ValueSetId,
};
use crate::ast;
use crate::span::Span;
use num_bigint::BigInt;
use std::sync::Arc;

/// An expression with its type.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Kind.
    pub kind: ExprKind,
    /// Type.
    pub ty: Ty,
    /// Source span.
    pub span: Span,
}

/// Kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer of type bit, int, `int`, or a `type` / serialisable enum over one. The value is
    /// in the range of the type (signed types: negative if the top bit is set).
    Int(BigInt),
    /// A bool.
    Bool(bool),
    /// A string.
    Str(Arc<str>),
    /// A member of `error`: index into [`super::Program::errors`].
    Error(usize),
    /// A member of `match_kind`: index into [`super::Program::match_kinds`].
    MatchKind(usize),
    /// A member of an enumeration without underlying type, by its index. A member of a serialisable
    /// enum is an [`ExprKind::Int`] of the enum's type.
    EnumMember(EnumId, usize),
    /// A variable, parameter, or constructor parameter.
    Local(LocalId),
    /// An instance used as a value (constructor argument, table property).
    Instance(InstanceId),
    /// A nameless instance (constructor argument, table property, direct application).
    Construct(Box<Construct>),
    /// Field of a struct, header or union by index, or element of a tuple.
    Field(Box<Expr>, usize),
    /// Element of a stack (or list). The index is a literal or of an unsigned type.
    Index(Box<Expr>, Box<Expr>),
    /// `stack.next`, in parsers.
    StackNext(Box<Expr>),
    /// `stack.last`, in parsers.
    StackLast(Box<Expr>),
    /// `stack.lastIndex`, of type `bit<32>`.
    StackLastIndex(Box<Expr>),
    /// Bits `hi..=lo`.
    Slice {
        /// The value from which bits are selected.
        base: Box<Expr>,
        /// Number of the highest bit.
        hi: u32,
        /// Number of the lowest bit.
        lo: u32,
    },
    /// `base[lo+:width]` with a run-time `lo`.
    DynSlice {
        /// The value from which bits are selected.
        base: Box<Expr>,
        /// Number of the lowest bit.
        lo: Box<Expr>,
        /// Number of bits.
        width: u32,
    },
    /// `-`, `~` or `!`. The checker removes `+`.
    Unary(ast::UnaryOp, Box<Expr>),
    /// Any operator except `&&&` and `..`. `&&` and `||` evaluate the right side only if needed.
    /// Both sides have the same type except for `++` and shifts; a literal shift amount is a
    /// `bit<32>`.
    Binary(ast::BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A conversion to `Expr::ty`, explicit or implicit.
    Cast(Box<Expr>),
    /// A value of a tuple, list, struct, header (valid) or stack type: the elements in the order of
    /// declaration, and their evaluation order.
    Aggregate(Vec<Expr>, EvalOrder),
    /// `{#}`: an invalid header or union (all members invalid).
    InvalidHeader,
    /// The default value of the type (specification, "Default values": zero, first enum member or
    /// 0, NoError, invalid header, ...).
    Default,
    /// A call with a result, or a built-in method.
    Call(Box<Call>),
    /// `t.apply().hit`
    ApplyHit(TableId),
    /// `t.apply().miss`
    ApplyMiss(TableId),
}

/// A nameless instantiation `T<A>(args)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Construct {
    /// Instantiated type.
    pub what: Constructor,
    /// Type arguments.
    pub type_args: Vec<Ty>,
    /// Arguments in parameter order; `None` for a missing `@optional` one.
    pub args: Vec<Option<Expr>>,
    /// Source span.
    pub span: Span,
}

/// Instantiated type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Constructor {
    /// An extern's constructor by its index in [`super::Extern::constructors`].
    Extern(ExternId, usize),
    /// A parser, control or package.
    Object(TypeDeclId),
}

/// A call.
#[derive(Clone, PartialEq, Debug)]
pub struct Call {
    /// Called function or method.
    pub callee: Callee,
    /// Type arguments, given or inferred.
    pub type_args: Vec<Ty>,
    /// One for each parameter, in its order.
    pub args: Vec<CallArg>,
    /// Order in which the arguments are evaluated and copied out.
    pub order: EvalOrder,
    /// The whole call.
    pub span: Span,
}

/// Evaluation order of the arguments of a call or the elements of an aggregate: the source order
/// (specification, sections "Expression evaluation order" and "Calling convention"). Default values
/// come last.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EvalOrder(Vec<usize>);

impl EvalOrder {
    /// Derives the order from the source position of each element; `None` is a default value.
    pub fn of_places(places: &[Option<usize>]) -> Self {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|at| places[*at].unwrap_or(usize::MAX));
        if order.is_sorted() { EvalOrder::default() } else { EvalOrder(order) }
    }

    /// Returns the `len` element indices in evaluation order.
    pub fn positions(&self, len: usize) -> Vec<usize> {
        if self.is_by_position() { (0..len).collect() } else { self.0.clone() }
    }

    /// Returns whether the elements are evaluated from first to last.
    pub fn is_by_position(&self) -> bool {
        self.0.is_empty()
    }
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum CallArg {
    /// A value. For out and inout parameters it is an l-value of exactly the parameter's type.
    Expr(Expr),
    /// `_` for an out parameter.
    DontCare,
    /// A missing `@optional` argument.
    Missing,
}

/// Called function or method.
#[derive(Clone, PartialEq, Debug)]
pub enum Callee {
    /// A function of the program.
    Function(FunctionId),
    /// An extern function.
    ExternFunction(ExternFnId),
    /// An action, called directly.
    Action(ActionId),
    /// A method of an extern object, by its index in [`super::Extern::methods`].
    Method(ObjectRef, ExternId, usize),
    /// `apply` of a parser or control.
    Apply(ObjectRef),
    /// `apply` of a table with an unused result.
    ApplyTable(TableId),
    /// `h.isValid()`
    IsValid(Expr),
    /// `h.setValid()`
    SetValid(Expr),
    /// `h.setInvalid()`
    SetInvalid(Expr),
    /// `s.push_front(n)`
    PushFront(Expr, u32),
    /// `s.pop_front(n)`
    PopFront(Expr, u32),
    /// `x.minSizeInBits()` or a related method on a type with a size that depends on a type
    /// parameter. Other sizes are literals.
    SizeOf(SizeOf, Ty),
    /// A function of the initialiser block to which an abstract method of the object is bound.
    /// Calls from outside the block use `Method`.
    This(usize),
}

/// The size that a call computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum SizeOf {
    MinBits,
    MaxBits,
    MinBytes,
    MaxBytes,
}

/// The object on which a method is called.
#[derive(Clone, PartialEq, Debug)]
pub enum ObjectRef {
    /// A named instance.
    Instance(InstanceId),
    /// A parameter or constructor parameter (`packet_in`, a control passed to a constructor, ...).
    Local(LocalId),
    /// `C.apply(...)`, `C(args).apply(...)`.
    Construct(Box<Construct>),
}

/// One column of a key set.
#[derive(Clone, PartialEq, Debug)]
pub enum KeysetItem {
    /// Equal to a value.
    Value(Expr),
    /// `value &&& mask`
    Mask(Expr, Expr),
    /// `lo .. hi`
    Range(Expr, Expr),
    /// `_` or `default`
    Any,
    /// A member of the value set. One item covers all columns if the elements have a struct or
    /// tuple type.
    ValueSet(ValueSetId),
}
