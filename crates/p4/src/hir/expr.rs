//! Typed expressions.
//!
//! All names are resolved, implicit casts are explicit, overloads chosen, arguments in parameter order, `...` filled in,
//! and every compile-time-known value that does not depend on constructor parameters is a literal.

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
    /// Which.
    pub kind: ExprKind,
    /// Its type.
    pub ty: Ty,
    /// Where it is written.
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer of type bit, int, `int`, or a `type` / serialisable enum over one. In range of the type
    /// (signed types: negative where the top bit is set).
    Int(BigInt),
    /// A bool.
    Bool(bool),
    /// A string.
    Str(Arc<str>),
    /// A member of `error`: index into [`super::Program::errors`].
    Error(usize),
    /// A member of `match_kind`: index into [`super::Program::match_kinds`].
    MatchKind(usize),
    /// A member of an enumeration without underlying type: its index among the members. A member of a serialisable
    /// enum is an [`ExprKind::Int`] of the enum's type.
    EnumMember(EnumId, usize),
    /// A variable, parameter, or constructor parameter.
    Local(LocalId),
    /// An instance as a value (constructor arguments, table properties).
    Instance(InstanceId),
    /// A nameless instance (constructor arguments, table properties, direct application).
    Construct(Box<Construct>),
    /// Field of a struct, header, union by index, or element of a tuple.
    Field(Box<Expr>, usize),
    /// Element of a stack (or list); the index is of an unsigned type or a literal.
    Index(Box<Expr>, Box<Expr>),
    /// `stack.next` (parsers)
    StackNext(Box<Expr>),
    /// `stack.last` (parsers)
    StackLast(Box<Expr>),
    /// `stack.lastIndex`, bit<32>
    StackLastIndex(Box<Expr>),
    /// Bits `hi..=lo`.
    Slice {
        /// What is cut.
        base: Box<Expr>,
        /// Highest bit.
        hi: u32,
        /// Lowest bit.
        lo: u32,
    },
    /// `base[lo+:width]` whose `lo` is known at run time only.
    DynSlice {
        /// What is cut.
        base: Box<Expr>,
        /// Lowest bit.
        lo: Box<Expr>,
        /// Number of bits.
        width: u32,
    },
    /// `-`, `~`, `!` (`+` is gone).
    Unary(ast::UnaryOp, Box<Expr>),
    /// Any but `&&&` and `..`. `&&` and `||` evaluate the right side only if needed. Both sides are of one type, but
    /// for `++` and shifts; a literal shift amount is a `bit<32>`.
    Binary(ast::BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A conversion to `Expr::ty`, explicit or implicit.
    Cast(Box<Expr>),
    /// A value of a tuple, list, struct, header (valid) or stack type: one element each, in the
    /// order of declaration, and the order in which they are evaluated.
    Aggregate(Vec<Expr>, Order),
    /// `{#}`: an invalid header or union (all members invalid).
    InvalidHeader,
    /// The default value of the type (spec "default values": zero, first enum member or 0, NoError, invalid header, ...).
    Default,
    /// A call with a result, or a method of the language.
    Call(Box<Call>),
    /// `t.apply().hit`
    ApplyHit(TableId),
    /// `t.apply().miss`
    ApplyMiss(TableId),
}

/// A nameless instantiation `T<A>(args)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Construct {
    /// What is instantiated.
    pub what: Constructor,
    /// Type arguments of it.
    pub type_args: Vec<Ty>,
    /// Arguments in parameter order; `None` for a missing `@optional` one.
    pub args: Vec<Option<Expr>>,
    /// Where.
    pub span: Span,
}

/// What is instantiated.
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
    /// What is called.
    pub callee: Callee,
    /// Type arguments, given or inferred.
    pub type_args: Vec<Ty>,
    /// One for each parameter, in its order.
    pub args: Vec<CallArg>,
    /// The order in which the arguments are evaluated, and copied out.
    pub order: Order,
    /// The whole call.
    pub span: Span,
}

/// The order in which the arguments of a call, or the elements of an aggregate, are evaluated:
/// that of the text (specification, sections "Expression evaluation order" and "Calling
/// convention"). What the text leaves to a default value comes last.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Order(Vec<usize>);

impl Order {
    /// By the place in the text that each position was given; `None` if the text gives it nothing.
    pub fn of_places(places: &[Option<usize>]) -> Self {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|at| places[*at].unwrap_or(usize::MAX));
        if order.is_sorted() { Order::default() } else { Order(order) }
    }

    /// The positions, `len` of them, in order of evaluation.
    pub fn positions(&self, len: usize) -> Vec<usize> {
        if self.is_by_position() { (0..len).collect() } else { self.0.clone() }
    }

    /// Whether evaluation goes from the first position to the last.
    pub fn is_by_position(&self) -> bool {
        self.0.is_empty()
    }
}

/// An argument.
#[derive(Clone, PartialEq, Debug)]
pub enum CallArg {
    /// A value; for out and inout parameters an l-value of exactly the parameter's type.
    Expr(Expr),
    /// `_` for an out parameter.
    DontCare,
    /// A missing `@optional` argument.
    Missing,
}

/// What is called.
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
    /// `apply` of a table, whose result is not used.
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
    /// `x.minSizeInBits()` and its kind, where the size depends on a type parameter; else it is a literal.
    SizeOf(SizeOf, Ty),
    /// A function of the initialiser block that the object's abstract method is bound to; called through `Method`
    /// otherwise.
    This(usize),
}

/// Which size is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum SizeOf {
    MinBits,
    MaxBits,
    MinBytes,
    MaxBytes,
}

/// The object that a method is called on.
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
    /// A member of the value set (all columns at once if it has a struct or tuple type).
    ValueSet(ValueSetId),
}
