//! [`OverflowValues`]: values that are too long for a slot. The slot stores the number of a cell
//! instead.

use super::bucket_layout::LINE_BYTES;
use crate::memory::HugeVec;

/// Cells of one size for long values.
#[derive(Clone, Debug)]
pub(super) struct OverflowValues {
    /// Bytes of a cell: a divisor or a multiple of a cache line, so that short cells don't straddle
    /// two lines.
    cell_bytes: usize,
    bytes: HugeVec<u8>,
    free: Vec<u32>,
}

impl OverflowValues {
    /// Creates an empty store for values of up to `longest` bytes.
    pub(super) fn new(longest: usize) -> OverflowValues {
        let cell = if longest <= LINE_BYTES {
            longest.max(8).next_power_of_two()
        } else {
            longest.next_multiple_of(LINE_BYTES)
        };
        OverflowValues { cell_bytes: cell, bytes: HugeVec::new(), free: Vec::new() }
    }

    /// Stores a value and returns the number of its cell.
    pub(super) fn insert(&mut self, value: &[u8]) -> u32 {
        let cell = self.free.pop().unwrap_or_else(|| {
            let cells = self.bytes.len() / self.cell_bytes;
            self.bytes.grow((cells + 1) * self.cell_bytes);
            u32::try_from(cells).expect("fewer than 2^32 long values")
        });
        self.bytes[cell as usize * self.cell_bytes..][..value.len()].copy_from_slice(value);
        cell
    }

    /// Returns the value of a cell, followed by the rest of the cell.
    pub(super) fn cell_value(&self, cell: u32) -> &[u8] {
        &self.bytes[cell as usize * self.cell_bytes..][..self.cell_bytes]
    }

    /// Frees a cell.
    pub(super) fn free_cell(&mut self, cell: u32) {
        self.free.push(cell);
    }

    /// Returns the address of the first cell and the bytes of a cell.
    pub(super) fn cells_ptr(&self) -> (*const u8, usize) {
        (self.bytes.as_ptr(), self.cell_bytes)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes() + self.free.capacity() * size_of::<u32>()
    }
}
