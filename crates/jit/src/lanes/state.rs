//! Frame and packet contents of eight lanes during vectorisation, as far as they have been written.

use crate::lanes::build::VectorBuilder;
use crate::lanes::ir::{OpId, VectorOp, ZERO_BYTE};
use std::collections::{BTreeMap, BTreeSet};

/// Source of a packet byte: a byte of a vector's lanes.
pub type ByteSource = (OpId, u8);

/// Written bytes of a word of the packets.
#[derive(Clone, Copy, Default, PartialEq)]
pub struct WrittenWord {
    /// Sources of its bytes; `None` if unchanged.
    pub from: [Option<ByteSource>; 8],
    /// Mask of the bytes that may have changed.
    pub bytes: u8,
}

/// Contents of the lanes at one point.
#[derive(Clone, Default, PartialEq)]
pub struct LaneState {
    /// Written frame fields by offset: vectors.
    pub frame: BTreeMap<u32, OpId>,
    /// Written packet words by index.
    pub packet: BTreeMap<u32, WrittenWord>,
    /// Loaded words by address and offset, for lanes at this point.
    pub read: BTreeMap<(OpId, i32), OpId>,
}

/// Access to the packets' original contents.
#[derive(Clone, Copy)]
pub struct PacketAccess {
    /// Offset of the list of their addresses.
    pub pointers: i32,
    /// Minimum length in bytes.
    pub bytes: u32,
}

/// Size of a cache line in bytes.
pub const LINE: u32 = 64;

impl PacketAccess {
    /// Loads an original word.
    pub fn original_word(&self, b: &mut VectorBuilder, word: u32) -> OpId {
        let line = word * 8 / LINE;
        let bytes = (self.bytes - line * LINE).min(LINE) as u8;
        let rows = b.add_pure(VectorOp::Rows { pointers: self.pointers, offset: (line * LINE) as i32, bytes });
        b.add_pure(VectorOp::Word(rows, (word % (LINE / 8)) as u8))
    }

    /// Returns current packet bytes from `at` on as a little-endian number.
    pub fn read_bytes(&self, b: &mut VectorBuilder, state: &LaneState, at: u32, bytes: u32) -> OpId {
        let sources = (at..at + bytes).map(|byte| {
            let written = state.packet.get(&(byte / 8)).and_then(|word| word.from[(byte % 8) as usize]);
            written.unwrap_or_else(|| (self.original_word(b, byte / 8), (byte % 8) as u8))
        });
        let sources: Vec<ByteSource> = sources.collect();
        combine_bytes(b, &sources)
    }

    /// Returns the current value of a word.
    pub fn current_word(&self, b: &mut VectorBuilder, state: &LaneState, word: u32) -> OpId {
        self.read_bytes(b, state, word * 8, 8)
    }
}

/// Combines bytes to a little-endian number.
fn combine_bytes(b: &mut VectorBuilder, sources: &[ByteSource]) -> OpId {
    let mut rest: Vec<(usize, ByteSource)> = sources.iter().copied().enumerate().collect();
    let mut all = b.constant(0);
    while let Some((_, (from, _))) = rest.first().copied() {
        let mut pattern = [ZERO_BYTE; 8];
        rest.iter().filter(|(_, source)| source.0 == from).for_each(|(at, source)| pattern[*at] = source.1);
        rest.retain(|(_, source)| source.0 != from);
        let part = b.permute_bytes(from, pattern);
        all = b.or(all, part);
    }
    all
}

impl LaneState {
    /// Writes `bytes` bytes of each lane to packets, least significant first.
    pub fn write_bytes(&mut self, at: u32, bytes: u32, value: OpId) {
        for byte in 0..bytes {
            let place = at + byte;
            let word = self.packet.entry(place / 8).or_default();
            word.from[(place % 8) as usize] = Some((value, byte as u8));
            word.bytes |= 1 << (place % 8);
        }
    }

    /// Joins another state: `mask` is the set of lanes with the other state. `frame` loads a word
    /// that the packet carries in its frame, if it does.
    pub fn merge_from(
        &mut self,
        b: &mut VectorBuilder,
        mask: OpId,
        other: &LaneState,
        packets: PacketAccess,
        frame: &mut dyn FnMut(&mut VectorBuilder, u32) -> Option<OpId>,
    ) {
        let offsets: BTreeSet<u32> = self.frame.keys().chain(other.frame.keys()).copied().collect();
        for offset in offsets {
            let mut word_of = |state: &LaneState, b: &mut VectorBuilder| {
                state.frame.get(&offset).copied().or_else(|| frame(b, offset))
            };
            let merged = match (word_of(other, b), word_of(self, b)) {
                (Some(theirs), Some(ours)) => b.select_value(mask, theirs, ours),
                // Written on one path only and not carried into the stage, so lanes of the other
                // path never use it.
                (Some(only), None) | (None, Some(only)) => only,
                (None, None) => continue,
            };
            self.frame.insert(offset, merged);
        }
        let words: BTreeSet<u32> = self.packet.keys().chain(other.packet.keys()).copied().collect();
        for word in words {
            if self.packet.get(&word) == other.packet.get(&word) {
                continue;
            }
            let (theirs, ours) = (packets.current_word(b, other, word), packets.current_word(b, self, word));
            let merged = b.blend(mask, theirs, ours);
            let bytes = [&*self, other]
                .iter()
                .filter_map(|state| state.packet.get(&word))
                .fold(0, |all, word| all | word.bytes);
            let from = std::array::from_fn(|byte| Some((merged, byte as u8)));
            self.packet.insert(word, WrittenWord { from, bytes });
        }
        self.read.retain(|key, read| other.read.get(key) == Some(read));
    }
}
