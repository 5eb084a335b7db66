//! Finding the rewrites of many packets together: what one waits for from memory, the others' arrives meanwhile.

use super::flows::Flows;
use super::form::WINDOW;
use super::hot::{self, Window};
use super::key::{BLOCK, BLOCKS};
use super::rows::NONE;

/// Packets that are looked for together.
pub const TOGETHER: usize = 32;

/// Rows that are asked for before one is looked at.
const AHEAD: usize = 8;

/// A packet that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// Its first bytes.
    pub window: Window,
    pub length: usize,
    pub port: u32,
    /// The row of its rewrite, or [`NONE`].
    pub row: u32,
    shape: usize,
    hash: u64,
    /// Its key: the first word, and the others.
    lead: u64,
    words: [[u64; BLOCK]; BLOCKS],
}

/// Bytes that are copied at once.
const COPIED: usize = 16;

impl Lane {
    pub const EMPTY: Lane = Lane {
        window: hot::EMPTY,
        length: 0,
        port: 0,
        row: NONE,
        shape: 0,
        hash: 0,
        lead: 0,
        words: [[0; BLOCK]; BLOCKS],
    };

    /// Another packet, of whose beginning that much is looked at ([`Flows::depth`]); what is behind that in the window is anybody's.
    #[inline]
    pub fn set(&mut self, bytes: &[u8], port: u32, depth: usize) {
        (self.length, self.port, self.row) = (bytes.len(), port, NONE);
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

impl Flows {
    /// The rows of the rewrites for these packets.
    pub fn find_all(&self, lanes: &mut [Lane]) {
        let (mut pending, mut count) = ([0u8; TOGETHER], 0);
        for (at, lane) in lanes.iter_mut().enumerate().take(TOGETHER) {
            if self.try_from(lane, 0) {
                pending[count] = at as u8;
                count += 1;
            }
        }
        // Each round is about the next shape that a packet may have. A few rows are under way while others are looked at.
        while count > 0 {
            let mut left = 0;
            for step in 0..count + AHEAD {
                if let Some(at) = pending[..count].get(step) {
                    let lane = &mut lanes[usize::from(*at)];
                    lane.row = self.candidate(lane.hash);
                    if lane.row != NONE {
                        self.row_soon(lane.row, self.hot_lines());
                    }
                }
                let Some(at) = step.checked_sub(AHEAD).map(|step| pending[step]) else { continue };
                let lane = &mut lanes[usize::from(at)];
                let key = (lane.lead, lane.words.as_flattened());
                if lane.row != NONE && self.is_for(lane.row, (lane.shape as u32, key), (&lane.window, lane.length)) {
                    continue;
                }
                lane.row = NONE;
                if self.try_from(lane, lane.shape + 1) {
                    pending[left] = at;
                    left += 1;
                }
            }
            count = left;
        }
    }

    /// The next shape that the packet may have, from that one on: false if there is none.
    #[inline]
    fn try_from(&self, lane: &mut Lane, first: usize) -> bool {
        let rest = self.shapes().get(first..).unwrap_or_default();
        let Some(next) = rest.iter().position(|used| used.may_have(&lane.window)) else { return false };
        lane.shape = first + next;
        let form = self.key_form(lane.shape as u32);
        lane.lead = form.key(&lane.window, (lane.length, lane.port), &mut lane.words);
        lane.hash = self.hash(lane.shape as u32, lane.lead, &lane.words.as_flattened()[..form.len() - 1]);
        self.candidate_soon(lane.hash);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever came before it: a packet's first bytes, and behind a shorter one zeros.
    #[test]
    fn a_lane_has_nothing_of_the_packet_before() {
        let mut rng = fastrand::Rng::with_seed(14);
        let (mut lane, mut short) = (Lane::EMPTY, 0);
        for _ in 0..2_000 {
            let (depth, bytes) = (8 * rng.usize(3..=WINDOW / 8), vec![rng.u8(1..); rng.usize(..2 * WINDOW)]);
            lane.set(&bytes, 3, depth);
            assert_eq!(lane.window[..depth], super::super::form::window(&bytes)[..depth]);
            assert_eq!((lane.length, lane.port, lane.row), (bytes.len(), 3, NONE));
            short += u32::from(bytes.len() < depth);
        }
        assert!(short > 200, "{short}");
    }
}
