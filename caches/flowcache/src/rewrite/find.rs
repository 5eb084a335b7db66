//! Finding the rewrites of many packets together: what one waits for from memory, the others' arrives meanwhile.

use super::flows::{Flows, GATE};
use super::form::WINDOW;
use super::rows::NONE;
use super::window::{self, BLOCK, BLOCKS, Window};
use jit::rewrite::{Done, bytes_at};
use packet::Packet;

/// Packets that are looked for together.
pub const TOGETHER: usize = 32;

/// Rows that are asked for before one is looked at.
const AHEAD: usize = 16;

/// The number of the reason that a packet would be too long with its new beginning; no row has it.
pub const TOO_LONG: u32 = u32::MAX;

/// A packet that is looked for, and what became of it.
#[derive(Clone, Debug)]
pub struct Lane {
    pub length: usize,
    /// The row of its rewrite, or [`NONE`].
    pub row: u32,
    shape: u32,
    hash: u64,
    /// The hash of its key as the first shape has it that it may have; 0 if there is none.
    pub first: u64,
    gate: u128,
    /// What native code has done, if it knew the row.
    pub done: Done,
    /// Its beginning and its key are in the sight of that number.
    seen: bool,
}

impl Lane {
    pub const EMPTY: Lane =
        Lane { length: 0, row: NONE, shape: 0, hash: 0, first: 0, gate: 0, done: Done::NOTHING, seen: false };
}

/// A packet as it is looked at without native code.
#[derive(Clone, Debug)]
pub struct Sight {
    /// Its first bytes.
    pub window: Window,
    /// Its key: the first word, and the others.
    lead: u64,
    words: [[u64; BLOCK]; BLOCKS],
}

/// Bytes that are copied at once.
const COPIED: usize = 16;

impl Sight {
    pub const EMPTY: Sight = Sight { window: window::EMPTY, lead: 0, words: [[0; BLOCK]; BLOCKS] };

    /// Another packet, of whose beginning that much is looked at ([`Flows::depth`]); what is behind that in the window is anybody's.
    #[inline]
    fn set(&mut self, bytes: &[u8], depth: usize) {
        let blocks = depth.div_ceil(COPIED);
        let (from, to) = (bytes.as_chunks::<COPIED>().0, self.window.as_chunks_mut::<COPIED>().0);
        if let (Some(from), Some(to)) = (from.get(..blocks), to.get_mut(..blocks)) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
            return;
        }
        let len = bytes.len().min(WINDOW);
        self.window[..len].copy_from_slice(&bytes[..len]);
        self.window[len..].fill(0);
    }
}

/// Packets that are looked for together.
#[derive(Debug)]
pub struct Seeking {
    pub lanes: Vec<Lane>,
    pub sights: Vec<Sight>,
    /// Room for a packet's new beginning.
    pub head: Window,
}

impl Default for Seeking {
    fn default() -> Seeking {
        Seeking { lanes: vec![Lane::EMPTY; TOGETHER], sights: vec![Sight::EMPTY; TOGETHER], head: window::EMPTY }
    }
}

/// No shape.
const NO_SHAPE: u32 = u32::MAX;

impl Flows {
    /// Finds the rows of the rewrites for these packets, of [`TOGETHER`] at most; those that there is native code for are carried out.
    pub fn find_all(&self, seeking: &mut Seeking, packets: &mut [Packet]) {
        let Seeking { lanes, sights, head } = seeking;
        let count = packets.len().min(TOGETHER);
        let (lanes, sights, packets) = (&mut lanes[..count], &mut sights[..count], &mut packets[..count]);
        for ((lane, sight), packet) in lanes.iter_mut().zip(&mut *sights).zip(&mut *packets) {
            self.begin(lane, sight, packet);
        }
        // A few rows are under way while others are looked at.
        lanes.iter_mut().take(AHEAD).for_each(|lane| self.ask(lane));
        let mut missed = 0u32;
        for at in 0..count {
            if let Some(lane) = lanes.get_mut(at + AHEAD) {
                self.ask(lane);
            }
            let answered = self.answer(&mut lanes[at], &mut sights[at], &mut packets[at], head);
            missed |= u32::from(!answered) << at;
        }
        // Each round is about the next shape that a packet may have.
        while missed != 0 {
            let asked = missed;
            for at in (0..count).filter(|at| asked >> at & 1 != 0) {
                lanes[at].row = NONE;
                let next = (lanes[at].shape as usize).saturating_add(1);
                if self.try_from(&mut lanes[at], &mut sights[at], &mut packets[at], next) {
                    self.ask(&mut lanes[at]);
                } else {
                    missed &= !(1 << at);
                }
            }
            let asked = missed;
            for at in (0..count).filter(|at| asked >> at & 1 != 0) {
                let answered = self.answer(&mut lanes[at], &mut sights[at], &mut packets[at], head);
                missed &= !(u32::from(answered) << at);
            }
        }
    }

