//! Native code as the slow path of rewrites: it runs many misses together and records each
//! ([`jit::PacketRecord`]).

use super::NotRewritable;
use super::backing_engine::BackingEngine;
use super::batch::{ServeBatch, count_same_time, received_emission};
use super::doorkeeper::{BatchMode, Doorkeeper};
use super::engine::RewriteCache;
use super::fill::{ReceivedPacket, ResultingPacket};
use super::flows::PreparedFlow;
use super::miss_batch::MissBatch;
use super::path_record::PathRecord;
use super::row_lookup::LOOKUP_BATCH;
use super::symbolic_executor::ProgramFacts;
use entries::{ControlState, StateChange, StoredEntry, WriteBatch, WriteError};
use interp::{Config, DeferredCount, IdleEntry, Interp};
use ir::{Pipeline, TableId};
use jit::{FallbackReason, Jit, JitError};
use packet::{BatchOutput, Engine, Packet, PacketOrigin, PacketRef, PacketVerdict, ReasonTable, Verdict};
use std::borrow::Cow;
use std::sync::Arc;
use thiserror::Error;

/// Reason why native code cannot run a program.
#[derive(Debug, Error)]
pub enum NativeError {
    /// The program cannot be loaded.
    #[error(transparent)]
    Load(#[from] JitError),
    /// Native code does not support an instruction; [`RewriteCache::new`] accepts the program.
    #[error("native code does not support this program: {0}")]
    Unsupported(FallbackReason),
}

impl BackingEngine for Jit {
    const DECIDES_AS_INTERP: bool = false;

    fn action_data_word(&self, table: TableId, found: Option<u32>, word: usize) -> Option<u64> {
        let mut words = Vec::new();
        if self.copy_action_data(table, found, &mut words) { words.get(word).copied() } else { None }
    }

    fn generation(&self, table: TableId, number: u32) -> u32 {
        Jit::generation(self, table, number)
    }

    fn entry_of(&self, table: TableId, number: u32) -> Option<Cow<'_, StoredEntry>> {
        Jit::entry_by_id(self, table, number).map(Cow::Owned)
    }

    fn observe_time(&mut self, now: u64) -> u64 {
        Jit::observe_time(self, now)
    }

    fn apply_counts(&mut self, credit: &DeferredCount, packets: u64, bytes: u64, last: u64) {
        Jit::credit(self, credit, packets, bytes, last);
    }

    fn write_noting(
        &mut self,
        batch: &WriteBatch,
        note: &mut dyn FnMut(&StateChange, Option<u32>),
    ) -> Result<(), WriteError> {
        Jit::write_noting(self, batch, note)
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        Jit::advance_time(self, now)
    }

    fn with_state<R>(&self, f: impl FnOnce(&ControlState) -> R) -> R {
        Jit::with_written_state(self, f)
    }

    fn park(&mut self) {
        Jit::park(self);
    }

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(self)
    }

    fn notify(&mut self, _: Vec<IdleEntry>) {
        // `PerWorkerCaches::advance_time` returns them, which is what a node calls.
    }
}

/// Maximum number of new flows built together.
const MAX_LEARNED: usize = 64;

impl RewriteCache<Jit> {
    /// Loads a verified pipeline, with a capacity in flows.
    ///
    /// # Errors
    /// Those of [`Jit::new`]; and a program that native code does not support.
    pub fn native(pipeline: Arc<Pipeline>, config: Config, capacity: usize) -> Result<RewriteCache<Jit>, NativeError> {
        let jit = Jit::new_recording(pipeline.clone(), config.clone())?;
        if let Some(reason) = jit.fallback_reason() {
            return Err(NativeError::Unsupported(reason));
        }
        let load = |error| NativeError::Load(JitError::Load(error));
        let interp = Interp::new(pipeline.clone(), config.clone()).map_err(load)?;
        let facts = Arc::new(ProgramFacts::new(&pipeline, interp.program()));
        RewriteCache::from_engine(jit, facts, config, capacity).map_err(load)
    }

