//! One worker's memory, and how it takes packets through the stages.
#![allow(unsafe_code)]

mod eights;
mod lanes;
mod pace;

use crate::abi::{AREA_WORDS, AUX_BYTES, Arrival, CHUNK, Clock, Head, Pending};
use crate::counters::WorkerCounters;
use crate::lanes::LANES;
use crate::memory::{Line, Memory};
use crate::plan::stages::Start;
use crate::program::Program;
use crate::record::{Areas, Shown};
use crate::tally::{self, TIMED, Tally, ticks};
use crate::verdict;
use eights::{Eights, Left};
use ir::Entity;
use lookup::Lookups;
use lookup::exact::ExactTable;
use pace::Pace;
use packet::{Output, Packet, PacketRef};
use std::ptr::null_mut;
use std::sync::Arc;

/// As many are still in a cache of 32 KiB when the next stage comes: better if there is little latency to hide, and few stages.
const FEW: usize = 64;
/// The most that have a frame each: more frames than stay in a second-level cache take longer than what they share.
const FRAMES: usize = 256;
/// Tables that take less memory than this, in bytes, are near.
const NEAR: usize = 16 << 20;
/// Programs of so many stages or less have few.
const SHORT: usize = 8;
/// After so many chunks it is asked again whether tables are near.
const ASKED: u32 = 256;

/// What one worker owns.
pub struct Worker {
    program: Arc<Program>,
    /// What it counts in place.
    pub counters: Arc<WorkerCounters>,
    /// What it counts of itself.
    pub tally: Arc<Tally>,
    /// What its code reaches from the context on.
    memory: Memory,
    // What the context points to.
    frames: Vec<Line>,
    pending: Vec<Pending>,
    area: Vec<u64>,
    zeros: Vec<u64>,
    sink: Vec<u64>,
    scratch: Vec<u8>,
    /// How many chunks there have been.
    chunks: u32,
    /// How many packets may go through the stages together with the tables as they were.
    most: usize,
    /// The latest time that a packet brought.
    clock: Clock,
    /// Where code that records notes what packets do.
    areas: Option<Areas>,
    /// What it needs to take eight packets at once, if there is code for that.
    eights: Option<Eights>,
    /// From how many packets on it does.
    pub eights_from: usize,
    /// Which of both ways is the faster one; `None`: packets go eight at a time wherever they may.
    pub pace: Option<Pace>,
}

// SAFETY: the pointers are to memory that the worker owns, to the program and the counters that it shares with others by `Arc`,
// and, while `run` runs, to packets and lookups that it is lent.
unsafe impl Send for Worker {}

impl Drop for Worker {
    /// What it has counted stays; it is behind nobody any more.
    fn drop(&mut self) {
        self.tally.rests();
    }
}

impl Worker {
    /// A worker for a program.
    pub fn new(program: Arc<Program>) -> Worker {
        let counters = Arc::new(WorkerCounters::new(&program.counters));
        let tally = Arc::new(Tally::new(&program.places));
        Worker::counting(program, counters, tally)
    }

    /// A worker for another program that counts as its own ([`Program::counts_as`]), in the same counters: both are one thread's.
    pub fn beside(&self, program: Arc<Program>) -> Worker {
        Worker::counting(program, self.counters.clone(), self.tally.clone())
    }

    /// Goes on where another worker of the thread has been.
    pub fn follow(&mut self, other: &Worker) {
        self.clock = other.clock;
    }

    fn counting(program: Arc<Program>, counters: Arc<WorkerCounters>, tally: Arc<Tally>) -> Worker {
        let frames = Line::zeros(CHUNK * program.stride as usize);
        let longest = program.longest_header.div_ceil(8) + 8;
        Worker {
            memory: Memory::new(program.memory.clone(), &counters.addresses()),
            frames,
            pending: vec![Pending { at: null_mut(), bytes: 0 }; (program.counts * CHUNK).max(1)],
            area: vec![0; AREA_WORDS],
            zeros: vec![0; longest],
            sink: vec![0; longest],
            scratch: Vec::new(),
            chunks: 0,
            most: CHUNK,
            clock: Clock::default(),
            eights: Eights::new(&program),
            eights_from: LANES,
            pace: Some(Pace::new()),
            areas: program.lists.as_ref().map(|lists| Areas::new(lists, CHUNK)),
            counters,
            tally,
            program,
        }
    }

