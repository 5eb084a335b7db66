//! Batched lookup of rewrites. The cache misses of one packet's lookup overlap with those of
//! others.

use super::active_key_mask::GATE;
use super::flows::FlowTable;
use super::form::WINDOW;
use super::row_memory::NONE;
use super::window::{self, BLOCK, BLOCKS, PacketWindow};
use jit::rewrite::{EncodedOutcome, bytes_at};
use packet::Packet;

/// Maximum number of packets of a batched lookup.
pub const LOOKUP_BATCH: usize = 32;

/// Number of packets between the prefetch of a row and its use.
const PREFETCH_AHEAD: usize = 16;

/// Reason number for a packet that its new header would make too long. No row has it.
pub const TOO_LONG: u32 = u32::MAX;

/// Lookup of one packet, and its result.
#[derive(Clone, Debug)]
pub struct LookupSlot {
    pub length: usize,
    /// Row of the packet's rewrite, or [`NONE`].
    pub row: u32,
    key_mask: u32,
    hash: u64,
    /// Hash of the key under the first matching key mask; 0 if no mask matches.
    pub first_hash: u64,
    gate: u128,
    /// Result of native code, if it applied the row.
    pub outcome: EncodedOutcome,
    /// The packet's [`PacketView`] is filled, window and key.
    is_view_filled: bool,
}

impl LookupSlot {
    pub const EMPTY: LookupSlot = LookupSlot {
        length: 0,
        row: NONE,
        key_mask: 0,
        hash: 0,
        first_hash: 0,
        gate: 0,
        outcome: EncodedOutcome::NOT_APPLIED,
        is_view_filled: false,
    };
}

/// First bytes and key of a packet, for lookups without native code.
#[derive(Clone, Debug)]
pub struct PacketView {
    /// First bytes of the packet.
    pub window: PacketWindow,
    /// Key: the first word, then the others.
    lead: u64,
    words: [[u64; BLOCK]; BLOCKS],
}

/// Bytes per copy.
const COPY_BYTES: usize = 16;

impl PacketView {
    pub const EMPTY: PacketView = PacketView { window: window::EMPTY, lead: 0, words: [[0; BLOCK]; BLOCKS] };

    /// Copies the first `depth` bytes ([`FlowTable::depth`]) of a packet. Later bytes of the window
    /// are unspecified.
    #[inline]
    fn fill_window(&mut self, bytes: &[u8], depth: usize) {
        let blocks = depth.div_ceil(COPY_BYTES);
        let (from, to) = (bytes.as_chunks::<COPY_BYTES>().0, self.window.as_chunks_mut::<COPY_BYTES>().0);
        if let (Some(from), Some(to)) = (from.get(..blocks), to.get_mut(..blocks)) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            return;
        }
        let len = bytes.len().min(WINDOW);
        self.window[..len].copy_from_slice(&bytes[..len]);
        self.window[len..].fill(0);
    }
}

/// Scratch memory of a batched lookup.
#[derive(Debug)]
pub struct LookupBatch {
    pub slots: Vec<LookupSlot>,
    pub views: Vec<PacketView>,
    /// Buffer for a packet's new header.
    pub head: PacketWindow,
}

impl Default for LookupBatch {
    fn default() -> LookupBatch {
        LookupBatch {
            slots: vec![LookupSlot::EMPTY; LOOKUP_BATCH],
            views: vec![PacketView::EMPTY; LOOKUP_BATCH],
            head: window::EMPTY,
        }
    }
}

/// No key mask.
const NO_KEY_MASK: u32 = u32::MAX;

impl FlowTable {
    /// Finds the rewrites of up to [`LOOKUP_BATCH`] packets, and applies those with native code.
    /// The results are in the batch's slots.
    pub fn find_rows(&self, lookup_batch: &mut LookupBatch, packets: &mut [Packet]) {
        let LookupBatch { slots, views, head } = lookup_batch;
        let count = packets.len().min(LOOKUP_BATCH);
        let (slots, views, packets) = (&mut slots[..count], &mut views[..count], &mut packets[..count]);
        for ((slot, view), packet) in slots.iter_mut().zip(&mut *views).zip(&mut *packets) {
            self.start_lookup(slot, view, packet);
        }
        // Prefetch runs a few rows ahead of the comparison.
        slots.iter_mut().take(PREFETCH_AHEAD).for_each(|slot| self.prefetch_candidate(slot));
        // Bit `at`: the row of packet `at` was not found yet.
        let mut unresolved = 0u32;
        for at in 0..count {
            if let Some(slot) = slots.get_mut(at + PREFETCH_AHEAD) {
                self.prefetch_candidate(slot);
            }
            let is_hit = self.try_candidate(&mut slots[at], &mut views[at], &mut packets[at], head);
            unresolved |= u32::from(!is_hit) << at;
        }
        // Each round tries the next matching key mask of the remaining packets.
        while unresolved != 0 {
            let tried = unresolved;
            for at in (0..count).filter(|at| tried >> at & 1 != 0) {
                slots[at].row = NONE;
                let next_key_mask = (slots[at].key_mask as usize).saturating_add(1);
                if self.select_key_mask(&mut slots[at], &mut views[at], &mut packets[at], next_key_mask) {
                    self.prefetch_candidate(&mut slots[at]);
                } else {
                    unresolved &= !(1 << at);
                }
            }
            let tried = unresolved;
            for at in (0..count).filter(|at| tried >> at & 1 != 0) {
                let is_hit = self.try_candidate(&mut slots[at], &mut views[at], &mut packets[at], head);
                unresolved &= !(u32::from(is_hit) << at);
            }
        }
    }

