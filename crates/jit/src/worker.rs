//! One worker's state, and the loop that runs packets through the stages.
#![allow(unsafe_code)]

mod chunk_size;
mod later_passes;
mod packet_written;
mod path_choice;
mod vector;
mod vector_state;

use crate::abi::{CALL_AREA_WORDS, FrameHeader, FrameInput, MAX_CHUNK, PacketTime, PendingCount, SELECTOR_KEY_BYTES};
use crate::counters::WorkerCounters;
use crate::flows::WorkerFlows;
use crate::idle_profiles::tick_of;
use crate::lanes::LANES;
use crate::memory::{AlignedLine, WorkerMemory};
use crate::plan::stages::StageEntry;
use crate::program::CompiledProgram;
use crate::record::{RecordBuffers, RecordSink};
use crate::stats::{self, TIMED_EVERY, WorkerStats, cpu_ticks};
use crate::verdict;
use chunk_size::{choose_max_chunk, chunk_len};
use ir::Entity;
use lookup::LookupSet;
use packet::{BatchOutput, Packet, PacketOrigin, PacketRef};
use path_choice::PathChoice;
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::Arc;
use vector_state::{DivergedPacket, VectorState};

/// Number of chunks after which the chunk size is chosen again.
const CHUNK_SIZE_INTERVAL: u32 = 256;

/// State of one worker.
pub struct JitWorker {
    program: Arc<CompiledProgram>,
    /// Counters updated in place.
    pub counters: Arc<WorkerCounters>,
    /// Statistics.
    pub stats: Arc<WorkerStats>,
    /// Memory addressed by native code relative to the context.
    memory: WorkerMemory,
    // Memory that the context points to.
    frames: Vec<AlignedLine>,
    pending: Vec<PendingCount>,
    call_area: Vec<u64>,
    zeros: Vec<u64>,
    sink: Vec<u64>,
    scratch: Vec<u8>,
    /// Number of chunks processed.
    chunks: u32,
    /// Maximum chunk size, chosen for the recent tables.
    max_chunk: usize,
    /// Latest arrival time of a packet.
    last_time: PacketTime,
    /// Times of the first and the last packet of the chunk, in nanoseconds.
    chunk_times: [u64; 2],
    /// Record buffers, for code that records.
    records: Option<RecordBuffers>,
    /// Access to tables that packets write.
    flows: WorkerFlows,
    /// Subscribers of the packets of a queue that may take a port.
    subscribers: Vec<u32>,
    /// Hashes of the keys with which packets of a queue missed, with the last packet.
    missed_keys: HashMap<u64, usize>,
    /// State of the vector path, if there is code for it.
    vector: Option<VectorState>,
    /// Worker for later passes of packets, of a program that recirculates.
    later: Option<Box<JitWorker>>,
    /// Origin of the packets that the worker delivers: not `Received` in later passes of a packet
    /// that the engine made.
    origin: PacketOrigin,
    /// Origin of the packet that was delivered last, if it enters the main block again.
    recirculated: Option<PacketOrigin>,
    /// Minimum chunk size for the vector path.
    pub min_vector_batch: usize,
    /// Chooses between the vector and the scalar path; `None`: the vector path wherever possible.
    pub path_choice: Option<PathChoice>,
}

// SAFETY: the pointers are to memory that the worker owns, to the program and counters that it
// shares by `Arc`, and, while `run_batch` runs, to packets and lookups that it borrows.
unsafe impl Send for JitWorker {}

impl Drop for JitWorker {
    /// Keeps the statistics, and marks the worker as idle because it no longer holds a version.
    fn drop(&mut self) {
        self.stats.mark_idle();
    }
}

impl JitWorker {
    /// Makes a worker for a program.
    pub fn new(program: Arc<CompiledProgram>) -> JitWorker {
        let counters = Arc::new(WorkerCounters::new(&program.code.counters));
        let tally = Arc::new(WorkerStats::new(&program.code.stats_layout));
        JitWorker::with_counters(program, counters, tally)
    }