    /// Takes packets through the program, and says what becomes of each. The first has number `first` in its batch. If the code records, `each` is shown what was
    /// noted of each packet.
    pub fn run(
        &mut self,
        packets: &mut [Packet],
        first: usize,
        lookups: &Lookups,
        out: &mut Output,
        mut each: Option<&mut Shown<'_>>,
    ) {
        let program = self.program.clone();
        for (index, table) in program.pipeline.tables.keys().enumerate() {
            self.memory.set_default(index, lookups.default_value(table));
            self.memory.set_slots(index, lookups.slots(table));
        }
        let context = self.memory.context();
        context.stride = program.stride as usize;
        context.frames = self.frames.as_mut_ptr().cast();
        context.zeros = self.zeros.as_ptr().cast();
        context.sink = self.sink.as_mut_ptr().cast();
        context.pending = self.pending.as_mut_ptr();
        context.area = self.area.as_mut_ptr();
        context.lookups = lookups;
        context.runtime = std::ptr::from_ref(&program.runtime).cast_mut().cast();
        context.areas = self.areas.as_mut().map_or(null_mut(), Areas::first);
        self.tally.entered(lookups.version());
        let (mut rest, mut first, mut any_eights) = (packets, first, false);
        while !rest.is_empty() {
            if self.chunks.is_multiple_of(ASKED) {
                self.most = most_together(&program, lookups);
            }
            let size = together(&program, rest, self.most);
            let (chunk, others) = rest.split_at_mut(size);
            rest = others;
            let wanted = self.pace.as_ref().is_none_or(Pace::eights);
            let began = (size >= Pace::LEAST).then(ticks);
            match wanted && size >= self.eights_from && self.takes_eights(&program) {
                true => {
                    any_eights = true;
                    self.begin_eights(&program, chunk);
                    self.chunk(&program, chunk, lookups, true);
                    self.answer_eights(&program, chunk, first, out);
                }
                false => {
                    self.begin(&program, chunk);
                    self.chunk(&program, chunk, lookups, false);
                    self.answer(&program, chunk, first, out);
                }
            }
            if let (Some(pace), Some(began)) = (&mut self.pace, began) {
                pace.took(size, ticks().wrapping_sub(began));
            }
            if let (Some(each), Some(areas)) = (&mut each, &mut self.areas) {
                (0..size).for_each(|offset| each(first + offset, &areas.record(offset)));
            }
            first += size;
        }
        if any_eights {
            self.finish_eights(&program);
        }
        for (cell, told) in self.memory.tally().iter_mut().enumerate().filter(|(_, told)| **told != 0) {
            self.tally.add(cell, tally::split(std::mem::take(told)));
        }
    }

    /// Says what becomes of each packet of a chunk. Most leave as they lie there: they are told together, run by run.
    fn answer(&mut self, program: &Program, chunk: &mut [Packet], first: usize, out: &mut Output) {
        let stride = program.stride as usize;
        let frames = self.frames.as_ptr().cast::<u8>();
        let plain = program.plain;
        let (mut from, count) = (0, chunk.len().min(CHUNK));
        // SAFETY: asked for packets of the chunk: there are as many frames, each begins with its head, and its packet's stages have run.
        let head = |at: usize| unsafe { &*frames.add(at * stride).cast::<Head>() };
        while from < count {
            let leave = (from..count).take_while(|at| plain.leaves(head(*at))).count();
            let at = from + leave;
            out.forward_all((first + from) as u16, (from..at).map(|at| head(at).port()));
            if at < count {
                let input = PacketRef::Input((first + at) as u16);
                // SAFETY: the layout has the list there; the frame is that of this packet.
                unsafe {
                    let emitted = frames.add(at * stride + program.emitted as usize).cast();
                    verdict::answer(program, head(at), emitted, &mut chunk[at], input, out, &mut self.scratch);
                }
            }
            from = at + 1;
        }
    }

    /// Takes a chunk through the stages; its frames have begun, or its lists: `eights`.
    fn chunk(&mut self, program: &Program, packets: &mut [Packet], lookups: &Lookups, eights: bool) {
        let timed = self.chunks.is_multiple_of(TIMED);
        self.chunks = self.chunks.wrapping_add(1);
        let mut began = if timed { ticks() } else { 0 };
        let mut left = Vec::new();
        for (index, stage) in program.stages.iter().enumerate() {
            let mut passed = if eights { self.eights(program, index, packets, lookups, &mut left) } else { 0 };
            match stage.start {
                Start::Begin if eights => self.begin_again(program, &left),
                Start::Begin => {
                    passed = packets.len();
                    self.carry(program, index, passed, self.frames.as_ptr().cast());
                }
                _ => passed += self.one_by_one(program, index, lookups, &left),
            }
            if passed == 0 {
                continue;
            }
            let took = timed.then(|| {
                let ended = ticks();
                ended.wrapping_sub(std::mem::replace(&mut began, ended))
            });
            match stage.start {
                // They have been counted where they began.
                Start::Again => self.tally.took(stage.slot, took),
                _ => self.tally.passed(stage.slot, passed as u64, took),
            }
        }
        self.count();
        if eights {
            self.count_eights(program);
        }
    }

