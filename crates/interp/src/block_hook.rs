//! Hook into a run: a [`BlockHook`] runs a programmable block in place of the interpreter, through
//! a [`BlockStepper`].
//!
//! This module answers one question: *how does a cache observe the processing of a packet and
//! repeat it, without a second implementation of any instruction?*
//!
//! [`crate::Interp::process_by`] runs a packet as [`crate::Interp::process`] does, but calls
//! [`BlockHook::run`] for the blocks that [`BlockHook::handles_block`] accepts; by default this is
//! the main control. Parser, deparser, architecture and copies are executed by the interpreter.
//!
//! A hook decides which instruction is executed next. The stepper executes it with the
//! interpreter's own code:
//!
//! - [`BlockStepper::step`] executes one instruction of [`BlockStepper::code`] and returns the next
//!   one.
//! - A table application can be split: [`BlockStepper::lookup`] returns the entry that is hit and
//!   changes nothing; [`BlockStepper::apply`] has the effects of a hit on that entry, or of a miss.
//! - [`BlockStepper::reg_words`] and [`BlockStepper::header_validity`] are all packet state that
//!   instructions read and write. From their contents before and after each step a hook derives
//!   which values decided, and their origins.
//!
//! A hook that steps from instruction 0 until [`StepResult::End`] is equivalent to the interpreter:
//!
//! ```
//! # use interp::block_hook::{BlockHook, BlockExit, StepResult, BlockStepper};
//! struct Observer { instructions: u64 }
//! impl BlockHook for Observer {
//!     fn run(&mut self, stepper: &mut BlockStepper<'_>) -> BlockExit {
//!         let mut pc = 0;
//!         loop {
//!             self.instructions += 1;
//!             match stepper.step(pc) {
//!                 StepResult::Next(next) => pc = next,
//!                 StepResult::End(outcome) => return outcome,
//!             }
//!         }
//!     }
//! }
//! ```
//!
//! A cache records the steps of one packet and derives which bits decided. For a packet with equal
//! bits it omits the decisions and the lookups. Effects (counters, meters, registers, digests) are
//! steps like any other, so that they happen for each packet. A program makes a bounded number of
//! backward jumps and table applications ([`crate::Config::max_steps`]);
//! [`BlockStepper::take_fuel`] accounts for those that a cache omits.

use crate::exec_context::{self, ExecContext};
use crate::frame::Frame;
use crate::overseer::Overseer;
use ir::ControlKind;
use packet::EngineReason;

pub use crate::program::{
    ApplyArm, ApplySite, BlockCode, BlockExit, CallArg, DecodedCall, DecodedHeader, DecodedProgram, DecodedSwitch,
    InstIndex, Op, Reg, WideOp, WordIndex,
};

/// Hook that runs programmable blocks in place of the interpreter.
pub trait BlockHook {
    /// Runs a block from its start to its end.
    fn run(&mut self, stepper: &mut BlockStepper<'_>) -> BlockExit;

    /// Returns whether the hook runs blocks of this role.
    fn handles_block(&self, kind: ControlKind) -> bool {
        matches!(kind, ControlKind::Ingress | ControlKind::MainControl)
    }
}

/// Read-only view of a packet's words and header validity.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'s> {
    /// Words of constants, variables and values ([`BlockStepper::reg_words`]).
    pub reg_words: &'s [u64],
    /// Validity of each header ([`BlockStepper::header_validity`]).
    pub header_validity: &'s [bool],
}

/// Result of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepResult {
    /// The next instruction.
    Next(InstIndex),
    /// The block has ended.
    End(BlockExit),
}

/// Packet in a block that a [`BlockHook`] runs, with the operations to execute the block.
pub struct BlockStepper<'w> {
    machine: ExecContext<'w, ()>,
    frame: &'w mut Frame,
    code: usize,
    /// Fuel of the interpreter, updated on drop.
    fuel: &'w mut u64,
}

