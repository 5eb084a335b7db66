//! [`TypedLpmTable`]: the directory of exact keys, if any, and the forest of tries.

use super::address::AddressBits;
use super::dir16x3::{self, Dir16x3};
use super::dir24::{self, Dir24};
use super::directory::{ExactKeyDirectory, LineKeyFormat};
use super::forest::{LINE_AREA_BYTES, TrieForest};
use super::pool::BlockRef;
use super::prefix_line::{HEADER_OFFSET, LpmRoute, PrefixLineLayouts};

/// Optional index that resolves most addresses, for a table with many prefixes and no exact key.
#[derive(Clone, Debug)]
pub(super) enum DirectIndex {
    None,
    Dir24(Dir24),
    Dir16x3(Dir16x3),
}

/// Longest prefix match table for addresses that fit in `A`.
#[derive(Clone, Debug)]
pub(super) struct TypedLpmTable<A> {
    /// `None` without exact keys.
    pub directory: Option<ExactKeyDirectory>,
    pub forest: TrieForest<A>,
    /// Root of the only trie of a table without exact keys.
    pub root: BlockRef,
    pub direct_index: DirectIndex,
    /// Number of prefixes longer than the index covers.
    prefixes_beyond_index: usize,
    /// Minimum number of prefixes for another attempt at an index, because the last index was too
    /// large.
    min_prefixes_for_index: usize,
    /// Layouts of the directory's lines.
    pub line_layouts: PrefixLineLayouts,
    pub exact_words: usize,
    pub lpm_bits: u32,
    pub max_value_len: usize,
    len: usize,
}

/// Returns whether a table should have an index. `many` is the number of prefixes from which an
/// index pays off, `longer` the number of prefixes longer than it covers, and `now` whether the
/// index exists.
fn should_have_index(many: usize, prefixes: usize, longer: usize, now: bool) -> bool {
    if now { prefixes >= many / 2 && longer < prefixes / 2 } else { prefixes >= many && longer < prefixes / 4 }
}

impl<A: AddressBits> TypedLpmTable<A> {
    pub(super) fn new(exact_bits: u32, lpm_bits: u32, longest_value: usize) -> TypedLpmTable<A> {
        let room = if exact_bits == 0 { LINE_AREA_BYTES } else { LineKeyFormat::new(exact_bits).prefix_area_bytes() };
        // A table that can have an index stores values by number, because index entries are value
        // numbers.
        let forest = TrieForest::new(longest_value, exact_bits == 0);
        TypedLpmTable {
            directory: (exact_bits > 0).then(|| ExactKeyDirectory::new(exact_bits)),
            root: BlockRef::NULL,
            direct_index: DirectIndex::None,
            prefixes_beyond_index: 0,
            min_prefixes_for_index: 0,
            line_layouts: PrefixLineLayouts::new(room, forest.line_layouts.cell_bytes),
            forest,
            exact_words: exact_bits.div_ceil(64) as usize,
            lpm_bits,
            max_value_len: longest_value,
            len: 0,
        }
    }

    /// Inserts the route of `prefix` with `len` bits under the exact key `exact` (empty if the
    /// table has none), or replaces its value. Returns whether it replaced one. A value is cut to
    /// the table's maximum length.
    ///
    /// Without exact keys all routes are in one trie. With exact keys each key has a cache line of
    /// the directory with its first routes, and a trie for the others.
    pub(super) fn insert(&mut self, exact: &[u64], prefix: &[u64], len: u32, value: &[u8]) -> bool {
        let (addr, len) = self.normalize_prefix(prefix, len);
        let value = &value[..value.len().min(self.max_value_len)];
        let route = LpmRoute { addr, len, cell: self.forest.value_cell(value) };
        let replaced = match &mut self.directory {
            None => {
                let (root, replaced) = self.forest.insert_below(self.root, route);
                self.root = root;
                replaced
            }
            Some(directory) => {
                let slot = directory.find_or_add(&exact[..self.exact_words]);
                self.forest.insert_in_line(&self.line_layouts, &mut directory.lines[slot], route)
            }
        };
        self.len += usize::from(!replaced);
        self.prefixes_beyond_index += usize::from(!replaced && len > Self::INDEX_BITS);
        self.update_index(addr, len);
        replaced
    }

