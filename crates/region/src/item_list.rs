//! [`ItemList`]: a long list of the region file with cheap edits and line shifts.

use crate::shift::Shift;
use crate::spanned::SourcePos;
use std::fmt;
use std::ops::{Index, Range};

/// Initial number of items of a chunk; the maximum is twice that. Small in debug builds, so that
/// tests have several chunks.
const CHUNK_ITEMS: usize = if cfg!(debug_assertions) { 3 } else { 1024 };

/// The items of a long list of the file, in order.
///
/// An edit replaces a few items and moves all items after them by some lines. Items are stored in
/// chunks, each with the number of lines by which it has moved since its items were read. The
/// positions inside an item do not include this shift; [`ItemList::with_line_shift`] returns it. In
/// a list that was just read, all shifts are 0.
#[derive(Clone)]
pub struct ItemList<T> {
    chunks: Vec<ItemChunk<T>>,
}

#[derive(Clone, Debug)]
struct ItemChunk<T> {
    /// Index of its first item in the list.
    first: usize,
    /// Number of lines to add to the positions of its items.
    lines: i64,
    items: Vec<T>,
}

impl<T> ItemList<T> {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.first + chunk.items.len())
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the items in order.
    pub fn iter(&self) -> ItemListIter<'_, T> {
        ItemListIter { chunks: self.chunks.iter(), items: [].iter(), left: self.len() }
    }

    /// Returns an item, and the number of lines to add to its positions.
    ///
    /// # Panics
    /// The index is out of bounds.
    pub fn with_line_shift(&self, index: usize) -> (&T, i64) {
        let chunk = &self.chunks[self.chunk_of(index)];
        (&chunk.items[index - chunk.first], chunk.lines)
    }

    /// Returns the index of the chunk that contains an item. For the end of the list, it is the
    /// last chunk.
    fn chunk_of(&self, index: usize) -> usize {
        self.chunks.partition_point(|chunk| chunk.first <= index).saturating_sub(1)
    }

    /// Splits chunks that are too large, removes empty ones, and updates the first index of each.
    fn rebalance(&mut self) {
        if let Some(large) = self.chunks.iter().position(|chunk| chunk.items.len() > 2 * CHUNK_ITEMS) {
            let ItemChunk { lines, items, .. } = self.chunks.remove(large);
            let parts = into_chunks(items).into_iter().map(|part| ItemChunk { lines, ..part });
            self.chunks.splice(large..large, parts);
        }
        self.chunks.retain(|chunk| !chunk.items.is_empty());
        let mut first = 0;
        for chunk in &mut self.chunks {
            chunk.first = first;
            first += chunk.items.len();
        }
    }

    /// Replaces a range of items, shifts the items after it by `lines`, and returns the old items.
    /// Positions are those in the file, both of the new and of the old items.
    pub(crate) fn replace(&mut self, range: Range<usize>, mut new: Vec<T>, lines: i64) -> Vec<T>
    where
        T: Shift,
    {
        if self.chunks.is_empty() {
            self.chunks.push(ItemChunk { first: 0, lines: 0, items: Vec::new() });
        }
        let first = self.chunk_of(range.start);
        let chunk = &mut self.chunks[first];
        let start = range.start - chunk.first;
        let end = (range.end - chunk.first).min(chunk.items.len());
        let behind = start + new.len();
        new.shift(-chunk.lines);
        let mut old: Vec<T> = chunk.items.splice(start..end, new).collect();
        old.shift(chunk.lines);
        chunk.items[behind..].iter_mut().for_each(|item| item.shift(lines));
        for chunk in &mut self.chunks[first + 1..] {
            let count = (range.len() - old.len()).min(chunk.items.len());
            old.extend(chunk.items.drain(..count).map(|mut item| {
                item.shift(chunk.lines);
                item
            }));
            chunk.lines += lines;
        }
        self.rebalance();
        old
    }
}

