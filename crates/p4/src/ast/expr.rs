//! Expressions, and types as written: each is a part of the other.

use super::{BinaryOp, Ident, Path, Span, UnaryOp};
use num_bigint::BigInt;
use std::sync::Arc;

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Which expression.
    pub kind: ExprKind,
    /// The whole expression, with parentheses around it if any.
    pub span: Span,
}

/// The ways to write an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer literal.
    Int(IntLiteral),
    /// `true`, `false`
    Bool(bool),
    /// A string literal: the text between the quotes as written. P4 gives escapes no meaning.
    Str(Arc<str>),
    /// `...`: the default value of the type, or the rest of the fields.
    Dots,
    /// `_`: an `out` argument not cared for, or a key set that matches everything.
    DontCare,
    /// `default` in a key set or as a switch label.
    Default,
    /// `this`: in the abstract methods of an instance.
    This,
    /// `{#}`: the invalid header or union.
    InvalidHeader,
    /// A name of a value, function, action, table, instance, ...
    Name(Path),
    /// A type where a value is expected. Only as the base of [`ExprKind::Member`] (`E.first`,
    /// `error.NoError`, `P<T>.apply(...)`).
    Type(Box<Type>),
    /// `base.member`
    Member {
        /// A value, or a type ([`ExprKind::Type`]).
        base: Box<Expr>,
        /// The field, method or member.
        member: Ident,
    },
    /// `base[index]`
    Index {
        /// The stack, tuple or array.
        base: Box<Expr>,
        /// Which element.
        index: Box<Expr>,
    },
    /// `base[hi:lo]`: bits lo to hi, both included.
    Slice {
        /// The bits.
        base: Box<Expr>,
        /// Number of the highest bit.
        hi: Box<Expr>,
        /// Number of the lowest bit.
        lo: Box<Expr>,
    },
    /// `base[lo+:width]`: `width` bits from bit `lo` up.
    PlusSlice {
        /// The bits.
        base: Box<Expr>,
        /// Number of the lowest bit.
        lo: Box<Expr>,
        /// How many bits.
        width: Box<Expr>,
    },
    /// A prefix operator.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// What it applies to.
        operand: Box<Expr>,
    },
    /// An infix operator, also `&&&` and `..` of key sets and `..` of for-in.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Where the operator stands.
        op_span: Span,
        /// The left operand.
        left: Box<Expr>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// `condition ? yes : no`
    Mux {
        /// The condition.
        condition: Box<Expr>,
        /// Value if true.
        yes: Box<Expr>,
        /// Value if false.
        no: Box<Expr>,
    },
    /// `(ty) operand`
    Cast {
        /// The target type.
        ty: Box<Type>,
        /// What is converted.
        operand: Box<Expr>,
    },
    /// `callee<type_args>(args)`: function, method, action, `apply`, ...
    Call {
        /// What is called.
        callee: Box<Expr>,
        /// Type arguments; empty if none were written.
        type_args: Vec<Type>,
        /// Arguments.
        args: Vec<Arg>,
    },
    /// `T(args)` or `T<A>(args)`: an instance without a name.
    Construct {
        /// The type that is instantiated.
        ty: Box<Type>,
        /// Constructor arguments.
        args: Vec<Arg>,
    },
    /// `{a, b}`; a `...` at the end is an element of kind [`ExprKind::Dots`].
    List(Vec<Expr>),
    /// `{x = a, y = b}` or `{x = a, ...}`
    Struct {
        /// The fields in the order written; at least one.
        fields: Vec<NamedExpr>,
        /// Where `...` stands, if it was written.
        rest: Option<Span>,
    },
    /// Where no expression could be parsed. A diagnostic has been given; say nothing more about it.
    Error,
}

/// An integer literal, e.g. `42`, `8w0xFF`, `4s7`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntLiteral {
    /// The value as written (never negative, not yet cut to the width).
    pub value: BigInt,
    /// Width in bits and signedness of `8w1` / `8s1`; `None` for a literal of type `int`.
    pub width: Option<LiteralWidth>,
    /// The base of the digits: 2, 8, 10 or 16.
    pub base: u32,
}

/// The `8w` or `8s` of a literal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiteralWidth {
    /// Number of bits.
    pub bits: u32,
    /// `s` (two's complement) rather than `w`.
    pub signed: bool,
}

/// An argument of a call or constructor.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// The parameter's name, for `name = value`.
    pub name: Option<Ident>,
    /// The value; [`ExprKind::DontCare`] for `_`.
    pub value: Expr,
    /// The whole argument.
    pub span: Span,
}

/// `name = value` in a struct initialiser, an annotation's `[k = v]` list or an enum with values.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedExpr {
    /// The field, key or member.
    pub name: Ident,
    /// Its value.
    pub value: Expr,
    /// The whole pair.
    pub span: Span,
}

/// A key set of a select case or table entry.
#[derive(Clone, PartialEq, Debug)]
pub struct Keyset {
    /// One expression per column: a value, `a &&& b`, `a .. b`, [`ExprKind::Default`],
    /// [`ExprKind::DontCare`], or the name of a value set.
    pub elements: Vec<Expr>,
    /// Whether it was written as a tuple `(a, b)`; otherwise there is exactly one element, and `default` or `_`
    /// stands for all columns.
    pub tuple: bool,
    /// The whole key set.
    pub span: Span,
}

/// A type where it is used.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Which type.
    pub kind: TypeKind,
    /// The whole reference.
    pub span: Span,
}

/// The ways to write a type. Widths and sizes are expressions that the checker evaluates.
#[derive(Clone, PartialEq, Debug)]
pub enum TypeKind {
    /// `bool`
    Bool,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// `string`
    String,
    /// `void`: only a result type or a type argument.
    Void,
    /// `_` as a type argument: to be inferred or not cared for.
    DontCare,
    /// `int`: arbitrary precision.
    InfInt,
    /// `bit<W>`, `bit<(W)>`; without a width (`bit`) it means `bit<1>`.
    Bit(Option<Box<Expr>>),
    /// `int<W>`: two's complement of W bits.
    Int(Box<Expr>),
    /// `varbit<W>`: at most W bits.
    Varbit(Box<Expr>),
    /// A named type or type variable.
    Name(Path),
    /// A generic type with arguments, `T<A, B>`.
    Specialized {
        /// The generic type.
        base: Path,
        /// Its arguments.
        args: Vec<Type>,
    },
    /// `T[n]`: a header stack (or, since 1.2.5, an array).
    Stack {
        /// The type of one element.
        element: Box<Type>,
        /// The number of elements.
        size: Box<Expr>,
    },
    /// `tuple<A, B>`
    Tuple(Vec<Type>),
    /// `list<T>`
    List(Box<Type>),
}

/// A type parameter `T` of a generic declaration.
pub type TypeParam = Ident;