    /// Makes a worker of the same thread for another program with the same counters
    /// ([`CompiledProgram::has_same_counters`]); both update the same counters.
    pub fn new_sharing_counters(&self, program: Arc<CompiledProgram>) -> JitWorker {
        JitWorker::with_counters(program, self.counters.clone(), self.stats.clone())
    }

    /// Lets entries that the control plane has removed be reused while this worker has no packets.
    pub fn park(&mut self) {
        self.flows.park();
        if let Some(later) = &mut self.later {
            later.park();
        }
    }

    /// Takes over the time from another worker of the thread.
    pub fn continue_from(&mut self, other: &JitWorker) {
        self.last_time = other.last_time;
    }

    /// Makes a worker with frames and lists for a full chunk. Counters and statistics are those
    /// given, because the workers of one thread share them.
    fn with_counters(
        program: Arc<CompiledProgram>,
        counters: Arc<WorkerCounters>,
        stats: Arc<WorkerStats>,
    ) -> JitWorker {
        let frames = AlignedLine::zeroed(MAX_CHUNK * program.code.frame_stride as usize);
        // Reads and writes of an invalid header go to memory of its own, with room for wide
        // accesses.
        let header_words = program.code.longest_header.div_ceil(8) + 8;
        JitWorker {
            memory: WorkerMemory::new(program.code.memory.clone(), &counters.addresses()),
            frames,
            pending: vec![
                PendingCount { at: null_mut(), bytes: 0 };
                (program.code.max_counts_per_packet * MAX_CHUNK).max(1)
            ],
            call_area: vec![0; CALL_AREA_WORDS],
            zeros: vec![0; header_words],
            sink: vec![0; header_words],
            scratch: Vec::new(),
            chunks: 0,
            max_chunk: MAX_CHUNK,
            last_time: PacketTime::default(),
            chunk_times: [0; 2],
            flows: WorkerFlows::new(&program.runtime.written),
            subscribers: Vec::new(),
            missed_keys: HashMap::new(),
            vector: VectorState::new(&program),
            later: None,
            origin: PacketOrigin::Received,
            recirculated: None,
            min_vector_batch: LANES,
            path_choice: Some(PathChoice::new()),
            records: program.code.record_layout.as_ref().map(|lists| RecordBuffers::new(lists, MAX_CHUNK)),
            counters,
            stats,
            program,
        }
    }