/// Divides items into chunks. Starts with the last chunk, so that memory is never allocated for two
/// copies of all items.
fn into_chunks<T>(mut items: Vec<T>) -> Vec<ItemChunk<T>> {
    let mut chunks = Vec::new();
    while !items.is_empty() {
        let first = (items.len() - 1) / CHUNK_ITEMS * CHUNK_ITEMS;
        chunks.push(ItemChunk { first, lines: 0, items: items.split_off(first) });
        if chunks.len().is_multiple_of(64) {
            items.shrink_to_fit();
        }
    }
    chunks.reverse();
    chunks
}

/// Iterator over the items of an [`ItemList`].
#[derive(Clone, Debug)]
pub struct ItemListIter<'a, T> {
    chunks: std::slice::Iter<'a, ItemChunk<T>>,
    /// Remaining items of the current chunk.
    items: std::slice::Iter<'a, T>,
    left: usize,
}

impl<'a, T> Iterator for ItemListIter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.items.next() {
                self.left -= 1;
                return Some(item);
            }
            self.items = self.chunks.next()?.items.iter();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T> ExactSizeIterator for ItemListIter<'_, T> {}

impl<T> From<Vec<T>> for ItemList<T> {
    fn from(items: Vec<T>) -> ItemList<T> {
        ItemList { chunks: into_chunks(items) }
    }
}

/// Returns the items without their shifts. All shifts must be 0.
impl<T> From<ItemList<T>> for Vec<T> {
    fn from(list: ItemList<T>) -> Vec<T> {
        list.chunks.into_iter().flat_map(|chunk| chunk.items).collect()
    }
}

impl<T> Default for ItemList<T> {
    fn default() -> ItemList<T> {
        ItemList { chunks: Vec::new() }
    }
}

impl<T> Index<usize> for ItemList<T> {
    type Output = T;
    fn index(&self, index: usize) -> &T {
        self.with_line_shift(index).0
    }
}

/// Prints the items with their positions in the file.
impl<T: fmt::Debug + Clone + Shift> fmt::Debug for ItemList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_file = |(item, lines): (&T, i64)| {
            let mut item = item.clone();
            item.shift(lines);
            item
        };
        f.debug_list().entries((0..self.len()).map(|index| in_file(self.with_line_shift(index)))).finish()
    }
}

impl<T: Shift> Shift for ItemList<T> {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        for chunk in &mut self.chunks {
            let lines = std::mem::take(&mut chunk.lines);
            chunk.items.iter_mut().for_each(|item| item.relocate(&|at| to(at.shifted(lines))));
        }
    }

    fn shift(&mut self, by: i64) {
        self.chunks.iter_mut().for_each(|chunk| chunk.lines += by);
    }
}

#[cfg(test)]
mod tests {
    use super::ItemList;
    use crate::shift::Shift;
    use crate::spanned::SourcePos;
    use proptest::prelude::*;

    fn lines(of: impl IntoIterator<Item = u32>) -> Vec<SourcePos> {
        of.into_iter().map(|line| SourcePos { line, column: 1 }).collect()
    }

    proptest! {
        #[test]
        fn a_list_is_what_a_vector_is(
            count in 0u32..40,
            edits in proptest::collection::vec((0usize..50, 0usize..12, 0usize..12, -20i64..20), 0..20),
        ) {
            // Line numbers are large enough that no shift makes them negative.
            let mut naive = lines((0..count).map(|line| 10_000 + line));
            let mut list = ItemList::from(naive.clone());
            for (start, removed, added, by) in edits {
                let start = start.min(naive.len());
                let range = start..(start + removed).min(naive.len());
                let new = lines((0..added).map(|line| 10_000 + line as u32));
                let end = start + new.len();
                let expected: Vec<SourcePos> = naive.splice(range.clone(), new.clone()).collect();
                naive[end..].iter_mut().for_each(|at| at.shift(by));
                prop_assert_eq!(list.replace(range, new, by), expected);
                prop_assert_eq!(list.len(), naive.len());
                let in_file = |index| { let (at, lines) = list.with_line_shift(index); at.shifted(lines) };
                prop_assert_eq!((0..list.len()).map(in_file).collect::<Vec<_>>(), naive.clone());
                prop_assert_eq!(list.iter().len(), list.iter().count());
            }
        }
    }
}
