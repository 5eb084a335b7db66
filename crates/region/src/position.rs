//! Values with the place in the file where they are written.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

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
        let Positioned { value, referenced, .. } = Positioned::deserialize(deserializer)?;
        Ok(At { value, at: referenced })
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
        let Positioned { value, referenced, defined } = Positioned::deserialize(deserializer)?;
        Ok(Number { value, at: referenced, digits: defined })
    }
}

/// The newtype that readers are asked for where a position is wanted. One that knows it
/// ([`crate::plain`]) gives a list: the value, and a number of 64 bits, line and column. Of any
/// other it is a value as [`Spanned`] asks for it.
pub(crate) const POSITIONED: &str = "region::Positioned";

struct Positioned<T> {
    value: T,
    referenced: Position,
    defined: Position,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Positioned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueAndPosition<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ValueAndPosition<T> {
            type Value = Positioned<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                let Spanned { value, referenced, defined } = Spanned::<T>::deserialize(deserializer)?;
                Ok(Positioned { value, referenced: referenced.into(), defined: defined.into() })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let value = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let at: u64 = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                let at = Position { line: (at >> 32) as u32, column: at as u32 };
                Ok(Positioned { value, referenced: at, defined: at })
            }
        }
        deserializer.deserialize_newtype_struct(POSITIONED, ValueAndPosition(PhantomData))
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
    /// The place with so many lines more in front of it.
    #[must_use]
    pub fn shifted(self, lines: i64) -> Position {
        let line = i64::from(self.line).saturating_add(lines).max(0);
        Position { line: u32::try_from(line).unwrap_or(u32::MAX), column: self.column }
    }

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
