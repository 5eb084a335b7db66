//! Conversion of entries between tables.

use entries::{PackedEntry, PackedKeyField, StateUpdate, StoredEntry, UpdateKind};
use ir::TableId;
use smallvec::SmallVec;

/// Packed key in words.
pub(super) type KeyWords = SmallVec<[u64; 4]>;

/// Returns an update of the entry with another key in another table.
pub(super) fn entry_update(
    kind: UpdateKind,
    table: TableId,
    key: &[u64],
    entry: &StoredEntry,
    priority: i32,
) -> StateUpdate {
    let packed = match kind {
        UpdateKind::Delete => PackedEntry::identity(table, key),
        _ => PackedEntry::new(table, key, entry.action()).with_attributes_of(entry),
    };
    StateUpdate::Packed(kind, packed.with_priority(priority))
}

/// Bit string to which numbers are appended, most significant bit first.
pub(super) struct BitString {
    bytes: Vec<u8>,
    bits: usize,
}

impl BitString {
    pub(super) fn new() -> BitString {
        BitString { bytes: Vec::with_capacity(40), bits: 0 }
    }

    pub(super) fn push_bits(&mut self, width: u32, words: &[u64]) {
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

    /// Returns the bytes. The last one is padded with zeros.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies the value of one key, with its mask or prefix length, to the same key in another layout.
pub(super) fn copy_key_field(from: &PackedKeyField, key: &[u64], to: &PackedKeyField, into: &mut [u64]) {
    let words = from.total_words().min(to.total_words());
    into[to.offset..to.offset + words].copy_from_slice(&key[from.offset..from.offset + words]);
}
