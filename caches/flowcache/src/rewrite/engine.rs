//! [`RewriteCache`]: an engine, and the rewrites of what it did.

use super::code::OFTEN;
use super::fill::{Came, Left};
use super::find::{Seeking, Sight};
use super::flows::{Flow, Flows, Placed, Ready};
use super::maker::{Made, Maker};
use super::misses::Misses;
use super::newcomers::{Newcomers, Turns};
use super::noted::{Noted, Notes};
use super::rows::NONE;
use super::runs::Runs;
use super::shadow::{Known, Shadow};
use super::stats::RewriteStats;
use super::{Unrewritable, row, window};
use crate::admission::Admission;
use entries::{Change, WriteBatch, WriteError};
use interp::{ByteForm, Config, Credit, IdleEntry, Interp, LoadError, Outputs};
use ir::Pipeline;
use packet::{Origin, Packet, PortId, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rewrites of which it is looked each time whether they had packets.
const LOOKED_AT: usize = 1 << 12;

/// Rows that are asked for before they are settled, and how many lines of each.
const AHEAD: usize = 8;
const LINES: usize = 4;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It was rewritten: its verdict, of this place.
    Rewritten(u32, Verdict),
    /// No rewrite fits.
    Missed,
}

/// Rewrites that batches brought, for whoever has them carried out elsewhere ([`RewriteCache::tells`]).
#[derive(Debug, Default)]
pub struct Told {
    /// Those that are kept now, and what they took the place of: that is freed by whoever is told ([`RewriteCache::release`]).
    pub placed: Vec<Placed>,
    /// There was no place for one: nobody goes for it by itself ([`RewriteCache::evict`]).
    pub full: bool,
}

/// An engine whose packets' rewrites are kept. Somebody else may have them carried out; what that counts is credited here.
///
/// `R` runs the packets that there is no rewrite for: the interpreter, or native code.
pub struct RewriteCache<R = Interp> {
    pub(super) runs: R,
    pub(super) maker: Maker,
    /// Rows with packets that were not credited yet, since somebody asked for all counts last; and before that.
    counted: Vec<u32>,
    settling: Vec<u32>,
    /// Layouts whose rows had packets, with what is not credited yet of what all rows of theirs add to.
    tallied: Vec<(u32, Sums)>,
    /// Packets that are looked for together.
    pub(super) seeking: Option<Box<Seeking>>,
    /// After how many packets of a shape or layout native code is made for it.
    pub(super) often: u32,
    pub(super) slow: Slow,
    pub(super) admission: Option<Admission>,
    /// As it was made.
    pub(super) config: Config,
    /// `None`: nobody else has the rewrites.
    pub(super) told: Option<Told>,
    /// What was done for packets with a mark.
    pub(super) of_marked: Vec<(u16, String)>,
    /// A rewrite without packets for so many nanoseconds goes.
    pub(super) idle_after: Option<u64>,
}

/// What the packets that there is no rewrite for go through.
pub(super) struct Slow {
    pub notes: Notes,
    pub results: Outputs,
    pub ready: Ready,
    pub misses: Misses,
    pub verdicts: Vec<Option<Verdict>>,
    /// Packets of the batch that there is no rewrite for: which, and by what number its flow is known again.
    pub missing: Vec<(usize, u64)>,
    pub newcomers: Newcomers,
    pub turns: Turns,
    /// Nanoseconds that it took in this batch, if they are noted.
    pub took: Option<u64>,
}

impl RewriteCache {
    /// Loads a pipeline that the verifier has accepted; with room for so many flows.
    ///
    /// # Errors
    /// Those of [`Interp::new`].
    pub fn new(pipeline: Arc<Pipeline>, config: Config, room: usize) -> Result<RewriteCache, LoadError> {
        let interp = Interp::new(pipeline.clone(), config.clone())?;
        let known = Arc::new(Known::new(&pipeline, interp.program()));
        RewriteCache::with(interp, known, config, room)
    }

    /// Runs a packet; and the place of the rewrite that was made of it.
    ///
    /// # Errors
    /// Why none was kept; the packet was run nevertheless.
    pub fn learn(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) -> Result<Placed, Unrewritable> {
        let placed = self.run_and_keep(bytes, port, now, out);
        self.tell(&placed);
        placed
    }

