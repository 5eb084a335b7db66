//! [`Detour`]: who runs the main control of a packet in the interpreter's place, with the interpreter's own instructions.
//!
//! This module answers one question: *how does a cache replay what the interpreter did, without a second meaning of any instruction?* All else
//! (parser, deparser, architecture, externs, copies) stays the interpreter's; between the start of the main control and its end a detour says which
//! instruction comes next ([`Walker::step`]), and may tell a table what it would find ([`Walker::apply`]).

use crate::frame::Frame;
use crate::machine::{self, Machine};
use ir::ControlKind;

pub use crate::foresee::{Beside, rewired, value};
pub use crate::herd::{Asking, Herd};
pub use crate::machine::Outcome;
pub use crate::program::{ApplySite, Arm, Call, CallArg, Code, Header, Op, Pc, Program, Reg, Slot, Switch, WideOp};
pub use crate::replay::{Play, Replayed, Script};

/// Runs the main control (v1model: ingress) of each packet, or more blocks of the architecture.
pub trait Detour {
    /// Runs a block from its start to its end.
    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome;

    /// Runs it for packets that came at the same time, whose steps may be taken in any order.
    fn run_many(&mut self, herd: &mut Herd<'_, '_>) {
        for packet in 0..herd.len() {
            if herd.is_here(packet) {
                let outcome = self.run(&mut herd.walker(packet));
                herd.end(packet, outcome);
            }
        }
    }

    /// Whether it runs blocks of that role.
    fn takes(&self, kind: ControlKind) -> bool {
        matches!(kind, ControlKind::Ingress | ControlKind::MainControl)
    }
}

/// Who is told of the decisions of a [`Walker::walk`].
pub trait Watch {
    /// A table at `pc` is about to be applied, and finds that entry, or none. The packet is as the table sees it.
    fn asked(&mut self, site: &ApplySite, pc: Pc, packet: State<'_>, found: Option<u32>);
    /// A branch, a switch or, after [`Watch::asked`], the choice of an action went on there.
    fn decided(&mut self, to: Pc);
    /// An instruction is about to be carried out that may choose by a value where no jump does: a selection, a check, a call.
    fn about(&mut self, _op: Op, _code: &Code, _packet: State<'_>) {}
}

/// A packet's slots and headers.
#[derive(Clone, Copy, Debug)]
pub struct State<'s> {
    /// As [`Walker::slots`].
    pub slots: &'s [u64],
    /// As [`Walker::valid`].
    pub valid: &'s [bool],
}

/// What happened in a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Go on there.
    Next(Pc),
    /// The control has ended.
    End(Outcome),
}

/// A packet at the main control.
pub struct Walker<'w> {
    machine: Machine<'w, false>,
    frame: &'w mut Frame,
    code: usize,
    /// Where the fuel comes from.
    fuel: &'w mut u64,
    /// Nobody sent it: nothing that it does outlives it.
    imagined: bool,
}

