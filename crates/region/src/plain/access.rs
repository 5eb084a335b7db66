//! Serde deserializer for nodes of plain YAML.

use super::cursor::{NotPlain, PlainCursor, PlainScalar};
use crate::spanned::POSITIONED;
use crate::values::decimal;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

impl fmt::Display for NotPlain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not plain")
    }
}

impl std::error::Error for NotPlain {}

impl serde::de::Error for NotPlain {
    fn custom<T: fmt::Display>(_: T) -> NotPlain {
        NotPlain
    }
}

/// The position of a node in its parent. It determines the allowed node types and the end of the
/// node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeContext {
    /// In brackets.
    FlowCollection,
    /// Last on the line of its key; no block collection.
    KeyLine,
    /// Last on the line of its dash.
    ItemLine,
    /// On its own lines, as a block. Mappings start at this column or later.
    OwnLines(usize),
}

/// A value that starts at the cursor.
pub(super) struct PlainNode<'c, 'a> {
    cursor: &'c mut PlainCursor<'a>,
    context: NodeContext,
}

impl<'c, 'a> PlainNode<'c, 'a> {
    /// Returns the item after the dash at the cursor.
    pub(super) fn of_item(cursor: &'c mut PlainCursor<'a>) -> Result<PlainNode<'c, 'a>, NotPlain> {
        cursor.take(b'-')?;
        cursor.take(b' ')?;
        cursor.skip_blanks();
        Ok(PlainNode { cursor, context: NodeContext::ItemLine })
    }

    fn scalar(self) -> Result<PlainScalar<'a>, NotPlain> {
        if let NodeContext::OwnLines(_) = self.context {
            return Err(NotPlain);
        }
        let scalar = self.cursor.scalar()?;
        self.finish_line()?;
        Ok(scalar)
    }

    /// Reads an unquoted scalar.
    fn unquoted_scalar(self) -> Result<&'a str, NotPlain> {
        self.scalar().and_then(|scalar| if scalar.is_quoted { Err(NotPlain) } else { Ok(scalar.text) })
    }

    fn finish_line(self) -> Result<(), NotPlain> {
        if self.context == NodeContext::FlowCollection { Ok(()) } else { self.cursor.finish_line() }
    }

    fn list<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self.context {
            NodeContext::OwnLines(_) => {
                let mut items = BlockList { column: self.cursor.column(), cursor: self.cursor, has_ended: false };
                let list = visitor.visit_seq(&mut items)?;
                if items.has_ended { Ok(list) } else { Err(NotPlain) }
            }
            _ => {
                self.cursor.take(b'[')?;
                let mut items = FlowCollection { cursor: self.cursor, end: b']', is_first: true, has_ended: false };
                let list = visitor.visit_seq(&mut items)?;
                let has_ended = items.has_ended;
                self.finish_line()?;
                if has_ended { Ok(list) } else { Err(NotPlain) }
            }
        }
    }

    fn mapping<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        let is_flow = self.cursor.peek() == Some(b'{');
        match self.context {
            NodeContext::FlowCollection | NodeContext::KeyLine | NodeContext::ItemLine if is_flow => {
                self.cursor.take(b'{')?;
                let mut pairs = FlowCollection { cursor: self.cursor, end: b'}', is_first: true, has_ended: false };
                let mapping = visitor.visit_map(&mut pairs)?;
                let has_ended = pairs.has_ended;
                self.finish_line()?;
                if has_ended { Ok(mapping) } else { Err(NotPlain) }
            }
            NodeContext::FlowCollection | NodeContext::KeyLine => Err(NotPlain),
            NodeContext::OwnLines(least) if self.cursor.column() < least => Err(NotPlain),
            NodeContext::ItemLine | NodeContext::OwnLines(_) => {
                let column = self.cursor.column();
                let mut pairs = BlockMapping { cursor: self.cursor, column, is_first: true, has_ended: false };
                let mapping = visitor.visit_map(&mut pairs)?;
                if pairs.has_ended { Ok(mapping) } else { Err(NotPlain) }
            }
        }
    }
}

/// Implements integer deserialization for plain decimal digits.
macro_rules! numbers {
    ($($method:ident: $visit:ident),+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
            visitor.$visit(decimal(self.unquoted_scalar()?).ok_or(NotPlain)?)
        }
    )+};
}

impl<'de> Deserializer<'de> for PlainNode<'_, 'de> {
    type Error = NotPlain;

