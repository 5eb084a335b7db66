//! Packet buffers and batches, verdicts, drop reasons, and the [`Engine`] trait.
//!
//! This crate answers one question: *what do ports and engines hand each other?* It knows nothing of
//! P4, of the IR or of sockets, so that an interpreter, native code and a flow cache are values behind the same trait.
//!
//! The life of a packet:
//!
//! 1. A port receives into a slot of a [`Batch`]; the slot's buffer is reused, so nothing is allocated once buffers have grown. Or the port
//!    lends the slot the buffer into which the device wrote ([`Loan`]).
//! 2. An [`Engine`] rewrites the packets of the batch *in place* and says what becomes of each by pushing
//!    [`Emission`]s into an [`Output`]. One packet can have several (multicast, clones): those that have other bytes than the
//!    packet that came in live in slots of the output.
//! 3. Every emission is a [`Verdict`]: forward to a port, give to the CPU, or drop with a named [`DropReason`].
//!    An input without an emission is a bug of the engine; [`Output::unanswered`] finds it.
//!
//! ```
//! use packet::{Batch, DropReason, Engine, EngineReason, Output, PortId, ReasonTable};
//!
//! /// Sends everything back to where it came from, except empty packets.
//! struct Reflector(ReasonTable);
//!
//! impl Engine for Reflector {
//!     fn name(&self) -> &str {
//!         "reflector"
//!     }
//!     fn reasons(&self) -> &ReasonTable {
//!         &self.0
//!     }
//!     fn process(&mut self, batch: &mut Batch, out: &mut Output) {
//!         for (index, packet) in batch.indexed() {
//!             if packet.is_empty() {
//!                 out.drop(index, DropReason::Engine(EngineReason::Runt));
//!             } else {
//!                 out.forward(index, packet.ingress_port);
//!             }
//!         }
//!     }
//! }
//!
//! let mut batch = Batch::new();
//! batch.push_bytes(b"hello", PortId(3), 0).unwrap();
//! let mut out = Output::new();
//! let mut engine: Box<dyn Engine> = Box::new(Reflector(ReasonTable::default()));
//! engine.process(&mut batch, &mut out);
//! let sent: Vec<_> = out.iter(&batch).map(|(emission, packet)| (emission.verdict, packet.bytes())).collect();
//! assert_eq!(sent, [(packet::Verdict::Forward { port: PortId(3) }, b"hello".as_slice())]);
//! ```

mod batch;
mod buffer;
mod counters;
mod engine;
mod hex;
mod loan;
mod output;
mod reason;
mod verdict;

pub use batch::{Batch, BatchFull, MAX_BATCH, PushError};
pub use buffer::{HEADROOM, MAX_LEN, Packet, PacketTooLong, PacketTooShort};
pub use counters::{Counter, DropCounters, EngineCounters, PortCounters};
pub use engine::Engine;
pub use hex::{hex, unhex};
pub use loan::{Lender, Loan};
pub use output::{MAX_EMISSIONS, MAX_EXTRAS, Output};
pub use reason::{
    CpuReason, DropReason, EngineReason, MAX_REASON_NAME, PortReason, ReasonId, ReasonTable, ReasonTableError,
};
pub use verdict::{Emission, Origin, PacketRef, PortId, Verdict};
