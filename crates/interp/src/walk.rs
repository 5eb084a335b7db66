//! The one hook into a run: [`Detour`] takes a block of the architecture over, [`Walker`] is what
//! it has to run it with.
//!
//! This module answers one question: *how does a cache see what the program does with a packet, and
//! do it again, without a second meaning of any instruction?*
//!
//! [`crate::Interp::process_by`] runs a packet as [`crate::Interp::process`] does, but asks a
//! detour whether it takes a block over ([`Detour::takes`]; the main control unless it says
//! otherwise), and calls [`Detour::run`] in its place. Parser, deparser, architecture and copies
//! stay the interpreter's.
//!
//! A detour decides which instruction is carried out next. The walker carries it out, with the
//! interpreter's own code:
//!
//! - [`Walker::step`] carries out one instruction of [`Walker::code`], and says where the program
//!   goes on.
//! - A table application can be divided: [`Walker::lookup`] says which entry is found, and changes
//!   nothing; [`Walker::apply`] does what follows on a hit of that entry, or on a miss.
//! - [`Walker::slots`] and [`Walker::valid`] are all that instructions read and write of a packet,
//!   before and after each step: so a detour sees which values decided, and where they came from.
//!
//! A detour that steps from instruction 0 until [`Step::End`] has done exactly what the interpreter
//! does:
//!
//! ```
//! # use interp::walk::{Detour, Outcome, Step, Walker};
//! struct Observer { instructions: u64 }
//! impl Detour for Observer {
//!     fn run(&mut self, walker: &mut Walker<'_>) -> Outcome {
//!         let mut pc = 0;
//!         loop {
//!             self.instructions += 1;
//!             match walker.step(pc) {
//!                 Step::Next(next) => pc = next,
//!                 Step::End(outcome) => return outcome,
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! A cache records the steps of one packet, finds out which bits decided, and for a packet that has
//! the same bits leaves out the decisions and the lookups. Effects (counters, meters, registers,
//! digests) are steps like any other, so they happen for each packet. The program may make a
//! bounded number of backward jumps and table applications ([`crate::Config::max_steps`]):
//! [`Walker::take_fuel`] takes those that a cache leaves out.

use crate::frame::Frame;
use crate::machine::{self, Machine};
use crate::overseer::Overseer;
use ir::ControlKind;
use packet::EngineReason;

pub use crate::program::{
    ApplySite, Arm, Call, CallArg, Code, Header, Op, Outcome, Pc, Program, Reg, Slot, Switch, WideOp,
};

/// Runs blocks of the architecture in the interpreter's place. See the module.
pub trait Detour {
    /// Runs a block from its start to its end.
    fn run(&mut self, walker: &mut Walker<'_>) -> Outcome;

    /// Whether it runs blocks of that role.
    fn takes(&self, kind: ControlKind) -> bool {
        matches!(kind, ControlKind::Ingress | ControlKind::MainControl)
    }
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
    /// The program goes on there.
    Next(Pc),
    /// The block has ended.
    End(Outcome),
}

/// A packet in a block that a detour runs.
pub struct Walker<'w> {
    machine: Machine<'w, ()>,
    frame: &'w mut Frame,
    code: usize,
    /// Where the fuel comes from.
    fuel: &'w mut u64,
}

impl<'w> Walker<'w> {
    /// A packet that enters the block of that number.
    pub(crate) fn new<'a: 'w, O: Overseer>(
        from: &'w mut Machine<'a, O>,
        frame: &'w mut Frame,
        code: usize,
    ) -> Walker<'w> {
        machine::begin(frame);
        let machine = Machine::<'w, ()> {
            program: from.program,
            pipeline: from.pipeline,
            config: from.config,
            memory: &mut *from.memory,
            overseer: (),
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

    /// Both.
    pub fn state(&self) -> State<'_> {
        State { slots: &self.frame.slots, valid: &self.frame.valid }
    }

    /// How many bits of the packet are parsed.
    pub fn cursor(&self) -> usize {
        self.frame.cursor
    }

    /// The latest time in nanoseconds that the engine was given.
    pub fn now(&self) -> u64 {
        self.machine.memory.now
    }

    /// Backward jumps and table applications that the packet may still make.
    pub fn fuel(&self) -> u64 {
        self.machine.fuel
    }

    /// Takes fuel for backward jumps that are left out. False, and nothing is taken, if there is
    /// less.
    pub fn take_fuel(&mut self, steps: u64) -> bool {
        let enough = self.machine.fuel >= steps;
        self.machine.fuel -= if enough { steps } else { 0 };
        enough
    }

    /// Carries out the instruction there.
    pub fn step(&mut self, pc: Pc) -> Step {
        let mut at = pc as usize;
        match self.machine.step(self.frame, self.code, self.code(), &mut at) {
            None => Step::Next(at as Pc),
            Some(outcome) => Step::End(outcome),
        }
    }

    /// Looks up what the table finds for the packet as it is: the number of the entry.
    pub fn lookup(&mut self, site: &ApplySite) -> Option<u32> {
        self.machine.memory.lookup(site.table, &self.frame.slots, &site.keys)
    }

    /// Applies a table that finds the entry of that number, or none: counts, meters and ages it,
    /// and moves the action's data to their places. Where it goes on, or that there was no fuel for
    /// it.
    ///
    /// A number of an entry that is gone is a bug of the caller: it may do what another entry says.
    pub fn apply(&mut self, site: &ApplySite, found: Option<u32>, pc: Pc) -> Step {
        if !self.machine.burn() {
            return Step::End(Outcome::Abort(EngineReason::StepLimit));
        }
        let loc = self.code().locs[pc as usize];
        Step::Next(self.machine.apply_found(self.frame, site, found, loc).1)
    }

    /// The entry of a number.
    pub fn entry(&self, table: usize, number: u32) -> Option<&entries::Entry> {
        self.machine.memory.entry(table, number)
    }

    /// The entry that the packet hit last in a table: its number.
    pub fn hit_in(&self, table: usize) -> Option<u32> {
        self.frame.hits.get(table)?.checked_sub(1)
    }
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        *self.fuel = self.machine.fuel;
    }
}
