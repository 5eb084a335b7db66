//! [`Overseer`]: observes each instruction before it is executed, and decides whether it is.
//!
//! This module answers one question: *how does an engine with rules of its own (a chip with stages
//! and passes) run a program without a second implementation of any instruction?*
//!
//! The engine calls the overseer at each instruction, at each lookup, and where a packet moves from
//! one programmable block to another. `()` permits everything at no cost; [`PacketTrace`] also
//! permits everything and records events. State of an overseer that belongs to a packet is in
//! [`Frame::attached`].

use crate::op::{BlockExit, InstIndex, Op};
use crate::program::ApplySite;
use crate::trace::{PacketTrace, TraceEvent};
use entries::StoredEntry;
use packet::EngineReason;

pub use crate::bit_io::{BitBuffer, read_words};
pub use crate::frame::{Destination, Frame};
pub use crate::program::InstOrigin;

/// Decision of an overseer at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InstDecision {
    /// Execute the instruction.
    Run,
    /// Continue with the following instruction.
    Skip,
    /// Continue with this instruction.
    Goto(InstIndex),
    /// End the block.
    End(BlockExit),
}

/// Source of a lookup's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupSource {
    /// The interpreter's lookup.
    Lookup,
    /// The entry with this sequence number ([`StoredEntry::sequence`]), or a miss.
    Entry(Option<u64>),
    /// Deferred: [`Overseer::after_apply`] returns the next instruction.
    Later,
}

/// Transition of a packet in the architecture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchTransition {
    /// Into the parser, with all variables 0.
    Parser,
    /// v1model: from ingress, or as a copy, to egress.
    Egress,
    /// PNA: from the main control to the deparser.
    Deparser,
}

/// Observer and controller of a run. `at` is the index of a block and of an instruction in it.
pub trait Overseer {
    /// Whether [`Overseer::record_event`] is called.
    const TRACES: bool = false;

    /// Records an event with its source location.
    fn record_event(&mut self, _event: TraceEvent, _at: Option<String>) {}

    /// Called before the first run of a block (`round` 0) and after each run. Returns whether the
    /// block runs now.
    fn should_run_block(&mut self, _code: usize, round: u16, _frame: &mut Frame) -> bool {
        round == 0
    }

    /// Decides about an instruction, which is executed right after [`InstDecision::Run`].
    fn decide(&mut self, _at: (usize, InstIndex), _op: &Op, _frame: &mut Frame) -> InstDecision {
        InstDecision::Run
    }

    /// Returns the source of a lookup's result. `Err`: the packet is dropped.
    fn lookup_source(&mut self, _site: &ApplySite, _frame: &mut Frame) -> Result<LookupSource, EngineReason> {
        Ok(LookupSource::Lookup)
    }

    /// Called after a table application. `arm` is the action's position in the table's list and its
    /// first instruction, `None` if the lookup is deferred. Returns the next instruction, or the
    /// exit of the block.
    fn after_apply(
        &mut self,
        _at: (usize, InstIndex),
        arm: Option<(u32, InstIndex)>,
        _frame: &mut Frame,
    ) -> Result<InstIndex, BlockExit> {
        arm.map(|(_, start)| start).ok_or(BlockExit::Abort(EngineReason::EngineBug))
    }

    /// Returns whether a table can hold an entry that a packet adds.
    fn can_add_entry(&self, _table: usize) -> bool {
        true
    }

    /// Called after a packet has added an entry.
    fn on_entry_added(&mut self, _table: usize, _entry: &StoredEntry) {}

    /// Called when a packet makes a transition in the architecture.
    fn on_transition(&mut self, _frame: &mut Frame, _to: ArchTransition) {}

    /// Called when the architecture needs the packet as received. `Err`: its bytes are lost, and
    /// the packet is dropped.
    fn require_original(&mut self, _frame: &Frame) -> Result<(), EngineReason> {
        Ok(())
    }
}

/// Permits everything.
impl Overseer for () {}

/// Permits everything and records it.
impl Overseer for &mut PacketTrace {
    const TRACES: bool = true;

    fn record_event(&mut self, event: TraceEvent, at: Option<String>) {
        self.push(event, at);
    }
}