    /// Removes the route of `prefix` with `len` bits under the exact key `exact`. Returns whether
    /// it existed. A line without routes is removed from the directory.
    pub(super) fn remove(&mut self, exact: &[u64], prefix: &[u64], len: u32) -> bool {
        let (addr, len) = self.normalize_prefix(prefix, len);
        let removed = match &mut self.directory {
            None => {
                let (root, removed) = self.forest.remove_below(self.root, addr, len);
                self.root = root;
                removed
            }
            Some(directory) => {
                let Some(slot) = directory.find_line(&exact[..self.exact_words]) else {
                    return false;
                };
                let line = &mut directory.lines[slot];
                let removed = self.forest.remove_from_line(&self.line_layouts, line, addr, len);
                if line[HEADER_OFFSET] == 0
                    && self.line_layouts.read_line::<A>(line, &self.forest.pool).compressed_child.is_none()
                {
                    directory.remove(slot);
                }
                removed
            }
        };
        self.len -= usize::from(removed);
        self.prefixes_beyond_index -= usize::from(removed && len > Self::INDEX_BITS);
        if removed {
            self.update_index(addr, len);
        }
        removed
    }

    /// Number of leading address bits that the index covers.
    const INDEX_BITS: u32 = if A::WORDS > 1 { dir16x3::BITS } else { dir24::BITS };

    /// Minimum number of prefixes for building an index. It is dropped at half of that, so that no
    /// single change toggles it.
    const INDEX_MIN_PREFIXES: usize =
        if A::WORDS > 1 { dir16x3::INDEX_MIN_PREFIXES } else { dir24::INDEX_MIN_PREFIXES };

    /// Updates the index after a prefix was inserted or removed: its entries, or whether it exists.
    /// An index that became too large is dropped until the table has twice as many prefixes.
    fn update_index(&mut self, addr: A, len: u32) {
        if self.directory.is_some() || self.lpm_bits < Self::INDEX_BITS {
            return;
        }
        let has_index = !matches!(self.direct_index, DirectIndex::None);
        if !should_have_index(Self::INDEX_MIN_PREFIXES, self.len, self.prefixes_beyond_index, has_index)
            || (!has_index && self.len < self.min_prefixes_for_index)
        {
            self.direct_index = DirectIndex::None;
            return;
        }
        let (forest, root) = (&self.forest, self.root);
        let outcome = match &mut self.direct_index {
            DirectIndex::Dir24(direct) => {
                direct.update_entries(forest, root, addr, len);
                Ok(())
            }
            DirectIndex::Dir16x3(levels) => levels.update_range(forest, root, (addr, len), self.len),
            index if A::WORDS > 1 => {
                Dir16x3::new(forest, root, self.len).map(|levels| *index = DirectIndex::Dir16x3(levels))
            }
            index => {
                *index = DirectIndex::Dir24(Dir24::new(forest, root));
                Ok(())
            }
        };
        if let Err(dir16x3::LevelsTooLarge) = outcome {
            self.direct_index = DirectIndex::None;
            self.min_prefixes_for_index = self.len * 2;
        }
    }

    /// Returns a prefix without host bits.
    fn normalize_prefix(&self, words: &[u64], len: u32) -> (A, u32) {
        let len = len.min(self.lpm_bits);
        (A::from_words(words, self.lpm_bits).keep_leading(len), len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.forest.memory_bytes()
            + self.directory.as_ref().map_or(0, ExactKeyDirectory::memory_bytes)
            + match &self.direct_index {
                DirectIndex::None => 0,
                DirectIndex::Dir24(direct) => direct.memory_bytes(),
                DirectIndex::Dir16x3(levels) => levels.memory_bytes(),
            }
    }
}
