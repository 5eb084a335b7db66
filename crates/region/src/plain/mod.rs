//! Items of lists in the forms that generators write, read some ten times as fast as YAML in
//! general.
//!
//! Known are flow collections on one line, `- {name: a, addresses: [10.0.0.1]}`, block
//! collections with a key or an item a line, and scalars of letters, digits and `_-./:` alone,
//! with quotes or without. An item that has anything else, or that the model does not take, is
//! not read at all: what it means, and what is wrong with it, is for the YAML reader to say. So
//! all that is accepted here has to mean the same there, positions included
//! (`abridged/tests.rs`).

mod access;
mod cursor;

pub(crate) use cursor::Cursor;

use access::Node;
use serde::de::DeserializeOwned;

/// Reads the item that begins at a cursor, with this indent; the cursor is at the next one then,
/// or at the end. None if it is not plain.
pub(crate) fn read_item<T: DeserializeOwned>(cursor: &mut Cursor, indent: usize) -> Option<T> {
    cursor.skip_blanks();
    if cursor.column() != indent || !cursor.is_at_item() {
        return None;
    }
    let item = T::deserialize(Node::of_item(cursor).ok()?).ok()?;
    let is_whole = cursor.is_at_end() || cursor.column() == indent && cursor.is_at_item();
    is_whole.then_some(item)
}
