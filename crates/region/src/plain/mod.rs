//! Reads list items in the notations that generators write, about ten times as fast as the YAML
//! reader.
//!
//! It supports flow collections on one line, `- {name: a, addresses: [10.0.0.1]}`, block
//! collections with a key or an item on each line, and scalars that consist of letters, digits and
//! `_-./:`, with or without quotes. It rejects an item that has anything else or does not fit the
//! model, and the YAML reader then reads and explains it. So the YAML reader must read all accepted
//! items to the same values and positions (`abridged/tests.rs`).

mod access;
mod cursor;

pub(crate) use cursor::PlainCursor;

use access::PlainNode;
use serde::de::DeserializeOwned;

/// Reads the item at a cursor if it has this indent. The cursor is then at the next item or at the
/// end of the list. `None` if the item is not plain.
pub(crate) fn read_item<T: DeserializeOwned>(cursor: &mut PlainCursor, indent: usize) -> Option<T> {
    cursor.skip_blanks();
    if cursor.column() != indent || !cursor.is_at_item() {
        return None;
    }
    let item = T::deserialize(PlainNode::of_item(cursor).ok()?).ok()?;
    let is_whole = cursor.is_at_end() || cursor.column() == indent && cursor.is_at_item();
    is_whole.then_some(item)
}