    /// Processes packets and delivers them to `out`. `first` is the index of the first in its
    /// batch. If the code records, each record is passed to `record_sink`.
    pub fn run_batch(
        &mut self,
        packets: &mut [Packet],
        first: usize,
        lookups: &LookupSet,
        out: &mut BatchOutput,
        mut record_sink: Option<&mut RecordSink<'_>>,
    ) {
        let program = self.program.clone();
        for (index, table) in program.pipeline.tables.keys().enumerate() {
            self.memory.set_default(index, lookups.default_value(table));
            self.memory.set_slots(index, lookups.small_table_hash(table));
        }
        let context = self.memory.context();
        context.frame_stride = program.code.frame_stride as usize;
        context.frames = self.frames.as_mut_ptr().cast();
        context.zeros = self.zeros.as_ptr().cast();
        context.sink = self.sink.as_mut_ptr().cast();
        context.pending = self.pending.as_mut_ptr();
        context.call_area = self.call_area.as_mut_ptr();
        context.lookups = lookups;
        context.flows = (&raw mut self.flows).cast();
        self.flows.begin_batch(tick_of(program.runtime.hit_times.now()));
        context.runtime = std::ptr::from_ref(&program.runtime).cast_mut().cast();
        context.record_buffers = self.records.as_mut().map_or(null_mut(), RecordBuffers::first_area);
        self.stats.set_tables_version(lookups.version());
        let (mut rest, mut first, mut any_vector) = (packets, first, false);
        while !rest.is_empty() {
            if self.chunks.is_multiple_of(CHUNK_SIZE_INTERVAL) {
                self.max_chunk = choose_max_chunk(&program, lookups);
            }
            let size = chunk_len(&program, rest, self.max_chunk);
            let (chunk, others) = rest.split_at_mut(size);
            rest = others;
            let prefers_vector = self.path_choice.as_ref().is_none_or(PathChoice::uses_vector);
            let start_ticks = (size >= PathChoice::MIN_MEASURED_PACKETS).then(cpu_ticks);
            match prefers_vector && size >= self.min_vector_batch && self.can_run_vector(&program) {
                true => {
                    any_vector = true;
                    self.init_vector_input(&program, chunk);
                    self.run_chunk(&program, chunk, lookups, true);
                    self.deliver_vector_chunk(&program, chunk, first, lookups, out);
                }
                false => {
                    self.init_frames(&program, chunk);
                    self.run_chunk(&program, chunk, lookups, false);
                    self.deliver_chunk(&program, chunk, first, lookups, out);
                }
            }
            if let (Some(path_choice), Some(start_ticks)) = (&mut self.path_choice, start_ticks) {
                path_choice.record_ticks(size, cpu_ticks().wrapping_sub(start_ticks));
            }
            if let (Some(sink), Some(record_buffers)) = (&mut record_sink, &mut self.records) {
                (0..size).for_each(|offset| sink(first + offset, &record_buffers.record(offset)));
            }
            first += size;
            self.flows.release_held();
        }
        if any_vector {
            self.flush_vector_stats(&program);
        }
        self.flows.end_batch();
        if program.code.keeps_idle_times {
            program.runtime.hit_times.advance(self.last_time.time_ns);
        }
        for (cell, count) in self.memory.batch_stats().iter_mut().enumerate().filter(|(_, count)| **count != 0) {
            self.stats.add_count(cell, stats::split_count(std::mem::take(count)));
        }
    }

    /// Delivers each packet of a chunk. Most leave unchanged in their buffer; runs of these are
    /// forwarded together. `first` is the index of the chunk's first packet in its batch.
    fn deliver_chunk(
        &mut self,
        program: &CompiledProgram,
        chunk: &mut [Packet],
        first: usize,
        lookups: &LookupSet,
        out: &mut BatchOutput,
    ) {
        let stride = program.code.frame_stride as usize;
        let frames = self.frames.as_ptr().cast::<u8>();
        let (plain, origin) = (program.plain, self.origin);
        let (mut start, count) = (0, chunk.len().min(MAX_CHUNK));
        // SAFETY: called with indices in the chunk. Each has a frame that starts with its header,
        // and its packet has finished.
        let header = |at: usize| unsafe { &*frames.add(at * stride).cast::<FrameHeader>() };
        while start < count {
            let unchanged = (start..count).take_while(|at| plain.matches_header(header(*at))).count();
            let at = start + unchanged;
            out.forward_consecutive((first + start) as u16, (start..at).map(|at| header(at).port()));
            if at < count {
                let input = PacketRef::Input((first + at) as u16);
                // SAFETY: the layout has the list there; the frame is that of this packet.
                let recirculated = unsafe {
                    let emitted = frames.add(at * stride + program.code.emitted_offset as usize).cast();
                    verdict::deliver_packet(
                        program,
                        header(at),
                        emitted,
                        &mut chunk[at],
                        (input, origin),
                        out,
                        &mut self.scratch,
                    )
                };
                if let Some(origin) = recirculated {
                    self.run_later_passes(&mut chunk[at], (at, first), origin, lookups, out);
                }
            }
            start = at + 1;
        }
    }

