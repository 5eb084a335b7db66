//! A stage behind a table to which packets add entries.
//!
//! The keys of all packets in the queue are looked up together. Then the packets run in their
//! order, in runs that end with a packet that missed, because only such a packet adds an entry. The
//! next run begins with another lookup for each of its misses if an entry was added since: so the
//! second packet of a new flow finds the entry of the first. With mostly hits a run is long, and
//! costs no more than in any other stage.

use super::JitWorker;
use crate::abi::FrameHeader;
use crate::idle_profiles::tick_of;
use crate::program::CompiledProgram;
use ir::TableId;
use std::ops::Range;

impl JitWorker {
    /// Runs a stage behind a table that packets write for the `waiting` packets in its queue.
    pub(super) fn run_packet_written_stage(
        &mut self,
        program: &CompiledProgram,
        index: usize,
        table: TableId,
        waiting: usize,
    ) {
        self.look_up_all(program, index, table, waiting);
        self.prefetch_ports(program, index, waiting);
        let (added_before, mut first) = (self.flows.added_count(), 0);
        while first < waiting {
            if self.flows.added_count() != added_before {
                self.look_up_misses_again(program, index, table, first..waiting);
            }
            let results = &self.memory.lookup_results(waiting)[first..];
            let end = results.iter().position(|value| value.is_null()).map_or(waiting, |miss| first + miss + 1);
            let frames = self.memory.queued_frames(index, waiting)[first..].as_ptr().cast();
            self.run_stage(program, index, end - first, frames);
            first = end;
        }
    }

    /// Prefetches, for the packets of a queue that missed, what taking a port touches.
    fn prefetch_ports(&mut self, program: &CompiledProgram, index: usize, waiting: usize) {
        let Some(prefetch) = program.code.pool_prefetches[index] else { return };
        self.subscribers.clear();
        for packet in 0..waiting {
            if self.memory.lookup_results(waiting)[packet].is_null() {
                let frame = self.memory.queued_frames(index, waiting)[packet];
                let subscriber = frame.wrapping_add(prefetch.subscriber_offset as usize).cast::<u32>();
                // SAFETY: the layout has these four bytes in each frame; frames are zeroed at first.
                self.subscribers.push(unsafe { subscriber.read_unaligned() });
            }
        }
        // A single packet would wait for the second line here in place of there.
        if self.subscribers.len() > 1 {
            self.flows.prefetch_ports(prefetch.pool, &self.subscribers);
        }
    }

    /// Notes in the records of the packets in a queue that they look up such a table.
    pub(super) fn mark_readers(&mut self, program: &CompiledProgram, index: usize, waiting: usize) {
        let Some(records) = &mut self.records else { return };
        let (first, stride) = (self.frames.as_ptr() as usize, program.code.frame_stride as usize);
        for frame in self.memory.queued_frames(index, waiting).iter() {
            records.mark_reader((*frame as usize - first) / stride);
        }
    }

    /// Looks up the keys of these packets of a queue. The results are the addresses of values, and
    /// in the list of the paired lookup the records.
    fn look_up_written(&mut self, index: usize, table: TableId, packets: Range<usize>) {
        let key_words = self.memory.queue_layout(index).key_words;
        let keys = &self.memory.queued_keys(index, packets.end)[packets.start * key_words..];
        // SAFETY: words are bytes without gaps.
        let keys = unsafe { std::slice::from_raw_parts(keys.as_ptr().cast::<u8>(), size_of_val(keys)) };
        self.flows.look_up(table, keys, key_words * size_of::<u64>(), packets.len());
        for (packet, [value, record]) in packets.zip(self.flows.found(table)) {
            self.memory.set_results(packet, [value, record]);
        }
    }

    /// Looks up the keys of all packets of a queue: together if their ticks are the same, as they
    /// nearly always are.
    fn look_up_all(&mut self, program: &CompiledProgram, index: usize, table: TableId, waiting: usize) {
        let times = &program.runtime.hit_times;
        let [first, last] = self.chunk_times.map(|time_ns| tick_of(times.time_of(time_ns)));
        if first == last {
            self.flows.set_tick(table, first);
            return self.look_up_written(index, table, 0..waiting);
        }
        for packet in 0..waiting {
            self.set_packet_tick(program, index, table, packet);
            self.look_up_written(index, table, packet..packet + 1);
        }
    }

    /// Sets the tick of a packet of a queue for its lookup.
    fn set_packet_tick(&mut self, program: &CompiledProgram, index: usize, table: TableId, packet: usize) {
        let frame = self.memory.queued_frames(index, packet + 1)[packet];
        // SAFETY: the frame of a packet in flight begins with its header.
        let time_ns = unsafe { (*frame.cast::<FrameHeader>()).time.time_ns };
        self.flows.set_tick(table, tick_of(program.runtime.hit_times.time_of(time_ns)));
    }

    /// Looks up the packets among these that missed, up to the first that misses again.
    fn look_up_misses_again(&mut self, program: &CompiledProgram, index: usize, table: TableId, packets: Range<usize>) {
        for packet in packets.clone() {
            if self.memory.lookup_results(packets.end)[packet].is_null() {
                self.set_packet_tick(program, index, table, packet);
                self.look_up_written(index, table, packet..packet + 1);
                if self.memory.lookup_results(packets.end)[packet].is_null() {
                    return;
                }
            }
        }
    }
}
