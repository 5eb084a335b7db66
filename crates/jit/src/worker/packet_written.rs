//! A stage behind a table to which packets add entries.
//!
//! The keys of all packets in the queue are looked up together. Then the packets run in their
//! order, in runs that end with a packet that missed, because only such a packet adds an entry. The
//! next run begins with another lookup for each of its misses if an entry was added since: so the
//! second packet of a new flow finds the entry of the first. With mostly hits a run is long, and
//! costs no more than in any other stage.
//!
//! If packets that miss pass a region ([`crate::analysis::miss_regions`]), a run ends as well, and its last
//! packet passes the region before the next run begins. In a region in which only packets with the same
//! key depend on each other, a run ends before the second miss with one key, and all its misses
//! pass the region together.

use super::JitWorker;
use crate::abi::FrameHeader;
use crate::analysis::miss_regions::MissRegion;
use crate::idle_profiles::tick_of;
use crate::program::CompiledProgram;
use ir::TableId;
use lookup::LookupSet;
use std::hash::BuildHasher;
use std::ops::Range;

impl JitWorker {
    /// Runs a stage behind a table that packets write for the `waiting` packets in its queue, and its
    /// misses through the region behind it.
    pub(super) fn run_packet_written_stage(
        &mut self,
        program: &CompiledProgram,
        index: usize,
        table: TableId,
        waiting: usize,
        lookups: &LookupSet,
    ) {
        self.look_up_all(program, index, table, waiting);
        self.prefetch_ports(program, index, waiting);
        let region = program.code.order.region_at(index);
        let is_keyed = region.is_some_and(|region| region.is_keyed);
        if is_keyed {
            self.missed_keys.clear();
        }
        let (added_before, mut first) = (self.flows.added_count(), 0);
        while first < waiting {
            let end = if is_keyed {
                self.end_of_keyed_run(program, index, table, first..waiting)
            } else {
                if self.flows.added_count() != added_before {
                    self.look_up_misses_again(program, index, table, first..waiting);
                }
                let results = &self.memory.lookup_results(waiting)[first..];
                results.iter().position(|value| value.is_null()).map_or(waiting, |miss| first + miss + 1)
            };
            let frames = self.memory.queued_frames(index, waiting)[first..].as_ptr().cast();
            self.run_stage(program, index, end - first, frames);
            if let Some(region) = region {
                self.run_region(program, region, lookups, end);
            }
            first = end;
        }
    }

    /// Runs the packets that wait in a region, at most `limit`, through its stages. Their lookups overwrite
    /// as many results from the first on.
    fn run_region(&mut self, program: &CompiledProgram, region: &MissRegion, lookups: &LookupSet, limit: usize) {
        for stage in &region.stages {
            debug_assert!(self.memory.queue_len(*stage) <= limit, "results of later packets would be overwritten");
            let passed = self.run_scalar_stage(program, *stage, lookups, &[]);
            if passed > 0 {
                self.stats.add_stage_pass(program.code.stages[*stage].slot, passed as u64, None);
            }
        }
    }

    /// Returns the end of a run in which no two packets missed with the same key. A packet with the key of a
    /// miss of an earlier run is looked up again, because that packet may have added the entry.
    fn end_of_keyed_run(
        &mut self,
        program: &CompiledProgram,
        index: usize,
        table: TableId,
        packets: Range<usize>,
    ) -> usize {
        let key_words = self.memory.queue_layout(index).key_words;
        for packet in packets.clone() {
            if !self.memory.lookup_results(packets.end)[packet].is_null() {
                continue;
            }
            let keys = self.memory.queued_keys(index, packet + 1);
            let key_hash = self.missed_keys.hasher().hash_one(&keys[packet * key_words..]);
            match self.missed_keys.get(&key_hash) {
                Some(earlier) if *earlier >= packets.start => return packet,
                Some(_) => {
                    self.set_packet_tick(program, index, table, packet);
                    self.look_up_written(index, table, packet..packet + 1);
                }
                None => {}
            }
            if self.memory.lookup_results(packets.end)[packet].is_null() {
                self.missed_keys.insert(key_hash, packet);
            }
        }
        packets.end
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
