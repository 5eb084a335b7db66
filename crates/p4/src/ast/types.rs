//! Type references as written.

use super::{Expr, Ident, Path, Span};

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
