//! [`ExactKeyDirectory`]: hash table from exact keys to their lines.
//!
//! It uses open addressing with an array of tags, a byte per line: part of the key's hash, or 0 for
//! a free line. A lookup compares 16 tags at once and then reads only the matching line (as
//! Abseil's "Swiss tables"). Although a line holds a key's whole prefix set and four of five lines
//! are used, a lookup touches no more than one. The tags of a million keys take a megabyte and stay
//! in the caches. Probing is linear and removal closes gaps, so performance does not degrade over
//! time.

use super::hash::SeededHash;
use super::pool::LineBytes;
use super::prefix_line::HEADER_OFFSET;
use super::window::{WINDOW_TAGS, match_window};
use crate::memory::HugeVec;

/// Where a line's exact key is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineKeyFormat {
    /// At most 32 bits, in the last four bytes of the line.
    Narrow,
    /// At most 64 bits, in the eight bytes before the line's header.
    Wide,
    /// This number of words, in a separate array.
    Separate(usize),
}

impl LineKeyFormat {
    pub(super) fn new(bits: u32) -> LineKeyFormat {
        match bits {
            0..=32 => LineKeyFormat::Narrow,
            33..=64 => LineKeyFormat::Wide,
            _ => LineKeyFormat::Separate(bits.div_ceil(64) as usize),
        }
    }

    /// Returns the bytes of a line that are available for prefixes.
    pub(super) fn prefix_area_bytes(self) -> usize {
        if self == LineKeyFormat::Wide { HEADER_OFFSET - 8 } else { HEADER_OFFSET }
    }

    /// Returns the key stored in a line.
    #[inline(always)]
    pub(super) fn key_in_line(self, line: &LineBytes) -> u64 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| line[at + index]));
        if self == LineKeyFormat::Narrow { word(HEADER_OFFSET) >> 32 } else { word(HEADER_OFFSET - 8) }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ExactKeyDirectory {
    /// A tag per line, followed by a copy of the first [`WINDOW_TAGS`] tags, so that a window never
    /// wraps.
    pub tags: HugeVec<u8>,
    pub lines: HugeVec<LineBytes>,
    /// Keys that are not stored in their lines.
    pub keys: HugeVec<u64>,
    pub key_format: LineKeyFormat,
    /// Number of lines, free or used.
    slot_count: usize,
    /// Number of used lines.
    len: usize,
    pub hash: SeededHash,
}

/// Minimum number of lines.
const MIN_SLOTS: usize = 16;