    /// Reads a list, because only optional lists call `deserialize_any` in this model.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.list(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_borrowed_str(self.scalar()?.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self.unquoted_scalar()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(NotPlain),
        }
    }

    numbers!(deserialize_u8: visit_u8, deserialize_u16: visit_u16, deserialize_u32: visit_u32);

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NotPlain> {
        let variant: StrDeserializer<NotPlain> = self.unquoted_scalar()?.into_deserializer();
        visitor.visit_enum(variant)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NotPlain> {
        self.mapping(visitor)
    }

    /// Returns a list of value and position for [`POSITIONED`].
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, NotPlain> {
        if name != POSITIONED {
            return visitor.visit_newtype_struct(self);
        }
        let at = self.cursor.position();
        visitor.visit_seq(PositionedAccess { node: Some(self), at: u64::from(at.line) << 32 | u64::from(at.column) })
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 u64 f32 f64 char string bytes byte_buf option unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

/// List of a value and its position, as [`POSITIONED`] specifies it.
struct PositionedAccess<'c, 'a> {
    node: Option<PlainNode<'c, 'a>>,
    at: u64,
}

impl<'a> SeqAccess<'a> for PositionedAccess<'_, 'a> {
    type Error = NotPlain;
    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        match self.node.take() {
            Some(node) => seed.deserialize(node).map(Some),
            None => seed.deserialize(self.at.into_deserializer()).map(Some),
        }
    }
}

/// A flow collection: elements in brackets.
struct FlowCollection<'c, 'a> {
    cursor: &'c mut PlainCursor<'a>,
    end: u8,
    is_first: bool,
    has_ended: bool,
}

impl FlowCollection<'_, '_> {
    /// Advances the cursor to the next element. Returns false at the closing bracket.
    fn next_element_starts(&mut self) -> Result<bool, NotPlain> {
        self.cursor.skip_blanks();
        if !self.is_first && self.cursor.peek() != Some(self.end) {
            self.cursor.take(b',')?;
            self.cursor.skip_blanks();
        }
        self.is_first = false;
        self.has_ended = self.cursor.take(self.end).is_ok();
        Ok(!self.has_ended)
    }
}

impl<'a> SeqAccess<'a> for &mut FlowCollection<'_, 'a> {
    type Error = NotPlain;
    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        if !self.next_element_starts()? {
            return Ok(None);
        }
        seed.deserialize(PlainNode { cursor: self.cursor, context: NodeContext::FlowCollection }).map(Some)
    }
}

impl<'a> MapAccess<'a> for &mut FlowCollection<'_, 'a> {
    type Error = NotPlain;
    fn next_key_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        if !self.next_element_starts()? {
            return Ok(None);
        }
        let key: StrDeserializer<NotPlain> = self.cursor.key()?.into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, NotPlain> {
        self.cursor.skip_blanks();
        seed.deserialize(PlainNode { cursor: self.cursor, context: NodeContext::FlowCollection })
    }
}

/// A block mapping: all keys start in one column.
struct BlockMapping<'c, 'a> {
    cursor: &'c mut PlainCursor<'a>,
    column: usize,
    is_first: bool,
    has_ended: bool,
}

impl<'a> MapAccess<'a> for &mut BlockMapping<'_, 'a> {
    type Error = NotPlain;
    fn next_key_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        let is_first = std::mem::take(&mut self.is_first);
        if !is_first && (self.cursor.is_at_end() || self.cursor.column() < self.column) {
            self.has_ended = true;
            return Ok(None);
        }
        if self.cursor.column() > self.column {
            return Err(NotPlain);
        }
        let key: StrDeserializer<NotPlain> = self.cursor.key()?.into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, NotPlain> {
        if !self.cursor.is_line_done() {
            self.cursor.skip_blanks();
            return seed.deserialize(PlainNode { cursor: self.cursor, context: NodeContext::KeyLine });
        }
        self.cursor.finish_line()?;
        // Items can start in the column of their key.
        let least = if self.cursor.is_at_item() { self.column } else { self.column + 1 };
        if self.cursor.is_at_end() || self.cursor.column() < least {
            return Err(NotPlain);
        }
        seed.deserialize(PlainNode { cursor: self.cursor, context: NodeContext::OwnLines(self.column + 1) })
    }
}

/// A block list: each item starts on a line of its own.
struct BlockList<'c, 'a> {
    cursor: &'c mut PlainCursor<'a>,
    column: usize,
    has_ended: bool,
}

impl<'a> SeqAccess<'a> for &mut BlockList<'_, 'a> {
    type Error = NotPlain;
    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        if self.cursor.is_at_end() || self.cursor.column() < self.column {
            self.has_ended = true;
            return Ok(None);
        }
        if self.cursor.column() > self.column {
            return Err(NotPlain);
        }
        if !self.cursor.is_at_item() {
            // A key in the column of the items belongs to the mapping around the list.
            self.has_ended = true;
            return Ok(None);
        }
        seed.deserialize(PlainNode::of_item(self.cursor)?).map(Some)
    }
}
