//! Deserializes keys of a region file for which serde's default is too lenient.
//!
//! A key without a value (`from:` and nothing after it) is an empty list if the list is optional,
//! and an error everywhere else. Such a key comes from a template with an empty variable. Read as
//! "any", it would open a network.

use crate::item_list::ItemList;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The text of a name as written: `300` and `no` are names, although YAML reads them as other
/// types.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NameText(Box<str>);

impl<'de> Deserialize<'de> for NameText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = NameText;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            /// Stores only one character more than a name can have, because aliases can repeat a
            /// name any number of times. That is enough to detect that it is too long.
            fn visit_str<E: Error>(self, text: &str) -> Result<NameText, E> {
                let most = crate::check::MAX_NAME + 1;
                let kept = if text.len() <= most { text.into() } else { text.chars().take(most).collect::<String>() };
                Ok(NameText(kept.into_boxed_str()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl std::ops::Deref for NameText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NameText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for NameText {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let most = crate::check::MAX_NAME - 1;
        json_schema!({
            "type": ["string", "number", "boolean"],
            "pattern": format!("^[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{most}}}$"),
        })
    }
}

/// Deserializes an optional key, which must have a value if it is present.
pub(crate) fn non_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Deserializes an optional mapping without required keys. A key without a value is none, although YAML reads
/// it like an empty mapping: generators write one for what they do not have.
pub(crate) fn non_null_mapping<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)?.map(Some).ok_or_else(|| D::Error::custom(NO_MAPPING))
}

/// Deserializes an optional list. A key without a value is an empty list, because generators write
/// one if they have no items.
pub(crate) fn optional_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(ListVisitor { may_be_null: true, items: PhantomData })
}

/// Deserializes an optional list, as [`optional_list`], into an [`ItemList`].
pub(crate) fn item_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<ItemList<T>, D::Error> {
    optional_list(deserializer).map(ItemList::from)
}

/// Deserializes a required list. A single item without brackets is an error.
pub(crate) fn required_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(ListVisitor { may_be_null: false, items: PhantomData })
}

/// Deserializes a list with a default that is not empty. If it is present, it has a value.
pub(crate) fn present_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    required_list(deserializer).map(Some)
}

struct ListVisitor<T> {
    may_be_null: bool,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(list)
    }
    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        if self.may_be_null { Ok(Vec::new()) } else { Err(E::custom(NO_VALUE)) }
    }
}

/// The message about an optional mapping without a value.
pub(crate) const NO_MAPPING: &str = "a mapping without a value";

/// The message about a required list without a value.
pub(crate) const NO_VALUE: &str = "a list without a value";