/// Returns the tag of a hash; never 0.
#[inline(always)]
pub(super) fn directory_tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// Returns the line at which probing for a hash starts.
#[inline(always)]
pub(super) fn home_slot(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

impl ExactKeyDirectory {
    pub(super) fn new(exact_bits: u32) -> ExactKeyDirectory {
        let mut directory = ExactKeyDirectory {
            tags: HugeVec::new(),
            lines: HugeVec::new(),
            keys: HugeVec::new(),
            key_format: LineKeyFormat::new(exact_bits),
            slot_count: 0,
            len: 0,
            hash: SeededHash::new(),
        };
        directory.allocate(MIN_SLOTS);
        directory
    }

    pub(super) fn slot_count(&self) -> usize {
        self.slot_count
    }

    fn allocate(&mut self, slots: usize) {
        assert!(u32::try_from(slots).is_ok(), "{slots} lines; a home slot has 32 bits");
        self.slot_count = slots;
        self.len = 0;
        self.tags = HugeVec::new();
        self.tags.grow(slots + WINDOW_TAGS);
        self.lines = HugeVec::new();
        self.lines.grow(slots);
        self.keys = HugeVec::new();
        if let LineKeyFormat::Separate(words) = self.key_format {
            self.keys.grow(slots * words);
        }
    }

    /// Returns whether a line has this key.
    #[inline(always)]
    pub(super) fn line_has_key(&self, slot: usize, key: &[u64]) -> bool {
        match self.key_format {
            LineKeyFormat::Separate(words) => self.keys.get(slot * words..(slot + 1) * words) == Some(key),
            place => key.first().is_some_and(|&word| place.key_in_line(&self.lines[slot]) == word),
        }
    }

    /// Returns the line of a key.
    pub(super) fn find_line(&self, key: &[u64]) -> Option<usize> {
        self.find_hashed(key, self.hash.hash_words(key))
    }

    /// Returns the line of a key with a known hash.
    pub(super) fn find_hashed(&self, key: &[u64], hash: u64) -> Option<usize> {
        let (tag, mut at) = (directory_tag(hash), home_slot(hash, self.slot_count));
        loop {
            let (mut same, free) = match_window(&self.tags, at, tag);
            // No line after a free line belongs to this hash.
            same &= (free & free.wrapping_neg()).wrapping_sub(1);
            while same != 0 {
                let slot = self.wrap_slot(at + same.trailing_zeros() as usize);
                if self.line_has_key(slot, key) {
                    return Some(slot);
                }
                same &= same - 1;
            }
            if free != 0 {
                return None;
            }
            at = self.wrap_slot(at + WINDOW_TAGS);
        }
    }

    fn wrap_slot(&self, slot: usize) -> usize {
        if slot >= self.slot_count { slot - self.slot_count } else { slot }
    }

    /// Returns the line of a key, and adds an empty one if it has none.
    pub(super) fn find_or_add(&mut self, key: &[u64]) -> usize {
        let hash = self.hash.hash_words(key);
        if let Some(slot) = self.find_hashed(key, hash) {
            return slot;
        }
        // Above a load of 80%, lines are far from their homes.
        if (self.len + 1) * 5 > self.slot_count * 4 {
            self.resize(self.slot_count * 3 / 2);
        }
        let mut line = [0; 64];
        match (self.key_format, key.first()) {
            (LineKeyFormat::Narrow, Some(&word)) => {
                line[HEADER_OFFSET + 4..].copy_from_slice(&(word as u32).to_le_bytes())
            }
            (LineKeyFormat::Wide, Some(&word)) => {
                line[HEADER_OFFSET - 8..HEADER_OFFSET].copy_from_slice(&word.to_le_bytes())
            }
            _ => {}
        }
        self.place_line(hash, &line, key)
    }

    /// Inserts a line at the first free position for its hash.
    fn place_line(&mut self, hash: u64, line: &LineBytes, key: &[u64]) -> usize {
        let mut at = home_slot(hash, self.slot_count);
        loop {
            let (_, free) = match_window(&self.tags, at, 1);
            if free != 0 {
                at = self.wrap_slot(at + free.trailing_zeros() as usize);
                break;
            }
            at = self.wrap_slot(at + WINDOW_TAGS);
        }
        self.set_tag(at, directory_tag(hash));
        self.lines[at] = *line;
        if let LineKeyFormat::Separate(words) = self.key_format {
            self.keys[at * words..][..words].copy_from_slice(&key[..words]);
        }
        self.len += 1;
        at
    }

    fn set_tag(&mut self, slot: usize, tag: u8) {
        self.tags[slot] = tag;
        if slot < WINDOW_TAGS {
            let slots = self.slot_count;
            self.tags[slots + slot] = tag;
        }
    }

    fn hash_of_slot(&self, slot: usize) -> u64 {
        match self.key_format {
            LineKeyFormat::Separate(words) => self.hash.hash_words(&self.keys[slot * words..][..words]),
            place => self.hash.hash_words(&[place.key_in_line(&self.lines[slot])]),
        }
    }

    /// Removes a line and moves later displaced lines up.
    pub(super) fn remove(&mut self, slot: usize) {
        let (mut gap, mut slot_after_gap) = (slot, slot);
        loop {
            slot_after_gap = self.wrap_slot(slot_after_gap + 1);
            if self.tags[slot_after_gap] == 0 {
                break;
            }
            let home = home_slot(self.hash_of_slot(slot_after_gap), self.slot_count);
            // Distance from the home line, with wrapping.
            let distance = |slot: usize| {
                if slot >= home { slot - home } else { slot + self.slot_count - home }
            };
            if distance(gap) < distance(slot_after_gap) {
                self.move_line(slot_after_gap, gap);
                gap = slot_after_gap;
            }
        }
        self.set_tag(gap, 0);
        self.lines[gap] = [0; 64];
        self.len -= 1;
        if self.len * 4 < self.slot_count && self.slot_count > MIN_SLOTS {
            self.resize((self.slot_count / 2).max(MIN_SLOTS));
        }
    }

    fn move_line(&mut self, from: usize, to: usize) {
        self.lines[to] = self.lines[from];
        let tag = self.tags[from];
        self.set_tag(to, tag);
        if let LineKeyFormat::Separate(words) = self.key_format {
            self.keys.copy_within(from * words..(from + 1) * words, to * words);
        }
    }

    /// Moves all lines to a table of `slots` lines. Lines are in the order of their hashes, so both
    /// tables are traversed sequentially.
    fn resize(&mut self, slots: usize) {
        let before = self.clone_empty();
        let old = std::mem::replace(self, before);
        self.allocate(slots);
        let mut key = Vec::new();
        for slot in (0..old.slot_count).filter(|&slot| old.tags[slot] != 0) {
            if let LineKeyFormat::Separate(words) = self.key_format {
                key.clear();
                key.extend_from_slice(&old.keys[slot * words..][..words]);
            }
            self.place_line(old.hash_of_slot(slot), &old.lines[slot], &key);
        }
    }

    fn clone_empty(&self) -> ExactKeyDirectory {
        let (place, hash) = (self.key_format, self.hash);
        let (tags, lines, keys) = (HugeVec::new(), HugeVec::new(), HugeVec::new());
        ExactKeyDirectory { tags, lines, keys, key_format: place, slot_count: 0, len: 0, hash }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tags.memory_bytes() + self.lines.memory_bytes() + self.keys.memory_bytes()
    }
}
