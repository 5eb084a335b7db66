//! [`KernelCounts`]: results of the packets that the kernel handled, in the form of a worker's
//! counters.

use flowcache::rewrite::form::{FlowAction, FlowRewrite};
use io::xdp::{TcStats, XdpMode, XdpProgram, XdpStats};
use packet::{Counter, EngineCounters, EngineReason, PortId};

/// Counters of the packets that the kernel handled.
pub(super) struct KernelCounts {
    counters: EngineCounters,
    /// Outcomes that are included in the counters.
    seen: XdpStats,
}

impl KernelCounts {
    /// Creates counters that start at the kernel's current outcomes.
    pub fn new(kernel: Option<&XdpProgram>) -> KernelCounts {
        KernelCounts {
            counters: EngineCounters::default(),
            seen: kernel.map(|kernel| kernel.outcomes()).unwrap_or_default(),
        }
    }

    /// Adds packets of a flow, with their total bytes as received.
    pub fn add_flow_counts(&mut self, rewrite: &FlowRewrite, packets: u64, bytes: u64) {
        let counter = Counter { packets, bytes };
        self.counters.received += counter;
        match &rewrite.action {
            FlowAction::Drop(reason) => self.counters.drops.add_counter(*reason, counter),
            FlowAction::Forward { port, head } => {
                let added_bytes = (packets as i64).wrapping_mul(i64::from(head.len_delta));
                let bytes = bytes.saturating_add_signed(added_bytes);
                *self.counters.forwarded.entry(PortId(*port)).or_default() += Counter { packets, bytes };
            }
        }
    }

    /// Corrects the counters by outcomes that differ from the flows' verdicts, since the last call.
    pub fn apply_outcomes(&mut self, now: &XdpStats) {
        // No flow counted these packets, because the program could not execute its rewrite.
        let new_broken = now.broken.saturating_sub(self.seen.broken);
        self.counters.received.packets += new_broken;
        self.counters.drops.count_drops(EngineReason::EngineBug, new_broken);
        // Flows counted these packets as forwarded. Any port is corrected, because the egress port
        // does not exist.
        let new_portless = now.portless.saturating_sub(self.seen.portless);
        self.counters.drops.count_drops(EngineReason::UnknownPort, new_portless);
        let mut remaining = new_portless;
        for counter in self.counters.forwarded.values_mut() {
            let corrected = remaining.min(counter.packets);
            (counter.packets, remaining) = (counter.packets - corrected, remaining - corrected);
        }
        self.seen = *now;
    }

    pub fn counters(&self) -> &EngineCounters {
        &self.counters
    }
}

/// Returns notes about the hook of each port, and about packets that only the tc hook meets.
fn hook_notes(kernel: &XdpProgram, stats: &TcStats) -> Vec<String> {
    let hooks = kernel.hooks();
    let mut notes: Vec<String> = hooks
        .iter()
        .map(|(number, name, mode)| format!("xdp: port {number}, `{name}`: hook {}", mode.name()))
        .collect();
    if !hooks.iter().any(|(_, _, mode)| *mode == XdpMode::Tc) && *stats == TcStats::default() {
        return notes;
    }
    notes.push(format!(
        "tc: {} super-frames of {} segments were forwarded whole; {} were cut, because their headers are unknown, {}, because the flow changes the length of their header; {} packets with an open checksum that the flow changes, and {} with a VLAN tag took the slow path; {} open checksums of tunnel headers were withdrawn; {} packets exceeded the MTU of the output device",
        stats.super_frames,
        stats.segments,
        stats.unknown_super_frames,
        stats.resized_super_frames,
        stats.open_checksums,
        stats.tagged,
        stats.withdrawn_checksums,
        stats.too_long
    ));
    notes.extend(kernel.tc_refusal().map(|why| format!("tc: not available: {why}")));
    notes
}

/// Returns notes for operators about the kernel's cache.
pub(super) fn kernel_notes(kernel: &XdpProgram) -> Vec<String> {
    let outcomes = kernel.outcomes();
    let mut notes = vec![format!(
        "xdp: the kernel holds {} flows; it has sent {}, redirected {}, dropped {}, missed {} packets; {} with another length or a wrong checksum, {} without headroom, {} faults",
        kernel.installed_keys(),
        outcomes.sent,
        outcomes.redirected,
        outcomes.dropped,
        outcomes.missed,
        outcomes.not_applicable,
        outcomes.no_headroom,
        outcomes.fault + outcomes.broken
    )];
    if outcomes.device_refused > 0 {
        notes.push(format!(
            "xdp: {} of those that missed have a flow, but were not redirected, because a device refuses packets from XDP programs",
            outcomes.device_refused
        ));
    }
    notes.extend(hook_notes(kernel, &outcomes.tc));
    if outcomes.portless > 0 {
        notes.push(format!(
            "xdp: {} packets were dropped, because their port does not exist any more",
            outcomes.portless
        ));
    }
    notes.extend(
        kernel.refusing_ports().iter().map(|(number, name)| format!("xdp: port {number}, {}", io::xdp::refuses(name))),
    );
    notes.extend(kernel.uncounted_reason().map(|why| {
        format!(
            "xdp: what the kernel loses after it has sent a packet is counted as sent, as its tracepoints cannot be read: {why}"
        )
    }));
    notes
}