    pub(super) fn run_and_keep(
        &mut self,
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
    ) -> Result<Placed, Unrewritable> {
        self.maker.stats.ran += 1;
        let made = self.make((bytes, port, now), out)?;
        self.maker.ready(made, &mut self.slow.ready);
        self.maker.keep(made, &self.slow.ready, (bytes, now))
    }

    fn make(&mut self, packet: (&[u8], u32, u64), out: &mut Outputs) -> Result<Made, Unrewritable> {
        let (bytes, port, now) = packet;
        let bytes = &bytes[..bytes.len().min(packet::MAX_LEN)];
        let came = Came { bytes, port };
        let maker = &mut self.maker;
        if maker.again.is_none() || maker.shadow_first {
            let mut shadow = Shadow::new(&maker.known, bytes, maker.tenants.slot);
            self.runs.process_by(&mut shadow, bytes, port, now, out);
            let noted = std::mem::take(&mut shadow.noted);
            let whole = maker.again.is_some() && shadow.pins.failed.is_none();
            return maker.by_shadow(&self.runs, shadow, (came, only(out)?), (&noted, whole));
        }
        let notes = &mut self.slow.notes;
        notes.noted.clear();
        self.runs.process_by(notes, bytes, port, now, out);
        maker.by_way(&self.runs, (came, now), only(out), &notes.noted)
    }
}

impl<R: Runs> RewriteCache<R> {
    pub(super) fn with(runs: R, known: Arc<Known>, config: Config, room: usize) -> Result<RewriteCache<R>, LoadError> {
        let notes = Notes { known: known.clone(), noted: Noted::default() };
        Ok(RewriteCache {
            runs,
            maker: Maker::new(known, config.clone(), room)?,
            counted: Vec::new(),
            settling: Vec::new(),
            tallied: Vec::new(),
            seeking: None,
            often: OFTEN,
            slow: Slow {
                notes,
                results: Outputs::new(),
                ready: Ready::default(),
                misses: Misses::default(),
                verdicts: Vec::new(),
                missing: Vec::new(),
                newcomers: Newcomers::default(),
                turns: Turns::default(),
                took: None,
            },
            admission: None,
            config,
            told: None,
            of_marked: Vec::new(),
            idle_after: None,
        })
    }

    /// Rewrites are carried out elsewhere, too: batches tell of those that they bring, and take none out by themselves.
    pub fn tells(&mut self) {
        self.told.get_or_insert_default();
    }

