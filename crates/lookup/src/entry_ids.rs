//! [`EntryIdAllocator`]: small dense ids of a table's entries, by which engines index counters,
//! meters and idle times.

use hashbrown::HashTable;

/// Allocator of the entry ids of one table. Ids start at 0 and are reused.
#[derive(Debug, Default)]
pub(super) struct EntryIdAllocator {
    /// Pairs of [`entries::StoredEntry::sequence`], which is unchanged when an entry is modified,
    /// and the id.
    by_sequence: HashTable<(u64, u32)>,
    free: Vec<u32>,
    next: u32,
}

/// Hashes a sequence number. Sequence numbers are consecutive, so they spread well without mixing,
/// and entries inserted together stay together in memory. Only the top bits, which are the table's
/// tags, are mixed.
fn hash_sequence(sequence: u64) -> u64 {
    sequence ^ (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xff << 56)
}

impl EntryIdAllocator {
    /// Allocates an id for a new entry.
    pub fn allocate(&mut self, sequence: u64) -> u32 {
        let number = self.free.pop().unwrap_or(self.next);
        self.next = self.next.max(number.saturating_add(1));
        self.by_sequence
            .insert_unique(hash_sequence(sequence), (sequence, number), |(sequence, _)| hash_sequence(*sequence));
        number
    }

    /// Returns the id of an entry.
    pub fn get(&self, sequence: u64) -> Option<u32> {
        self.by_sequence.find(hash_sequence(sequence), |(other, _)| *other == sequence).map(|(_, number)| *number)
    }

    /// Retires the id of a deleted entry. The id is reused only after
    /// [`EntryIdAllocator::release`].
    pub fn retire(&mut self, sequence: u64) -> Option<u32> {
        let found = self.by_sequence.find_entry(hash_sequence(sequence), |(other, _)| *other == sequence).ok()?;
        let ((_, number), _) = found.remove();
        Some(number)
    }

    /// Makes a retired id available again. No reader can reach its previous entry any more.
    pub fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    pub fn memory_bytes(&self) -> usize {
        self.by_sequence.allocation_size() + self.free.capacity() * 4
    }
}
