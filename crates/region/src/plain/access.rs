//! Nodes of plain YAML as serde asks for them.

use super::cursor::{Cursor, NotPlain, Scalar};
use crate::position::POSITIONED;
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

/// What a node stands in, which decides what it may be and what is behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    /// Brackets.
    Flow,
    /// The line of its key, as the last thing there: no block.
    KeyLine,
    /// The line of its dash, as the last thing there.
    ItemLine,
    /// Lines of its own: a block. Mappings have this column at least.
    OwnLines(usize),
}

/// A value that begins at the cursor.
pub(super) struct Node<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    context: Context,
}

impl<'c, 'a> Node<'c, 'a> {
    /// The item behind the dash at the cursor.
    pub(super) fn of_item(cursor: &'c mut Cursor<'a>) -> Result<Node<'c, 'a>, NotPlain> {
        cursor.take(b'-')?;
        cursor.take(b' ')?;
        cursor.skip_blanks();
        Ok(Node { cursor, context: Context::ItemLine })
    }

    fn scalar(self) -> Result<Scalar<'a>, NotPlain> {
        if let Context::OwnLines(_) = self.context {
            return Err(NotPlain);
        }
        let scalar = self.cursor.scalar()?;
        self.finish_line()?;
        Ok(scalar)
    }

    /// A scalar that is no text.
    fn word(self) -> Result<&'a str, NotPlain> {
        self.scalar().and_then(|scalar| if scalar.is_quoted { Err(NotPlain) } else { Ok(scalar.text) })
    }

    fn finish_line(self) -> Result<(), NotPlain> {
        if self.context == Context::Flow { Ok(()) } else { self.cursor.finish_line() }
    }

    fn list<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self.context {
            Context::OwnLines(_) => {
                let mut items = BlockList { column: self.cursor.column(), cursor: self.cursor, has_ended: false };
                let list = visitor.visit_seq(&mut items)?;
                if items.has_ended { Ok(list) } else { Err(NotPlain) }
            }
            _ => {
                self.cursor.take(b'[')?;
                let mut items = Flow { cursor: self.cursor, end: b']', is_first: true, has_ended: false };
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
            Context::Flow | Context::KeyLine | Context::ItemLine if is_flow => {
                self.cursor.take(b'{')?;
                let mut pairs = Flow { cursor: self.cursor, end: b'}', is_first: true, has_ended: false };
                let mapping = visitor.visit_map(&mut pairs)?;
                let has_ended = pairs.has_ended;
                self.finish_line()?;
                if has_ended { Ok(mapping) } else { Err(NotPlain) }
            }
            Context::Flow | Context::KeyLine => Err(NotPlain),
            Context::OwnLines(least) if self.cursor.column() < least => Err(NotPlain),
            Context::ItemLine | Context::OwnLines(_) => {
                let column = self.cursor.column();
                let mut pairs = BlockMapping { cursor: self.cursor, column, is_first: true, has_ended: false };
                let mapping = visitor.visit_map(&mut pairs)?;
                if pairs.has_ended { Ok(mapping) } else { Err(NotPlain) }
            }
        }
    }
}

/// Numbers are plain decimal digits.
macro_rules! numbers {
    ($($method:ident: $visit:ident),+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
            visitor.$visit(decimal(self.word()?).ok_or(NotPlain)?)
        }
    )+};
}

impl<'de> Deserializer<'de> for Node<'_, 'de> {
    type Error = NotPlain;

    /// What may be of any kind is a list that may be left out: nothing else is known here.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.list(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_borrowed_str(self.scalar()?.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self.word()? {
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
        let variant: StrDeserializer<NotPlain> = self.word()?.into_deserializer();
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

    /// A value with its position is a list of both.
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, NotPlain> {
        if name != POSITIONED {
            return visitor.visit_newtype_struct(self);
        }
        let at = self.cursor.position();
        visitor.visit_seq(Positioned { node: Some(self), at: u64::from(at.line) << 32 | u64::from(at.column) })
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 u64 f32 f64 char string bytes byte_buf option unit unit_struct seq tuple tuple_struct map
        identifier ignored_any
    }
}

/// A value, and the line and the column where it begins.
struct Positioned<'c, 'a> {
    node: Option<Node<'c, 'a>>,
    at: u64,
}

impl<'a> SeqAccess<'a> for Positioned<'_, 'a> {
    type Error = NotPlain;
    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        match self.node.take() {
            Some(node) => seed.deserialize(node).map(Some),
            None => seed.deserialize(self.at.into_deserializer()).map(Some),
        }
    }
}

/// What stands in brackets.
struct Flow<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    end: u8,
    is_first: bool,
    has_ended: bool,
}

impl Flow<'_, '_> {
    /// Whether there is more; the cursor is there then.
    fn advance(&mut self) -> Result<bool, NotPlain> {
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

impl<'a> SeqAccess<'a> for &mut Flow<'_, 'a> {
    type Error = NotPlain;
    fn next_element_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        if !self.advance()? {
            return Ok(None);
        }
        seed.deserialize(Node { cursor: self.cursor, context: Context::Flow }).map(Some)
    }
}

impl<'a> MapAccess<'a> for &mut Flow<'_, 'a> {
    type Error = NotPlain;
    fn next_key_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<Option<S::Value>, NotPlain> {
        if !self.advance()? {
            return Ok(None);
        }
        let key: StrDeserializer<NotPlain> = self.cursor.key()?.into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, NotPlain> {
        self.cursor.skip_blanks();
        seed.deserialize(Node { cursor: self.cursor, context: Context::Flow })
    }
}

/// A mapping with a key a line, all of them in one column.
struct BlockMapping<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
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
            return seed.deserialize(Node { cursor: self.cursor, context: Context::KeyLine });
        }
        self.cursor.finish_line()?;
        // Items may stand in the column of their key.
        let least = if self.cursor.is_at_item() { self.column } else { self.column + 1 };
        if self.cursor.is_at_end() || self.cursor.column() < least {
            return Err(NotPlain);
        }
        seed.deserialize(Node { cursor: self.cursor, context: Context::OwnLines(self.column + 1) })
    }
}

/// A list with an item a line, or more lines an item.
struct BlockList<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
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
            // A key in the column of the items; the mapping around them looks at it.
            self.has_ended = true;
            return Ok(None);
        }
        seed.deserialize(Node::of_item(self.cursor)?).map(Some)
    }
}
