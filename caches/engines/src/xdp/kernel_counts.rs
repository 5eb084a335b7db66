//! [`KernelCounts`]: what became of packets that the kernel has done with, as a worker's report has it for those that it was given.

use flowcache::rewrite::form::{Fate, Rewrite};
use io::xdp::{Kernel, Outcomes};
use packet::{Counter, EngineCounters, EngineReason, PortId};

/// See the module.
pub(super) struct KernelCounts {
    counters: EngineCounters,
    /// What is counted.
    seen: Outcomes,
}

impl KernelCounts {
    /// Of what the kernel does from now on.
    pub fn new(kernel: Option<&Kernel>) -> KernelCounts {
        KernelCounts {
            counters: EngineCounters::default(),
            seen: kernel.map(|kernel| kernel.outcomes()).unwrap_or_default(),
        }
    }

    /// Packets to which this was done, and their bytes as they came in.
    pub fn add(&mut self, rewrite: &Rewrite, packets: u64, bytes: u64) {
        let came = Counter { packets, bytes };
        self.counters.received += came;
        match &rewrite.fate {
            Fate::Drop(reason) => self.counters.drops.add_counter(*reason, came),
            Fate::Forward { port, head } => {
                let grown = (packets as i64).wrapping_mul(i64::from(head.grow));
                let bytes = bytes.saturating_add_signed(grown);
                *self.counters.forwarded.entry(PortId(*port)).or_default() += Counter { packets, bytes };
            }
        }
    }

    /// What became of packets otherwise than their flows say.
    pub fn see(&mut self, now: &Outcomes) {
        // No flow has counted them, as the program could not carry out what it was to do.
        let broken = now.broken.saturating_sub(self.seen.broken);
        self.counters.received.packets += broken;
        self.counters.drops.add_packets(EngineReason::EngineFault, broken);
        // Their flows have counted them as forwarded; by which port does not matter, as the port is none.
        let portless = now.portless.saturating_sub(self.seen.portless);
        self.counters.drops.add_packets(EngineReason::UnknownPort, portless);
        let mut left = portless;
        for counter in self.counters.forwarded.values_mut() {
            let some = left.min(counter.packets);
            (counter.packets, left) = (counter.packets - some, left - some);
        }
        self.seen = *now;
    }

    pub fn counters(&self) -> &EngineCounters {
        &self.counters
    }
}

/// What a person should know of how the kernel runs flows.
pub(super) fn notes(kernel: &Kernel) -> Vec<String> {
    let found = kernel.outcomes();
    let mut notes = vec![format!(
        "xdp: the kernel holds {} flows; it has sent {}, redirected {}, dropped {}, missed {} packets; {} with another length or a wrong checksum, {} without headroom, {} faults",
        kernel.held(),
        found.sent,
        found.redirected,
        found.dropped,
        found.missed,
        found.misfit,
        found.no_headroom,
        found.fault + found.broken
    )];
    if found.avoided > 0 {
        notes.push(format!(
            "xdp: {} of those that missed have a flow, and came here as a device takes no packets from XDP programs",
            found.avoided
        ));
    }
    if found.portless > 0 {
        notes.push(format!("xdp: {} packets were dropped, as their port is none any more", found.portless));
    }
    notes.extend(
        kernel.refusing().iter().map(|(number, name)| format!("xdp: port {number}, {}", io::xdp::refuses(name))),
    );
    notes.extend(kernel.uncounted().map(|why| {
        format!(
            "xdp: what the kernel loses after it has sent a packet is counted as sent, as its tracepoints cannot be read: {why}"
        )
    }));
    notes
}
