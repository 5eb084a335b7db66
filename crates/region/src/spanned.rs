//! Values with their positions in the region file.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Position in the region file: line and column, from 1, in characters. Line 0 means "no position".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SourcePos {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl fmt::Display for SourcePos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value with its position. For a value that comes through an alias (`*a`) or a merge (`<<: *a`),
/// this is the position of the alias or merge. Compares by value only.
#[derive(Clone, Debug, Default)]
pub struct WithPos<T> {
    /// The value.
    pub value: T,
    /// The position of the value.
    pub at: SourcePos,
}

impl<T: PartialEq> PartialEq for WithPos<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> std::ops::Deref for WithPos<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for WithPos<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ValueAndPos { value, referenced, .. } = ValueAndPos::deserialize(deserializer)?;
        Ok(WithPos { value, at: referenced })
    }
}

/// A number with its position. Also has the position of its digits, which differs from `at` for an
/// alias or a merge, because the check of number notation reads the digits in the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberWithPos<T> {
    /// The value.
    pub value: T,
    /// The position of the number, as in [`WithPos`].
    pub at: SourcePos,
    /// The position of its digits.
    pub(crate) digits: SourcePos,
}

impl<T> std::ops::Deref for NumberWithPos<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NumberWithPos<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ValueAndPos { value, referenced, defined } = ValueAndPos::deserialize(deserializer)?;
        Ok(NumberWithPos { value, at: referenced, digits: defined })
    }
}

/// Name of the newtype that requests a value with its position from a deserializer. The reader of
/// plain items ([`crate::plain`]) recognizes it and returns a list of the value and a 64-bit
/// number: line in the upper half, column in the lower. Any other deserializer sees the newtype of
/// a [`Spanned`] value.
pub(crate) const POSITIONED: &str = "region::Positioned";

struct ValueAndPos<T> {
    value: T,
    referenced: SourcePos,
    defined: SourcePos,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ValueAndPos<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueAndPosition<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ValueAndPosition<T> {
            type Value = ValueAndPos<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
                let Spanned { value, referenced, defined } = Spanned::<T>::deserialize(deserializer)?;
                Ok(ValueAndPos { value, referenced: referenced.into(), defined: defined.into() })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
                let value = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(0, &self))?;
                let at: u64 = parts.next_element()?.ok_or_else(|| A::Error::invalid_length(1, &self))?;
                let at = SourcePos { line: (at >> 32) as u32, column: at as u32 };
                Ok(ValueAndPos { value, referenced: at, defined: at })
            }
        }
        deserializer.deserialize_newtype_struct(POSITIONED, ValueAndPosition(PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for NumberWithPos<T> {
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

impl SourcePos {
    /// Returns the position after `lines` lines were inserted before it.
    #[must_use]
    pub fn shifted(self, lines: i64) -> SourcePos {
        let line = i64::from(self.line).saturating_add(lines).max(0);
        SourcePos { line: u32::try_from(line).unwrap_or(u32::MAX), column: self.column }
    }

    /// Creates a position from numbers that can exceed 32 bits.
    pub(crate) fn saturating(line: u64, column: u64) -> SourcePos {
        let saturate = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        SourcePos { line: saturate(line), column: saturate(column) }
    }
}

impl<T: JsonSchema> JsonSchema for WithPos<T> {
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
