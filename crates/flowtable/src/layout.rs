//! The bytes of a record.

use crate::Shape;

/// Positions of a record's parts in bytes from its start.
///
/// ```text
/// +----------+----------------+------------+------------+-----------+-----+------------+--------------+
/// | life u32 | generation u32 | state u32  | change u16 | owner     | key | twin's key | value        |
/// |          |                | (optional) |            | 0-4 bytes |     | (optional) | action, data |
/// +----------+----------------+------------+------------+-----------+-----+------------+--------------+
/// ```
///
/// The generation rises each time that the record becomes an entry: record number and generation
/// together name an entry forever. A key of 20 bytes, a value of 17 (action and 16 bytes) and an
/// owner of one byte make 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLayout {
    /// Bytes from one record to the next.
    pub stride: usize,
    /// Position of the word of state; 0 if there is none.
    pub state: usize,
    /// Position of the 16-bit number of changes, in host byte order.
    pub change: usize,
    /// Position of the owner, little endian.
    pub owner: usize,
    /// Length of the owner in bytes: 0, 1, 2 or 4.
    pub owner_bytes: usize,
    /// Position of the key.
    pub key: usize,
    /// Length of the key in bytes.
    pub key_bytes: usize,
    /// Length of the twin's key in bytes, 0 if there is none. It follows the key.
    pub twin_key_bytes: usize,
    /// Position of the value, whose first byte is the action.
    pub value: usize,
    /// Length of the value in bytes.
    pub value_bytes: usize,
}

impl RecordLayout {
    /// Position of the life word.
    pub const LIFE: usize = 0;
    /// Position of the generation.
    pub const GENERATION: usize = 4;
    /// Tables of at least so many entries pack records closely; in smaller ones each record
    /// begins with a cache line, because a hit then touches one line and not one and a half.
    const DENSE_FROM: u32 = 16 << 20;

    /// Returns the layout of a table's records.
    pub fn new(shape: &Shape) -> Self {
        let state = if shape.has_state { 8 } else { 0 };
        let change = if shape.has_state { 12 } else { 8 };
        let owner_bytes = match shape.owners {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        let owner = change + 2;
        let key = owner + owner_bytes;
        let value = key + shape.key_bytes + shape.twin_key_bytes;
        let len = value + shape.value_bytes;
        let stride = if shape.is_dense.unwrap_or(shape.size >= Self::DENSE_FROM) {
            len.next_multiple_of(4)
        } else {
            len.next_multiple_of(64)
        };
        let Shape { key_bytes, twin_key_bytes, value_bytes, .. } = *shape;
        RecordLayout { stride, state, change, owner, owner_bytes, key, key_bytes, twin_key_bytes, value, value_bytes }
    }

    /// Returns position and length of the key (side 0) or of the twin's key (side 1).
    #[inline(always)]
    pub(crate) fn key_of(&self, side: usize) -> (usize, usize) {
        match side {
            0 => (self.key, self.key_bytes),
            _ => (self.key + self.key_bytes, self.twin_key_bytes),
        }
    }
}
