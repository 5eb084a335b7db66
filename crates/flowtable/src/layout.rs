//! The bytes of a record.

use crate::Shape;

/// Positions of a record's parts in bytes from its start.
///
/// ```text
/// +----------+----------------+---------------------------------+-----------+-----+--------------+
/// | life u32 | generation u32 | state u32, twin u32, lease u32  | owner     | key | value        |
/// |          |                | (each optional)                 | 0-4 bytes |     | action, data |
/// +----------+----------------+---------------------------------+-----------+-----+--------------+
/// ```
///
/// The generation rises each time that the record becomes an entry: record number and generation
/// together name an entry forever. A key of 20 bytes, a value of 17 (action and 16 bytes) and an
/// owner of up to two bytes make 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLayout {
    /// Bytes from one record to the next.
    pub stride: usize,
    /// Position of the word of state; 0 if there is none.
    pub state: usize,
    /// Position of the number of the twin's record; 0 if there is none.
    pub twin: usize,
    /// Position of the lease; 0 if there is none.
    pub lease: usize,
    /// Position of the owner, little endian.
    pub owner: usize,
    /// Length of the owner in bytes: 0, 1, 2 or 4.
    pub owner_bytes: usize,
    /// Position of the key.
    pub key: usize,
    /// Length of the key in bytes.
    pub key_bytes: usize,
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
    /// Tables of at least this many entries pack records closely; in smaller ones each record
    /// begins with a cache line, because a hit then touches one line and not one and a half.
    const DENSE_FROM: u32 = 16 << 20;

    /// Returns the layout of a table's records.
    pub fn new(shape: &Shape) -> Self {
        let mut end = Self::GENERATION + size_of::<u32>();
        let mut word = |is_present: bool| {
            let at = if is_present { end } else { 0 };
            end += if is_present { size_of::<u32>() } else { 0 };
            at
        };
        let [state, twin, lease] = [shape.has_state, shape.has_pairs, shape.has_leases].map(&mut word);
        let owner = end;
        let owner_bytes = match shape.owners {
            0 => 0,
            1..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        };
        let key = owner + owner_bytes;
        let value = key + shape.key_bytes;
        let len = value + shape.value_bytes;
        let stride = if shape.is_dense.unwrap_or(shape.size >= Self::DENSE_FROM) {
            len.next_multiple_of(4)
        } else {
            len.next_multiple_of(64)
        };
        let Shape { key_bytes, value_bytes, .. } = *shape;
        RecordLayout { stride, state, twin, lease, owner, owner_bytes, key, key_bytes, value, value_bytes }
    }
}
