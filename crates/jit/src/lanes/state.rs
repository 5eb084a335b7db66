//! What the packets of eight lanes hold while code is made: their frames and bytes, as far as they have been written.

use crate::lanes::build::Builder;
use crate::lanes::ir::{Id, Op, ZERO_BYTE};
use std::collections::{BTreeMap, BTreeSet};

/// Where a byte of a packet comes from: a byte of a vector's lanes.
pub type Source = (Id, u8);

/// What was written to a word of packets.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct Written {
    /// Where its bytes come from; `None`: as they came.
    pub from: [Option<Source>; 8],
    /// Which bytes may be others than those that came: a bit for each.
    pub bytes: u8,
}

/// What lanes hold at some place of the code.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    /// What was written to frames, by the place: vectors.
    pub frame: BTreeMap<u32, Id>,
    /// What was written to packets, by the word.
    pub packet: BTreeMap<u32, Written>,
    /// What was read from memory, by address and offset: for lanes that pass here.
    pub read: BTreeMap<(Id, i32), Id>,
}

/// How packets are read as they came.
#[derive(Clone, Copy)]
pub struct Packets {
    /// The list of their addresses.
    pub pointers: i32,
    /// How many bytes all have.
    pub bytes: u32,
}

/// A cache line, in bytes.
pub const LINE: u32 = 64;

impl Packets {
    /// A word as it came.
    pub fn word(&self, b: &mut Builder, word: u32) -> Id {
        let line = word * 8 / LINE;
        let bytes = (self.bytes - line * LINE).min(LINE) as u8;
        let rows = b.plain(Op::Rows { pointers: self.pointers, offset: (line * LINE) as i32, bytes });
        b.plain(Op::Word(rows, (word % (LINE / 8)) as u8))
    }

    /// Bytes of packets from `at` on as a number, the first one the least significant.
    pub fn read(&self, b: &mut Builder, state: &State, at: u32, bytes: u32) -> Id {
        let sources = (at..at + bytes).map(|byte| {
            let written = state.packet.get(&(byte / 8)).and_then(|word| word.from[(byte % 8) as usize]);
            written.unwrap_or_else(|| (self.word(b, byte / 8), (byte % 8) as u8))
        });
        let sources: Vec<Source> = sources.collect();
        gathered(b, &sources)
    }

    /// A word as it is now.
    pub fn now(&self, b: &mut Builder, state: &State, word: u32) -> Id {
        self.read(b, state, word * 8, 8)
    }
}

/// A number of these bytes, the first one the least significant.
fn gathered(b: &mut Builder, sources: &[Source]) -> Id {
    let mut rest: Vec<(usize, Source)> = sources.iter().copied().enumerate().collect();
    let mut all = b.constant(0);
    while let Some((_, (from, _))) = rest.first().copied() {
        let mut pattern = [ZERO_BYTE; 8];
        rest.iter().filter(|(_, source)| source.0 == from).for_each(|(at, source)| pattern[*at] = source.1);
        rest.retain(|(_, source)| source.0 != from);
        let part = b.bytes(from, pattern);
        all = b.or(all, part);
    }
    all
}

impl State {
    /// Writes so many bytes of each lane to packets, the least significant one first.
    pub fn write(&mut self, at: u32, bytes: u32, value: Id) {
        for byte in 0..bytes {
            let place = at + byte;
            let word = self.packet.entry(place / 8).or_default();
            word.from[(place % 8) as usize] = Some((value, byte as u8));
            word.bytes |= 1 << (place % 8);
        }
    }

    /// What is certain behind a place to which two lead: `mask` says which lanes come with the other state.
    pub fn meet(
        &mut self,
        b: &mut Builder,
        mask: Id,
        other: &State,
        packets: Packets,
        frame: &mut dyn FnMut(&mut Builder, u32) -> Option<Id>,
    ) {
        let places: BTreeSet<u32> = self.frame.keys().chain(other.frame.keys()).copied().collect();
        for at in places {
            let mut of = |state: &State, b: &mut Builder| state.frame.get(&at).copied().or_else(|| frame(b, at));
            let merged = match (of(other, b), of(self, b)) {
                (Some(one), Some(two)) => b.choose(mask, one, two),
                // It was written on one way only, and never comes from before: lanes of the other have none.
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => continue,
            };
            self.frame.insert(at, merged);
        }
        let words: BTreeSet<u32> = self.packet.keys().chain(other.packet.keys()).copied().collect();
        for word in words {
            if self.packet.get(&word) == other.packet.get(&word) {
                continue;
            }
            let (one, two) = (packets.now(b, other, word), packets.now(b, self, word));
            let merged = b.blend(mask, one, two);
            let bytes = [&*self, other]
                .iter()
                .filter_map(|state| state.packet.get(&word))
                .fold(0, |all, word| all | word.bytes);
            let from = std::array::from_fn(|at| Some((merged, at as u8)));
            self.packet.insert(word, Written { from, bytes });
        }
        self.read.retain(|key, read| other.read.get(key) == Some(read));
    }
}
