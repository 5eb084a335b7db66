//! A stage behind a table to which packets add entries.
//!
//! The keys of all packets in the queue are looked up together. Then the packets run in their
//! order, in runs that end with a packet that missed, because only such a packet adds an entry. The
//! next run begins with another lookup for each of its misses if an entry was added since: so the
//! second packet of a new flow finds the entry of the first. With mostly hits a run is long, and
//! costs no more than in any other stage.

use super::{JitWorker, prefetch};
use crate::program::CompiledProgram;
use ir::{Entity, TableId};
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
        self.look_up_written(index, table, 0..waiting);
        self.prefetch_hit_times(program, table, waiting);
        let (added_before, mut first) = (self.flows.added_count(), 0);
        while first < waiting {
            if self.flows.added_count() != added_before {
                self.look_up_misses_again(index, table, first..waiting);
            }
            let results = &self.memory.lookup_results(waiting)[first..];
            let end = results.iter().position(|value| value.is_null()).map_or(waiting, |miss| first + miss + 1);
            let frames = self.memory.queued_frames(index, waiting)[first..].as_ptr().cast();
            self.run_stage(program, index, end - first, frames);
            first = end;
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

    /// Requests the words in which packets that hit will store their time, because the stage comes
    /// to most of them only after a while.
    fn prefetch_hit_times(&self, program: &CompiledProgram, table: TableId, waiting: usize) {
        if program.keeps_idle_times {
            let times = &program.runtime.hit_times;
            let found = self.flows.found(table).take(waiting).filter(|[value, _]| *value != 0);
            let cells = found.filter_map(|[_, record]| times.cell(table.index(), record as u32));
            cells.for_each(|cell| prefetch(std::ptr::from_ref(cell).cast()));
        }
    }

    /// Looks up the packets among these that missed, up to the first that misses again.
    fn look_up_misses_again(&mut self, index: usize, table: TableId, packets: Range<usize>) {
        for packet in packets.clone() {
            if self.memory.lookup_results(packets.end)[packet].is_null() {
                self.look_up_written(index, table, packet..packet + 1);
                if self.memory.lookup_results(packets.end)[packet].is_null() {
                    return;
                }
            }
        }
    }
}
