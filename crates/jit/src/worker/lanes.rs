//! How a worker takes packets through the stages eight at a time ([`crate::lanes`]).
//!
//! Packets wait in two places for a stage: in lists, for code for eight, and in their frames, for code for one. Those that code for eight leaves get a frame, and
//! stay with code for one from there on.
#![allow(unsafe_code)]

use super::eights::Left;
use super::{Worker, arrival, prefetch};
use crate::abi::{Arrival, CHUNK, Pending, port};
use crate::lanes::{LANES, LanesFn};
use crate::plan::lanes::{AHEAD, IN_FRAME, LanesLayout, StagePlace};
use crate::plan::stages::Start;
use crate::program::Program;
use crate::verdict;
use lookup::Lookups;
use packet::{Output, Packet, PacketRef};

impl Worker {
    /// Whether packets may go through the stages eight at a time.
    pub(super) fn takes_eights(&mut self, program: &Program) -> bool {
        // Where the order of packets shows, each goes by itself.
        let ordered = program.order.serial || program.order.stages[0];
        let there = self.areas.is_none() && !ordered && program.native.lanes()[0].is_some();
        there && self.eights.as_mut().is_some_and(|eights| eights.goes[0].runs())
    }

    /// Packets that came to code for eight, each time they did, and those of them that it left.
    pub fn in_eights(&self) -> [u64; 2] {
        self.eights.as_ref().map_or([0; 2], |eights| eights.all)
    }

    /// Puts what was counted in lists where it belongs, behind a batch.
    pub(super) fn finish_eights(&mut self, program: &Program) {
        let Some(layout) = &program.memory.lanes else { return };
        let cells = self.memory.words(layout.tallies, program.places.cells * LANES);
        let sums: Vec<(usize, u64)> = cells
            .chunks_exact_mut(LANES)
            .enumerate()
            .filter(|(_, lanes)| lanes.iter().fold(0, |any, lane| any | *lane) != 0)
            .map(|(cell, lanes)| (cell, lanes.iter_mut().map(std::mem::take).sum()))
            .collect();
        let tally = self.memory.tally();
        sums.into_iter().for_each(|(cell, sum)| tally[cell] += sum);
    }

    /// Where packets arrive: what the engine writes of each into lists.
    pub(super) fn begin_eights(&mut self, program: &Program, packets: &mut [Packet]) {
        assert!(packets.len() <= CHUNK);
        let (Some(layout), Some(eights)) = (&program.memory.lanes, &mut self.eights) else { return };
        let Some(place) = &layout.stages[0] else { return };
        let nowhere = eights.nowhere.as_mut_ptr().cast::<u8>();
        self.memory.words(layout.nowhere, 1)[0] = nowhere as u64;
        self.memory.words(layout.verdicts, packets.len()).fill(IN_FRAME);
        let hosts = &program.config.host_ports;
        let base = self.memory.base().cast::<u8>();
        let lists: [*mut u64; 4] =
            std::array::from_fn(|word| base.wrapping_add(place.columns[word].list as usize).cast());
        for (index, packet) in packets.iter_mut().enumerate() {
            if index < AHEAD {
                let (data, _) = packet.place();
                prefetch(data);
                prefetch(data.wrapping_add(64));
            }
            let mut arrival = arrival(packet, |port| !hosts.is_empty() && hosts.contains(&port));
            // Code for eight reads all lanes: of packets that are too short something else.
            if arrival.len < layout.packet_bytes {
                arrival.data = nowhere;
            }
            let words = arrival.words();
            // SAFETY: the layout has room for a chunk's words in each list.
            unsafe { lists.iter().zip(words).for_each(|(list, word)| list.add(index).write(word)) };
        }
        self.clocks(program, packets);
    }

