//! Packet buffers and batches, verdicts, drop reasons, and the [`Engine`] trait.
//!
//! This crate answers one question: *which types do ports and engines exchange?* It does not depend
//! on P4, the IR or sockets, so that an interpreter, native code and a flow cache can implement the
//! same trait.
//!
//! The life of a packet:
//!
//! 1. A port receives into a slot of a [`Batch`]. The slot's buffer is reused, so nothing is
//!    allocated once buffers have grown. Alternatively, the port attaches the buffer into which the
//!    device wrote ([`ExternalBuf`]).
//! 2. An [`Engine`] rewrites the packets of the batch *in place* and adds [`PacketVerdict`]s to a
//!    [`BatchOutput`]. One packet can have several (multicast, clones). Copies with bytes other
//!    than the received packet's are stored in slots of the output.
//! 3. Every verdict is a [`Verdict`]: forward to a port, send to the CPU, or drop with a named
//!    [`DropReason`]. An input without a verdict is a bug of the engine;
//!    [`BatchOutput::inputs_without_verdict`] finds it.
//!
//! ```
//! use packet::{Batch, BatchOutput, DropReason, Engine, EngineReason, PortId, ReasonTable};
//!
//! /// Sends every packet back to its ingress port, except empty packets.
//! struct Reflector(ReasonTable);
//!
//! impl Engine for Reflector {
//!     fn name(&self) -> &str {
//!         "reflector"
//!     }
//!     fn reasons(&self) -> &ReasonTable {
//!         &self.0
//!     }
//!     fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
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
//! let mut out = BatchOutput::new();
//! let mut engine: Box<dyn Engine> = Box::new(Reflector(ReasonTable::default()));
//! engine.process(&mut batch, &mut out);
//! let sent: Vec<_> = out.iter(&batch).map(|(v, packet)| (v.verdict, packet.bytes())).collect();
//! assert_eq!(sent, [(packet::Verdict::Forward { port: PortId(3) }, b"hello".as_slice())]);
//! ```

mod batch;
mod batch_output;
mod buffer;
mod counters;
mod engine;
mod external_buf;
mod hex;
mod offload;
mod reason;
mod verdict;

pub use batch::{Batch, BatchFull, MAX_BATCH, PacketPool, PushError};
pub use batch_output::{BatchOutput, MAX_GENERATED, MAX_VERDICTS};
pub use buffer::{HEADROOM, MAX_LEN, MAX_WIRE_LEN, Packet, PacketTooLong, PacketTooShort};
pub use counters::{Counter, DropCounters, EngineCounters, PortCounters};
pub use engine::Engine;
pub use external_buf::{ExternalBuf, ExternalBufOwner};
pub use hex::{hex, unhex};
pub use offload::Offload;
pub use reason::{
    CpuReason, DropReason, EngineReason, MAX_REASON_NAME, PortReason, ReasonId, ReasonTable, ReasonTableError,
};
pub use verdict::{PacketOrigin, PacketRef, PacketVerdict, PortId, Verdict};
