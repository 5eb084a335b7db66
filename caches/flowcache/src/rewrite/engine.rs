//! [`RewriteCache`]: an engine with a cache of rewrites that were built from its results.

use super::backing_engine::BackingEngine;
use super::builder::{BuiltRewrite, RewriteBuilder};
use super::code::COMPILE_THRESHOLD;
use super::doorkeeper::{Doorkeeper, InsertionThrottle};
use super::fill::{ReceivedPacket, ResultingPacket};
use super::flows::{CachedFlow, FlowInsertion, FlowTable, PreparedFlow};
use super::miss_batch::MissBatch;
use super::path_record::{PathRecord, PathRecorder};
use super::row_lookup::{LookupBatch, PacketView};
use super::row_memory::NONE;
use super::stats::RewriteStats;
use super::symbolic_executor::{ProgramFacts, SymbolicExecutor};
use super::{NotRewritable, row, window};
use crate::admission::SlowPathAdmission;
use entries::{StateChange, WriteBatch, WriteError};
use interp::{ByteCount, Config, DeferredCount, IdleEntry, Interp, LoadError, Outputs};
use ir::Pipeline;
use packet::{Packet, PacketOrigin, PortId, Verdict};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Places that each tick searches for idle rewrites.
const IDLE_SCAN_PLACES: usize = 1 << 12;

/// Rows between the prefetch of a row and the flush of its counts, and prefetched lines of each.
const PREFETCH_AHEAD: usize = 8;
const PREFETCH_LINES: usize = 4;

/// Result of a cache lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CacheResult {
    /// The packet was rewritten: place of the rewrite, and verdict.
    Rewritten(u32, Verdict),
    /// No rewrite matches.
    Missed,
}

/// Flows inserted by batches, for a kernel cache ([`RewriteCache::enable_flow_events`]).
#[derive(Debug, Default)]
pub struct FlowEvents {
    /// Inserted flows, and the flows that they replaced. The receiver releases the places of
    /// replaced flows ([`RewriteCache::release`]).
    pub placed: Vec<FlowInsertion>,
    /// An insertion failed for lack of a place. The receiver has to evict flows
    /// ([`RewriteCache::evict_flows`]).
    pub full: bool,
}

/// Engine with a cache of rewrites. A kernel cache can apply them as well; its counts are applied
/// here.
///
/// `R` runs the misses: the interpreter, or native code.
pub struct RewriteCache<R = Interp> {
    pub(super) backing: R,
    pub(super) builder: RewriteBuilder,
    /// Rows with deferred counts: since the last flush started, and of that flush.
    rows_with_counts: Vec<u32>,
    rows_in_flush: Vec<u32>,
    /// Layouts with deferred counts of the tallies that all of their rows update.
    layout_counts: Vec<(u32, CountTotals)>,
    /// Scratch memory of batched lookups.
    pub(super) lookup_batch: Option<Box<LookupBatch>>,
    /// Number of packets of a key mask or layout before native code is compiled for it.
    pub(super) native_threshold: u32,
    pub(super) slow_path: SlowPathScratch,
    pub(super) admission: Option<SlowPathAdmission>,
    /// Configuration of the engine.
    pub(super) config: Config,
    /// Flow events for a kernel cache; `None` without one.
    pub(super) flow_events: Option<FlowEvents>,
    /// Explanations of traced packets, by trace id.
    pub(super) packet_explanations: Vec<(u16, String)>,
    /// Time after which a rewrite without packets expires, in nanoseconds.
    pub(super) idle_timeout_ns: Option<u64>,
}

/// Scratch memory of the slow path.
pub(super) struct SlowPathScratch {
    pub recorder: PathRecorder,
    pub results: Outputs,
    pub prepared: PreparedFlow,
    pub misses: MissBatch,
    pub verdicts: Vec<Option<Verdict>>,
    /// Misses of the batch: index, and hash that identifies the flow.
    pub missing: Vec<(usize, u64)>,
    pub doorkeeper: Doorkeeper,
    pub throttle: InsertionThrottle,
    /// Nanoseconds of the slow path in this batch, if measured.
    pub took_ns: Option<u64>,
}