    /// Takes packets that wait in lists through a stage, or puts them into frames. How many they were, and how many of those are left to code for one behind those that
    /// wait in frames: their frames and results are in these lists.
    pub(super) fn eights(
        &mut self,
        program: &Program,
        index: usize,
        packets: &mut [Packet],
        lookups: &Lookups,
        left: &mut Vec<Left>,
    ) -> usize {
        left.clear();
        let Some(layout) = &program.memory.lanes else { return 0 };
        let Some(place) = &layout.stages[index] else { return 0 };
        let stage = &program.stages[index];
        let begins = stage.start == Start::Begin;
        let waiting = match begins {
            true => packets.len(),
            false => std::mem::take(&mut self.memory.words(place.count, 1)[0]) as usize,
        };
        if waiting == 0 {
            return 0;
        }
        let function = program.native.lanes()[index].filter(|_| begins || !program.order.stages[index]);
        let Some(function) = function.filter(|_| begins || self.eights.as_mut().is_some_and(|e| e.goes[index].runs()))
        else {
            self.put_into_frames(program, (index, place), packets, waiting);
            return 0;
        };
        let looked_up = [
            (stage.table, place.keys, layout.results),
            (stage.together.map(|(table, _)| table), place.together, layout.together),
        ];
        for (table, keys, results) in looked_up {
            let Some(table) = table else { continue };
            let (keys, found) = self.memory.keys_and_results(keys, results, waiting);
            lookups.lookup_batch(table, keys, found);
            let default = lookups.default_value(table);
            let found = self.memory.words(results, waiting.next_multiple_of(LANES));
            found[waiting..].fill(default as u64);
            // SAFETY: there is code for eight.
            unsafe { put_in_place_of_zeros(found, default as u64) };
        }
        self.carry_through(layout, place, function, waiting);
        let count = std::mem::take(&mut self.memory.words(layout.left.0, 1)[0]) as usize;
        for at in 0..count {
            let position = self.memory.words(layout.left.1, count)[at] as usize;
            let frame = self.put_into_frame(program, place, position, packets);
            // Code for one is told of nothing found by 0.
            let results = looked_up.map(|(table, _, list)| {
                let found = self.memory.words(list, waiting)[position];
                match table {
                    Some(table) if found != lookups.default_value(table) as u64 => found,
                    _ => 0,
                }
            });
            left.push(Left { frame, results });
        }
        if let Some(eights) = &mut self.eights {
            eights.goes[index].went(waiting, count);
            eights.all = [eights.all[0] + waiting as u64, eights.all[1] + count as u64];
        }
        waiting
    }

    /// Runs a stage's code for eight.
    fn carry_through(&mut self, layout: &LanesLayout, place: &StagePlace, function: LanesFn, waiting: usize) {
        let nowhere = self.memory.words(layout.nowhere, 1)[0];
        self.memory.words(place.columns[0].list, waiting.next_multiple_of(LANES))[waiting..].fill(nowhere);
        let counted = self.memory.words(layout.pending.0, 1)[0] as usize;
        // SAFETY: the function was made for this program, whose lists these are: `waiting` packets are in them, whose addresses lie in the first, and as
        // many bytes as code for eight touches are there for each and behind `nowhere`; results are what this copy of the lookups gave.
        unsafe { function(self.memory.base().cast(), waiting as u64) };
        let pending = self.memory.words(layout.pending.0, 1)[0] as usize;
        let words = self.memory.words(layout.pending.1, 2 * pending);
        words[2 * counted..].chunks_exact(2).for_each(|pending| prefetch(pending[0] as *const u8));
    }

    /// Puts all packets that wait in lists for a stage behind those that wait in frames.
    fn put_into_frames(
        &mut self,
        program: &Program,
        (index, place): (usize, &StagePlace),
        packets: &mut [Packet],
        waiting: usize,
    ) {
        let before = self.memory.waiting_now(index);
        for position in 0..waiting {
            let frame = self.put_into_frame(program, place, position, packets);
            self.memory.waiting(index, before + position + 1)[before + position] = frame;
        }
        let lists = [(place.keys, self.memory.queue(index).keys), (place.together, self.memory.queue(index).together)];
        for ((from, words), to) in lists {
            let keys = self.memory.words(from, waiting * words).to_vec();
            self.memory.words(to, (before + waiting) * words)[before * words..].copy_from_slice(&keys);
        }
        self.memory.set_waiting(index, before + waiting);
    }

