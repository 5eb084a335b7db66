//! Whole batches: those packets that there are rewrites for first, then the others, one by one.

use super::Unrewritable;
use super::engine::RewriteCache;
use super::find::{Lane, TOGETHER};
use super::flows::Placed;
use super::rows::NONE;
use super::runs::Runs;
use packet::{Batch, Emission, Engine, EngineReason, Origin, Output, Packet, PacketRef, ReasonTable, Verdict};
use tables::{WriteBatch, WriteError};

/// Flows that go together, at most.
const GONE: usize = 256;

/// How many of the packets came at one time with the first.
pub(super) fn at_one_time(packets: &[Packet]) -> usize {
    let time = packets.first().map_or(0, |packet| packet.received_at);
    packets.iter().position(|packet| packet.received_at != time).unwrap_or(packets.len())
}

/// Has packets of a batch done, the first of which has that number in it.
pub trait Serves {
    /// `out` gets what became of them.
    fn serve(&mut self, packets: &mut [Packet], first: usize, out: &mut Output);
}

impl<R: Runs> RewriteCache<R>
where
    RewriteCache<R>: Serves,
{
    /// A whole batch. If packets have marks, each goes by itself, so that it is known what was done for it.
    pub(super) fn serve_all(&mut self, batch: &mut Batch, out: &mut Output) {
        self.of_marked.clear();
        let packets = batch.packets_mut();
        if packets.iter().all(|packet| packet.mark == 0) {
            return self.in_time(|cache| cache.serve(packets, 0, out));
        }
        for (at, packet) in packets.iter_mut().enumerate() {
            let (mark, before) = (packet.mark, self.maker.stats.clone());
            self.serve(std::slice::from_mut(packet), at, out);
            if mark != 0 {
                self.of_marked.push((mark, self.maker.stats.since_of_one(&before)));
            }
        }
    }
}

impl<R: Runs> RewriteCache<R> {
    /// Rewrites those packets that there are rewrites for, and counts them; adds what became of each to `verdicts`. At most [`TOGETHER`], which came at one time.
    pub(super) fn rewrite_all(&mut self, packets: &mut [Packet], verdicts: &mut Vec<Option<Verdict>>) {
        let mut lanes = std::mem::take(&mut self.lanes);
        lanes.resize(TOGETHER, Lane::EMPTY);
        let depth = self.maker.flows.depth();
        for (lane, packet) in lanes.iter_mut().zip(&*packets) {
            lane.set(packet.bytes(), packet.ingress_port.0, depth);
        }
        self.maker.flows.find_all(&mut lanes[..packets.len()]);
        if self.is_settling() {
            self.settle_some(TOGETHER);
        }
        let now = self.runs.saw(packets.first().map_or(0, |packet| packet.received_at));
        for (lane, packet) in lanes.iter().zip(packets) {
            if lane.row == NONE {
                verdicts.push(None);
                continue;
            }
            let row = self.maker.flows.row(lane.row);
            let mut became = row.verdict(self.maker.flows.reasons());
            if matches!(became, Verdict::Forward { .. }) && !row.write_in_place(&lane.window, packet.bytes_mut()) {
                let (len, taken) = row.write(&lane.window, lane.length, &mut self.head);
                if packet.replace_front(taken, &self.head[..len]).is_err() {
                    became = Verdict::Drop(EngineReason::PacketTooLong.into());
                }
            }
            let length = packet.came_with.map_or(lane.length as u64, u64::from);
            self.maker.stats.rewritten += 1;
            self.count(lane.row, 1, length, now);
            verdicts.push(Some(became));
        }
        self.lanes = lanes;
    }

    /// What became of a rewrite is counted, and told; where nobody else has rewrites, the place of one that another took the place of may be used again.
    pub(super) fn placed(&mut self, placed: Result<Placed, Unrewritable>) {
        self.tell(&placed);
        match (placed, &mut self.told) {
            (Ok(placed), Some(told)) => told.placed.push(placed),
            (Ok(Placed { replaced: Some((place, _)), .. }), None) => self.maker.flows.release(place),
            (Err(Unrewritable::NoRoom), Some(told)) => told.full = true,
            _ => {}
        }
    }

    /// [`RewriteCache::write`] in a cache whose rewrites are nobody else's: places of those that go may be used again at once.
    ///
    /// # Errors
    /// Nothing has changed.
    pub fn write_alone(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let gone = self.write(batch)?;
        gone.into_iter().for_each(|(place, _)| self.release(place));
        Ok(())
    }

