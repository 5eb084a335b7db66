//! The trait behind which every engine is a value.

use crate::{Batch, Output, ReasonTable};

/// Something that runs a pipeline, or its part, on a batch of packets. Chosen at run time: `Box<dyn Engine>`.
///
/// # What an engine promises
///
/// - Each packet of the batch gets at least one emission; nothing is dropped without a reason.
/// - A batch is processed against one version of the tables: changes become visible between batches.
/// - No packet, whatever its bytes, makes it panic or loop without bound.
/// - Packets are emitted in the order in which they came, where they leave on the same port.
///
/// How entries get into an engine is not part of this trait: that belongs to `entries` and to each engine.
pub trait Engine: Send {
    /// The engine's name as in metrics and traces: `interp`, `jit`, `asic`, `flowcache`.
    fn name(&self) -> &str;

    /// The names of the drop and CPU reasons that the program declares.
    fn reasons(&self) -> &ReasonTable;

    /// Processes the packets of `batch`, rewriting them in place, and says in `out` what becomes of each.
    ///
    /// `out` is cleared by the caller beforehand; an engine only adds to it. Packets are taken from the batch by reference, so the
    /// caller must keep `batch` as it is until the emissions have been carried out. `batch` may be empty.
    fn process(&mut self, batch: &mut Batch, out: &mut Output);

    /// Time passes: `now` in nanoseconds, on the same clock as [`crate::Packet::received_at`]. For idle timeouts, meters, and packets
    /// that the engine makes on its own. Called about ten times a second, also when no packet arrives.
    fn tick(&mut self, now: u64, out: &mut Output) {
        let _ = (now, out);
    }

    /// No packet has arrived for a while, and the caller is about to sleep until one does: the engine lets go of what others may wait
    /// for, such as the version of its tables. The next call of any other function takes it up again.
    fn rest(&mut self) {}

    /// What it says of the packets with a mark ([`crate::Packet::mark`]) of the last batch, for whoever follows them: mark and sentence. Asked only if there were any.
    fn told(&mut self) -> Vec<(u16, String)> {
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

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        (**self).process(batch, out);
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        (**self).tick(now, out);
    }

    fn rest(&mut self) {
        (**self).rest();
    }

    fn told(&mut self) -> Vec<(u16, String)> {
        (**self).told()
    }
}