impl<'w> Walker<'w> {
    /// A packet that enters the block of that number.
    pub(crate) fn new<'a: 'w, const T: bool>(
        from: &'w mut Machine<'a, T>,
        frame: &'w mut Frame,
        code: usize,
    ) -> Walker<'w> {
        machine::begin(frame);
        let machine = Machine::<'w, false> {
            program: from.program,
            pipeline: from.pipeline,
            config: from.config,
            memory: &mut *from.memory,
            trace: &mut *from.trace,
            fuel: from.fuel,
            parser_fuel: from.parser_fuel,
            bits: &mut *from.bits,
        };
        Walker { machine, frame, code, fuel: &mut from.fuel, imagined: false }
    }

    /// A packet that nobody sent, at the block of that number.
    pub(crate) fn imagined<'a: 'w>(from: &'w mut Machine<'a, false>, frame: &'w mut Frame, code: usize) -> Walker<'w> {
        let mut walker = Walker::new(from, frame, code);
        walker.imagined = true;
        walker
    }

    /// A packet that has entered the block before, with the fuel that it has left.
    pub(crate) fn resumed<'a: 'w>(
        from: &'w mut Machine<'a, false>,
        frame: &'w mut Frame,
        fuel: &'w mut u64,
        code: usize,
    ) -> Walker<'w> {
        let machine = Machine::<'w, false> {
            program: from.program,
            pipeline: from.pipeline,
            config: from.config,
            memory: &mut *from.memory,
            trace: &mut *from.trace,
            fuel: *fuel,
            parser_fuel: 0,
            bits: &mut *from.bits,
        };
        Walker { machine, frame, code, fuel, imagined: false }
    }

    /// The block's code.
    pub fn code(&self) -> &'w Code {
        let program: &'w Program = self.machine.program;
        &program.codes[self.code]
    }

    /// The number of the block.
    pub(crate) fn index(&self) -> usize {
        self.code
    }

    /// What runs instructions, and the packet.
    pub(crate) fn parts(&mut self) -> (&mut Machine<'w, false>, &mut Frame) {
        (&mut self.machine, self.frame)
    }

    /// The program.
    pub fn program(&self) -> &'w Program {
        self.machine.program
    }

    /// Constants, variables and values, as [`Program`] places them.
    pub fn slots(&self) -> &[u64] {
        &self.frame.slots
    }

    /// Which headers are valid.
    pub fn valid(&self) -> &[bool] {
        &self.frame.valid
    }

    /// Backward jumps and table applications that the packet may still make.
    pub fn fuel(&self) -> u64 {
        self.machine.fuel
    }

    /// Takes fuel for backward jumps that are not made again one by one. False, and nothing is taken, if there is less.
    pub fn take_fuel(&mut self, steps: u64) -> bool {
        let enough = self.machine.fuel >= steps;
        self.machine.fuel -= if enough { steps } else { 0 };
        enough
    }

    /// The latest time in nanoseconds that the engine was given.
    pub fn now(&self) -> u64 {
        self.machine.memory.now
    }

    /// Carries out the instruction there.
    pub fn step(&mut self, pc: Pc) -> Step {
        let code = self.code();
        if self.imagined && self.is_seen(pc) {
            return Step::Next(pc + 1);
        }
        let mut at = pc as usize;
        match self.machine.step(self.frame, self.code, code, &mut at) {
            None => Step::Next(at as Pc),
            Some(outcome) => Step::End(outcome),
        }
    }

    /// Whether others would notice if the instruction were carried out. Its results, if it has any, differ from packet to packet.
    fn is_seen(&self, pc: Pc) -> bool {
        match self.code().ops.get(pc as usize) {
            Some(Op::Call { index }) => self.code().calls[*index as usize].func.outlives_packet(),
            _ => false,
        }
    }

    /// The packet as it is.
    pub fn state(&self) -> State<'_> {
        State { slots: &self.frame.slots, valid: &self.frame.valid }
    }

    /// Runs the control from there to its end, and tells of its decisions.
    pub fn walk(&mut self, from: Pc, watch: &mut impl Watch) -> Outcome {
        let mut step = self.walk_to_table(from, watch);
        loop {
            match step {
                Step::Next(pc) => {
                    let found = self.lookup_at(pc);
                    step = self.walk_through_table(pc, found, watch);
                }
                Step::End(outcome) => return outcome,
            }
        }
    }

    /// Runs the control from there to the next table application, or to its end.
    pub fn walk_to_table(&mut self, from: Pc, watch: &mut impl Watch) -> Step {
        let code = self.code();
        let mut at = from as usize;
        loop {
            match code.ops.get(at) {
                Some(Op::Apply { .. }) => return Step::Next(at as Pc),
                Some(Op::Branch { c, then, els }) => {
                    let to = if self.frame.slots[*c as usize] != 0 { *then } else { *els };
                    watch.decided(to);
                    at = to as usize;
                }
                op => {
                    if let Some(op @ (Op::Select1 { .. } | Op::SelectN { .. } | Op::Verify { .. } | Op::Call { .. })) =
                        op
                    {
                        watch.about(*op, code, self.state());
                    }
                    let outcome = self.machine.step(self.frame, self.code, code, &mut at);
                    if let Some(outcome) = outcome {
                        return Step::End(outcome);
                    }
                    if let Some(Op::Switch { .. }) = op {
                        watch.decided(at as Pc);
                    }
                }
            }
        }
    }

    /// What the table that is applied there finds.
    pub fn lookup_at(&mut self, pc: Pc) -> Option<u32> {
        match self.code().ops.get(pc as usize) {
            Some(Op::Apply { index }) => self.lookup(&self.code().applies[*index as usize]),
            _ => None,
        }
    }

    /// Asks for an entry that is going to be found, so that it is near when that happens.
    #[inline]
    pub fn soon(&self, table: usize, number: u32) {
        self.machine.memory.soon(table, number);
    }

    /// Applies the table there, which finds that entry, or none, and goes on to the next table application, or to the end.
    pub fn walk_through_table(&mut self, pc: Pc, found: Option<u32>, watch: &mut impl Watch) -> Step {
        let code = self.code();
        let Some(Op::Apply { index }) = code.ops.get(pc as usize) else {
            return Step::End(Outcome::Abort(packet::EngineReason::EngineFault));
        };
        if !self.machine.burn() {
            return Step::End(Outcome::Abort(packet::EngineReason::StepLimit));
        }
        let site = &code.applies[*index as usize];
        watch.asked(site, pc, self.state(), found);
        let to = self.machine.apply_found(self.frame, site, found, code.locs[pc as usize]);
        watch.decided(to);
        self.walk_to_table(to, watch)
    }

    /// The entry of a number.
    pub fn entry(&self, table: usize, number: u32) -> Option<&tables::Entry> {
        self.machine.memory.entry(table, number)
    }

    /// How many bits of the packet are parsed.
    pub fn cursor(&self) -> usize {
        self.frame.cursor
    }

    /// Bytes of the packet as it came into this pass.
    pub fn data(&self) -> &[u8] {
        &self.frame.data[..self.frame.len]
    }

    /// Where the packet came in.
    pub fn port(&self) -> u32 {
        self.frame.port
    }

    /// Tells the entry of a number from those that had the number before.
    pub fn generation(&self, table: usize, number: u32) -> u32 {
        self.machine.memory.tables[table].slots.get(number as usize).map_or(0, |slot| slot.generation)
    }

    /// The entry that the packet hit last in a table: its number.
    pub fn hit_in(&self, table: usize) -> Option<u32> {
        self.frame.hits.get(table)?.checked_sub(1)
    }

    /// Looks up what the table finds for the packet as it is: the number of the entry.
    pub fn lookup(&mut self, site: &ApplySite) -> Option<u32> {
        self.machine.memory.lookup(site.table, &self.frame.slots, &site.keys)
    }

    /// Applies a table that finds the entry of that number, or none: counts, meters and ages it, and moves the action's data to their places. Where
    /// it goes on, or that there was no fuel for it.
    ///
    /// A number of an entry that is gone is a bug of the caller: it may do what another entry says.
    pub fn apply(&mut self, site: &ApplySite, found: Option<u32>, pc: Pc) -> Step {
        if !self.machine.burn() {
            return Step::End(Outcome::Abort(packet::EngineReason::StepLimit));
        }
        let loc = self.code().locs[pc as usize];
        Step::Next(match self.imagined {
            false => self.machine.apply_found(self.frame, site, found, loc),
            true => self.machine.apply_as::<false>(self.frame, site, found, loc),
        })
    }
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        *self.fuel = self.machine.fuel;
    }
}
