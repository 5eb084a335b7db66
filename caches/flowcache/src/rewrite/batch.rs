//! Whole batches: those packets that there are rewrites for first, then the others, one by one.

use super::Unrewritable;
use super::engine::RewriteCache;
use super::find::{Seeking, TOGETHER, TOO_LONG};
use super::flows::Placed;
use super::row::Row;
use super::rows::NONE;
use super::runs::Runs;
use super::window::Window;
use entries::{WriteBatch, WriteError};
use jit::rewrite::Told;
use packet::{
    Batch, DropReason, Emission, Engine, EngineReason, Origin, Output, Packet, PacketRef, PortId, ReasonTable, Verdict,
};

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
    /// Rewrites those packets that there are rewrites for, and counts them: what became of each. At most [`TOGETHER`], which came at one time; the others have no verdict.
    pub(super) fn rewrite_all(&mut self, packets: &mut [Packet], verdicts: &mut [Option<Verdict>]) {
        let mut seeking = self.seeking.take().unwrap_or_default();
        self.maker.flows.find_all(&mut seeking, packets);
        if self.is_settling() {
            self.settle_some(TOGETHER);
        }
        let now = self.runs.saw(packets.first().map_or(0, |packet| packet.received_at));
        let Seeking { lanes, sights, head } = &mut *seeking;
        let (mut missed, mut without) = (0, 0);
        for (((lane, sight), packet), verdict) in lanes.iter().zip(sights).zip(&mut *packets).zip(verdicts) {
            if lane.row == NONE {
                missed += 1;
                continue;
            }
            *verdict = Some(match lane.done.told() {
                Told::There(port) | Told::Apart(port) => Verdict::Forward { port: PortId(port) },
                Told::Dropped(TOO_LONG) => Verdict::Drop(EngineReason::PacketTooLong.into()),
                Told::Dropped(reason) => Verdict::Drop(self.maker.flows.reasons()[reason as usize]),
                Told::Others => {
                    without += 1;
                    self.maker.flows.went_without(lane.row, self.often);
                    let row = self.maker.flows.row(lane.row);
                    written(row, &sight.window, packet, (self.maker.flows.reasons(), head))
                }
            });
            let length = packet.came_with.map_or(lane.length as u64, u64::from);
            self.count(lane.row, 1, length, now);
        }
        let rewritten = packets.len() as u64 - missed;
        self.maker.stats.rewritten += rewritten;
        self.maker.stats.by_code += rewritten - without;
        self.seeking = Some(seeking);
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
            verdicts.resize(count, None);
            self.rewrite_all(some, &mut verdicts);
            self.admit(some, &mut verdicts);
            let mut ran = false;
            for (at, packet) in some.iter_mut().enumerate() {
                if ran && verdicts[at].is_none() {
                    // The packet in front may have been of the same flow.
                    self.rewrite_all(std::slice::from_mut(packet), std::slice::from_mut(&mut verdicts[at]));
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

impl<R: Runs + Send> Engine for RewriteCache<R>
where
    RewriteCache<R>: Serves,
{
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

    fn rest(&mut self) {
        self.runs.park();
    }
}

/// Rewrites a packet whose row that is, without native code; `window` has its first bytes. What became of it.
fn written(
    row: Row<'_>,
    window: &Window,
    packet: &mut Packet,
    (reasons, head): (&[DropReason], &mut Window),
) -> Verdict {
    let became = row.verdict(reasons);
    let length = packet.bytes().len();
    if !matches!(became, Verdict::Forward { .. }) || row.write_in_place(window, packet.bytes_mut()) {
        return became;
    }
    let (len, taken) = row.write(window, length, head);
    match packet.replace_front(taken, &head[..len]) {
        Ok(()) => became,
        Err(_) => Verdict::Drop(EngineReason::PacketTooLong.into()),
    }
}
