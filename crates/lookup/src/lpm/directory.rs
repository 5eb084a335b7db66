//! [`Directory`]: the line of an exact key.
//!
//! Open addressing with a byte per line beside the lines: a tag from the key's hash, 0 if the line is free. A lookup compares 16
//! tags at once and then reads the one line that it wants (the idea of Abseil's "Swiss tables"), so of a line that is as large as
//! its key's whole set no more than one is touched, though four of five are taken. The tags of a million keys are a megabyte: they
//! stay in the caches. Lines are probed one after the other, and removing closes gaps, so nothing gets worse with time.

use super::hash::Hash;
use super::pool::Line;
use super::set::HEAD;
use super::window::{WINDOW, window};
use crate::memory::HugeVec;

/// Where a line's exact key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyPlace {
    /// At most 32 bits, in the last four bytes of the line.
    Narrow,
    /// At most 64 bits, in the eight bytes before the line's head.
    Wide,
    /// This many words, in an array of their own.
    Apart(usize),
}

impl KeyPlace {
    pub(super) fn new(bits: u32) -> KeyPlace {
        match bits {
            0..=32 => KeyPlace::Narrow,
            33..=64 => KeyPlace::Wide,
            _ => KeyPlace::Apart(bits.div_ceil(64) as usize),
        }
    }

    /// Bytes of a line that are left for its set.
    pub(super) fn room(self) -> usize {
        if self == KeyPlace::Wide { HEAD - 8 } else { HEAD }
    }

    /// The key in a line that has it.
    #[inline(always)]
    pub(super) fn in_line(self, line: &Line) -> u64 {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| line[at + index]));
        if self == KeyPlace::Narrow { word(HEAD) >> 32 } else { word(HEAD - 8) }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Directory {
    /// One per line, then the first [`WINDOW`] again, so that a window never wraps.
    pub tags: HugeVec<u8>,
    pub lines: HugeVec<Line>,
    /// Keys that aren't in their lines.
    pub keys: HugeVec<u64>,
    pub place: KeyPlace,
    /// Lines, free or taken.
    slots: usize,
    /// Those taken.
    len: usize,
    pub hash: Hash,
}

/// Fewest lines.
const LEAST: usize = 16;