    /// Runs misses and inserts their rewrites. Evicts flows if no place is free. Takes packets from
    /// the start of `missing` that have no verdict. Each element of `missing` is the index of a
    /// packet and the hash of its flow, or 0. Returns the number of elements that it consumed.
    fn learn_misses(
        &mut self,
        misses: &mut MissBatch,
        missing: &[(usize, u64)],
        packets: &mut [Packet],
        verdicts: &mut [Option<Verdict>],
    ) -> usize {
        let consumed = self.gather_misses(misses, missing, packets, verdicts);
        misses.path_record.resize_with(MAX_LEARNED, PathRecord::default);
        let (path_record, learned) = (&mut misses.path_record, &misses.learned);
        let mut next_learned = learned.iter().enumerate().peekable();
        // Records come in the order of the batch, as the elements of `learned` do.
        self.backing.process_recorded(&mut misses.batch, &mut misses.out, &mut |at, record| {
            if let Some((index, _)) = next_learned.next_if(|(_, number)| **number == at) {
                path_record[index].copy_record(record);
            }
        });
        self.builder.stats.slow_path_packets += misses.learned.len() as u64;
        self.count_not_inserted(misses.received_indices.len() - misses.learned.len());
        self.reserve_places(misses.learned.len());
        self.build_rewrites(misses, packets);
        self.insert_rewrites(misses, packets);
        misses.return_packets(packets, verdicts);
        consumed
    }

    /// Moves packets into the batch for [`RewriteCache::learn_misses`]; packets to insert are
    /// copied. Returns the number of consumed elements of `missing`. Each has the index of a packet
    /// and the hash of its flow.
    fn gather_misses(
        &mut self,
        misses: &mut MissBatch,
        missing: &[(usize, u64)],
        packets: &mut [Packet],
        verdicts: &[Option<Verdict>],
    ) -> usize {
        misses.clear();
        for (consumed, (at, flow_hash)) in missing.iter().enumerate() {
            if misses.learned.len() == MAX_LEARNED {
                return consumed;
            }
            if verdicts[*at].is_some() {
                continue;
            }
            let Ok(free_packet) = misses.batch.push() else { return consumed };
            if self.admits_flow(*flow_hash, &packets[*at]) {
                free_packet.copy_from(&packets[*at]);
                misses.learned.push(misses.received_indices.len());
            } else {
                std::mem::swap(free_packet, &mut packets[*at]);
            }
            misses.received_indices.push(*at);
        }
        missing.len()
    }

    /// Returns whether the packet's rewrite is to be inserted. `flow_hash`: hash of its flow, or 0.
    fn admits_flow(&mut self, flow_hash: u64, packet: &Packet) -> bool {
        if !self.is_nearly_full() {
            return true;
        }
        let doorkeeper = &mut self.slow_path.doorkeeper;
        let flow_hash = if flow_hash == 0 { doorkeeper.packet_hash(packet.bytes()) } else { flow_hash };
        doorkeeper.check_and_mark(flow_hash, self.builder.flows.capacity())
    }

    /// Returns whether the doorkeeper applies, because the cache is nearly full.
    fn is_nearly_full(&self) -> bool {
        self.flow_events.is_none()
            && Doorkeeper::is_needed(self.builder.flows.free_places(), self.builder.flows.capacity())
    }