impl<'w> BlockStepper<'w> {
    /// Enters the block whose code has this index, for the packet in `frame`. The stepper runs the
    /// instructions without the overseer of `context`, and returns the fuel that it has left when
    /// it is dropped.
    pub(crate) fn new<'a: 'w, O: Overseer>(
        context: &'w mut ExecContext<'a, O>,
        frame: &'w mut Frame,
        code: usize,
    ) -> BlockStepper<'w> {
        exec_context::reset_checksums(frame);
        let machine = ExecContext::<'w, ()> {
            program: context.program,
            pipeline: context.pipeline,
            config: context.config,
            memory: &mut *context.memory,
            overseer: (),
            fuel: context.fuel,
            parser_fuel: context.parser_fuel,
            bits: &mut *context.bits,
        };
        BlockStepper { machine, frame, code, fuel: &mut context.fuel }
    }

    /// Returns the code of the block.
    pub fn code(&self) -> &'w BlockCode {
        let program: &'w DecodedProgram = self.machine.program;
        &program.codes[self.code]
    }

    /// Returns the program.
    pub fn program(&self) -> &'w DecodedProgram {
        self.machine.program
    }

    /// Returns the words of constants, variables and values; [`DecodedProgram`] has their indices.
    pub fn reg_words(&self) -> &[u64] {
        &self.frame.reg_words
    }

    /// Returns the validity of each header.
    pub fn header_validity(&self) -> &[bool] {
        &self.frame.valid
    }

    /// Returns words and header validity.
    pub fn state(&self) -> FrameView<'_> {
        FrameView { reg_words: &self.frame.reg_words, header_validity: &self.frame.valid }
    }

    /// Returns the number of parsed bits.
    pub fn cursor(&self) -> usize {
        self.frame.cursor
    }

    /// Returns the latest time in nanoseconds that the engine was given.
    pub fn now(&self) -> u64 {
        self.machine.memory.now
    }

    /// Returns the remaining backward jumps and table applications of the packet.
    pub fn fuel(&self) -> u64 {
        self.machine.fuel
    }

    /// Consumes fuel for omitted backward jumps. Returns false and consumes nothing if less is
    /// left.
    pub fn take_fuel(&mut self, steps: u64) -> bool {
        let is_sufficient = self.machine.fuel >= steps;
        self.machine.fuel -= if is_sufficient { steps } else { 0 };
        is_sufficient
    }

    /// Executes the instruction at `pc`.
    pub fn step(&mut self, pc: InstIndex) -> StepResult {
        let mut next = pc as usize;
        match self.machine.step(self.frame, self.code, self.code(), &mut next) {
            None => StepResult::Next(next as InstIndex),
            Some(outcome) => StepResult::End(outcome),
        }
    }

    /// Looks up the packet's key in a table and returns the slot of the hit entry.
    pub fn lookup(&mut self, site: &ApplySite) -> Option<u32> {
        self.machine.memory.lookup(site.table, &self.frame.reg_words, &site.keys)
    }

    /// Applies a table with the hit entry's slot, or with a miss: counts, meters, restarts the idle
    /// timer, and moves the action data to their registers. Returns the next instruction, or the
    /// end of the block if no fuel is left.
    ///
    /// The slot must hold an entry. The result of a stale slot is that of another entry.
    pub fn apply(&mut self, site: &ApplySite, slot: Option<u32>, pc: InstIndex) -> StepResult {
        if !self.machine.consume_fuel() {
            return StepResult::End(BlockExit::Abort(EngineReason::InstructionLimit));
        }
        let loc = self.code().locs[pc as usize];
        StepResult::Next(self.machine.apply_lookup_result(self.frame, site, slot, loc).1)
    }

    /// Returns the entry in a slot.
    pub fn entry(&self, table: usize, number: u32) -> Option<&entries::StoredEntry> {
        self.machine.memory.entry(table, number)
    }

    /// Returns the slot of the entry that the packet hit last in a table.
    pub fn last_hit_slot(&self, table: usize) -> Option<u32> {
        self.frame.hit_slots.get(table)?.checked_sub(1)
    }
}

impl Drop for BlockStepper<'_> {
    fn drop(&mut self) {
        *self.fuel = self.machine.fuel;
    }
}