/// The tag of a hash; never 0.
#[inline(always)]
pub(super) fn tag(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// Where a hash is looked for first.
#[inline(always)]
pub(super) fn home(hash: u64, slots: usize) -> usize {
    (((hash >> 32) * slots as u64) >> 32) as usize
}

impl Directory {
    pub(super) fn new(exact_bits: u32) -> Directory {
        let mut directory = Directory {
            tags: HugeVec::new(),
            lines: HugeVec::new(),
            keys: HugeVec::new(),
            place: KeyPlace::new(exact_bits),
            slots: 0,
            len: 0,
            hash: Hash::new(),
        };
        directory.allocate(LEAST);
        directory
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    fn allocate(&mut self, slots: usize) {
        assert!(u32::try_from(slots).is_ok(), "{slots} lines: homes have 32 bits");
        self.slots = slots;
        self.len = 0;
        self.tags = HugeVec::new();
        self.tags.grow(slots + WINDOW);
        self.lines = HugeVec::new();
        self.lines.grow(slots);
        self.keys = HugeVec::new();
        if let KeyPlace::Apart(words) = self.place {
            self.keys.grow(slots * words);
        }
    }

    /// Whether a line is that of a key.
    #[inline(always)]
    pub(super) fn is(&self, slot: usize, key: &[u64]) -> bool {
        match self.place {
            KeyPlace::Apart(words) => self.keys.get(slot * words..(slot + 1) * words) == Some(key),
            place => key.first().is_some_and(|&word| place.in_line(&self.lines[slot]) == word),
        }
    }

    /// The line of a key.
    pub(super) fn find(&self, key: &[u64]) -> Option<usize> {
        self.find_hashed(key, self.hash.words(key))
    }

    /// The same with the key's hash at hand.
    pub(super) fn find_hashed(&self, key: &[u64], hash: u64) -> Option<usize> {
        let (tag, mut at) = (tag(hash), home(hash, self.slots));
        loop {
            let (mut same, free) = window(&self.tags, at, tag);
            // Behind a free line there is nothing of this home.
            same &= (free & free.wrapping_neg()).wrapping_sub(1);
            while same != 0 {
                let slot = self.wrap(at + same.trailing_zeros() as usize);
                if self.is(slot, key) {
                    return Some(slot);
                }
                same &= same - 1;
            }
            if free != 0 {
                return None;
            }
            at = self.wrap(at + WINDOW);
        }
    }

    fn wrap(&self, slot: usize) -> usize {
        if slot >= self.slots { slot - self.slots } else { slot }
    }

    /// The line of a key, a new and empty one if it has none.
    pub(super) fn find_or_add(&mut self, key: &[u64]) -> usize {
        let hash = self.hash.words(key);
        if let Some(slot) = self.find_hashed(key, hash) {
            return slot;
        }
        if (self.len + 1) * 5 > self.slots * 4 {
            self.resize(self.slots * 3 / 2);
        }
        let mut line = [0; 64];
        match (self.place, key.first()) {
            (KeyPlace::Narrow, Some(&word)) => line[HEAD + 4..].copy_from_slice(&(word as u32).to_le_bytes()),
            (KeyPlace::Wide, Some(&word)) => line[HEAD - 8..HEAD].copy_from_slice(&word.to_le_bytes()),
            _ => {}
        }
        self.place(hash, &line, key)
    }

    /// Puts a line where its hash wants it.
    fn place(&mut self, hash: u64, line: &Line, key: &[u64]) -> usize {
        let mut at = home(hash, self.slots);
        loop {
            let (_, free) = window(&self.tags, at, 1);
            if free != 0 {
                at = self.wrap(at + free.trailing_zeros() as usize);
                break;
            }
            at = self.wrap(at + WINDOW);
        }
        self.set_tag(at, tag(hash));
        self.lines[at] = *line;
        if let KeyPlace::Apart(words) = self.place {
            self.keys[at * words..][..words].copy_from_slice(&key[..words]);
        }
        self.len += 1;
        at
    }

    fn set_tag(&mut self, slot: usize, tag: u8) {
        self.tags[slot] = tag;
        if slot < WINDOW {
            let slots = self.slots;
            self.tags[slots + slot] = tag;
        }
    }

    fn hash_of(&self, slot: usize) -> u64 {
        match self.place {
            KeyPlace::Apart(words) => self.hash.words(&self.keys[slot * words..][..words]),
            place => self.hash.words(&[place.in_line(&self.lines[slot])]),
        }
    }

    /// Removes a line. Those behind it that were pushed away by it move up.
    pub(super) fn remove(&mut self, slot: usize) {
        let (mut gap, mut at) = (slot, slot);
        loop {
            at = self.wrap(at + 1);
            if self.tags[at] == 0 {
                break;
            }
            let home = home(self.hash_of(at), self.slots);
            // How far each is from home, going round.
            let distance = |slot: usize| {
                if slot >= home { slot - home } else { slot + self.slots - home }
            };
            if distance(gap) < distance(at) {
                self.move_line(at, gap);
                gap = at;
            }
        }
        self.set_tag(gap, 0);
        self.lines[gap] = [0; 64];
        self.len -= 1;
        if self.len * 4 < self.slots && self.slots > LEAST {
            self.resize((self.slots / 2).max(LEAST));
        }
    }

    fn move_line(&mut self, from: usize, to: usize) {
        self.lines[to] = self.lines[from];
        let tag = self.tags[from];
        self.set_tag(to, tag);
        if let KeyPlace::Apart(words) = self.place {
            self.keys.copy_within(from * words..(from + 1) * words, to * words);
        }
    }

    /// Moves everything to `slots` lines. In the order of the lines, which is that of the hashes: both sides are walked in order.
    fn resize(&mut self, slots: usize) {
        let before = self.clone_shell();
        let old = std::mem::replace(self, before);
        self.allocate(slots);
        let mut key = Vec::new();
        for slot in (0..old.slots).filter(|&slot| old.tags[slot] != 0) {
            if let KeyPlace::Apart(words) = self.place {
                key.clear();
                key.extend_from_slice(&old.keys[slot * words..][..words]);
            }
            self.place(old.hash_of(slot), &old.lines[slot], &key);
        }
    }

    fn clone_shell(&self) -> Directory {
        let (place, hash) = (self.place, self.hash);
        let (tags, lines, keys) = (HugeVec::new(), HugeVec::new(), HugeVec::new());
        Directory { tags, lines, keys, place, slots: 0, len: 0, hash }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.tags.bytes() + self.lines.bytes() + self.keys.bytes()
    }
}
