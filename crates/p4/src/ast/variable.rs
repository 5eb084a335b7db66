//! Declarations of values: constants, variables and parameters.

use super::{Annotations, Expr, Ident, Span, Type};

/// Direction of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Direction {
    /// No direction: a compile-time known value, or control-plane data of an action.
    #[default]
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

impl Direction {
    /// Returns the direction as written; empty for [`Direction::None`].
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::None => "",
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct Param {
    /// Annotations, such as `@optional`.
    pub annotations: Annotations,
    /// The direction.
    pub direction: Direction,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The default value of `T x = e`.
    pub default: Option<Expr>,
    /// The whole parameter.
    pub span: Span,
}

/// `const T x = e;`
#[derive(Clone, PartialEq, Debug)]
pub struct ConstDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: Expr,
    /// The whole declaration.
    pub span: Span,
}

/// `T x;` or `T x = e;`
#[derive(Clone, PartialEq, Debug)]
pub struct VarDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The type.
    pub ty: Type,
    /// The name.
    pub name: Ident,
    /// The initial value.
    pub init: Option<Expr>,
    /// The whole declaration.
    pub span: Span,
}