impl RewriteCache {
    /// Loads a verified pipeline, with a capacity in flows.
    ///
    /// # Errors
    /// Those of [`Interp::new`].
    pub fn new(pipeline: Arc<Pipeline>, config: Config, capacity: usize) -> Result<RewriteCache, LoadError> {
        let interp = Interp::new(pipeline.clone(), config.clone())?;
        let facts = Arc::new(ProgramFacts::new(&pipeline, interp.program()));
        RewriteCache::from_engine(interp, facts, config, capacity)
    }

    /// Runs a packet and inserts its rewrite.
    ///
    /// # Errors
    /// The reason why no rewrite was inserted. The packet was run nevertheless.
    pub fn learn_packet(
        &mut self,
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
    ) -> Result<FlowInsertion, NotRewritable> {
        let insertion = self.run_and_insert(bytes, port, now, out);
        self.count_insertion(&insertion);
        insertion
    }

    /// Runs a packet, received at `now` (ns), and inserts its rewrite. Does not count the
    /// insertion.
    pub(super) fn run_and_insert(
        &mut self,
        bytes: &[u8],
        port: u32,
        now: u64,
        out: &mut Outputs,
    ) -> Result<FlowInsertion, NotRewritable> {
        self.builder.stats.slow_path_packets += 1;
        let built = self.build_rewrite((bytes, port, now), out)?;
        self.builder.prepare_insertion(built, &mut self.slow_path.prepared);
        self.builder.insert_rewrite(built, &self.slow_path.prepared, (bytes, now))
    }

    /// Runs a packet (bytes, ingress port, receive time in ns) into `out` and builds the rewrite of
    /// its result. A packet that is expected to need symbolic execution runs under it at once.
    fn build_rewrite(&mut self, packet: (&[u8], u32, u64), out: &mut Outputs) -> Result<BuiltRewrite, NotRewritable> {
        let (bytes, port, now) = packet;
        let bytes = &bytes[..bytes.len().min(packet::MAX_LEN)];
        let received = ReceivedPacket { bytes, port };
        let builder = &mut self.builder;
        if builder.starts_symbolically {
            let mut executor = SymbolicExecutor::new(&builder.facts, bytes, builder.tenants.slot);
            self.backing.process_by(&mut executor, bytes, port, now, out);
            let path_record = std::mem::take(&mut executor.path_record);
            let is_complete = executor.constraints.failed.is_none();
            return builder.build_symbolically(
                &self.backing,
                executor,
                (received, single_result(out)?),
                (&path_record, is_complete),
            );
        }
        let recorder = &mut self.slow_path.recorder;
        recorder.path_record.clear();
        self.backing.process_by(recorder, bytes, port, now, out);
        builder.build_from_path(&self.backing, (received, now), single_result(out), &recorder.path_record)
    }
}

impl<R: BackingEngine> RewriteCache<R> {
    /// Creates an empty cache, with a capacity in flows, before an engine that runs its misses.
    pub(super) fn from_engine(
        backing: R,
        facts: Arc<ProgramFacts>,
        config: Config,
        capacity: usize,
    ) -> Result<RewriteCache<R>, LoadError> {
        let recorder = PathRecorder { facts: facts.clone(), path_record: PathRecord::default() };
        Ok(RewriteCache {
            backing,
            builder: RewriteBuilder::new(facts, config.clone(), capacity)?,
            rows_with_counts: Vec::new(),
            rows_in_flush: Vec::new(),
            layout_counts: Vec::new(),
            lookup_batch: None,
            native_threshold: COMPILE_THRESHOLD,
            slow_path: SlowPathScratch {
                recorder,
                results: Outputs::new(),
                prepared: PreparedFlow::default(),
                misses: MissBatch::default(),
                verdicts: Vec::new(),
                missing: Vec::new(),
                doorkeeper: Doorkeeper::default(),
                throttle: InsertionThrottle::default(),
                took_ns: None,
            },
            admission: None,
            config,
            flow_events: None,
            packet_explanations: Vec::new(),
            idle_timeout_ns: None,
        })
    }

