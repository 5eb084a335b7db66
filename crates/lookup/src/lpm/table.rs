//! [`Table`]: the directory of exact keys, if there are any, and the forest behind it.

use super::address::Address;
use super::direct::{self, Direct};
use super::directory::{Directory, KeyPlace};
use super::forest::{Forest, ROOM};
use super::levels::{self, Levels};
use super::pool::Ref;
use super::set::{Formats, HEAD, Route};

/// A shorter way for most addresses, of a table without exact keys that has many prefixes.
#[derive(Clone, Debug)]
pub(super) enum Short {
    None,
    Direct(Direct),
    Levels(Levels),
}

/// A table with addresses that fit `A`.
#[derive(Clone, Debug)]
pub(super) struct Table<A> {
    /// None if there is no exact key.
    pub directory: Option<Directory>,
    pub forest: Forest<A>,
    /// Everything, if there is no exact key.
    pub root: Ref,
    pub short: Short,
    /// How many prefixes are longer than those that the shorter way knows.
    longer: usize,
    /// With fewer prefixes than this no shorter way is made: it would be too large.
    least: usize,
    /// Of the directory's lines.
    pub formats: Formats,
    pub exact_words: usize,
    pub lpm_bits: u32,
    pub longest_value: usize,
    len: usize,
}

/// Whether a table should have a shorter way, which pays from `many` prefixes on, given how many prefixes it has, how many of them are longer than those that the way
/// knows, and whether it has it now.
fn pays(many: usize, prefixes: usize, longer: usize, now: bool) -> bool {
    if now { prefixes >= many / 2 && longer < prefixes / 2 } else { prefixes >= many && longer < prefixes / 4 }
}

impl<A: Address> Table<A> {
    pub(super) fn new(exact_bits: u32, lpm_bits: u32, longest_value: usize) -> Table<A> {
        let room = if exact_bits == 0 { ROOM } else { KeyPlace::new(exact_bits).room() };
        // Values have numbers wherever a shorter way may have to name them.
        let forest = Forest::new(longest_value, exact_bits == 0);
        Table {
            directory: (exact_bits > 0).then(|| Directory::new(exact_bits)),
            root: Ref::NULL,
            short: Short::None,
            longer: 0,
            least: 0,
            formats: Formats::new(room, forest.formats.cell),
            forest,
            exact_words: exact_bits.div_ceil(64) as usize,
            lpm_bits,
            longest_value,
            len: 0,
        }
    }

    pub(super) fn insert(&mut self, exact: &[u64], prefix: &[u64], len: u32, value: &[u8]) -> bool {
        let (addr, len) = self.prefix(prefix, len);
        let value = &value[..value.len().min(self.longest_value)];
        let route = Route { addr, len, cell: self.forest.cell(value) };
        let replaced = match &mut self.directory {
            None => {
                let (root, replaced) = self.forest.insert(self.root, route);
                self.root = root;
                replaced
            }
            Some(directory) => {
                let slot = directory.find_or_add(&exact[..self.exact_words]);
                self.forest.insert_in_set(&self.formats, &mut directory.lines[slot], route)
            }
        };
        self.len += usize::from(!replaced);
        self.longer += usize::from(!replaced && len > Self::SHORT);
        self.keep_short(addr, len);
        replaced
    }

    pub(super) fn remove(&mut self, exact: &[u64], prefix: &[u64], len: u32) -> bool {
        let (addr, len) = self.prefix(prefix, len);
        let removed = match &mut self.directory {
            None => {
                let (root, removed) = self.forest.remove(self.root, addr, len);
                self.root = root;
                removed
            }
            Some(directory) => {
                let Some(slot) = directory.find(&exact[..self.exact_words]) else {
                    return false;
                };
                let line = &mut directory.lines[slot];
                let removed = self.forest.remove_in_set(&self.formats, line, addr, len);
                if line[HEAD] == 0 && self.formats.read::<A>(line, &self.forest.pool).gate.is_none() {
                    directory.remove(slot);
                }
                removed
            }
        };
        self.len -= usize::from(removed);
        self.longer -= usize::from(removed && len > Self::SHORT);
        if removed {
            self.keep_short(addr, len);
        }
        removed
    }

    /// Bits that a shorter way knows.
    const SHORT: u32 = if A::WORDS > 1 { levels::BITS } else { direct::BITS };

    /// With fewer prefixes there is none. It goes when there are half as many, so that no single change moves it to and fro.
    const MANY: usize = if A::WORDS > 1 { levels::MANY } else { direct::MANY };

    /// A prefix has come or gone: so does what the shorter way says of it, or all of that.
    fn keep_short(&mut self, addr: A, len: u32) {
        if self.directory.is_some() || self.lpm_bits < Self::SHORT {
            return;
        }
        let now = !matches!(self.short, Short::None);
        if !pays(Self::MANY, self.len, self.longer, now) || (!now && self.len < self.least) {
            self.short = Short::None;
            return;
        }
        let (forest, root) = (&self.forest, self.root);
        let kept = match &mut self.short {
            Short::Direct(direct) => {
                direct.paint(forest, root, addr, len);
                Ok(())
            }
            Short::Levels(levels) => levels.paint(forest, root, (addr, len), self.len),
            none if A::WORDS > 1 => Levels::new(forest, root, self.len).map(|levels| *none = Short::Levels(levels)),
            none => {
                *none = Short::Direct(Direct::new(forest, root));
                Ok(())
            }
        };
        if let Err(levels::TooMany) = kept {
            self.short = Short::None;
            self.least = self.len * 2;
        }
    }

    /// A prefix without host bits.
    fn prefix(&self, words: &[u64], len: u32) -> (A, u32) {
        let len = len.min(self.lpm_bits);
        (A::from_words(words, self.lpm_bits).keep(len), len)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.forest.memory_bytes()
            + self.directory.as_ref().map_or(0, Directory::memory_bytes)
            + match &self.short {
                Short::None => 0,
                Short::Direct(direct) => direct.memory_bytes(),
                Short::Levels(levels) => levels.memory_bytes(),
            }
    }
}
