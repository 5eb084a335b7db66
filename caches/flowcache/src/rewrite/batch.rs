//! Batch processing: cached packets are rewritten first, then the misses run one by one.

use super::NotRewritable;
use super::backing_engine::BackingEngine;
use super::engine::RewriteCache;
use super::flows::FlowInsertion;
use super::row::FlowRow;
use super::row_lookup::{LOOKUP_BATCH, LookupBatch, TOO_LONG};
use super::row_memory::NONE;
use super::window::PacketWindow;
use entries::{WriteBatch, WriteError};
use jit::rewrite::RewriteOutcome;
use packet::{
    Batch, BatchOutput, DropReason, Engine, EngineReason, Packet, PacketOrigin, PacketRef, PacketVerdict, PortId,
    ReasonTable, Verdict,
};

/// Maximum number of flows evicted at once.
const MAX_EVICTIONS: usize = 256;

/// Returns how many packets have the receive time of the first one.
pub(super) fn count_same_time(packets: &[Packet]) -> usize {
    let time = packets.first().map_or(0, |packet| packet.rx_time_ns);
    packets.iter().position(|packet| packet.rx_time_ns != time).unwrap_or(packets.len())
}

/// Processes packets of a batch.
pub trait ServeBatch {
    /// Processes `packets`, of which the first has index `first` in its batch, and adds the results
    /// to `out`.
    fn serve_packets(&mut self, packets: &mut [Packet], first: usize, out: &mut BatchOutput);
}

impl<R: BackingEngine> RewriteCache<R>
where
    RewriteCache<R>: ServeBatch,
{
    /// Processes a batch. If it has traced packets, each packet is processed alone, so that the
    /// statistics show its treatment.
    pub(super) fn serve_batch(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.packet_explanations.clear();
        let packets = batch.packets_mut();
        if packets.iter().all(|packet| packet.trace_id == 0) {
            return self.measure_batch(|cache| cache.serve_packets(packets, 0, out));
        }
        for (at, packet) in packets.iter_mut().enumerate() {
            let (trace_id, before) = (packet.trace_id, self.builder.stats.clone());
            self.serve_packets(std::slice::from_mut(packet), at, out);
            if trace_id != 0 {
                self.packet_explanations.push((trace_id, self.builder.stats.describe_packet_since(&before)));
            }
        }
    }
}

impl<R: BackingEngine> RewriteCache<R> {
    /// Rewrites and counts the packets that hit, and sets their verdicts. Verdicts of misses stay
    /// unset. The packets are at most [`LOOKUP_BATCH`] and have one receive time.
    pub(super) fn rewrite_hits(&mut self, packets: &mut [Packet], verdicts: &mut [Option<Verdict>]) {
        let mut lookup_batch = self.lookup_batch.take().unwrap_or_default();
        self.builder.flows.find_rows(&mut lookup_batch, packets);
        if self.is_flushing() {
            self.flush_counters_bounded(LOOKUP_BATCH);
        }
        let now = self.backing.observe_time(packets.first().map_or(0, |packet| packet.rx_time_ns));
        let LookupBatch { slots, views, head } = &mut *lookup_batch;
        let (mut misses, mut without_code) = (0, 0);
        for (((slot, view), packet), verdict) in slots.iter().zip(views).zip(&mut *packets).zip(verdicts) {
            if slot.row == NONE {
                misses += 1;
                continue;
            }
            *verdict = Some(match slot.outcome.decode() {
                RewriteOutcome::InPlace(port) | RewriteOutcome::Separate(port) => {
                    Verdict::Forward { port: PortId(port) }
                }
                RewriteOutcome::Dropped(TOO_LONG) => Verdict::Drop(EngineReason::PacketTooLong.into()),
                RewriteOutcome::Dropped(reason) => Verdict::Drop(self.builder.flows.reasons()[reason as usize]),
                // The row matches, but it has no native code yet.
                RewriteOutcome::NotApplied => {
                    without_code += 1;
                    self.builder.flows.count_without_code(slot.row, self.native_threshold);
                    let row = self.builder.flows.row(slot.row);
                    rewrite_without_code(row, &view.window, packet, (self.builder.flows.reasons(), head))
                }
            });
            let length = packet.metered_len_bytes.map_or(slot.length as u64, u64::from);
            self.count_packets(slot.row, 1, length, now);
        }
        let rewritten = packets.len() as u64 - misses;
        self.builder.stats.rewritten += rewritten;
        self.builder.stats.by_native_code += rewritten - without_code;
        self.lookup_batch = Some(lookup_batch);
    }

    /// Counts an insertion and records it for the kernel cache. Without a kernel cache, releases
    /// the place of a replaced flow.
    pub(super) fn finish_insertion(&mut self, insertion: Result<FlowInsertion, NotRewritable>) {
        self.count_insertion(&insertion);
        match (insertion, &mut self.flow_events) {
            (Ok(insertion), Some(events)) => events.placed.push(insertion),
            (Ok(FlowInsertion { replaced: Some((place, _)), .. }), None) => self.builder.flows.release(place),
            (Err(NotRewritable::NoRoom), Some(events)) => events.full = true,
            _ => {}
        }
    }

    /// Applies a batch with [`RewriteCache::write`] and releases the places of stale flows, for a
    /// cache without kernel flows.
    ///
    /// # Errors
    /// Those of [`RewriteCache::write`]; no state has changed.
    pub fn write_and_release(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let removed = self.write(batch)?;
        removed.into_iter().for_each(|(place, _)| self.release(place));
        Ok(())
    }

    /// Advances time and releases the places of removed flows, for a cache without kernel flows.
    pub(super) fn advance_and_release(&mut self, now: u64) {
        let (idle, removed) = self.advance_time(now);
        removed.into_iter().for_each(|(place, _)| self.builder.flows.release(place));
        self.backing.notify(idle);
    }

