//! Entries of one table as entries of another.

use entries::{Entry, KeyField, PackedEntry, Update, UpdateKind};
use ir::TableId;
use smallvec::SmallVec;

/// A packed key.
pub(super) type Words = SmallVec<[u64; 4]>;

/// The entry with another key in another table.
pub(super) fn write(kind: UpdateKind, table: TableId, key: &[u64], entry: &Entry, priority: i32) -> Update {
    let packed = match kind {
        UpdateKind::Delete => PackedEntry::identity(table, key),
        _ => PackedEntry::new(table, key, entry.action()).with_attributes_of(entry),
    };
    Update::Packed(kind, packed.with_priority(priority))
}

/// Appends the low `width` bits of a number in words, most significant bit first.
pub(super) struct BitString {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitString {
    pub(super) fn new() -> BitString {
        BitString { bytes: Vec::with_capacity(40), bits: 0 }
    }

    pub(super) fn push(&mut self, width: u32, words: &[u64]) {
        for bit in (0..width as usize).rev() {
            if self.bits.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let set = words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1);
            if set && let Some(last) = self.bytes.last_mut() {
                *last |= 0x80 >> (self.bits % 8);
            }
            self.bits += 1;
        }
    }

    /// The bytes; the last one is filled up with zeros.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies the value of one key, and what lies behind it, to the place of the same key in another layout.
pub(super) fn copy(from: &KeyField, key: &[u64], to: &KeyField, into: &mut [u64]) {
    let words = from.total_words().min(to.total_words());
    into[to.offset..to.offset + words].copy_from_slice(&key[from.offset..from.offset + words]);
}
