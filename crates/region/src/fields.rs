//! How keys of a region file are read where serde's own way is too lenient.
//!
//! A key without a value (`from:` and nothing behind it) is an empty list where a list may be left out, and is refused everywhere
//! else. It is what a template leaves behind whose variable is empty: read as "anything", such a rule would open a network.

use crate::item_list::ItemList;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// The text of a name, as it is written: `300` and `no` are names, whatever else YAML takes them for.
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
            /// No more is kept than it takes to see that a name is too long, because aliases may repeat it any number of times.
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

/// A key that may be left out, but has a value if it is there.
pub(crate) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A list that may be left out; without a value it is empty, as generators write it that found nothing to list.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(List { may_be_null: true, items: PhantomData })
}

/// As [`list`], for a long one.
pub(crate) fn item_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<ItemList<T>, D::Error> {
    list(deserializer).map(ItemList::from)
}

/// A list that has to be there. A single item without brackets is none.
pub(crate) fn items<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(List { may_be_null: false, items: PhantomData })
}

struct List<T> {
    may_be_null: bool,
    items: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
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

/// The message about a list that has to be there and has no value.
pub(crate) const NO_VALUE: &str = "a list without a value";
