//! [`Detour`]: who runs the main control of a packet in the interpreter's place, with the interpreter's own instructions.
//!
//! This module answers one question: *how does a cache replay what the interpreter did, without a second meaning of any instruction?* All else
//! (parser, deparser, architecture, externs, copies) stays the interpreter's; between the start of the main control and its end a detour says which
//! instruction comes next ([`Walker::step`]), and may tell a table what it would find ([`Walker::apply`]).

use crate::frame::Frame;
use crate::machine::{self, Machine};
use ir::ControlKind;

pub use crate::machine::Outcome;
pub use crate::program::{ApplySite, Arm, Call, CallArg, Code, Header, Op, Pc, Program, Reg, Slot, Switch, WideOp};

/// Runs the main control (v1model: ingress) of each packet, or more blocks of the architecture.
pub trait Detour {
    /// Runs a block from its start to its end.
    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome;

    /// Whether it runs blocks of that role.
    fn takes(&self, kind: ControlKind) -> bool {
        matches!(kind, ControlKind::Ingress | ControlKind::MainControl)
    }
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
        Walker { machine, frame, code, fuel: &mut from.fuel }
    }

    /// The block's code.
    pub fn code(&self) -> &'w Code {
        let program: &'w Program = self.machine.program;
        &program.codes[self.code]
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
        let mut at = pc as usize;
        match self.machine.step(self.frame, self.code, code, &mut at) {
            None => Step::Next(at as Pc),
            Some(outcome) => Step::End(outcome),
        }
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
        Step::Next(self.machine.apply_found(self.frame, site, found, loc))
    }
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        *self.fuel = self.machine.fuel;
    }
}