    /// Runs the packets of `missing` without verdicts, at most a batch, and inserts nothing.
    /// Returns false without side effects if native code cannot do that.
    fn run_misses_unrecorded(
        &mut self,
        misses: &mut MissBatch,
        missing: &[(usize, u64)],
        (packets, verdicts): (&mut [Packet], &mut [Option<Verdict>]),
    ) -> bool {
        misses.clear();
        for (at, _) in missing.iter().filter(|(at, _)| verdicts[*at].is_none()) {
            let Ok(free_packet) = misses.batch.push() else { break };
            std::mem::swap(free_packet, &mut packets[*at]);
            misses.received_indices.push(*at);
        }
        let has_run = self.backing.process_unrecorded(misses.batch.packets_mut(), 0, &mut misses.out);
        if has_run {
            self.count_not_inserted(misses.received_indices.len());
        }
        misses.return_packets(packets, if has_run { verdicts } else { &mut [] });
        has_run
    }

    fn count_not_inserted(&mut self, packets: usize) {
        self.builder.stats.slow_path_packets += packets as u64;
        self.builder.stats.not_inserted += packets as u64;
    }

    /// Processes packets with one receive time: rewrites the hits, then runs the misses together,
    /// so that their cache misses overlap. Sets the verdicts.
    fn process_group(&mut self, mode: BatchMode, packets: &mut [Packet], verdicts: &mut Vec<Option<Verdict>>) {
        verdicts.clear();
        verdicts.resize(packets.len(), None);
        let mut missing = std::mem::take(&mut self.slow_path.missing);
        missing.clear();
        let mut first = 0;
        for (packets, verdicts) in packets.chunks_mut(LOOKUP_BATCH).zip(verdicts.chunks_mut(LOOKUP_BATCH)) {
            let rewritten_before = self.builder.stats.rewritten;
            self.rewrite_hits(packets, verdicts);
            if self.builder.stats.rewritten - rewritten_before < packets.len() as u64 {
                let slots =
                    self.lookup_batch.iter().flat_map(|lookup_batch| &lookup_batch.slots).zip(&*verdicts).enumerate();
                let without_verdict = slots.filter(|(_, (_, verdict))| verdict.is_none());
                missing.extend(without_verdict.map(|(at, (slot, _))| (first + at, slot.first_hash)));
            }
            first += packets.len();
        }
        self.slow_path.throttle.record_lookups(packets.len(), missing.len());
        if !missing.is_empty() {
            self.set_admission_verdicts(packets, verdicts);
            self.measure_slow_path(|cache| cache.run_misses(mode, &missing, packets, verdicts));
        }
        self.slow_path.missing = missing;
    }

    /// Runs the packets of `missing` that have no verdict.
    fn run_misses(
        &mut self,
        mode: BatchMode,
        missing: &[(usize, u64)],
        packets: &mut [Packet],
        verdicts: &mut [Option<Verdict>],
    ) {
        let mut misses = std::mem::take(&mut self.slow_path.misses);
        let has_run =
            mode != BatchMode::Insert && self.run_misses_unrecorded(&mut misses, missing, (packets, verdicts));
        let mut remaining = if has_run { &[] } else { missing };
        while !remaining.is_empty() {
            remaining = &remaining[self.learn_misses(&mut misses, remaining, packets, verdicts)..];
        }
        self.slow_path.misses = misses;
    }

    /// Runs all packets without a lookup. Returns false without side effects if native code cannot
    /// do that. `first`: index of the first packet in its batch.
    fn run_unrecorded(&mut self, packets: &mut [Packet], first: usize, out: &mut BatchOutput) -> bool {
        let has_run = self.admission.is_none() && self.backing.process_unrecorded(packets, first, out);
        if has_run {
            self.count_not_inserted(packets.len());
        }
        has_run
    }

