//! The vector path of a worker: stages over eight packets at once ([`crate::lanes`]).
//!
//! A stage has two queues: vector lists for vector code, and frames for scalar code. A packet that
//! diverges from vector code gets a frame and stays on the scalar path.
#![allow(unsafe_code)]

use super::vector_state::DivergedPacket;
use super::{JitWorker, frame_input, prefetch};
use crate::abi::{FrameInput, MAX_CHUNK, PendingCount, port};
use crate::lanes::{LANES, LanesFn};
use crate::plan::stages::StageEntry;
use crate::plan::vector_layout::{IN_FRAME, PREFETCH_DISTANCE, VectorLayout, VectorQueue};
use crate::program::CompiledProgram;
use crate::verdict;
use lookup::LookupSet;
use packet::{BatchOutput, Packet, PacketRef};

impl JitWorker {
    /// Returns whether the next chunk may take the vector path.
    pub(super) fn can_run_vector(&mut self, program: &CompiledProgram) -> bool {
        // Where packet order is observable, packets run one by one.
        let ordered = program.code.order.is_serial || program.code.order.ordered_stages[0];
        let there = self.records.is_none() && !ordered && program.code.native.lanes()[0].is_some();
        there && self.vector.as_mut().is_some_and(|vector_state| vector_state.stage_stats[0].should_run())
    }

    /// Returns the packets that reached vector code, once per stage, and those of them that
    /// diverged.
    pub fn vector_packet_counts(&self) -> [u64; 2] {
        self.vector.as_ref().map_or([0; 2], |vector_state| vector_state.packet_counts)
    }

    /// Adds the statistics of the vector path to those of the worker; called after a batch.
    pub(super) fn flush_vector_stats(&mut self, program: &CompiledProgram) {
        let Some(layout) = &program.code.memory.vector else { return };
        let cells = self.memory.words_at(layout.stats, program.code.stats_layout.cell_count * LANES);
        let sums: Vec<(usize, u64)> = cells
            .chunks_exact_mut(LANES)
            .enumerate()
            .filter(|(_, lanes)| lanes.iter().fold(0, |any, lane| any | *lane) != 0)
            .map(|(cell, lanes)| (cell, lanes.iter_mut().map(std::mem::take).sum()))
            .collect();
        let tally = self.memory.batch_stats();
        sums.into_iter().for_each(|(cell, sum)| tally[cell] += sum);
    }

    /// Initialises the vector lists of the entry stage with the packets' inputs.
    pub(super) fn init_vector_input(&mut self, program: &CompiledProgram, packets: &mut [Packet]) {
        assert!(packets.len() <= MAX_CHUNK);
        let (Some(layout), Some(vector_state)) = (&program.code.memory.vector, &mut self.vector) else { return };
        let Some(queue) = &layout.stages[0] else { return };
        let dummy = vector_state.dummy_memory.as_mut_ptr().cast::<u8>();
        self.memory.words_at(layout.dummy_memory, 1)[0] = dummy as u64;
        self.memory.words_at(layout.verdicts, packets.len()).fill(IN_FRAME);
        let hosts = &program.config.host_ports;
        let base = self.memory.context_ptr().cast::<u8>();
        let lists: [*mut u64; 4] =
            std::array::from_fn(|word| base.wrapping_add(queue.columns[word].list as usize).cast());
        for (index, packet) in packets.iter_mut().enumerate() {
            if index < PREFETCH_DISTANCE {
                let (data, _) = packet.as_mut_ptr_len();
                prefetch(data);
                prefetch(data.wrapping_add(64));
            }
            let mut arrival = frame_input(packet, |port| !hosts.is_empty() && hosts.contains(&port));
            // Vector code reads all lanes, so packets that are too short point to dummy memory.
            if arrival.len < layout.packet_bytes {
                arrival.data = dummy;
            }
            let words = arrival.words();
            // SAFETY: each list of the layout holds a chunk.
            unsafe { lists.iter().zip(words).for_each(|(list, word)| list.add(index).write(word)) };
        }
        self.write_times(program, packets);
    }