    /// Discards flows and releases their places.
    pub(super) fn discard_places(&mut self, places: &[u32]) {
        places.chunks(LOOKUP_BATCH).for_each(|places| self.discard_chunk(places));
    }

    /// Discards up to [`LOOKUP_BATCH`] flows.
    fn discard_chunk(&mut self, places: &[u32]) {
        self.builder.flows.prefetch_rows(places);
        for place in places {
            if let Some(row) = self.builder.flows.row_at_place(*place) {
                self.flush_row(row);
            }
        }
        self.flush_layout_tallies();
        self.builder.flows.discard_flows(&self.builder.facts, places);
    }

    /// Removes all flows, for a cache without kernel flows.
    pub fn clear(&mut self) {
        let all: Vec<u32> = self.builder.flows.used_places().collect();
        self.discard_places(&all);
        self.reset_row_memory();
    }

    /// Evicts flows until `count` places are free. Does nothing with a kernel cache, which evicts
    /// flows itself.
    pub(super) fn reserve_places(&mut self, count: usize) {
        if self.flow_events.is_none() && self.builder.flows.is_fragmented() {
            self.builder.stats.fragmentation_flushes += 1;
            self.clear();
        }
        while self.flow_events.is_none() && self.builder.flows.free_places() < count && !self.builder.flows.is_empty() {
            self.evict_oldest();
        }
    }

    /// Evicts flows without recent packets.
    fn evict_oldest(&mut self) {
        // The number is limited, because packets wait meanwhile.
        let oldest = self.builder.flows.find_oldest_places((self.builder.flows.capacity() / 64 + 1).min(MAX_EVICTIONS));
        self.builder.stats.evicted += oldest.len() as u64;
        self.discard_places(&oldest);
    }
}

impl RewriteCache {
    /// Runs a packet without a rewrite and inserts its rewrite. Evicts flows if no place is free.
    fn run_and_learn(&mut self, index: usize, packet: &mut Packet, out: &mut BatchOutput) {
        self.reserve_places(1);
        let mut results = std::mem::take(&mut self.slow_path.results);
        self.backing.set_metered_length(packet.metered_len_bytes);
        let placed = self.run_and_insert(packet.bytes(), packet.ingress_port.0, packet.rx_time_ns, &mut results);
        self.backing.set_metered_length(None);
        self.finish_insertion(placed);
        interp::emit(&results, index as u16, packet, out);
        self.slow_path.results = results;
    }
}

impl ServeBatch for RewriteCache {
    /// Serves groups of packets with one receive time: rewrites the hits, then runs each miss and
    /// inserts its rewrite before the next packet. `offset`: index of the first packet in its
    /// batch.
    fn serve_packets(&mut self, packets: &mut [Packet], offset: usize, out: &mut BatchOutput) {
        let mut verdicts = std::mem::take(&mut self.slow_path.verdicts);
        // In programs with add-on-miss tables, each packet is finished before the next lookup.
        let max_count = if self.builder.facts.adds_on_miss.contains(&true) { 1 } else { LOOKUP_BATCH };
        let mut first = 0;
        while first < packets.len() {
            let count = count_same_time(&packets[first..]).min(max_count);
            let group = &mut packets[first..first + count];
            verdicts.clear();
            verdicts.resize(count, None);
            self.rewrite_hits(group, &mut verdicts);
            self.set_admission_verdicts(group, &mut verdicts);
            let mut has_missed = false;
            for (at, packet) in group.iter_mut().enumerate() {
                if has_missed && verdicts[at].is_none() {
                    // The packet before can belong to the same flow.
                    self.rewrite_hits(std::slice::from_mut(packet), std::slice::from_mut(&mut verdicts[at]));
                }
                has_missed |= verdicts[at].is_none();
                match verdicts[at] {
                    Some(verdict) => out.emit(received_emission(offset + first + at, verdict)),
                    None => self.measure_slow_path(|cache| cache.run_and_learn(offset + first + at, packet, out)),
                }
            }
            first += count;
        }
        self.slow_path.verdicts = verdicts;
    }
}

/// Returns the emission of a received packet.
pub(super) fn received_emission(index: usize, verdict: Verdict) -> PacketVerdict {
    PacketVerdict { packet: PacketRef::Input(index as u16), origin: PacketOrigin::Received, verdict }
}

impl<R: BackingEngine + Send> Engine for RewriteCache<R>
where
    RewriteCache<R>: ServeBatch,
{
    fn name(&self) -> &str {
        "rewrites"
    }

    fn reasons(&self) -> &ReasonTable {
        self.backing.reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.serve_batch(batch, out);
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        std::mem::take(&mut self.packet_explanations)
    }

    fn tick(&mut self, now: u64, _out: &mut BatchOutput) {
        self.advance_and_release(now);
    }

    fn on_idle(&mut self) {
        self.backing.park();
    }
}

/// Rewrites a packet by its row without native code. `window` has the packet's first bytes. Returns
/// the verdict.
fn rewrite_without_code(
    row: FlowRow<'_>,
    window: &PacketWindow,
    packet: &mut Packet,
    (reasons, head): (&[DropReason], &mut PacketWindow),
) -> Verdict {
    let verdict = row.verdict(reasons);
    let length = packet.bytes().len();
    if !matches!(verdict, Verdict::Forward { .. }) || row.rewrite_in_place(window, packet.bytes_mut()) {
        return verdict;
    }
    let (len, replaced_bytes) = row.write_header(window, length, head);
    match packet.replace_front(replaced_bytes, &head[..len]) {
        Ok(()) => verdict,
        Err(_) => Verdict::Drop(EngineReason::PacketTooLong.into()),
    }
}
