//! [`Numbers`]: the small numbers of a table's entries, by which engines keep counters, meters and idle times in arrays.

use hashbrown::HashTable;

/// The numbers of one table's entries. Numbers are given densely, from 0, and again when they are free.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// [`crate::Entry::sequence`], which an entry keeps while it is modified, and the number.
    by_sequence: HashTable<(u64, u32)>,
    free: Vec<u32>,
    next: u32,
}

/// Sequences are given by counting, so they spread by themselves, and what is inserted together stays together in memory.
/// The table's tags are the uppermost bits.
fn hash(sequence: u64) -> u64 {
    sequence ^ (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xff << 56)
}

impl Numbers {
    /// Gives a number to a new entry.
    pub fn give(&mut self, sequence: u64) -> u32 {
        let number = self.free.pop().unwrap_or(self.next);
        self.next = self.next.max(number.saturating_add(1));
        self.by_sequence.insert_unique(hash(sequence), (sequence, number), |(sequence, _)| hash(*sequence));
        number
    }

    /// The number of an entry.
    pub fn get(&self, sequence: u64) -> Option<u32> {
        self.by_sequence.find(hash(sequence), |(other, _)| *other == sequence).map(|(_, number)| *number)
    }

    /// An entry is gone. Its number is given again only after [`Numbers::release`].
    pub fn take(&mut self, sequence: u64) -> Option<u32> {
        let found = self.by_sequence.find_entry(hash(sequence), |(other, _)| *other == sequence).ok()?;
        let ((_, number), _) = found.remove();
        Some(number)
    }

    /// No reader can meet the number's last entry any more.
    pub fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    pub fn memory_bytes(&self) -> usize {
        self.by_sequence.allocation_size() + self.free.capacity() * 4
    }
}
