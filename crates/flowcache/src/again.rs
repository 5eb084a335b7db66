//! [`Again`]: segments that a change of a table made stale, walked again in the background.
//!
//! A stale segment is gone before the next packet comes; without more, that packet would take the slow path. But what the segment asked for is known, and so a packet can be
//! imagined that has just these bits. It is walked from where the segment began, through the tables as they are now ([`interp::Interp::imagine`]), with no effect that anybody
//! sees; what comes out is right for every packet that agrees with it on the bits that decided. It is kept if these are among the bits that the old segment asked for, and
//! if it leads where that led, or to the end: then whoever hit the old one hits it. Else the next packet says what its way is.
//!
//! Walks are for idle moments: the worker says when, and how many.

use crate::cache::Caches;
use crate::cut::Units;
use crate::effects::Slots;
use crate::record::Record;
use crate::segment::{End, Segment, Traversal};
use interp::Interp;
use interp::walk::{Outcome, Program, Walker};
use std::collections::VecDeque;

/// The most stale segments that are remembered.
const MOST: usize = 1 << 16;

/// A segment that was stale.
#[derive(Clone, Debug)]
struct Stale {
    /// The table that it was in.
    table: u32,
    segment: Segment,
    /// When it was hit last.
    used: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Again {
    waiting: VecDeque<Stale>,
}

impl Again {
    /// A segment was stale, and last hit at `used` nanoseconds. False if too many wait.
    pub fn later(&mut self, table: u32, segment: Segment, used: u64) -> bool {
        let room = self.waiting.len() < MOST;
        if room {
            self.waiting.push_back(Stale { table, segment, used });
        }
        room
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes in use, about.
    pub fn memory(&self) -> usize {
        let values: usize = self.waiting.iter().map(|stale| stale.segment.memory()).sum();
        values + self.waiting.capacity() * size_of::<Stale>()
    }

    /// Nothing is to be had again.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// Makes an imagined packet have what a segment asks for. Fields of a header that is not valid are 0 in every packet: so a header is valid that has another one.
fn imagine(slots: &Slots, program: &Program, segment: &Segment, state: &mut [u64], valid: &mut [bool]) {
    for (slot, mask, value) in segment.asks().filter(|(slot, ..)| *slot < slots.end) {
        state[slot as usize] = state[slot as usize] & !mask | value;
    }
    for (header, valid) in program.headers.iter().zip(&mut *valid) {
        let (first, count) = header.slots;
        *valid = state[first as usize..(first + count) as usize].iter().any(|word| *word != 0);
    }
    for (slot, _, value) in segment.asks() {
        if let Some(header) = slot.checked_sub(slots.end) {
            valid[header as usize] = value != 0;
        }
    }
}

/// Whether a segment asks for no bit that another one did not ask for.
fn asks_no_more(segment: &Segment, than: &Segment) -> bool {
    let asked = |slot| than.way.asks.place(slot).map_or(0, |place| than.way.asks.bits()[place].mask);
    segment.way.asks.bits().iter().all(|bits| bits.mask & !asked(bits.slot) == 0)
}

impl Caches {
    /// Walks the segment that has waited the longest again. False if none waits.
    pub(crate) fn walk_again(&mut self, interp: &mut Interp) -> bool {
        let Some(stale) = self.again.waiting.pop_front() else { return false };
        let slots = self.known.slots;
        let program = interp.program().clone();
        let kept = interp.imagine(
            |state, valid| imagine(&slots, &program, &stale.segment, state, valid),
            |walker| {
                let mut record = std::mem::take(&mut self.record);
                let outcome = record.run(&self.known, walker, stale.segment.way.tag);
                let kept = self.keep_again(walker, &record, outcome, &stale);
                self.record = record;
                kept
            },
        );
        match kept {
            Some(true) => self.stats.walked_again += 1,
            _ => self.stats.given_up += 1,
        }
        true
    }

    fn keep_again(&mut self, walker: &Walker<'_>, record: &Record, outcome: Outcome, stale: &Stale) -> bool {
        let traversal = Traversal::new(self.ground(walker), record, outcome);
        let end = match stale.segment.way.end {
            End::At(pc) => (1..traversal.units()).find(|unit| traversal.tag(*unit) == pc),
            End::Done { .. } => None,
        };
        let last = end.unwrap_or(traversal.units()) - 1;
        let Ok(segment) = traversal.segment(Some(walker), 0, last) else { return false };
        if !asks_no_more(&segment, &stale.segment) {
            return false;
        }
        let units = self.samples.is_some().then(|| self.ids(&traversal, &Units::new(&traversal, walker, last + 1)));
        drop(traversal);
        let at = stale.table as usize;
        let Some(place) = self.put(segment, at, stale.used, None) else { return false };
        if let (Some(samples), Some(units)) = (&mut self.samples, units) {
            samples.keep(at, place, &units);
        }
        true
    }
}
