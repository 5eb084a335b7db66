//! [`Overseer`]: sees each instruction before it is carried out, and decides whether it is.
//!
//! This module answers one question: *how does an engine with rules of its own (a chip with stages
//! and passes) run a program without a second meaning of any instruction?*
//!
//! The engine asks at each instruction, at each lookup, and where a packet goes from a block of the
//! architecture to another. `()` lets all happen, and costs nothing; [`Trace`] does, too, and takes
//! notes. What an overseer has to know of a packet is in [`Frame::attached`].

use crate::op::{Op, Outcome, Pc};
use crate::program::ApplySite;
use crate::trace::{Event, Trace};
use entries::Entry;
use packet::EngineReason;

pub use crate::frame::{Destination, Frame};
pub use crate::program::Origin;
pub use crate::wire::{BitBuffer, read_words};

/// What happens at an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// It is carried out.
    Run,
    /// The one behind it is next.
    Skip,
    /// The one there is next.
    Goto(Pc),
    /// The block ends.
    End(Outcome),
}

/// What a lookup finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// What the interpreter's lookup finds.
    Lookup,
    /// The entry with that sequence number ([`Entry::sequence`]), or none.
    Entry(Option<u64>),
    /// Nothing yet: [`Overseer::after_apply`] says where the program goes on.
    Later,
}

/// Where the architecture takes a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Boundary {
    /// Into the parser, with all variables 0.
    Parser,
    /// v1model: from ingress, or as a copy, to egress.
    Egress,
    /// PNA: from the main control to the deparser.
    Deparser,
}

/// See the module. `at` is a code of the program, and an instruction in it.
pub trait Overseer {
    /// Whether [`Overseer::note`] is called.
    const TRACES: bool = false;

    /// Records an event, with its place in the program.
    fn note(&mut self, _event: Event, _at: Option<String>) {}

    /// Called before a block runs for the first time (`round` 0) and after each time: whether it
    /// runs now.
    fn begin(&mut self, _code: usize, round: u16, _frame: &mut Frame) -> bool {
        round == 0
    }

    /// What happens at an instruction. It is carried out right after [`Decision::Run`].
    fn before(&mut self, _at: (usize, Pc), _op: &Op, _frame: &mut Frame) -> Decision {
        Decision::Run
    }

    /// What a table finds. `Err`: the packet is dropped.
    fn find(&mut self, _site: &ApplySite, _frame: &mut Frame) -> Result<Found, EngineReason> {
        Ok(Found::Lookup)
    }

    /// A table was applied, and led to an action unless it does later: its position in the table's
    /// list, and where it starts. Where the program goes on, or how the block ends.
    fn after_apply(&mut self, _at: (usize, Pc), arm: Option<(u32, Pc)>, _frame: &mut Frame) -> Result<Pc, Outcome> {
        arm.map(|(_, start)| start).ok_or(Outcome::Abort(EngineReason::EngineFault))
    }

    /// Whether a table has room for an entry that a packet adds.
    fn has_room(&self, _table: usize) -> bool {
        true
    }

    /// A packet has added an entry.
    fn added(&mut self, _table: usize, _entry: &Entry) {}

    /// The architecture takes a packet there.
    fn cross(&mut self, _frame: &mut Frame, _to: Boundary) {}

    /// The architecture needs the packet as it came in. `Err`: it is gone, and the packet is
    /// dropped.
    fn original(&mut self, _frame: &Frame) -> Result<(), EngineReason> {
        Ok(())
    }
}

/// Lets all happen.
impl Overseer for () {}

/// Lets all happen, and records it.
impl Overseer for &mut Trace {
    const TRACES: bool = true;

    fn note(&mut self, event: Event, at: Option<String>) {
        self.push(event, at);
    }
}