    /// Records inserted flows for a kernel cache. Batches then do not evict flows themselves.
    pub fn enable_flow_events(&mut self) {
        self.flow_events.get_or_insert_default();
    }

    /// Returns the flow events since the last call.
    pub fn take_flow_events(&mut self) -> FlowEvents {
        self.flow_events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sets the time after which rewrites without packets expire, in nanoseconds. Each
    /// [`RewriteCache::advance_time`] searches a part of the rewrites.
    pub fn set_idle_timeout_ns(&mut self, nanoseconds: Option<u64>) {
        self.idle_timeout_ns = nanoseconds;
    }

    /// Sets the number of packets of a key mask or layout after which native code is compiled for
    /// it.
    pub fn set_native_threshold(&mut self, packets: u32) {
        self.native_threshold = packets;
    }

    /// Returns the engine of the slow path, which holds all state.
    pub fn engine(&self) -> &R {
        &self.backing
    }

    /// Returns the engine of the slow path, to set counters and other state. Tables must be changed
    /// by [`RewriteCache::write`] only.
    pub fn engine_mut(&mut self) -> &mut R {
        &mut self.backing
    }

    /// Returns the number of known paths.
    pub fn path_count(&self) -> usize {
        self.builder.paths.len()
    }

    /// Returns the cached flows.
    pub fn flows(&self) -> &FlowTable {
        &self.builder.flows
    }

    /// Returns the statistics.
    pub fn stats(&self) -> &RewriteStats {
        &self.builder.stats
    }

    /// Counts the result of an insertion, and applies the deferred counts of a replaced flow.
    pub(super) fn count_insertion(&mut self, insertion: &Result<FlowInsertion, NotRewritable>) {
        let stats = &mut self.builder.stats;
        match insertion {
            Ok(insertion) => {
                stats.inserted += 1;
                if let Some((_, removed)) = &insertion.replaced {
                    stats.replaced += 1;
                    let (packets, bytes, last) = removed.deferred_counts;
                    self.add_removed_counts(removed, packets, bytes, last);
                }
            }
            Err(why) => *stats.refused.entry(*why).or_default() += 1,
        }
    }

    /// Looks up a packet, and rewrites and counts it if it hits. Writes the bytes of a forwarded
    /// packet to `out`.
    pub fn rewrite_packet(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Vec<u8>) -> CacheResult {
        let mut view = PacketView::EMPTY;
        let Ok(mut packet) = Packet::from_bytes(bytes) else { return CacheResult::Missed };
        packet.ingress_port = PortId(port);
        let found = self.builder.flows.find_row(&mut packet, &mut view);
        if found == NONE {
            return CacheResult::Missed;
        }
        let row = self.builder.flows.row(found);
        let verdict = row.verdict(self.builder.flows.reasons());
        out.clear();
        if matches!(verdict, Verdict::Forward { .. }) {
            let mut head = window::EMPTY;
            let (len, replaced_bytes) = row.write_header(&view.window, bytes.len(), &mut head);
            out.extend_from_slice(&head[..len]);
            out.extend_from_slice(bytes.get(replaced_bytes..).unwrap_or_default());
        }
        let (_, place) = row::layout_and_place(row.words);
        let now = self.backing.observe_time(now);
        self.builder.stats.rewritten += 1;
        self.count_packets(found, 1, bytes.len() as u64, now);
        CacheResult::Rewritten(place, verdict)
    }

    #[inline]
    pub(super) fn count_packets(&mut self, row: u32, packets: u64, bytes: u64, last: u64) {
        if row::add_counts(self.builder.flows.words_mut(row), packets, bytes, last) {
            self.rows_with_counts.push(row);
            // The list can contain removed and reused rows. A flush, in parts with the next
            // packets, clears it.
            if self.rows_with_counts.len() > 2 * self.builder.flows.capacity() {
                self.start_flush();
            }
        }
    }

    /// Adds the counts of packets that the kernel rewrote: number, total bytes, and time of the
    /// last (ns).
    pub fn add_kernel_counts(&mut self, place: u32, packets: u64, bytes: u64, last: u64) {
        if let Some(row) = self.builder.flows.row_at_place(place) {
            self.count_packets(row, packets, bytes, last);
        }
    }

    /// Adds such counts for a removed flow.
    pub fn add_removed_counts(&mut self, flow: &CachedFlow, packets: u64, bytes: u64, last: u64) {
        if packets == 0 {
            return;
        }
        apply_counts(&mut self.backing, flow.rewrite.counter_updates.iter().cloned(), (packets, bytes, last));
    }

    /// Applies all deferred counts to counters, tallies and idle times. Required before they are
    /// read. Writes and [`RewriteCache::advance_time`] do it themselves.
    pub fn flush_counters(&mut self) {
        self.start_flush();
        self.flush_counters_bounded(usize::MAX);
    }

    /// Starts a flush of the counts up to now, for [`RewriteCache::flush_counters_bounded`].
    pub(super) fn start_flush(&mut self) {
        self.rows_in_flush.append(&mut self.rows_with_counts);
    }

    /// Flushes up to `max_rows` rows of the started flush. Returns whether more remain.
    pub(super) fn flush_counters_bounded(&mut self, max_rows: usize) -> bool {
        let remaining = self.rows_in_flush.len().saturating_sub(max_rows);
        for at in (remaining..self.rows_in_flush.len()).rev() {
            if let Some(later) = at.checked_sub(PREFETCH_AHEAD) {
                self.builder.flows.prefetch_row(self.rows_in_flush[later], PREFETCH_LINES);
            }
            self.flush_row(self.rows_in_flush[at]);
        }
        self.rows_in_flush.truncate(remaining);
        self.flush_layout_tallies();
        remaining > 0
    }

    /// Returns whether rows of a started flush remain.
    pub(super) fn is_flushing(&self) -> bool {
        !self.rows_in_flush.is_empty()
    }

    /// Flushes the counts of a row, except for tallies of its layout, which wait for
    /// [`RewriteCache::flush_layout_tallies`]. The row can be removed or flushed already.
    pub(super) fn flush_row(&mut self, number: u32) {
        let words = self.builder.flows.words_mut(number);
        let sum = [row::PACKETS, row::BYTES].map(|at| std::mem::take(&mut words[at]));
        let last = words[row::LAST];
        if sum[0] == 0 {
            return;
        }
        let (layout, _) = row::layout_and_place(words);
        apply_counts(&mut self.backing, self.builder.flows.row(number).counter_updates(), (sum[0], sum[1], last));
        match self.layout_counts.last_mut() {
            Some((same, sums)) if *same == layout => {
                *sums = (sums.0 + sum[0], sums.1 + sum[1], sums.2.max(last));
            }
            _ => self.layout_counts.push((layout, (sum[0], sum[1], last))),
        }
    }

    /// Flushes the tallies of layouts. Must run before any of these layouts is dropped.
    pub(super) fn flush_layout_tallies(&mut self) {
        for (layout, sums) in self.layout_counts.drain(..) {
            apply_counts(&mut self.backing, self.builder.flows.layout(layout).common_counters(), sums);
        }
    }

    /// Applies a batch atomically. Removes stale rewrites and returns them with their places, which
    /// stay reserved until [`RewriteCache::release`].
    ///
    /// # Errors
    /// Those of [`Interp::write`].
    pub fn write(&mut self, batch: &WriteBatch) -> Result<Vec<(u32, CachedFlow)>, WriteError> {
        self.flush_counters();
        let mut noted: Vec<(StateChange, Option<u32>)> = Vec::new();
        self.backing.write_noting(batch, &mut |change, number| noted.push((change.clone(), number)))?;
        let stale = self.stale_places(&noted);
        Ok(self.remove_stale(stale))
    }

    /// Returns the places of rewrites that these changes made stale.
    pub(super) fn stale_places(&self, noted: &[(StateChange, Option<u32>)]) -> BTreeSet<u32> {
        let mut stale = BTreeSet::new();
        for (change, number) in noted {
            self.builder.flows.collect_stale(&self.builder.facts, &self.backing, (change, *number), &mut stale);
        }
        stale
    }

    fn remove_stale(&mut self, stale: BTreeSet<u32>) -> Vec<(u32, CachedFlow)> {
        let removed = self.remove_places(stale);
        self.builder.stats.stale += removed.len() as u64;
        removed
    }

    fn remove_places(&mut self, places: impl IntoIterator<Item = u32>) -> Vec<(u32, CachedFlow)> {
        let RewriteBuilder { flows, facts, .. } = &mut self.builder;
        places.into_iter().filter_map(|place| Some((place, flows.remove(facts, place)?))).collect()
    }

    /// Advances time to `now` (ns). Returns idle table entries, and removed rewrites: those that
    /// depended on a removed entry, and idle ones.
    pub fn advance_time(&mut self, now: u64) -> (Vec<IdleEntry>, Vec<(u32, CachedFlow)>) {
        self.flush_counters();
        let idle = self.backing.advance_time(now);
        let mut stale = BTreeSet::new();
        for entry in idle.iter().filter(|entry| entry.deleted) {
            self.builder.flows.collect_dependents_of_entry(
                &self.builder.facts,
                entry.table,
                &entry.entry,
                None,
                &mut stale,
            );
        }
        let mut removed = self.remove_stale(stale);
        let unused = self.idle_places(now);
        removed.extend(self.remove_places(unused));
        (idle, removed)
    }

    /// Returns the places of idle rewrites and counts them as expired. Each call searches a part of
    /// all places.
    pub(super) fn idle_places(&mut self, now: u64) -> Vec<u32> {
        let Some(after) = self.idle_timeout_ns else { return Vec::new() };
        let unused = self.builder.flows.find_idle_places(now.saturating_sub(after), IDLE_SCAN_PLACES);
        self.builder.stats.expired += unused.len() as u64;
        unused
    }

    /// Evicts up to `count` flows without recent packets.
    pub fn evict_flows(&mut self, count: usize) -> Vec<(u32, CachedFlow)> {
        self.flush_counters();
        let oldest = self.builder.flows.find_oldest_places(count);
        let evicted = self.remove_places(oldest);
        self.builder.stats.evicted += evicted.len() as u64;
        self.reset_row_memory();
        evicted
    }

    /// Resets the row memory if no rows and no deferred counts remain.
    pub(super) fn reset_row_memory(&mut self) {
        if self.builder.flows.reset_row_memory() {
            // These lists refer to rows that do not exist any more.
            self.rows_with_counts.clear();
            self.rows_in_flush.clear();
        }
    }

    /// Releases a place for new flows.
    pub fn release(&mut self, place: u32) {
        self.builder.flows.release(place);
    }
}

/// Returns the only resulting packet, if a rewrite can produce it.
fn single_result(out: &Outputs) -> Result<ResultingPacket<'_>, NotRewritable> {
    match out.packets() {
        [only] if only.origin != PacketOrigin::Received => Err(NotRewritable::Copies),
        [only] if matches!(only.verdict, Verdict::ToCpu { .. }) => Err(NotRewritable::ToCpu),
        [only] => Ok(ResultingPacket { verdict: only.verdict, bytes: &only.bytes }),
        _ => Err(NotRewritable::Copies),
    }
}

/// Packets, bytes, and receive time of the last packet (ns).
type CountTotals = (u64, u64, u64);

/// Applies counts to the given counters.
fn apply_counts<R: BackingEngine>(
    backing: &mut R,
    credits: impl Iterator<Item = (DeferredCount, ByteCount)>,
    (packets, bytes, last): CountTotals,
) {
    backing.observe_time(last);
    for (credit, form) in credits {
        backing.apply_counts(&credit, packets, form.total(packets, bytes), last);
    }
}