    /// Puts what a packet carries in lists into its frame. The frame's address.
    fn put_into_frame(
        &mut self,
        program: &Program,
        place: &StagePlace,
        position: usize,
        packets: &mut [Packet],
    ) -> *mut u8 {
        let index = place.index.map_or(position, |list| self.memory.words(list, position + 1)[position] as usize);
        self.arrive(program, &mut packets[index], index);
        let frame = self.head(index).cast::<u8>();
        if place.index.is_some() {
            for column in &place.columns {
                let word = self.memory.words(column.list, position + 1)[position];
                // An arrival is written already, and says what the packet's address is.
                if column.at as usize >= size_of::<Arrival>() {
                    let bytes = &word.to_le_bytes()[..column.bytes as usize];
                    // SAFETY: the layout has that many bytes there in each frame.
                    unsafe { frame.add(column.at as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
                }
            }
        }
        frame
    }

    /// Writes one packet's arrival into its frame.
    fn arrive(&mut self, program: &Program, packet: &mut Packet, index: usize) {
        let arrival = arrival(packet, |port| program.config.host_ports.contains(&port));
        // SAFETY: there are `CHUNK` frames, and never more packets in a chunk.
        unsafe { (&raw mut (*self.head(index)).arrival).write(arrival) };
    }

    /// Counts what waits to be counted in lists.
    pub(super) fn count_eights(&mut self, program: &Program) {
        let Some(layout) = &program.memory.lanes else { return };
        let count = std::mem::take(&mut self.memory.words(layout.pending.0, 1)[0]) as usize;
        for pending in self.memory.words(layout.pending.1, 2 * count).chunks_exact(2) {
            let pending = Pending { at: pending[0] as *mut [u64; 2], bytes: pending[1] };
            // SAFETY: native code checked the index; only this worker writes to its counters.
            unsafe { super::add(&pending) };
        }
    }

    /// Says what becomes of each packet of a chunk that went through eight at a time.
    pub(super) fn answer_eights(&mut self, program: &Program, chunk: &mut [Packet], first: usize, out: &mut Output) {
        let Some(layout) = &program.memory.lanes else { return };
        let plain = program.plain;
        let (mut from, count) = (0, chunk.len());
        while from < count {
            let verdicts = &self.memory.words(layout.verdicts, count)[from..];
            let leave = verdicts.iter().take_while(|verdict| plain.leaves_to(**verdict)).count();
            out.forward_all((first + from) as u16, verdicts[..leave].iter().map(|verdict| port(*verdict)));
            let at = from + leave;
            if at < count {
                self.answer_one(program, layout, chunk, (at, first), out);
            }
            from = at + 1;
        }
    }

    fn answer_one(
        &mut self,
        program: &Program,
        layout: &LanesLayout,
        chunk: &mut [Packet],
        (at, first): (usize, usize),
        out: &mut Output,
    ) {
        let told = self.memory.words(layout.verdicts, at + 1)[at];
        let head = self.head(at);
        if told != IN_FRAME {
            let [drop, cpu] =
                [layout.drop_reasons, layout.cpu_reasons].map(|list| self.memory.words(list, at + 1)[at] as u32);
            // SAFETY: as in `arrive`.
            unsafe {
                (&raw mut (*head).destination).write(told);
                (&raw mut (*head).drop_reason).write(drop);
                (&raw mut (*head).cpu_reason).write(cpu);
            }
        }
        let input = PacketRef::Input((first + at) as u16);
        let emitted = head.cast::<u8>().wrapping_add(program.emitted as usize).cast();
        // SAFETY: the layout has the list there; the frame is that of this packet, and all that is read of it has been written: by code for one, or here.
        unsafe { verdict::answer(program, &*head, emitted, &mut chunk[at], input, out, &mut self.scratch) };
    }
}

/// Puts a word where there is 0.
///
/// # Safety
/// The processor has what code for eight needs.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx512f"))]
unsafe fn put_in_place_of_zeros(words: &mut [u64], word: u64) {
    for at in words {
        *at = if *at == 0 { word } else { *at };
    }
}
