//! [`Spill`]: values that are too long for a slot. The slot has the number of a cell here instead.

use super::geometry::LINE;
use crate::memory::HugeVec;

/// Cells of one size for long values.
#[derive(Clone, Debug)]
pub(super) struct Spill {
    /// Bytes of a cell: a divisor or a multiple of a cache line, so that short cells don't straddle two.
    cell: usize,
    bytes: HugeVec<u8>,
    free: Vec<u32>,
}

impl Spill {
    /// Cells for values of up to `longest` bytes.
    pub(super) fn new(longest: usize) -> Spill {
        let cell = if longest <= LINE { longest.max(8).next_power_of_two() } else { longest.next_multiple_of(LINE) };
        Spill { cell, bytes: HugeVec::new(), free: Vec::new() }
    }

    /// Stores a value, and gives the number of its cell.
    pub(super) fn insert(&mut self, value: &[u8]) -> u32 {
        let cell = self.free.pop().unwrap_or_else(|| {
            let cells = self.bytes.len() / self.cell;
            self.bytes.grow((cells + 1) * self.cell);
            u32::try_from(cells).expect("fewer than 2^32 long values")
        });
        self.bytes[cell as usize * self.cell..][..value.len()].copy_from_slice(value);
        cell
    }

    /// The value of a cell, and what follows it there.
    pub(super) fn value(&self, cell: u32) -> &[u8] {
        &self.bytes[cell as usize * self.cell..][..self.cell]
    }

    /// Gives a cell back.
    pub(super) fn remove(&mut self, cell: u32) {
        self.free.push(cell);
    }

    /// The first cell, and bytes from one to the next.
    pub(super) fn cells(&self) -> (*const u8, usize) {
        (self.bytes.as_ptr(), self.cell)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.bytes() + self.free.capacity() * size_of::<u32>()
    }
}
