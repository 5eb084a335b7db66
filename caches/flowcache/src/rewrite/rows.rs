//! [`Rows`]: memory for rows of words. It grows without moving what is there, and lies in huge pages where the machine has them.

use lookup::{HugeVec, lines_soon};

/// Words of a line: what comes from memory at once.
pub const LINE: usize = 8;

/// No row.
pub const NONE: u32 = u32::MAX;

/// See the module. A row is named by the number of its first line.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    lines: HugeVec<[u64; LINE]>,
    /// The first line that no row has had yet.
    end: usize,
    /// Free rows, by their lines.
    free: Vec<Vec<u32>>,
    /// Lines of the largest row that there was.
    largest: usize,
}

impl Rows {
    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.lines.bytes()
    }

    /// A row of so many words.
    pub fn take(&mut self, words: usize) -> u32 {
        let lines = words.div_ceil(LINE);
        self.largest = self.largest.max(lines);
        if let Some(row) = self.free.get_mut(lines).and_then(Vec::pop) {
            return row;
        }
        let row = self.end as u32;
        self.end += lines;
        self.lines.grow_by_steps(self.end);
        row
    }

    /// Whether more memory than twice of what so many of the largest rows take is in use, as rows that are gone have left room for rows of other sizes.
    pub fn are_scattered(&self, rows: usize) -> bool {
        self.end > 2 * rows * self.largest
    }

    /// All rows are gone.
    pub fn clear(&mut self) {
        self.end = 0;
        self.free.clear();
    }

    /// One of so many words will be taken soon, after `before` others.
    pub fn take_soon(&self, words: usize, before: usize) {
        let lines = words.div_ceil(LINE);
        let free = self.free.get(lines).map(Vec::as_slice).unwrap_or_default();
        if let Some(row) = free.len().checked_sub(before + 1).map(|at| free[at]) {
            self.soon(row, lines);
        }
    }

    /// Nobody has the row any more.
    pub fn leave(&mut self, row: u32, words: usize) {
        let lines = words.div_ceil(LINE);
        if self.free.len() <= lines {
            self.free.resize(lines + 1, Vec::new());
        }
        self.free[lines].push(row);
    }

    /// The row, and whatever is behind it.
    #[inline]
    pub fn at(&self, row: u32) -> &[u64] {
        self.lines[row as usize..].as_flattened()
    }

    #[inline]
    pub fn at_mut(&mut self, row: u32) -> &mut [u64] {
        self.lines[row as usize..].as_flattened_mut()
    }

    /// The first lines of a row will be read soon.
    #[inline]
    pub fn soon(&self, row: u32, lines: usize) {
        lines_soon(&self.lines, row as usize, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::Rows;

    #[test]
    fn rows_of_many_sizes_are_seen_to_be_scattered() {
        let mut rows = Rows::default();
        let all = |rows: &mut Rows, words: usize| {
            let taken: Vec<u32> = (0..10).map(|_| rows.take(words)).collect();
            taken.iter().for_each(|row| rows.leave(*row, words));
            rows.are_scattered(10)
        };
        assert!(!all(&mut rows, 72) && !all(&mut rows, 72) && !all(&mut rows, 64));
        // 9 + 8 + 7 lines of ten rows each.
        assert!(all(&mut rows, 50));
        rows.clear();
        assert!(!all(&mut rows, 50) && !rows.are_scattered(10));
        assert_eq!((rows.take(8), rows.take(8)), (70, 71));
    }
}