    /// Runs a chunk through the stages. Its frames, or with `use_vector` its vector lists, are
    /// initialised.
    fn run_chunk(&mut self, program: &CompiledProgram, packets: &mut [Packet], lookups: &LookupSet, use_vector: bool) {
        let timed = self.chunks.is_multiple_of(TIMED_EVERY);
        self.chunks = self.chunks.wrapping_add(1);
        let mut start_ticks = if timed { cpu_ticks() } else { 0 };
        let mut diverged = Vec::new();
        for (index, stage) in program.code.stages.iter().enumerate() {
            let mut packet_count =
                if use_vector { self.run_vector_stage(program, index, packets, lookups, &mut diverged) } else { 0 };
            match stage.start {
                StageEntry::Begin if use_vector => self.restart_diverged(program, &diverged),
                StageEntry::Begin => {
                    packet_count = packets.len();
                    self.run_stage(program, index, packet_count, self.frames.as_ptr().cast());
                }
                _ => packet_count += self.run_scalar_stage(program, index, lookups, &diverged),
            }
            if packet_count == 0 {
                continue;
            }
            let ticks = timed.then(|| {
                let ended = cpu_ticks();
                ended.wrapping_sub(std::mem::replace(&mut start_ticks, ended))
            });
            match stage.start {
                // Restarted packets were already counted at their entry.
                StageEntry::Restart => self.stats.add_stage_ticks(stage.slot, ticks),
                _ => self.stats.add_stage_pass(stage.slot, packet_count as u64, ticks),
            }
        }
        self.apply_pending_counts();
        if use_vector {
            self.apply_vector_counts(program);
        }
    }

    /// Restarts packets that diverged from the vector path in the entry stage.
    fn restart_diverged(&mut self, program: &CompiledProgram, left: &[DivergedPacket]) {
        let Some(again) = program.code.stages.iter().position(|stage| stage.start == StageEntry::Restart) else {
            // There is no restart stage: packets leave the hot path within the entry stage.
            return left.iter().for_each(|packet| self.run_stage(program, 0, 1, packet.frame));
        };
        for (at, packet) in left.iter().enumerate() {
            self.memory.queued_frames(again, at + 1)[at] = packet.frame;
        }
        self.memory.set_queue_len(again, left.len());
    }

    /// Runs the packets in a stage's queue, and those that diverged from its vector code, through
    /// the scalar code of the stage. Returns the length of the queue, without the diverged packets.
    fn run_scalar_stage(
        &mut self,
        program: &CompiledProgram,
        index: usize,
        lookups: &LookupSet,
        diverged: &[DivergedPacket],
    ) -> usize {
        let stage = &program.code.stages[index];
        let waiting = self.memory.take_queue_len(index);
        if waiting + diverged.len() == 0 {
            return 0;
        }
        if program.code.order.ordered_stages[index] {
            self.sort_queue(index, waiting);
        }
        if let Some(table) = stage.table.filter(|table| program.runtime.written.get(*table).is_some()) {
            debug_assert!(diverged.is_empty(), "such a stage is ordered, so it has no vector code");
            self.mark_readers(program, index, waiting);
            self.run_packet_written_stage(program, index, table, waiting, lookups);
            return waiting;
        }
        if let Some(table) = stage.table.filter(|_| waiting > 0) {
            self.look_up_queue(program, index, table, waiting, lookups);
        }
        for (nth, packet) in diverged.iter().enumerate() {
            self.memory.queued_frames(index, waiting + nth + 1)[waiting + nth] = packet.frame;
            self.memory.set_results(waiting + nth, packet.results);
        }
        let first = self.memory.queued_frames(index, waiting + diverged.len()).as_ptr().cast();
        self.run_stage(program, index, waiting + diverged.len(), first);
        waiting
    }