    /// Returns the row of a packet's rewrite or [`NONE`], without native code.
    pub fn find_row(&self, packet: &mut Packet, view: &mut PacketView) -> u32 {
        let mut slot = LookupSlot::EMPTY;
        let mut more = self.start_lookup(&mut slot, view, packet);
        while more {
            self.prefetch_candidate(&mut slot);
            if slot.row != NONE && self.matches_row(&mut slot, view, packet) {
                return slot.row;
            }
            let next = slot.key_mask as usize + 1;
            more = self.select_key_mask(&mut slot, view, packet, next);
        }
        NONE
    }

    /// Starts the lookup of a packet. Returns false if no key mask matches.
    #[inline(always)]
    fn start_lookup(&self, slot: &mut LookupSlot, view: &mut PacketView, packet: &mut Packet) -> bool {
        let gate = bytes_at(packet, GATE.0).unwrap_or_else(|| {
            let mut gate = [0; GATE.1];
            gate.iter_mut().zip(packet.bytes().get(GATE.0..).unwrap_or_default()).for_each(|(to, byte)| *to = *byte);
            gate
        });
        (slot.length, slot.row, slot.outcome) = (packet.len(), NONE, EncodedOutcome::NOT_APPLIED);
        slot.gate = u128::from_ne_bytes(gate);
        let found = self.select_key_mask(slot, view, packet, 0);
        slot.first_hash = slot.hash;
        found
    }

    /// Selects the next matching key mask from `first` on, and hashes the key. Returns false if
    /// none matches.
    #[inline(always)]
    fn select_key_mask(&self, slot: &mut LookupSlot, view: &mut PacketView, packet: &mut Packet, first: usize) -> bool {
        let Some((key_mask, used)) = self.first_key_mask_from(first, slot.gate) else {
            (slot.key_mask, slot.hash) = (NO_KEY_MASK, 0);
            return false;
        };
        slot.key_mask = key_mask as u32;
        let hash = used.code().and_then(|code| code.hash(packet));
        slot.is_view_filled = hash.is_none();
        slot.hash = hash.unwrap_or_else(|| self.hash_without_code(slot.key_mask, view, packet));
        self.prefetch_candidate_row(slot.hash);
        true
    }

    /// Returns the hash of a packet's key, computed without native code.
    #[cold]
    fn hash_without_code(&self, key_mask: u32, view: &mut PacketView, packet: &Packet) -> u64 {
        self.extract_key(key_mask, view, packet);
        self.hash_key(key_mask, view.lead, &view.words.as_flattened()[..self.key_extractor(key_mask).len() - 1])
    }

    /// Extracts the key of a packet under a key mask, without native code.
    fn extract_key(&self, key_mask: u32, view: &mut PacketView, packet: &Packet) {
        view.fill_window(packet.bytes(), self.depth());
        let arrived = (packet.len(), packet.ingress_port.0);
        view.lead = self.key_extractor(key_mask).extract_key(&view.window, arrived, &mut view.words);
    }

    /// Loads the candidate row, and prefetches the lines that a hit reads.
    #[inline(always)]
    fn prefetch_candidate(&self, slot: &mut LookupSlot) {
        slot.row = self.candidate_row(slot.hash);
        if slot.row != NONE {
            self.prefetch_row(slot.row, self.hit_lines());
        }
    }

    /// Returns whether the candidate row is the packet's. Native code also rewrites the packet.
    #[inline(always)]
    fn try_candidate(
        &self,
        slot: &mut LookupSlot,
        view: &mut PacketView,
        packet: &mut Packet,
        head: &mut PacketWindow,
    ) -> bool {
        if slot.row == NONE {
            return false;
        }
        let (words, shared) = self.words_and_layout(slot.row);
        if shared.layout_key_mask != slot.key_mask {
            return false;
        }
        // Native code reads the bytes up to its depth without checking the length.
        let code = shared.code.get().filter(|code| code.depth() <= slot.length);
        let (Some(code), Some(head)) = (code, head.first_chunk_mut()) else {
            return self.matches_row(slot, view, packet);
        };
        slot.outcome = code.apply(words, packet, head);
        if slot.outcome.is_separate() {
            let (len, replaced_bytes) = shared.layout.executor.header_lengths();
            if packet.replace_front(replaced_bytes, &head[..len]).is_err() {
                slot.outcome = EncodedOutcome::dropped(TOO_LONG);
            }
        }
        !slot.outcome.is_not_applied()
    }

    /// Returns whether the row is the packet's, without native code and without rewriting.
    #[cold]
    fn matches_row(&self, slot: &mut LookupSlot, view: &mut PacketView, packet: &Packet) -> bool {
        if !std::mem::replace(&mut slot.is_view_filled, true) {
            self.extract_key(slot.key_mask, view, packet);
        }
        let key = (view.lead, view.words.as_flattened());
        self.row_matches(slot.row, (slot.key_mask, key), (&view.window, slot.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window has the packet's first bytes, padded with zeros, independent of the previous
    /// packet.
    #[test]
    fn a_sight_has_nothing_of_the_packet_before() {
        let mut rng = fastrand::Rng::with_seed(14);
        let (mut view, mut short) = (PacketView::EMPTY, 0);
        for _ in 0..2_000 {
            let (depth, bytes) = (8 * rng.usize(3..=WINDOW / 8), vec![rng.u8(1..); rng.usize(..2 * WINDOW)]);
            view.fill_window(&bytes, depth);
            assert_eq!(view.window[..depth], super::super::form::window(&bytes)[..depth]);
            short += u32::from(bytes.len() < depth);
        }
        assert!(short > 200, "{short}");
    }
}
