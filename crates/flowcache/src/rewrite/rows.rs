//! [`Rows`]: memory for rows of words. It grows without moving what is there, and lies in huge pages where the machine has them.

use tables::fast::{HugeVec, soon};

/// Words of a line: what comes from memory at once.
const LINE: usize = 8;

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
}

impl Rows {
    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.lines.bytes()
    }

    /// A row of so many words.
    pub fn take(&mut self, words: usize) -> u32 {
        let lines = words.div_ceil(LINE);
        if let Some(row) = self.free.get_mut(lines).and_then(Vec::pop) {
            return row;
        }
        let row = self.end as u32;
        self.end += lines;
        self.lines.grow_by_steps(self.end);
        row
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
        (0..lines).for_each(|line| soon(&self.lines, row as usize + line));
    }
}
