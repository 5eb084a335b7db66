//! [`FlowRowMemory`]: memory for rows of words. It grows without moving rows, and uses huge pages
//! where available.

use lookup::{HugeVec, prefetch_lines};

/// Words of a cache line.
pub const LINE: usize = 8;

/// No row.
pub const NONE: u32 = u32::MAX;

/// Allocator of rows. The number of a row is the index of its first line.
#[derive(Clone, Debug, Default)]
pub struct FlowRowMemory {
    lines: HugeVec<[u64; LINE]>,
    /// First line that was never allocated.
    end: usize,
    /// Free rows by their number of lines.
    free: Vec<Vec<u32>>,
    /// Maximum number of lines of a row.
    largest: usize,
}

impl FlowRowMemory {
    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.lines.memory_bytes()
    }

    /// Allocates a row of `words` words.
    pub fn allocate_row(&mut self, words: usize) -> u32 {
        let lines = words.div_ceil(LINE);
        self.largest = self.largest.max(lines);
        if let Some(row) = self.free.get_mut(lines).and_then(Vec::pop) {
            return row;
        }
        let row = self.end as u32;
        self.end += lines;
        self.lines.grow_amortized(self.end);
        row
    }

    /// Returns whether memory is fragmented: more than twice the space of `rows` of the largest
    /// rows is in use, because free rows of other sizes cannot be reused.
    pub fn is_fragmented(&self, rows: usize) -> bool {
        self.end > 2 * rows * self.largest
    }

    /// Frees all rows.
    pub fn clear(&mut self) {
        self.end = 0;
        self.free.clear();
    }

    /// Prefetches the row that will be allocated for `words` words after `before` others.
    pub fn prefetch_allocation(&self, words: usize, before: usize) {
        let lines = words.div_ceil(LINE);
        let free = self.free.get(lines).map(Vec::as_slice).unwrap_or_default();
        if let Some(row) = free.len().checked_sub(before + 1).map(|at| free[at]) {
            self.prefetch_lines(row, lines);
        }
    }

    /// Frees a row.
    pub fn free_row(&mut self, row: u32, words: usize) {
        let lines = words.div_ceil(LINE);
        if self.free.len() <= lines {
            self.free.resize(lines + 1, Vec::new());
        }
        self.free[lines].push(row);
    }

    /// Returns the words of a row and all memory after it.
    #[inline]
    pub fn row_words(&self, row: u32) -> &[u64] {
        self.lines[row as usize..].as_flattened()
    }

    #[inline]
    pub fn at_mut(&mut self, row: u32) -> &mut [u64] {
        self.lines[row as usize..].as_flattened_mut()
    }

    /// Prefetches the first lines of a row.
    #[inline]
    pub fn prefetch_lines(&self, row: u32, lines: usize) {
        prefetch_lines(&self.lines, row as usize, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::FlowRowMemory;

    #[test]
    fn rows_of_many_sizes_are_seen_to_be_scattered() {
        let mut rows = FlowRowMemory::default();
        let all = |rows: &mut FlowRowMemory, words: usize| {
            let taken: Vec<u32> = (0..10).map(|_| rows.allocate_row(words)).collect();
            taken.iter().for_each(|row| rows.free_row(*row, words));
            rows.is_fragmented(10)
        };
        assert!(!all(&mut rows, 72) && !all(&mut rows, 72) && !all(&mut rows, 64));
        // 9 + 8 + 7 lines of ten rows each.
        assert!(all(&mut rows, 50));
        rows.clear();
        assert!(!all(&mut rows, 50) && !rows.is_fragmented(10));
        assert_eq!((rows.allocate_row(8), rows.allocate_row(8)), (70, 71));
    }
}