    /// Packets that code for eight has left where they began begin once more.
    fn begin_again(&mut self, program: &Program, left: &[Left]) {
        let Some(again) = program.stages.iter().position(|stage| stage.start == Start::Again) else {
            // Off the trace they go on as they would have come there.
            return left.iter().for_each(|packet| self.carry(program, 0, 1, packet.frame));
        };
        for (at, packet) in left.iter().enumerate() {
            self.memory.waiting(again, at + 1)[at] = packet.frame;
        }
        self.memory.set_waiting(again, left.len());
    }

    /// Takes packets that wait in frames through a stage, with those that code for eight has `left`. How many did wait.
    fn one_by_one(&mut self, program: &Program, index: usize, lookups: &Lookups, left: &[Left]) -> usize {
        let stage = &program.stages[index];
        let waiting = self.memory.take_waiting(index);
        if waiting + left.len() == 0 {
            return 0;
        }
        if program.order.stages[index] {
            self.sort(index, waiting);
        }
        if let Some(table) = stage.table.filter(|_| waiting > 0) {
            self.look_up(program, index, table, waiting, lookups);
        }
        for (at, packet) in left.iter().enumerate() {
            self.memory.waiting(index, waiting + at + 1)[waiting + at] = packet.frame;
            self.memory.set_results(waiting + at, packet.results);
        }
        let first = self.memory.waiting(index, waiting + left.len()).as_ptr().cast();
        self.carry(program, index, waiting + left.len(), first);
        waiting
    }

    /// Looks up what packets that wait for a stage have asked for.
    fn look_up(&mut self, program: &Program, index: usize, table: ir::TableId, waiting: usize, lookups: &Lookups) {
        let stage = &program.stages[index];
        let (keys, results) = self.memory.lookup(index, waiting);
        lookups.lookup_batch(table, keys, results);
        if let Some((table, _)) = stage.together {
            let (keys, results) = self.memory.lookup_together(index, waiting);
            lookups.lookup_batch(table, keys, results);
        }
        if let Some(areas) = &mut self.areas {
            let (first, stride) = (self.frames.as_ptr() as usize, program.stride as usize);
            let (frames, results) = self.memory.looked_up(index, waiting);
            let packets = frames.iter().map(|frame| (*frame as usize - first) / stride);
            // SAFETY: all values carry numbers if the code records; the packets are those that wait for these results.
            unsafe { areas.found((table, stage.profile), packets, results) };
        }
        if stage.profile {
            self.resolve(program, index, table, waiting, lookups);
        }
    }

    /// Runs a stage for so many packets from `first` on: their frames, or where packets begin the first of these.
    fn carry(&mut self, program: &Program, index: usize, count: usize, first: *const u8) {
        let step = match program.stages[index].start {
            Start::Begin => program.stride as usize,
            _ => size_of::<*mut u8>(),
        };
        let context = self.memory.context();
        context.last = first.wrapping_add(count * step);
        let counted = context.pending_count;
        // SAFETY: the function was made for this program, whose frames, queues and areas these are; `begin` has made the frames that
        // wait, and results are what this copy of the lookups gave.
        unsafe { program.native.stages()[index](self.memory.base(), first) };
        self.fetch_counters(counted);
    }

    /// Brings the packets that wait for a stage into their order: several stages may have sent them.
    fn sort(&mut self, stage: usize, count: usize) {
        // Frames lie in the order of the packets.
        let frames = &*self.memory.waiting(stage, count);
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
        permuted(self.memory.waiting(stage, count), &order);
        permuted(self.memory.keys(stage, count), &order);
        permuted(self.memory.together_keys(stage, count), &order);
        permuted(self.memory.aux(stage, count), &order);
    }

    /// Makes the packets' frames, and asks for the packets' first bytes.
    fn begin(&mut self, program: &Program, packets: &mut [Packet]) {
        if let Some(areas) = &mut self.areas {
            areas.clear(packets.len());
        }
        let hosts = &program.config.host_ports;
        match hosts.is_empty() {
            true => self.arrivals(packets, |_| false),
            false => self.arrivals(packets, |port| hosts.contains(&port)),
        }
        self.clocks(program, packets);
    }

    /// Writes when each packet came into its frame, if anybody asks.
    fn clocks(&mut self, program: &Program, packets: &[Packet]) {
        if program.clock {
            for (index, packet) in packets.iter().enumerate() {
                let clock = self.clock(packet.received_at, program.config.start);
                // SAFETY: as in `arrivals`.
                unsafe { (&raw mut (*self.head(index)).clock).write(clock) };
            }
        }
    }