    /// Runs the packets in a stage's vector lists through its vector code, or moves them to frames.
    /// `index` is the stage's. Returns the number of packets run; 0 says that the packets, if any,
    /// are in the scalar queue. Diverged packets replace the contents of `diverged`.
    pub(super) fn run_vector_stage(
        &mut self,
        program: &CompiledProgram,
        index: usize,
        packets: &mut [Packet],
        lookups: &LookupSet,
        diverged: &mut Vec<DivergedPacket>,
    ) -> usize {
        diverged.clear();
        let Some(layout) = &program.code.memory.vector else { return 0 };
        let Some(queue) = &layout.stages[index] else { return 0 };
        let stage = &program.code.stages[index];
        let begins = stage.start == StageEntry::Begin;
        let waiting = match begins {
            true => packets.len(),
            false => std::mem::take(&mut self.memory.words_at(queue.count, 1)[0]) as usize,
        };
        if waiting == 0 {
            return 0;
        }
        let function =
            program.code.native.lanes()[index].filter(|_| begins || !program.code.order.ordered_stages[index]);
        let Some(function) =
            function.filter(|_| begins || self.vector.as_mut().is_some_and(|e| e.stage_stats[index].should_run()))
        else {
            self.move_queue_to_frames(program, (index, queue), packets, waiting);
            return 0;
        };
        let lookup_lists = [
            (stage.table, queue.keys, layout.results),
            (stage.paired_table.map(|(table, _)| table), queue.paired_keys, layout.paired_results),
        ];
        for (table, keys, results) in lookup_lists {
            let Some(table) = table else { continue };
            let (keys, found) = self.memory.keys_and_results(keys, results, waiting);
            lookups.lookup_batch(table, keys, found);
            let default = lookups.default_value(table);
            // The lists are filled up to whole vectors. A miss is the default value here, because
            // vector code reads the value of each lane.
            let found = self.memory.words_at(results, waiting.next_multiple_of(LANES));
            found[waiting..].fill(default as u64);
            // SAFETY: vector code exists, so the processor supports it.
            unsafe { replace_zeros(found, default as u64) };
        }
        self.call_vector_code(layout, queue, function, waiting);
        let count = std::mem::take(&mut self.memory.words_at(layout.diverged.0, 1)[0]) as usize;
        for nth in 0..count {
            let position = self.memory.words_at(layout.diverged.1, count)[nth] as usize;
            let frame = self.move_packet_to_frame(program, queue, position, packets);
            // Scalar code expects 0 for a miss.
            let results = lookup_lists.map(|(table, _, list)| {
                let found = self.memory.words_at(list, waiting)[position];
                match table {
                    Some(table) if found != lookups.default_value(table) as u64 => found,
                    _ => 0,
                }
            });
            diverged.push(DivergedPacket { frame, results });
        }
        if let Some(vector_state) = &mut self.vector {
            vector_state.stage_stats[index].record_run(waiting, count);
            vector_state.packet_counts =
                [vector_state.packet_counts[0] + waiting as u64, vector_state.packet_counts[1] + count as u64];
        }
        waiting
    }

    /// Runs the vector code of a stage.
    fn call_vector_code(&mut self, layout: &VectorLayout, place: &VectorQueue, function: LanesFn, waiting: usize) {
        let nowhere = self.memory.words_at(layout.dummy_memory, 1)[0];
        self.memory.words_at(place.columns[0].list, waiting.next_multiple_of(LANES))[waiting..].fill(nowhere);
        let counted = self.memory.words_at(layout.pending.0, 1)[0] as usize;
        // SAFETY: the function was compiled for this program, which owns these lists; `waiting`
        // packets are in them. The first list holds their addresses: vector code accesses at most
        // the bytes that each packet and the dummy memory have. Results are from this version of
        // the lookups.
        unsafe { function(self.memory.context_ptr().cast(), waiting as u64) };
        let pending = self.memory.words_at(layout.pending.0, 1)[0] as usize;
        let words = self.memory.words_at(layout.pending.1, 2 * pending);
        words[2 * counted..].chunks_exact(2).for_each(|pending| prefetch(pending[0] as *const u8));
    }

    /// Moves all packets in a stage's vector lists to the end of its scalar queue. `waiting` is the
    /// number of packets in the lists.
    fn move_queue_to_frames(
        &mut self,
        program: &CompiledProgram,
        (index, queue): (usize, &VectorQueue),
        packets: &mut [Packet],
        waiting: usize,
    ) {
        let queued = self.memory.queue_len(index);
        for position in 0..waiting {
            let frame = self.move_packet_to_frame(program, queue, position, packets);
            self.memory.queued_frames(index, queued + position + 1)[queued + position] = frame;
        }
        let lists = [
            (queue.keys, self.memory.queue_layout(index).keys),
            (queue.paired_keys, self.memory.queue_layout(index).paired_keys),
        ];
        for ((from, words), to) in lists {
            let keys = self.memory.words_at(from, waiting * words).to_vec();
            self.memory.words_at(to, (queued + waiting) * words)[queued * words..].copy_from_slice(&keys);
        }
        self.memory.set_queue_len(index, queued + waiting);
    }

