//! [`ItemList`]: a long list of the region file, which changes at a place and moves behind it.

use crate::position::Position;
use crate::shift::Shift;
use std::fmt;
use std::ops::{Index, Range};

/// How many items a chunk has at first, and twice as many at most. Tests have few items and many
/// chunks.
const CHUNK_ITEMS: usize = if cfg!(debug_assertions) { 3 } else { 1024 };

/// The items of a long list of the file, in order.
///
/// An edit changes a few items and moves all that follow by some lines. So items are in chunks, and
/// the positions inside of an item do not count the lines by which its chunk has moved since it was
/// made: [`ItemList::with_shift`] has them. Of a list that was
/// just read, nothing has moved.
#[derive(Clone)]
pub struct ItemList<T> {
    chunks: Vec<Chunk<T>>,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    /// The index of its first item in the list.
    first: usize,
    /// How many lines the positions of its items lack.
    lines: i64,
    items: Vec<T>,
}

impl<T> ItemList<T> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |chunk| chunk.first + chunk.items.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items in order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { chunks: self.chunks.iter(), items: [].iter(), left: self.len() }
    }

    /// An item, and the lines by which its positions are to be moved.
    ///
    /// # Panics
    /// There is no such item.
    pub fn with_shift(&self, index: usize) -> (&T, i64) {
        let chunk = &self.chunks[self.chunk_of(index)];
        (&chunk.items[index - chunk.first], chunk.lines)
    }

    /// The chunk that an item is in; the last one for the end of the list.
    fn chunk_of(&self, index: usize) -> usize {
        self.chunks.partition_point(|chunk| chunk.first <= index).saturating_sub(1)
    }

    /// Splits chunks that are too large, drops empty ones, and numbers all of them.
    fn arrange(&mut self) {
        if let Some(large) = self.chunks.iter().position(|chunk| chunk.items.len() > 2 * CHUNK_ITEMS) {
            let Chunk { lines, items, .. } = self.chunks.remove(large);
            let parts = chunks(items).into_iter().map(|part| Chunk { lines, ..part });
            self.chunks.splice(large..large, parts);
        }
        self.chunks.retain(|chunk| !chunk.items.is_empty());
        let mut first = 0;
        for chunk in &mut self.chunks {
            chunk.first = first;
            first += chunk.items.len();
        }
    }

    /// Puts items in the place of others, and moves those behind them by some lines. Positions are
    /// those in the file, both in what is put there and in what is taken away.
    pub(crate) fn replace(&mut self, range: Range<usize>, mut new: Vec<T>, lines: i64) -> Vec<T>
    where
        T: Shift,
    {
        if self.chunks.is_empty() {
            self.chunks.push(Chunk { first: 0, lines: 0, items: Vec::new() });
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
        self.arrange();
        old
    }
}

/// Items in chunks, from the last one on, so that there is never room for two of each.
fn chunks<T>(mut items: Vec<T>) -> Vec<Chunk<T>> {
    let mut chunks = Vec::new();
    while !items.is_empty() {
        let first = (items.len() - 1) / CHUNK_ITEMS * CHUNK_ITEMS;
        chunks.push(Chunk { first, lines: 0, items: items.split_off(first) });
        if chunks.len().is_multiple_of(64) {
            items.shrink_to_fit();
        }
    }
    chunks.reverse();
    chunks
}

/// The items of a list.
#[derive(Clone, Debug)]
pub struct Iter<'a, T> {
    chunks: std::slice::Iter<'a, Chunk<T>>,
    /// What is left of a chunk.
    items: std::slice::Iter<'a, T>,
    left: usize,
}

impl<'a, T> Iterator for Iter<'a, T> {
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

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<T> From<Vec<T>> for ItemList<T> {
    fn from(items: Vec<T>) -> ItemList<T> {
        ItemList { chunks: chunks(items) }
    }
}

/// The items of a list of which nothing has moved.
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
        self.with_shift(index).0
    }
}

/// The items with their positions in the file.
impl<T: fmt::Debug + Clone + Shift> fmt::Debug for ItemList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_file = |(item, lines): (&T, i64)| {
            let mut item = item.clone();
            item.shift(lines);
            item
        };
        f.debug_list().entries((0..self.len()).map(|index| in_file(self.with_shift(index)))).finish()
    }
}

impl<T: Shift> Shift for ItemList<T> {
    fn relocate(&mut self, to: &impl Fn(Position) -> Position) {
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
    use crate::position::Position;
    use crate::shift::Shift;
    use proptest::prelude::*;

    fn lines(of: impl IntoIterator<Item = u32>) -> Vec<Position> {
        of.into_iter().map(|line| Position { line, column: 1 }).collect()
    }

    proptest! {
        #[test]
        fn a_list_is_what_a_vector_is(
            count in 0u32..40,
            edits in proptest::collection::vec((0usize..50, 0usize..12, 0usize..12, -20i64..20), 0..20),
        ) {
            // Lines are large enough that none of them is taken below 0.
            let mut naive = lines((0..count).map(|line| 10_000 + line));
            let mut list = ItemList::from(naive.clone());
            for (start, removed, added, by) in edits {
                let start = start.min(naive.len());
                let range = start..(start + removed).min(naive.len());
                let new = lines((0..added).map(|line| 10_000 + line as u32));
                let end = start + new.len();
                let expected: Vec<Position> = naive.splice(range.clone(), new.clone()).collect();
                naive[end..].iter_mut().for_each(|at| at.shift(by));
                prop_assert_eq!(list.replace(range, new, by), expected);
                prop_assert_eq!(list.len(), naive.len());
                let in_file = |index| { let (at, lines) = list.with_shift(index); at.shifted(lines) };
                prop_assert_eq!((0..list.len()).map(in_file).collect::<Vec<_>>(), naive.clone());
                prop_assert_eq!(list.iter().len(), list.iter().count());
            }
        }
    }
}
