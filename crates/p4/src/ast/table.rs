//! Tables.

use super::{Annotations, Arg, Expr, Ident, Keyset, Path, Span};

/// `table t { ... }`
#[derive(Clone, PartialEq, Debug)]
pub struct TableDecl {
    /// Annotations.
    pub annotations: Annotations,
    /// The name.
    pub name: Ident,
    /// The properties in the order written.
    pub properties: Vec<TableProperty>,
    /// The whole declaration.
    pub span: Span,
}

/// A property of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TableProperty {
    /// Annotations.
    pub annotations: Annotations,
    /// Whether `const` was written.
    pub is_const: bool,
    /// The name: `key`, `actions`, `entries`, `default_action`, `size`, or any other.
    pub name: Ident,
    /// The value.
    pub value: PropertyValue,
    /// The whole property.
    pub span: Span,
}

/// The value of a table property.
#[derive(Clone, PartialEq, Debug)]
pub enum PropertyValue {
    /// `key = { ... }`
    Key(Vec<KeyElement>),
    /// `actions = { ... }`
    Actions(Vec<ActionRef>),
    /// `entries = { ... }`
    Entries(Vec<Entry>),
    /// Any other property, including `default_action` (a name or a call).
    Expr(Expr),
}

/// `expr: match_kind @annotations;`
#[derive(Clone, PartialEq, Debug)]
pub struct KeyElement {
    /// The key expression.
    pub expr: Expr,
    /// `exact`, `lpm`, ...
    pub match_kind: Ident,
    /// Annotations, such as `@name`.
    pub annotations: Annotations,
    /// The whole element.
    pub span: Span,
}

/// An action in a table's list or in an entry: `a` or `a(args)`.
#[derive(Clone, PartialEq, Debug)]
pub struct ActionRef {
    /// Annotations, such as `@tableonly`, `@defaultonly` (only in the list of actions).
    pub annotations: Annotations,
    /// The action.
    pub name: Path,
    /// Arguments; `None` if no parentheses were written.
    pub args: Option<Vec<Arg>>,
    /// The whole reference.
    pub span: Span,
}

/// `const priority=10: keyset : action(args) @annotations;`
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// Whether `const` was written before this entry.
    pub is_const: bool,
    /// The priority, if written.
    pub priority: Option<Expr>,
    /// The key set that the entry matches.
    pub keyset: Keyset,
    /// The action.
    pub action: ActionRef,
    /// Annotations.
    pub annotations: Annotations,
    /// The whole entry.
    pub span: Span,
}
