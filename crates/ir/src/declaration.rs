//! Data common to all declarations: source position and control-plane identity.

/// A source position, for diagnostics and explanations. `line` and `column` count from 1; line 0 is
/// "no position".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct SourceLoc {
    /// Index into [`crate::Pipeline::files`].
    pub file: u16,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u16,
}

/// Control-plane identity of an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Preamble {
    /// Full control-plane name (`ingress.ipv4.routes`), after `@name`.
    pub name: String,
    /// Id given by `@id`, or 0: then P4Info computes one.
    pub id: u32,
    /// Annotations as P4Info shows them (`@my_hint("x" , 1)`), without `@name`, `@id`, `@brief` and
    /// `@description`, which have fields of their own. The annotations of an action profile
    /// (`@max_group_size` and the like) are included, because P4Info reads them.
    pub annotations: Vec<String>,
    /// `@brief` text.
    pub brief: String,
    /// `@description` text.
    pub description: String,
    /// `@hidden`: not part of the control-plane API.
    pub hidden: bool,
}

/// A type as P4Runtime's `P4DataTypeSpec` describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DataType {
    /// `bit<W>`.
    Bit(u32),
    /// `int<W>`.
    Int(u32),
    /// `varbit<W>`.
    Varbit(u32),
    /// `bool`.
    Bool,
    /// `error`.
    Error,
    /// Tuple or list of these types.
    Tuple(Vec<DataType>),
    /// A type with a name, see [`crate::Pipeline::named_types`].
    Named(String),
    /// A stack of a named header type or union, with its size.
    Stack(String, u32),
}