    /// Looks up the keys in a stage's queue of `waiting` packets, in the stage's table and in its
    /// paired table, and writes the results to the worker's lists.
    fn look_up_queue(
        &mut self,
        program: &CompiledProgram,
        index: usize,
        table: ir::TableId,
        waiting: usize,
        lookups: &LookupSet,
    ) {
        let stage = &program.code.stages[index];
        let (keys, results) = self.memory.lookup_buffers(index, waiting);
        lookups.lookup_batch(table, keys, results);
        if let Some((table, _)) = stage.paired_table {
            let (keys, results) = self.memory.paired_lookup_buffers(index, waiting);
            lookups.lookup_batch(table, keys, results);
        }
        if let Some(record_buffers) = &mut self.records {
            let (first, stride) = (self.frames.as_ptr() as usize, program.code.frame_stride as usize);
            let (frames, results) = self.memory.frames_and_results(index, waiting);
            let packets = frames.iter().map(|frame| (*frame as usize - first) / stride);
            // SAFETY: all values contain entry ids if the code records; the packets are those of
            // the queue.
            unsafe { record_buffers.record_results((table, stage.has_profile), packets, results) };
        }
        if stage.has_profile {
            self.resolve_members(program, index, table, waiting, lookups);
        }
    }

    /// Runs a stage for `count` packets from `first` on: their frame addresses, or for the entry
    /// stage the first frame.
    fn run_stage(&mut self, program: &CompiledProgram, index: usize, count: usize, first: *const u8) {
        let step = match program.code.stages[index].start {
            StageEntry::Begin => program.code.frame_stride as usize,
            _ => size_of::<*mut u8>(),
        };
        let context = self.memory.context();
        context.queue_end = first.wrapping_add(count * step);
        let counted = context.pending_count;
        // SAFETY: the function was compiled for this program, which owns these frames, queues and
        // areas; `init_frames` has initialised the frames, and results are from this version of the
        // lookups.
        unsafe { program.code.native.stages()[index](self.memory.context_ptr(), first) };
        self.prefetch_counters(counted);
    }

    /// Restores the packet order of a queue, because several stages may have appended to it.
    fn sort_queue(&mut self, stage: usize, count: usize) {
        // Frame addresses are in packet order.
        let frames = &*self.memory.queued_frames(stage, count);
        if frames.is_sorted() {
            return;
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|at| frames[*at]);
        fn permuted<T: Copy>(all: &mut [T], order: &[usize]) {
            let (old, each) = (all.to_vec(), all.len() / order.len());
            for (to, from) in order.iter().enumerate() {
                all[to * each..(to + 1) * each].copy_from_slice(&old[from * each..(from + 1) * each]);
            }
        }
        permuted(self.memory.queued_frames(stage, count), &order);
        permuted(self.memory.queued_keys(stage, count), &order);
        permuted(self.memory.queued_paired_keys(stage, count), &order);
        permuted(self.memory.queued_selector_keys(stage, count), &order);
    }

    /// Initialises the packets' frames and prefetches the packets' first bytes.
    fn init_frames(&mut self, program: &CompiledProgram, packets: &mut [Packet]) {
        if let Some(areas) = &mut self.records {
            areas.clear_records(packets.len());
        }
        let hosts = &program.config.host_ports;
        match hosts.is_empty() {
            true => self.write_inputs(packets, |_| false),
            false => self.write_inputs(packets, |port| hosts.contains(&port)),
        }
        self.write_times(program, packets);
    }

    /// Writes the time of arrival into each frame, if the program needs it.
    fn write_times(&mut self, program: &CompiledProgram, packets: &[Packet]) {
        if program.code.needs_time {
            for (index, packet) in packets.iter().enumerate() {
                let clock = self.packet_time(packet.rx_time_ns, program.config.start_ns);
                // SAFETY: see `write_inputs`: there are `MAX_CHUNK` frames.
                unsafe { (&raw mut (*self.frame_header(index)).time).write(clock) };
                self.chunk_times[1] = clock.time_ns;
                if index == 0 {
                    self.chunk_times[0] = clock.time_ns;
                }
            }
        }
    }