    /// The row of the rewrite for a packet, if there is one, found without native code.
    pub fn find(&self, packet: &mut Packet, sight: &mut Sight) -> u32 {
        let mut lane = Lane::EMPTY;
        let mut more = self.begin(&mut lane, sight, packet);
        while more {
            self.ask(&mut lane);
            if lane.row != NONE && self.is_row_of(&mut lane, sight, packet) {
                return lane.row;
            }
            let next = lane.shape as usize + 1;
            more = self.try_from(&mut lane, sight, packet, next);
        }
        NONE
    }

    /// A packet is looked for: false if it has none of the shapes.
    #[inline(always)]
    fn begin(&self, lane: &mut Lane, sight: &mut Sight, packet: &mut Packet) -> bool {
        let gate = bytes_at(packet, GATE.0).unwrap_or_else(|| {
            let mut gate = [0; GATE.1];
            gate.iter_mut().zip(packet.bytes().get(GATE.0..).unwrap_or_default()).for_each(|(to, byte)| *to = *byte);
            gate
        });
        (lane.length, lane.row, lane.done) = (packet.len(), NONE, Done::NOTHING);
        lane.gate = u128::from_ne_bytes(gate);
        let found = self.try_from(lane, sight, packet, 0);
        lane.first = lane.hash;
        found
    }

    /// The next shape that the packet may have, from that one on: false if there is none.
    #[inline(always)]
    fn try_from(&self, lane: &mut Lane, sight: &mut Sight, packet: &mut Packet, first: usize) -> bool {
        let Some((shape, used)) = self.shape_from(first, lane.gate) else {
            (lane.shape, lane.hash) = (NO_SHAPE, 0);
            return false;
        };
        lane.shape = shape as u32;
        let hash = used.code().and_then(|code| code.hash(packet));
        lane.seen = hash.is_none();
        lane.hash = hash.unwrap_or_else(|| self.looked(lane.shape, sight, packet));
        self.candidate_soon(lane.hash);
        true
    }

    /// The hash of a packet's key, without native code.
    #[cold]
    fn looked(&self, shape: u32, sight: &mut Sight, packet: &Packet) -> u64 {
        self.look(shape, sight, packet);
        self.hash(shape, sight.lead, &sight.words.as_flattened()[..self.key_form(shape).len() - 1])
    }

    /// The key of a packet, as that shape has it, without native code.
    fn look(&self, shape: u32, sight: &mut Sight, packet: &Packet) {
        sight.set(packet.bytes(), self.depth());
        let arrived = (packet.len(), packet.ingress_port.0);
        sight.lead = self.key_form(shape).key(&sight.window, arrived, &mut sight.words);
    }

    /// The row that may be the packet's, of which a part will be read soon.
    #[inline(always)]
    fn ask(&self, lane: &mut Lane) {
        lane.row = self.candidate(lane.hash);
        if lane.row != NONE {
            self.row_soon(lane.row, self.hot_lines());
        }
    }

    /// Whether the row is the packet's. If there is native code for it, the packet is rewritten.
    #[inline(always)]
    fn answer(&self, lane: &mut Lane, sight: &mut Sight, packet: &mut Packet, head: &mut Window) -> bool {
        if lane.row == NONE {
            return false;
        }
        let (words, shared) = self.shared(lane.row);
        if shared.layout_shape != lane.shape {
            return false;
        }
        let code = shared.code.get().filter(|code| code.depth() <= lane.length);
        let (Some(code), Some(head)) = (code, head.first_chunk_mut()) else {
            return self.is_row_of(lane, sight, packet);
        };
        lane.done = code.apply(words, packet, head);
        if lane.done.is_apart() {
            let (len, taken) = shared.layout.hot.lengths();
            if packet.replace_front(taken, &head[..len]).is_err() {
                lane.done = Done::dropped(TOO_LONG);
            }
        }
        !lane.done.is_nothing()
    }

    /// The same without native code, and nothing is rewritten.
    #[cold]
    fn is_row_of(&self, lane: &mut Lane, sight: &mut Sight, packet: &Packet) -> bool {
        if !std::mem::replace(&mut lane.seen, true) {
            self.look(lane.shape, sight, packet);
        }
        let key = (sight.lead, sight.words.as_flattened());
        self.is_for(lane.row, (lane.shape, key), (&sight.window, lane.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever came before it: a packet's first bytes, and behind a shorter one zeros.
    #[test]
    fn a_sight_has_nothing_of_the_packet_before() {
        let mut rng = fastrand::Rng::with_seed(14);
        let (mut sight, mut short) = (Sight::EMPTY, 0);
        for _ in 0..2_000 {
            let (depth, bytes) = (8 * rng.usize(3..=WINDOW / 8), vec![rng.u8(1..); rng.usize(..2 * WINDOW)]);
            sight.set(&bytes, depth);
            assert_eq!(sight.window[..depth], super::super::form::window(&bytes)[..depth]);
            short += u32::from(bytes.len() < depth);
        }
        assert!(short > 200, "{short}");
    }
}
