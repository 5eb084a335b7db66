//! [`Herd`]: packets that came at the same time, all at the main control, so that whoever runs it may let them take turns.
//!
//! One packet after the other waits for memory at each table; many that look up one behind the other wait once. What they leave behind is the same in any order,
//! or else they go one by one ([`takes_turns`]).

use crate::foresee::Beside;
use crate::frame::Frame;
use crate::interp::Interp;
use crate::machine::{self, Machine, Outcome};
use crate::output::Outputs;
use crate::pass::Pass;
use crate::program::{Op, Pc, Program, Reg};
use crate::trace::Trace;
use crate::walk::{Detour, State, Walker};
use ir::{Arch, ControlKind, ExternFn, Pipeline};
use packet::{EngineReason, Packet};

/// The most packets that take turns: what one needs of memory must stay in the nearer caches.
pub const MOST: usize = 32;

/// A packet between its parser and its deparser.
struct Waiting {
    frame: Box<Frame>,
    fuel: u64,
    /// How the main control ended, or why it was not reached.
    outcome: Result<Option<Outcome>, EngineReason>,
}

/// A packet at a table application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asking {
    /// Its number in the herd.
    pub packet: usize,
    /// Where the table is applied.
    pub pc: Pc,
    /// The number of the entry that it finds.
    pub found: Option<u32>,
}

/// Packets at the main control. Each must be brought to its end: [`Herd::end`].
pub struct Herd<'h, 'm> {
    machine: &'h mut Machine<'m, false>,
    packets: &'h mut [Waiting],
    code: usize,
    found: Vec<Option<u32>>,
}

impl<'m> Herd<'_, 'm> {
    /// How many there are. Those that their parser has dropped count.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether a packet has not come to its end yet.
    pub fn is_here(&self, packet: usize) -> bool {
        matches!(self.packets[packet].outcome, Ok(None))
    }

    /// A packet as it is now.
    pub fn state(&self, packet: usize) -> State<'_> {
        let frame = &self.packets[packet].frame;
        State { slots: &frame.slots, valid: &frame.valid }
    }

    /// The same, to run it.
    pub fn walker(&mut self, packet: usize) -> Walker<'_> {
        let Waiting { frame, fuel, .. } = &mut self.packets[packet];
        Walker::resumed(self.machine, frame, fuel, self.code)
    }

    /// A packet, with so many slots in all: those behind the program's are room.
    #[inline]
    pub fn beside(&mut self, packet: usize, slots: usize) -> Beside<'_, 'm> {
        Beside::new(self.machine, &mut self.packets[packet].frame, self.code, slots)
    }

    /// Says what packets find that are at table applications. Those at one place that stand side by side are looked up together.
    pub fn lookup(&mut self, asking: &mut [Asking]) {
        let code = &self.machine.program.codes[self.code];
        for same in asking.chunk_by_mut(|one, other| one.pc == other.pc) {
            let Some(Op::Apply { index }) = code.ops.get(same[0].pc as usize) else { continue };
            let site = &code.applies[*index as usize];
            self.found.clear();
            let packets = same.iter().map(|asking| &self.packets[asking.packet].frame.slots[..]);
            self.machine.memory.lookup_many(site.table, packets, &site.keys, |found| self.found.push(found));
            same.iter_mut().zip(&self.found).for_each(|(asking, found)| asking.found = *found);
        }
    }

    /// What each of these packets finds in a table that is asked for `keys`, in order. Nothing is applied.
    pub fn ask(
        &mut self,
        table: usize,
        keys: &[Reg],
        packets: impl Iterator<Item = usize>,
        found: &mut Vec<Option<u32>>,
    ) {
        let of = &self.packets;
        let slots = packets.map(|packet| &of[packet].frame.slots[..]);
        self.machine.memory.lookup_many(table, slots, keys, |number| found.push(number));
    }

    /// Asks for an entry that is going to be found.
    #[inline]
    pub fn soon(&self, table: usize, number: u32) {
        self.machine.memory.soon(table, number);
    }

    /// How a packet's main control has ended.
    pub fn end(&mut self, packet: usize, outcome: Outcome) {
        self.packets[packet].outcome = Ok(Some(outcome));
    }
}

/// Whether packets of one time leave the same behind, and become the same, in whatever order they take their steps: nothing that one reads is written by another.
pub fn takes_turns(pipeline: &Pipeline, program: &Program) -> bool {
    // What counters add comes to the same in any order.
    let adds = |func: ExternFn| matches!(func, ExternFn::CounterCount | ExternFn::DirectCounterCount);
    let alone = |func: ExternFn| func.outlives_packet() && !adds(func);
    let calls = program.codes.iter().flat_map(|code| &code.calls);
    pipeline.arch == Arch::Pna
        && program.code(ControlKind::MainControl).is_some()
        && !calls.map(|call| call.func).any(alone)
        && pipeline.tables.values().all(|table| !table.add_on_miss && table.direct_meter.is_none())
}

impl Interp {
    /// What becomes of packets of one time, at most [`MOST`], of which a detour runs the main control together; `each` is told it of one after the other.
    pub(crate) fn process_herd(
        &mut self,
        detour: &mut (dyn Detour + 'static),
        packets: &mut [Packet],
        out: &mut Outputs,
        mut each: impl FnMut(usize, &mut Packet, &Outputs),
    ) {
        let now = packets.iter().map(|packet| packet.received_at).max().unwrap_or(0);
        self.memory.now = self.memory.now.max(now);
        let program = self.program.clone();
        let Some(code) = program.code(ControlKind::MainControl) else { return };
        let (max_copies, max_steps) = (self.config.max_copies, self.config.max_steps);
        let mut trace = Trace::default();
        let machine = Machine::<false> {
            program: &program,
            pipeline: &self.pipeline,
            config: &self.config,
            memory: &mut self.memory,
            trace: &mut trace,
            fuel: max_steps,
            parser_fuel: 0,
            bits: &mut self.bits,
        };
        let config = &self.config;
        let (queue, pool) = (&mut self.queue, &mut self.pool);
        let mut pass = Pass { machine, config, out, queue, pool, copies: max_copies, detour: None };
        let enter = |packet: &mut Packet| {
            let mut frame = pass.frame();
            let bytes = packet.bytes();
            frame.arrive(&bytes[..bytes.len().min(packet::MAX_LEN)], packet.ingress_port.0, packet.came_with);
            frame.begin(&program);
            pass.machine.fuel = max_steps;
            let outcome = pass.enter_main(&mut frame).map(|()| None);
            machine::begin(&mut frame);
            Waiting { frame, fuel: pass.machine.fuel, outcome }
        };
        let mut waiting: Vec<Waiting> = packets.iter_mut().map(enter).collect();
        detour.run_many(&mut Herd { machine: &mut pass.machine, packets: &mut waiting, code, found: Vec::new() });
        pass.detour = Some(detour);
        for (number, (Waiting { mut frame, fuel, outcome }, packet)) in waiting.into_iter().zip(packets).enumerate() {
            pass.out.clear();
            pass.copies = max_copies;
            pass.machine.fuel = fuel;
            let ended = match outcome {
                Ok(Some(Outcome::Abort(reason))) | Err(reason) => Err(reason),
                Ok(_) => pass.leave_main(&mut frame),
            };
            pass.go_on(frame, ended);
            if pass.out.packets().is_empty() {
                pass.drop(EngineReason::NoDestination.into(), packet::Origin::Received);
            }
            each(number, packet, pass.out);
        }
    }
}