    /// Time passes, in a cache whose rewrites are nobody else's.
    pub(super) fn pass_time(&mut self, now: u64) {
        let (idle, gone) = self.advance_time(now);
        gone.into_iter().for_each(|(place, _)| self.maker.flows.release(place));
        self.runs.notify(idle);
    }

    /// Flows go, and whoever comes may have their places.
    pub(super) fn discard_all(&mut self, places: &[u32]) {
        places.chunks(TOGETHER).for_each(|places| self.discard(places));
    }

    /// The same of a few.
    fn discard(&mut self, places: &[u32]) {
        self.maker.flows.leaving_soon(places);
        for place in places {
            if let Some(row) = self.maker.flows.row_of(*place) {
                self.settle_one(row);
            }
        }
        self.settle_tallies();
        self.maker.flows.discard_all(&self.maker.known, places);
    }

    /// Forgets all flows, in a cache whose rewrites are nobody else's.
    pub fn clear(&mut self) {
        let all: Vec<u32> = self.maker.flows.places().collect();
        self.discard_all(&all);
        self.renew();
    }

    /// Has places for so many flows, unless somebody else has those that could go.
    pub(super) fn room_for(&mut self, count: usize) {
        if self.told.is_none() && self.maker.flows.are_scattered() {
            self.maker.stats.scattered += 1;
            self.clear();
        }
        while self.told.is_none() && self.maker.flows.free() < count && !self.maker.flows.is_empty() {
            self.make_room();
        }
    }

    /// Some of the flows that had no packets for the longest time go.
    fn make_room(&mut self) {
        // Few, as packets wait meanwhile.
        let oldest = self.maker.flows.oldest((self.maker.flows.room() / 64 + 1).min(GONE));
        self.maker.stats.evicted += oldest.len() as u64;
        self.discard_all(&oldest);
    }
}

impl RewriteCache {
    /// Runs a packet that there is no rewrite for, and keeps what it did; older flows go for it if there is no place.
    fn learn_one(&mut self, index: usize, packet: &mut Packet, out: &mut Output) {
        self.room_for(1);
        let mut results = std::mem::take(&mut self.slow.results);
        self.runs.count_as(packet.came_with);
        let placed = self.run_and_keep(packet.bytes(), packet.ingress_port.0, packet.received_at, &mut results);
        self.runs.count_as(None);
        self.placed(placed);
        interp::emit(&results, index as u16, packet, out);
        self.slow.results = results;
    }
}

impl Serves for RewriteCache {
    fn serve(&mut self, packets: &mut [Packet], offset: usize, out: &mut Output) {
        let mut verdicts = std::mem::take(&mut self.slow.verdicts);
        // Where packets add entries, each is done with before the next one is looked for.
        let most = if self.maker.again.is_none() { 1 } else { TOGETHER };
        let mut first = 0;
        while first < packets.len() {
            let count = at_one_time(&packets[first..]).min(most);
            let some = &mut packets[first..first + count];
            verdicts.clear();
            self.rewrite_all(some, &mut verdicts);
            self.admit(some, &mut verdicts);
            let mut ran = false;
            for (at, packet) in some.iter_mut().enumerate() {
                if ran && verdicts[at].is_none() {
                    // The packet in front may have been of the same flow.
                    self.rewrite_all(std::slice::from_mut(packet), &mut verdicts);
                    verdicts.swap_remove(at);
                }
                ran |= verdicts[at].is_none();
                match verdicts[at] {
                    Some(verdict) => out.emit(received(offset + first + at, verdict)),
                    None => self.slowly(|cache| cache.learn_one(offset + first + at, packet, out)),
                }
            }
            first += count;
        }
        self.slow.verdicts = verdicts;
    }
}

/// What became of a packet that was received.
pub(super) fn received(index: usize, verdict: Verdict) -> Emission {
    Emission { packet: PacketRef::Input(index as u16), origin: Origin::Received, verdict }
}

impl Engine for RewriteCache {
    fn name(&self) -> &str {
        "rewrites"
    }

    fn reasons(&self) -> &ReasonTable {
        self.runs.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.serve_all(batch, out);
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.of_marked)
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        self.pass_time(now);
    }
}