    /// What batches have brought since this was asked last.
    pub fn take_told(&mut self) -> Told {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// From now on rewrites without packets for so many nanoseconds go, as time passes ([`RewriteCache::advance_time`]): each time a part of them is looked at.
    pub fn idle_after(&mut self, nanoseconds: Option<u64>) {
        self.idle_after = nanoseconds;
    }

    /// Native code is made for shapes and layouts once so many of their packets have gone without it.
    pub fn native_after(&mut self, packets: u32) {
        self.often = packets;
    }

    /// The engine that runs packets, with all state.
    pub fn engine(&self) -> &R {
        &self.runs
    }

    /// The same, to set counters and the like. Tables are changed by [`RewriteCache::write`] only.
    pub fn engine_mut(&mut self) -> &mut R {
        &mut self.runs
    }

    /// How many ways are known.
    pub fn ways(&self) -> usize {
        self.maker.ways.len()
    }

    /// The rewrites.
    pub fn flows(&self) -> &Flows {
        &self.maker.flows
    }

    /// What was counted.
    pub fn stats(&self) -> &RewriteStats {
        &self.maker.stats
    }

    /// Counts what became of a rewrite.
    pub(super) fn tell(&mut self, placed: &Result<Placed, Unrewritable>) {
        let stats = &mut self.maker.stats;
        match placed {
            Ok(placed) => {
                stats.kept += 1;
                if let Some((_, gone)) = &placed.replaced {
                    stats.replaced += 1;
                    let (packets, bytes, last) = gone.uncredited;
                    self.credit_gone(gone, packets, bytes, last);
                }
            }
            Err(why) => *stats.refused.entry(*why).or_default() += 1,
        }
    }

    /// Rewrites a packet, if there is a rewrite for it, and counts it. `out` gets its bytes if it leaves.
    pub fn rewrite(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Vec<u8>) -> Answer {
        let mut sight = Sight::EMPTY;
        let Ok(mut packet) = Packet::from_bytes(bytes) else { return Answer::Missed };
        packet.ingress_port = PortId(port);
        let found = self.maker.flows.find(&mut packet, &mut sight);
        if found == NONE {
            return Answer::Missed;
        }
        let row = self.maker.flows.row(found);
        let verdict = row.verdict(self.maker.flows.reasons());
        out.clear();
        if matches!(verdict, Verdict::Forward { .. }) {
            let mut head = window::EMPTY;
            let (len, taken) = row.write(&sight.window, bytes.len(), &mut head);
            out.extend_from_slice(&head[..len]);
            out.extend_from_slice(bytes.get(taken..).unwrap_or_default());
        }
        let (_, place) = row::of(row.words);
        let now = self.runs.saw(now);
        self.maker.stats.rewritten += 1;
        self.count(found, 1, bytes.len() as u64, now);
        Answer::Rewritten(place, verdict)
    }

    #[inline]
    pub(super) fn count(&mut self, row: u32, packets: u64, bytes: u64, last: u64) {
        if row::add(self.maker.flows.words_mut(row), packets, bytes, last) {
            self.counted.push(row);
            // Rows that are gone stay in the list, and may come again: with the next packets some of it is done.
            if self.counted.len() > 2 * self.maker.flows.room() {
                self.begin_to_settle();
            }
        }
    }

    /// Counts packets that were rewritten elsewhere: so many, of so many bytes in all, the last of them at `last` nanoseconds.
    pub fn credit(&mut self, place: u32, packets: u64, bytes: u64, last: u64) {
        if let Some(row) = self.maker.flows.row_of(place) {
            self.count(row, packets, bytes, last);
        }
    }

    /// The same, for one that was taken out.
    pub fn credit_gone(&mut self, flow: &Flow, packets: u64, bytes: u64, last: u64) {
        if packets == 0 {
            return;
        }
        credit(&mut self.runs, flow.rewrite.credits.iter().cloned(), (packets, bytes, last));
    }

    /// Counters, tallies and idle times have what rewritten packets add to them: before anybody reads them. A write and the passing of time do it by
    /// themselves.
    pub fn settle(&mut self) {
        self.begin_to_settle();
        self.settle_some(usize::MAX);
    }

    /// What was counted until now will be settled by [`RewriteCache::settle_some`].
    pub(super) fn begin_to_settle(&mut self) {
        self.settling.append(&mut self.counted);
    }

    /// Settles so many rows of those at most; whether there are more.
    pub(super) fn settle_some(&mut self, most: usize) -> bool {
        let left = self.settling.len().saturating_sub(most);
        for at in (left..self.settling.len()).rev() {
            if let Some(ahead) = at.checked_sub(AHEAD) {
                self.maker.flows.row_soon(self.settling[ahead], LINES);
            }
            self.settle_one(self.settling[at]);
        }
        self.settling.truncate(left);
        self.settle_tallies();
        left > 0
    }

    /// Whether there are rows left from [`RewriteCache::begin_to_settle`].
    pub(super) fn is_settling(&self) -> bool {
        !self.settling.is_empty()
    }

    /// The same of one row, but what is the same for all rows of its layout, which waits for [`RewriteCache::settle_tallies`]; it may be one that is gone, or was settled.
    pub(super) fn settle_one(&mut self, number: u32) {
        let words = self.maker.flows.words_mut(number);
        let sum = [row::PACKETS, row::BYTES].map(|at| std::mem::take(&mut words[at]));
        let last = words[row::LAST];
        if sum[0] == 0 {
            return;
        }
        let (layout, _) = row::of(words);
        credit(&mut self.runs, self.maker.flows.row(number).credits(), (sum[0], sum[1], last));
        match self.tallied.last_mut() {
            Some((same, sums)) if *same == layout => {
                *sums = (sums.0 + sum[0], sums.1 + sum[1], sums.2.max(last));
            }
            _ => self.tallied.push((layout, (sum[0], sum[1], last))),
        }
    }

    /// Before any of these layouts goes.
    pub(super) fn settle_tallies(&mut self) {
        for (layout, sums) in self.tallied.drain(..) {
            credit(&mut self.runs, self.maker.flows.layout(layout).tallies(), sums);
        }
    }

    /// Applies a batch as a whole. The rewrites that contradict the tables now are no more found, and come back with their places, which are not used again
    /// until [`RewriteCache::release`].
    ///
    /// # Errors
    /// Those of [`Interp::write`].
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Vec<(u32, Flow)>, WriteError> {
        self.settle();
        let mut noted: Vec<(Change, Option<u32>)> = Vec::new();
        self.runs.write_noting(batch, &mut |change, number| noted.push((change.clone(), number)))?;
        let stale = self.contradicted(&noted);
        Ok(self.forget(stale))
    }

    /// Places of rewrites that contradict the tables after these changes.
    pub(super) fn contradicted(&self, noted: &[(Change, Option<u32>)]) -> BTreeSet<u32> {
        let mut stale = BTreeSet::new();
        for (change, number) in noted {
            self.maker.flows.stale(&self.maker.known, &self.runs, (change, *number), &mut stale);
        }
        stale
    }

    fn forget(&mut self, stale: BTreeSet<u32>) -> Vec<(u32, Flow)> {
        let gone = self.take_out(stale);
        self.maker.stats.stale += gone.len() as u64;
        gone
    }

    fn take_out(&mut self, places: impl IntoIterator<Item = u32>) -> Vec<(u32, Flow)> {
        let Maker { flows, known, .. } = &mut self.maker;
        places.into_iter().filter_map(|place| Some((place, flows.remove(known, place)?))).collect()
    }

    /// Time passes; idle entries, and rewrites that found one that is gone, or had no packets for too long.
    pub fn advance_time(&mut self, now: u64) -> (Vec<IdleEntry>, Vec<(u32, Flow)>) {
        self.settle();
        let idle = self.runs.advance_time(now);
        let mut stale = BTreeSet::new();
        for gone in idle.iter().filter(|gone| gone.deleted) {
            self.maker.flows.gone(&self.maker.known, gone.table, &gone.entry, None, &mut stale);
        }
        let mut gone = self.forget(stale);
        let unused = self.unused(now);
        gone.extend(self.take_out(unused));
        (idle, gone)
    }

    /// Places of rewrites that have had no packets for too long, which are counted as gone; each time a part of all is looked at.
    pub(super) fn unused(&mut self, now: u64) -> Vec<u32> {
        let Some(after) = self.idle_after else { return Vec::new() };
        let unused = self.maker.flows.unused_since(now.saturating_sub(after), LOOKED_AT);
        self.maker.stats.expired += unused.len() as u64;
        unused
    }

    /// Takes out up to `count` flows that had no packets for the longest time.
    pub fn evict(&mut self, count: usize) -> Vec<(u32, Flow)> {
        self.settle();
        let oldest = self.maker.flows.oldest(count);
        let gone = self.take_out(oldest);
        self.maker.stats.evicted += gone.len() as u64;
        self.renew();
        gone
    }

    /// If all rows are gone and settled, their memory may be used for others in any way.
    pub(super) fn renew(&mut self) {
        if self.maker.flows.renew() {
            // They name rows that are no more.
            self.counted.clear();
            self.settling.clear();
        }
    }

    /// A place may be used again.
    pub fn release(&mut self, place: u32) {
        self.maker.flows.release(place);
    }
}

/// The one packet that became of it, if it is one that a rewrite can make.
fn only(out: &Outputs) -> Result<Left<'_>, Unrewritable> {
    match out.packets() {
        [only] if only.origin != Origin::Received => Err(Unrewritable::Copies),
        [only] if matches!(only.verdict, Verdict::ToCpu { .. }) => Err(Unrewritable::ToCpu),
        [only] => Ok(Left { verdict: only.verdict, bytes: &only.bytes }),
        _ => Err(Unrewritable::Copies),
    }
}

/// Packets, bytes, and the time of the last.
type Sums = (u64, u64, u64);

/// What so many packets of so many bytes, the last of them then, add up to.
fn credit<R: Runs>(runs: &mut R, credits: impl Iterator<Item = (Credit, ByteForm)>, (packets, bytes, last): Sums) {
    runs.saw(last);
    for (credit, form) in credits {
        runs.credit(&credit, packets, form.total(packets, bytes), last);
    }
}