    /// Writes each packet's arrival; `host` says whether a port leads to a host.
    #[inline(always)]
    fn arrivals(&mut self, packets: &mut [Packet], host: impl Fn(u32) -> bool) {
        assert!(packets.len() <= CHUNK);
        for (index, packet) in packets.iter_mut().enumerate() {
            let arrival = arrival(packet, &host);
            prefetch(arrival.data);
            prefetch(arrival.data.wrapping_add(64));
            // SAFETY: there are `CHUNK` frames, and never more packets in a chunk.
            unsafe { (&raw mut (*self.head(index)).arrival).write(arrival) };
        }
    }

    /// The head of a packet's frame.
    #[inline(always)]
    fn head(&mut self, index: usize) -> *mut Head {
        self.frames.as_mut_ptr().cast::<u8>().wrapping_add(index * self.program.stride as usize).cast()
    }

    /// The time of a packet that came in at `received_at`, seen from `start`: never before that of the packet in front of it.
    fn clock(&mut self, received_at: u64, start: u64) -> Clock {
        if received_at > self.clock.time {
            let now = received_at.saturating_sub(start);
            self.clock = Clock { time: received_at, now, now_us: now / 1000 };
        }
        self.clock
    }

    /// Somebody else handled a packet that came in at that time: the latest time of all packets.
    pub fn saw(&mut self, time: u64, start: u64) -> u64 {
        self.clock(time, start).time
    }

    /// Follows entries to members of action profiles.
    fn resolve(&mut self, program: &Program, stage: usize, table: ir::TableId, count: usize, lookups: &Lookups) {
        let selector = &program.selectors[table.index()];
        for index in 0..count {
            let found = self.memory.results(count)[index];
            let keys = &self.memory.aux(stage, count)[index * (AUX_BYTES / 8)..(index + 1) * (AUX_BYTES / 8)];
            // SAFETY: the value is what this copy of the lookups gave for the table just now.
            let resolved = unsafe { lookups.resolve(table, found, || selector.hash(keys)) };
            self.memory.results(count)[index] = resolved;
        }
    }

    /// Fetches the counters that were not counted in place yet.
    fn fetch_counters(&mut self, from: u64) {
        let count = self.memory.context().pending_count;
        for pending in &self.pending[from as usize..count as usize] {
            prefetch(pending.at.cast());
        }
    }

    fn count(&mut self) {
        let count = std::mem::take(&mut self.memory.context().pending_count) as usize;
        for pending in &self.pending[..count] {
            // SAFETY: native code checked the index; only this worker writes to its counters.
            unsafe { add(pending) };
        }
    }
}

/// What the engine tells of a packet; `host` says whether a port leads to a host.
#[inline(always)]
fn arrival(packet: &mut Packet, host: impl Fn(u32) -> bool) -> Arrival {
    let (data, len) = packet.place();
    let (len, port) = (len as u32, packet.ingress_port.0);
    let counted = packet.came_with.map_or(len, |length| length.min(u32::from(u16::MAX)));
    Arrival { data, counted, one: 1, port, direction: u32::from(host(port)), states: 0, len }
}

/// Counts a packet.
///
/// # Safety
/// The counter is there, and nobody else writes to it.
unsafe fn add(pending: &Pending) {
    let counter = pending.at;
    // SAFETY: as promised by the caller.
    unsafe {
        (&raw mut (*counter)[0]).write((*counter)[0].wrapping_add(1));
        (&raw mut (*counter)[1]).write((*counter)[1].wrapping_add(pending.bytes));
    }
}

/// How many packets are best taken through the stages together, with these tables.
fn most_together(program: &Program, lookups: &Lookups) -> usize {
    // Packets that are taken eight at a time have no frames that should stay near.
    if program.native.lanes().iter().any(Option::is_some) {
        return CHUNK;
    }
    // Other lookups gain more by more keys.
    let eight = ExactTable::takes_eight();
    // What packets of one kind pass.
    let passed = program.stages.iter().filter(|stage| !stage.copied && stage.start != Start::Again).count();
    if eight && passed <= SHORT && lookups.memory_bytes() <= NEAR { FEW } else { FRAMES }
}

/// How many of the packets may run together, at most `most`.
fn together(program: &Program, packets: &[Packet], most: usize) -> usize {
    if program.order.serial {
        return 1;
    }
    let most = packets.len().min(most);
    if !program.order.timed {
        return most;
    }
    let time = packets[0].received_at;
    packets[..most].iter().position(|packet| packet.received_at != time).unwrap_or(most)
}

/// Asks for a cache line.
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