    /// Moves the values that a packet carries from vector lists to its frame. `position` is that of
    /// the packet in the lists. Returns the address of the frame.
    fn move_packet_to_frame(
        &mut self,
        program: &CompiledProgram,
        queue: &VectorQueue,
        position: usize,
        packets: &mut [Packet],
    ) -> *mut u8 {
        let index = queue.index.map_or(position, |list| self.memory.words_at(list, position + 1)[position] as usize);
        self.write_input(program, &mut packets[index], index);
        let frame = self.frame_header(index).cast::<u8>();
        if queue.index.is_some() {
            for column in &queue.columns {
                let word = self.memory.words_at(column.list, position + 1)[position];
                // The inputs are already written, with the packet's real address.
                if column.frame_offset as usize >= size_of::<FrameInput>() {
                    let bytes = &word.to_le_bytes()[..column.bytes as usize];
                    // SAFETY: the layout has these bytes in each frame.
                    unsafe {
                        frame.add(column.frame_offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
                    };
                }
            }
        }
        frame
    }

    /// Writes the inputs of one packet into its frame.
    fn write_input(&mut self, program: &CompiledProgram, packet: &mut Packet, index: usize) {
        let arrival = frame_input(packet, |port| program.config.host_ports.contains(&port));
        // SAFETY: there are `MAX_CHUNK` frames, and a chunk has at most `MAX_CHUNK` packets.
        unsafe { (&raw mut (*self.frame_header(index)).input).write(arrival) };
    }

    /// Applies the deferred counter updates of vector code.
    pub(super) fn apply_vector_counts(&mut self, program: &CompiledProgram) {
        let Some(layout) = &program.code.memory.vector else { return };
        let count = std::mem::take(&mut self.memory.words_at(layout.pending.0, 1)[0]) as usize;
        for pending in self.memory.words_at(layout.pending.1, 2 * count).chunks_exact(2) {
            let pending = PendingCount { at: pending[0] as *mut [u64; 2], bytes: pending[1] };
            // SAFETY: native code checked the index; only this worker writes its counters.
            unsafe { super::apply_pending_count(&pending) };
        }
    }

    /// Delivers each packet of a chunk that took the vector path. `first` is the index of the
    /// chunk's first packet in its batch. Runs of packets that leave unchanged are forwarded
    /// together.
    pub(super) fn deliver_vector_chunk(
        &mut self,
        program: &CompiledProgram,
        chunk: &mut [Packet],
        first: usize,
        lookups: &LookupSet,
        out: &mut BatchOutput,
    ) {
        let Some(layout) = &program.code.memory.vector else { return };
        let plain = program.plain;
        let (mut start, count) = (0, chunk.len());
        while start < count {
            let verdicts = &self.memory.words_at(layout.verdicts, count)[start..];
            let unchanged = verdicts.iter().take_while(|verdict| plain.matches_destination(**verdict)).count();
            out.forward_consecutive((first + start) as u16, verdicts[..unchanged].iter().map(|verdict| port(*verdict)));
            let at = start + unchanged;
            if at < count {
                self.deliver_vector_packet(program, layout, chunk, (at, first), lookups, out);
            }
            start = at + 1;
        }
    }

    /// Delivers the packet at index `at` of its chunk. Its verdict is in a vector list, or in the
    /// frame if scalar code finished it. `first` is the index of the chunk's first packet in its
    /// batch.
    fn deliver_vector_packet(
        &mut self,
        program: &CompiledProgram,
        layout: &VectorLayout,
        chunk: &mut [Packet],
        (at, first): (usize, usize),
        lookups: &LookupSet,
        out: &mut BatchOutput,
    ) {
        let verdict_word = self.memory.words_at(layout.verdicts, at + 1)[at];
        let header = self.frame_header(at);
        if verdict_word != IN_FRAME {
            let [drop, cpu] =
                [layout.drop_reasons, layout.cpu_reasons].map(|list| self.memory.words_at(list, at + 1)[at] as u32);
            // SAFETY: see `write_input`: there are `MAX_CHUNK` frames.
            unsafe {
                (&raw mut (*header).destination).write(verdict_word);
                (&raw mut (*header).drop_reason).write(drop);
                (&raw mut (*header).cpu_reason).write(cpu);
            }
        }
        let input = PacketRef::Input((first + at) as u16);
        let emitted = header.cast::<u8>().wrapping_add(program.code.emitted_offset as usize).cast();
        // SAFETY: the layout has the list there; the frame is that of this packet, and all fields
        // that are read have been written: by scalar code, or here.
        let recirculated = unsafe {
            verdict::deliver_packet(
                program,
                &*header,
                emitted,
                &mut chunk[at],
                (input, self.origin),
                out,
                &mut self.scratch,
            )
        };
        if let Some(origin) = recirculated {
            self.run_later_passes(&mut chunk[at], (at, first), origin, lookups, out);
        }
    }
}

/// Replaces zeros by a word.
///
/// # Safety
/// The processor supports the instructions of vector code.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f"))]
unsafe fn replace_zeros(words: &mut [u64], word: u64) {
    for at in words {
        *at = if *at == 0 { word } else { *at };
    }
}
