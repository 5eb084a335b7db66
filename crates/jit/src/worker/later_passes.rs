//! Later passes of recirculated packets, on a worker of their own program.

use super::JitWorker;
use crate::program::CompiledProgram;
use interp::host::architecture::pna::MAX_PASSES;
use lookup::LookupSet;
use packet::{BatchOutput, EngineReason, Packet, PacketOrigin, PacketRef, PacketVerdict, Verdict};
use std::sync::Arc;

impl JitWorker {
    /// Makes the worker for later passes of packets. It has the same counters, and statistics of
    /// its own, because its stages are others.
    pub fn set_later_passes(&mut self, program: Arc<CompiledProgram>) {
        let stats = Arc::new(crate::stats::WorkerStats::new(&program.code.stats_layout));
        self.later = Some(Box::new(JitWorker::with_counters(program, self.counters.clone(), stats)));
    }

    /// Returns the statistics of later passes.
    pub fn later_stats(&self) -> Option<&Arc<crate::stats::WorkerStats>> {
        self.later.as_ref().map(|later| &later.stats)
    }

    /// Runs a packet that has its deparsed bytes through the main block until it has a verdict.
    /// `at` is its index in its chunk, and `first` that of the chunk in the batch. A worker of
    /// later passes only notes that the packet enters the main block again.
    pub(super) fn run_later_passes(
        &mut self,
        packet: &mut Packet,
        (at, first): (usize, usize),
        origin: PacketOrigin,
        lookups: &LookupSet,
        out: &mut BatchOutput,
    ) {
        if let Some(records) = &mut self.records {
            // A record describes one pass.
            records.mark_incomplete(at);
        }
        let Some(mut later) = self.later.take() else {
            debug_assert!(self.program.is_later_pass, "a program that recirculates has a worker for later passes");
            self.recirculated = Some(origin);
            return;
        };
        later.continue_from(self);
        // As the interpreter does, meters and counters use the length of this pass.
        let metered = packet.metered_len_bytes.take();
        let (mut passes, mut next) = (0, Some(origin));
        while let Some(origin) = next.filter(|_| passes < MAX_PASSES) {
            passes += 1;
            later.origin = origin;
            later.recirculated = None;
            later.run_batch(std::slice::from_mut(packet), first + at, lookups, out, None);
            next = later.recirculated;
        }
        if let Some(origin) = next {
            let verdict = Verdict::Drop(EngineReason::RecirculationLimit.into());
            out.emit(PacketVerdict { packet: PacketRef::Input((first + at) as u16), origin, verdict });
        }
        packet.metered_len_bytes = metered;
        self.later = Some(later);
    }
}
