//! The trait that every engine implements.

use crate::{Batch, BatchOutput, ReasonTable};

/// An engine that runs a pipeline, or a part of it, on batches of packets. It is chosen at run
/// time: `Box<dyn Engine>`.
///
/// # Guarantees of an engine
///
/// - Each packet of the batch gets at least one verdict; every drop has a reason.
/// - A batch is processed against one version of the tables: changes become visible between
///   batches.
/// - No packet, whatever its bytes, makes the engine panic or loop without bound.
/// - Packets that leave on the same port are emitted in the order of their arrival.
///
/// Updates of table entries are not part of this trait: they belong to `entries` and to each
/// engine.
pub trait Engine: Send {
    /// Returns the engine's name as used in metrics and traces: `interp`, `jit`, `asic`,
    /// `flowcache`.
    fn name(&self) -> &str;

    /// Returns the names of the drop and CPU reasons that the program declares.
    fn reasons(&self) -> &ReasonTable;

    /// Processes the packets of `batch`, rewriting them in place, and adds their verdicts to `out`.
    ///
    /// The caller clears `out` beforehand; an engine only adds to it. Verdicts refer to packets of
    /// the batch, so the caller must keep `batch` unchanged until they have been carried out.
    /// `batch` may be empty.
    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput);

    /// Reports whether the engine takes packets with an [`crate::Offload`]: super-frames and open
    /// checksums. If not, the caller cuts and completes them first.
    ///
    /// An engine takes them if its program asks for it, by reading `segment_excess`. Length tests
    /// of another program would be about the super-frame and not about its segments.
    fn takes_offloads(&self) -> bool {
        false
    }

    /// Advances the time to `now_ns` nanoseconds, on the same clock as
    /// [`crate::Packet::rx_time_ns`]. Used for idle timeouts, meters, and packets that the engine
    /// generates. Called about ten times a second, even if no packet arrives.
    fn tick(&mut self, now_ns: u64, out: &mut BatchOutput) {
        let _ = (now_ns, out);
    }

    /// Releases everything that others may wait for, such as the version of the tables. Called when
    /// no packet has arrived for a while and the caller is about to sleep. The next call of any
    /// other function acquires it again.
    fn on_idle(&mut self) {}

    /// Returns the trace notes on the packets of the last batch that have a trace id
    /// ([`crate::Packet::trace_id`]): trace id and sentence. Called only if the batch had such
    /// packets.
    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        Vec::new()
    }
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn reasons(&self) -> &ReasonTable {
        (**self).reasons()
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        (**self).process(batch, out);
    }

    fn takes_offloads(&self) -> bool {
        (**self).takes_offloads()
    }

    fn tick(&mut self, now_ns: u64, out: &mut BatchOutput) {
        (**self).tick(now_ns, out);
    }

    fn on_idle(&mut self) {
        (**self).on_idle();
    }

    fn take_trace_notes(&mut self) -> Vec<(u16, String)> {
        (**self).take_trace_notes()
    }
}
