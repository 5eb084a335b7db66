//! Values with the place in the file where they are written.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use std::borrow::Cow;
use std::fmt;

/// A place in the region file; line and column count from 1, in characters. Line 0 is "no place".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value and where it is written; for the value of an alias (`*a`) or of a merge (`<<: *a`), where that is. Compares by value alone.
#[derive(Clone, Debug, Default)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where it is.
    pub at: Position,
}

impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> std::ops::Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for At<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<T>::deserialize(deserializer)?;
        Ok(At { value, at: referenced.into() })
    }
}

/// A number and where it is written. Besides the place that problems name, it has that of its own digits, which an alias or a merge
/// takes from elsewhere, so that their form can be looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Number<T> {
    /// The value.
    pub value: T,
    /// Where it is, as in [`At`].
    pub at: Position,
    /// Where its digits are.
    pub(crate) digits: Position,
}

impl<T> std::ops::Deref for Number<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Number<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, defined } = Spanned::<T>::deserialize(deserializer)?;
        Ok(Number { value, at: referenced.into(), digits: defined.into() })
    }
}

impl<T: JsonSchema> JsonSchema for Number<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl Position {
    /// A place whose numbers may be larger than any file has.
    pub(crate) fn saturating(line: u64, column: u64) -> Position {
        let saturate = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: saturate(line), column: saturate(column) }
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