    /// Builds the rewrite of each recorded packet from its record and its result, and prepares its
    /// insertion.
    fn build_rewrites(&mut self, misses: &mut MissBatch, packets: &[Packet]) {
        let MissBatch { batch, out, path_record, received_indices, learned, built: rewrites, rows, .. } = misses;
        rewrites.clear();
        rows.resize_with(rows.len().max(learned.len()), PreparedFlow::default);
        // A packet that recirculates can have several verdicts, which are consecutive.
        let mut emissions = out.verdicts().chunk_by(|last, next| last.packet == next.packet);
        for (index, number) in learned.iter().enumerate() {
            let (packet, path_record, number) = (&packets[received_indices[*number]], &path_record[index], *number);
            let received = ReceivedPacket { bytes: packet.bytes(), port: packet.ingress_port.0 };
            let of_packet = emissions.find(|verdicts| verdicts[0].packet == PacketRef::Input(number as u16));
            let result = result_of_packet(of_packet.unwrap_or_default(), &batch.packets()[number]);
            let built = self.builder.build_from_path(&self.backing, (received, packet.rx_time_ns), result, path_record);
            if let Ok(built) = built {
                self.builder.prepare_insertion(built, &mut rows[index]);
            }
            rewrites.push(built);
        }
    }

    /// Inserts the rewrites that were built, and counts the packets that have none.
    fn insert_rewrites(&mut self, misses: &mut MissBatch, packets: &[Packet]) {
        let built = misses.rows.iter().zip(&misses.built).filter(|(_, built)| built.is_ok());
        for (before, (prepared, _)) in built.enumerate() {
            self.builder.flows.prefetch_insertion(prepared, before);
        }
        for (index, (built, number)) in misses.built.iter().zip(&misses.learned).enumerate() {
            let (prepared, at) = (&misses.rows[index], misses.received_indices[*number]);
            // The packet before can belong to the same flow.
            if let Ok(built) = built
                && self.builder.flows.is_cached(built.layout, prepared)
            {
                self.builder.drop_layout_reference(*built);
                continue;
            }
            let packet = &packets[at];
            let insertion = built
                .and_then(|built| self.builder.insert_rewrite(built, prepared, (packet.bytes(), packet.rx_time_ns)));
            self.finish_insertion(insertion);
        }
    }
}

impl ServeBatch for RewriteCache<Jit> {
    /// Serves groups of packets with one receive time. While the cache is nearly full, most groups
    /// insert no flow, or even skip the lookup. `offset`: index of the first packet in its batch.
    fn serve_packets(&mut self, packets: &mut [Packet], offset: usize, out: &mut BatchOutput) {
        let mut verdicts = std::mem::take(&mut self.slow_path.verdicts);
        let mut first = 0;
        while first < packets.len() {
            let count = count_same_time(&packets[first..]);
            let group = &mut packets[first..first + count];
            let mode = if self.is_nearly_full() { self.slow_path.throttle.next_mode() } else { BatchMode::Insert };
            if mode == BatchMode::Bypass && self.run_unrecorded(group, offset + first, out) {
                first += count;
                continue;
            }
            self.process_group(mode, group, &mut verdicts);
            let mut generated = self.slow_path.misses.generated.drain(..).peekable();
            for (at, verdict) in verdicts.iter().enumerate().filter_map(|(at, verdict)| Some((at, (*verdict)?))) {
                let received = received_emission(offset + first + at, verdict);
                out.emit(received);
                // Verdicts of packets that were made of this one.
                while let Some((_, origin, verdict)) = generated.next_if(|(index, ..)| *index == at) {
                    out.emit(PacketVerdict { origin, verdict, ..received });
                }
            }
            first += count;
        }
        self.slow_path.verdicts = verdicts;
    }
}

/// Returns the result of a packet, if a rewrite can produce it. `emissions`: its verdicts, and
/// those of packets made of it.
fn result_of_packet<'p>(emissions: &[PacketVerdict], packet: &'p Packet) -> Result<ResultingPacket<'p>, NotRewritable> {
    match emissions {
        [PacketVerdict { verdict: Verdict::ToCpu { .. }, .. }] => Err(NotRewritable::ToCpu),
        [PacketVerdict { origin: PacketOrigin::Received, verdict, .. }] => {
            Ok(ResultingPacket { verdict: *verdict, bytes: packet.bytes() })
        }
        _ => Err(NotRewritable::Copies),
    }
}
