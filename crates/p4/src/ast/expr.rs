//! Expressions, and types as written. They share a module because each can contain the other.

use super::{BinaryOp, Ident, Path, Span, UnaryOp};
use num_bigint::BigInt;
use std::sync::Arc;

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// Kind.
    pub kind: ExprKind,
    /// The whole expression, including parentheses around it.
    pub span: Span,
}

/// Syntactic forms of an expression.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// An integer literal.
    Int(IntLiteral),
    /// `true`, `false`
    Bool(bool),
    /// A string literal: the text between the quotes as written. P4 gives escapes no meaning.
    Str(Arc<str>),
    /// `...`: the default value of the type, or of the remaining fields.
    Dots,
    /// `_`: an ignored `out` argument, or a key set that matches everything.
    DontCare,
    /// `default` in a key set or as a switch label.
    Default,
    /// `this`, in the abstract methods of an instance.
    This,
    /// `{#}`: an invalid header or union.
    InvalidHeader,
    /// A name of a value, function, action, table, instance, ...
    Name(Path),
    /// A type in place of a value. Occurs only as the base of [`ExprKind::Member`] (`E.first`,
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
        /// The element index.
        index: Box<Expr>,
    },
    /// `base[hi:lo]`: bits `lo` to `hi`, both included.
    Slice {
        /// The value from which bits are selected.
        base: Box<Expr>,
        /// Number of the highest bit.
        hi: Box<Expr>,
        /// Number of the lowest bit.
        lo: Box<Expr>,
    },
    /// `base[lo+:width]`: `width` bits from bit `lo` up.
    PlusSlice {
        /// The value from which bits are selected.
        base: Box<Expr>,
        /// Number of the lowest bit.
        lo: Box<Expr>,
        /// Number of bits.
        width: Box<Expr>,
    },
    /// A prefix operator.
    Unary {
        /// The operator.
        op: UnaryOp,
        /// The operand.
        operand: Box<Expr>,
    },
    /// An infix operator. Includes `&&&` and `..` in key sets and `..` in for-in loops.
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Span of the operator.
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
        /// The converted value.
        operand: Box<Expr>,
    },
    /// `callee<type_args>(args)`: function, method, action, `apply`, ...
    Call {
        /// The called function or method.
        callee: Box<Expr>,
        /// Type arguments; empty if none were written.
        type_args: Vec<Type>,
        /// Arguments.
        args: Vec<Arg>,
    },
    /// `T(args)` or `T<A>(args)`: an instance without a name.
    Construct {
        /// The instantiated type.
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
        /// Span of `...`, if it was written.
        rest: Option<Span>,
    },
    /// A text that could not be parsed as an expression. An error was reported; later stages must
    /// stay silent about it.
    Error,
}

/// An integer literal, e.g. `42`, `8w0xFF`, `4s7`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntLiteral {
    /// The value as written (never negative, not truncated to the width).
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
    /// Whether the prefix is `s` (two's complement) instead of `w`.
    pub is_signed: bool,
}

/// An argument of a call or constructor.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// The parameter name in `name = value`.
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
    /// Whether a tuple `(a, b)` was written. Otherwise there is exactly one element, and `default`
    /// or `_` covers all columns.
    pub is_tuple: bool,
    /// The whole key set.
    pub span: Span,
}

/// A use of a type.
#[derive(Clone, PartialEq, Debug)]
pub struct Type {
    /// Kind.
    pub kind: TypeKind,
    /// The whole reference.
    pub span: Span,
}

/// Syntactic forms of a type. Widths and sizes are expressions that the checker evaluates.
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
    /// `void`, allowed only as a result type or a type argument.
    Void,
    /// `_` as a type argument: inferred or ignored.
    DontCare,
    /// `int`: arbitrary precision.
    InfInt,
    /// `bit<W>` or `bit<(W)>`. `bit` without a width means `bit<1>`.
    Bit(Option<Box<Expr>>),
    /// `int<W>`: two's complement with W bits.
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