    /// Writes the inputs of each frame; `host` returns whether a port belongs to a host.
    #[inline(always)]
    fn write_inputs(&mut self, packets: &mut [Packet], host: impl Fn(u32) -> bool) {
        assert!(packets.len() <= MAX_CHUNK);
        for (index, packet) in packets.iter_mut().enumerate() {
            let arrival = frame_input(packet, &host);
            prefetch(arrival.data);
            prefetch(arrival.data.wrapping_add(64));
            // SAFETY: there are `MAX_CHUNK` frames, and a chunk has at most `MAX_CHUNK` packets.
            unsafe { (&raw mut (*self.frame_header(index)).input).write(arrival) };
        }
    }

    /// Returns the header of a packet's frame.
    #[inline(always)]
    fn frame_header(&mut self, index: usize) -> *mut FrameHeader {
        self.frames.as_mut_ptr().cast::<u8>().wrapping_add(index * self.program.code.frame_stride as usize).cast()
    }

    /// Returns the time of a packet received at `received_at`, relative to `start`; never before
    /// that of the previous packet.
    fn packet_time(&mut self, received_at: u64, start: u64) -> PacketTime {
        if received_at > self.last_time.time_ns {
            let now = received_at.saturating_sub(start);
            self.last_time = PacketTime { time_ns: received_at, since_start_ns: now, since_start_us: now / 1000 };
        }
        self.last_time
    }

    /// Records the arrival of a packet that was processed elsewhere. Returns the latest time of all
    /// packets.
    pub fn observe_time(&mut self, time: u64, start: u64) -> u64 {
        self.packet_time(time, start).time_ns
    }

    /// Resolves entries to members of action profiles.
    fn resolve_members(
        &mut self,
        program: &CompiledProgram,
        stage: usize,
        table: ir::TableId,
        count: usize,
        lookups: &LookupSet,
    ) {
        let selector = &program.selectors[table.index()];
        for index in 0..count {
            let found = self.memory.lookup_results(count)[index];
            let keys = &self.memory.queued_selector_keys(stage, count)
                [index * (SELECTOR_KEY_BYTES / 8)..(index + 1) * (SELECTOR_KEY_BYTES / 8)];
            // SAFETY: the value is a result of this table from this version of the lookups.
            let resolved = unsafe { lookups.resolve(table, found, || selector.hash(keys)) };
            self.memory.lookup_results(count)[index] = resolved;
        }
    }

    /// Prefetches the counters of deferred updates.
    fn prefetch_counters(&mut self, from: u64) {
        let count = self.memory.context().pending_count;
        for pending in &self.pending[from as usize..count as usize] {
            prefetch(pending.at.cast());
        }
    }

    fn apply_pending_counts(&mut self) {
        let count = std::mem::take(&mut self.memory.context().pending_count) as usize;
        for pending in &self.pending[..count] {
            // SAFETY: native code checked the index; only this worker writes its counters.
            unsafe { apply_pending_count(pending) };
        }
    }
}

/// Returns the frame inputs of a packet; `host` returns whether a port belongs to a host.
#[inline(always)]
fn frame_input(packet: &mut Packet, host: impl Fn(u32) -> bool) -> FrameInput {
    let (data, len) = packet.as_mut_ptr_len();
    let (len, ingress_port) = (len as u32, packet.ingress_port.0);
    let metered_len = packet.metered_len_bytes.map_or(len, |length| length.min(u32::from(u16::MAX)));
    FrameInput {
        data,
        metered_len,
        packet_count: 1,
        ingress_port,
        direction: u16::from(host(ingress_port)),
        segment_excess: packet.offload.segment_excess,
        parser_states: 0,
        len,
    }
}

/// Applies a deferred counter update.
///
/// # Safety
/// The counter exists, and only this thread writes it.
unsafe fn apply_pending_count(pending: &PendingCount) {
    let counter = pending.at;
    // SAFETY: guaranteed by the caller.
    unsafe {
        (&raw mut (*counter)[0]).write((*counter)[0].wrapping_add(1));
        (&raw mut (*counter)[1]).write((*counter)[1].wrapping_add(pending.bytes));
    }
}

/// Prefetches a cache line.
#[inline(always)]
fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of any address is harmless.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
