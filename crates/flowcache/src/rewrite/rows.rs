//! [`Rows`]: memory for rows of words, in pages: it grows without moving what is there.

use tables::fast::soon;

/// Words of a line: what comes from memory at once.
const LINE: usize = 8;
/// Rows are multiples of so many lines, so that one that is gone leaves room for many others.
const STEP: usize = 2;
/// Lines of a page.
const PAGE: usize = 1 << 12;

/// No row.
pub const NONE: u32 = u32::MAX;

/// See the module. A row is named by the number of its first line.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pages: Vec<Box<[u64]>>,
    /// The first line that no row has had yet.
    end: usize,
    /// Free rows, by steps.
    free: Vec<Vec<u32>>,
}

fn steps(words: usize) -> usize {
    words.div_ceil(LINE * STEP)
}

impl Rows {
    /// Bytes in use.
    pub fn memory(&self) -> usize {
        self.pages.len() * PAGE * LINE * 8
    }

    /// A row of so many words, of at most half a page.
    pub fn take(&mut self, words: usize) -> u32 {
        let steps = steps(words);
        if let Some(row) = self.free.get_mut(steps).and_then(Vec::pop) {
            return row;
        }
        let lines = steps * STEP;
        if self.end % PAGE + lines > PAGE || self.end == self.pages.len() * PAGE {
            self.end = self.pages.len() * PAGE;
            self.pages.push(vec![0; PAGE * LINE].into());
        }
        let row = self.end as u32;
        self.end += lines;
        row
    }

    /// Nobody has the row any more.
    pub fn leave(&mut self, row: u32, words: usize) {
        let steps = steps(words);
        if self.free.len() <= steps {
            self.free.resize(steps + 1, Vec::new());
        }
        self.free[steps].push(row);
    }

    /// The row, and whatever is behind it in its page.
    #[inline]
    pub fn at(&self, row: u32) -> &[u64] {
        let row = row as usize;
        &self.pages[row / PAGE][row % PAGE * LINE..]
    }

    #[inline]
    pub fn at_mut(&mut self, row: u32) -> &mut [u64] {
        let row = row as usize;
        &mut self.pages[row / PAGE][row % PAGE * LINE..]
    }

    /// The first lines of a row will be read soon.
    #[inline]
    pub fn soon(&self, row: u32, lines: usize) {
        let row = row as usize;
        if let Some(page) = self.pages.get(row / PAGE) {
            (0..lines).for_each(|line| soon(page, (row % PAGE + line) * LINE));
        }
    }
}
