//! [`TiersWorker`]: packet path through the tiers of a process.

use super::flow::flow_hash;
use super::links::TierLinks;
use super::reports::{HitReports, ReportOutbox};
use super::state_affinity::StateAffinity;
use super::tier_stats::TierStats;
use node::explain::{EngineSpan, TraceRecord, TraceRecords, TraceSource};
use offload::partition::bridge_wire::{self, BridgeFields};
use offload::partition::{HITS, PROBE, RETURNED, RestartPoints};
use packet::{
    Batch, BatchOutput, Engine, EngineReason, MAX_BATCH, Packet, PacketOrigin, PacketRef, PacketVerdict, PortId,
    ReasonTable, Verdict,
};
use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// State that all workers of a process share.
pub struct SharedTierState {
    /// Held exclusively while both halves are written.
    pub write_gate: RwLock<()>,
    pub key: u32,
    pub lower_port: u32,
    /// Length of a bridge header in bytes.
    pub bridge_bytes: usize,
    pub links: TierLinks,
    /// Affinity that spreads flows over the links; `None`: addresses and ports.
    pub spread: Option<StateAffinity>,
    /// Ports to the switch.
    pub up: Vec<u32>,
    pub stats: TierStats,
    /// Traced packets.
    pub followed: TraceRecords,
    /// Hit reports of lower tiers.
    pub reports: HitReports,
    /// Hit reports for the switch.
    pub outbox: ReportOutbox,
    /// Arrival time of the newest packet in ns.
    pub clock: AtomicU64,
    /// Cut points at which packets restart below.
    pub restarts: RestartPoints,
    /// Arrival time of packets in ns from which the upper half may have entries that have ended
    /// ([`offload::entry_leases`]).
    pub lease_deadline_ns: AtomicU64,
}

impl SharedTierState {
    /// Returns the flow of a packet by its headers; 0 if there are no links.
    pub fn flow_by_headers(&self, packet: &[u8]) -> u64 {
        if self.links.is_empty() { 0 } else { flow_hash(self.links.seed(), packet) }
    }

    /// Makes a frame with a bridge header the packet for the lower half: a packet that restarts has no
    /// bridge header, and its own ingress port.
    fn enter_below(&self, packet: &mut Packet, header: BridgeFields) {
        packet.metered_len_bytes = Some(header.length_bytes.into());
        packet.ingress_port = PortId(self.lower_port);
        if self.restarts.contains(header.cut_point) && packet.trim_front(self.bridge_bytes).is_ok() {
            packet.metered_len_bytes = None;
            packet.ingress_port = PortId(header.port);
        }
    }

    /// Returns the flow of a frame by the index in its bridge header, if an affinity is configured.
    pub fn flow_by_index(&self, frame: &[u8]) -> Option<u64> {
        self.spread.as_ref()?.hash_index(self.links.seed(), frame)
    }
}

/// Packets queued for a half, each with its context.
#[derive(Default)]
struct TierLeg {
    batch: Batch,
    out: BatchOutput,
    contexts: Vec<InputContext>,
    /// Copy of the engine's verdicts, so that packets can be moved meanwhile.
    verdicts: Vec<PacketVerdict>,
}

/// Context of a queued packet.
#[derive(Clone, Copy)]
struct InputContext {
    /// Index in the worker's input batch.
    input: u16,
    origin: PacketOrigin,
    /// Port to the switch on which it arrived, if it did.
    upstream_port: Option<PortId>,
    /// Length at arrival in the first tier, in bytes.
    length: u32,
    flow: u64,
    /// Trace id; 0: not traced.
    mark: u16,
}

pub struct TiersWorker {
    wiring: Arc<SharedTierState>,
    above: Option<Box<dyn Engine>>,
    below: Option<Box<dyn Engine>>,
    reasons: ReasonTable,
    /// Legs to the upper half, to the lower half, and back to the upper half.
    legs: [TierLeg; 3],
    /// Inputs that already hold a result in their buffer; further results need a generated packet.
    is_input_used: [bool; MAX_BATCH],
    /// Verdicts with the input that each belongs to; emitted in the order of the inputs.
    verdicts: Vec<(u16, PacketVerdict)>,
    /// Traced packets of the batch with their input.
    traced: Vec<(u16, TraceRecord)>,
    /// Ports to the switch on which this worker received frames.
    own_upstream_ports: Vec<u32>,
}

const TO_UPPER: usize = 0;
const TO_LOWER: usize = 1;
const RETURN: usize = 2;

impl TiersWorker {
    pub fn new(
        wiring: Arc<SharedTierState>,
        above: Option<Box<dyn Engine>>,
        below: Option<Box<dyn Engine>>,
        reasons: ReasonTable,
    ) -> TiersWorker {
        TiersWorker {
            wiring,
            above,
            below,
            reasons,
            legs: Default::default(),
            is_input_used: [false; MAX_BATCH],
            verdicts: Vec::new(),
            traced: Vec::new(),
            own_upstream_ports: Vec::new(),
        }
    }

    /// Classifies the batch by destination.
    fn classify_batch(&mut self, batch: &mut Batch) {
        let wiring = self.wiring.clone();
        if let Some(now) = batch.packets().iter().map(|packet| packet.rx_time_ns).max() {
            wiring.clock.fetch_max(now, Relaxed);
        }
        for (index, packet) in batch.packets_mut().iter_mut().enumerate() {
            self.classify_packet(&wiring, index, packet);
        }
    }

    /// Puts a packet into the leg of its destination (the batch of packets for one half, in one
    /// direction), or decides its verdict. `index` is the packet's number in the batch.
    fn classify_packet(&mut self, wiring: &SharedTierState, index: usize, packet: &mut Packet) {
        let (port, now) = (packet.ingress_port, packet.rx_time_ns);
        let (bytes, input) = (packet.bytes(), PacketRef::Input(index as u16));
        let (from_below, from_above) = (wiring.links.contains_port(port.0), wiring.up.contains(&port.0));
        let header = bridge_wire::read_header(bytes, wiring.key).filter(|_| from_below || from_above);
        let drop_packet = |ends: &mut Vec<(u16, PacketVerdict)>, reason: EngineReason| {
            let verdict = Verdict::Drop(reason.into());
            ends.push((index as u16, PacketVerdict { packet: input, origin: PacketOrigin::Received, verdict }));
        };
        // A frame from a link has its trace id in the bridge header only.
        let own_trace_id = std::mem::take(&mut packet.trace_id);
        let trace_id = if from_below || from_above { header.map_or(0, |header| header.trace_id) } else { own_trace_id };
        if trace_id != 0 {
            self.traced.push((index as u16, trace_record(packet, trace_id, from_above, from_below)));
        }
        let bytes = packet.bytes();
        let context = InputContext {
            input: index as u16,
            origin: PacketOrigin::Received,
            upstream_port: from_above.then_some(port),
            length: packet.len() as u32,
            flow: 0,
            mark: trace_id,
        };
        match header {
            Some(header) if header.cut_point == HITS && from_below => {
                wiring.links.record_heard(port.0, now);
                wiring.reports.receive_frame(bytes, port.0, now);
                packet.truncate(0);
                drop_packet(&mut self.verdicts, EngineReason::TierProbeReply);
            }
            Some(header) if header.cut_point == PROBE => {
                if from_below {
                    wiring.links.record_heard(port.0, now);
                }
                self.is_input_used[index] = true;
                match from_above {
                    true => {
                        self.note_upstream_port(port);
                        let verdict = Verdict::Forward { port };
                        let origin = PacketOrigin::Received;
                        self.verdicts.push((index as u16, PacketVerdict { packet: input, origin, verdict }));
                    }
                    // An answer to a probe.
                    false => {
                        packet.truncate(0);
                        drop_packet(&mut self.verdicts, EngineReason::TierProbeReply);
                    }
                }
            }
            Some(header) if from_below && header.cut_point == RETURNED => {
                wiring.links.record_heard(port.0, now);
                packet.ingress_port = PortId(wiring.lower_port);
                self.legs[RETURN].push_packet(packet, context);
            }
            Some(header) if from_above && header.cut_point < HITS && self.below.is_some() => {
                wiring.enter_below(packet, header);
                wiring.stats.entered_below.fetch_add(1, Relaxed);
                self.legs[TO_LOWER]
                    .push_packet(packet, InputContext { length: u32::from(header.length_bytes), ..context });
            }
            _ if from_below || from_above => drop_packet(&mut self.verdicts, EngineReason::MissingBridgeHeader),
            _ if bridge_wire::is_bridged(bytes, wiring.key) => {
                drop_packet(&mut self.verdicts, EngineReason::UnexpectedBridgeHeader)
            }
            // All packets can restart below, where the table is whole.
            _ if now >= wiring.lease_deadline_ns.load(Relaxed) && self.below.is_some() => {
                wiring.stats.bypassed.fetch_add(1, Relaxed);
                wiring.stats.entered_below.fetch_add(1, Relaxed);
                self.legs[TO_LOWER].push_packet(packet, context);
            }
            _ if self.above.is_some() => {
                let flow = wiring.flow_by_headers(bytes);
                self.legs[TO_UPPER].push_packet(packet, InputContext { flow, ..context });
            }
            _ => drop_packet(&mut self.verdicts, EngineReason::LowerTierDown),
        }
    }

    /// Notes a port to the switch on which a frame came.
    fn note_upstream_port(&mut self, port: PortId) {
        if !self.own_upstream_ports.contains(&port.0) {
            self.own_upstream_ports.push(port.0);
        }
    }

    /// Runs a half over a leg, the batch of packets for it, and routes the results. On the return
    /// leg, packets of the upper half leave.
    fn run_leg(&mut self, leg: usize, batch: &mut Batch, out: &mut BatchOutput) {
        let mut running = std::mem::take(&mut self.legs[leg]);
        if !running.batch.is_empty() {
            running.out.clear();
            let engine = if leg == TO_LOWER { &mut self.below } else { &mut self.above };
            if let Some(engine) = engine {
                match self.traced.is_empty() {
                    true => engine.process(&mut running.batch, &mut running.out),
                    false => process_traced(&mut **engine, leg, &mut running, &mut self.traced),
                }
            }
            running.verdicts.clear();
            running.verdicts.extend_from_slice(running.out.verdicts());
            let verdicts = std::mem::take(&mut running.verdicts);
            for (position, emission) in verdicts.iter().enumerate() {
                // Verdicts on the same bytes are adjacent or few: the last one takes the packet
                // itself, the others copies.
                let is_used_later =
                    verdicts[position + 1..].iter().take(MAX_BATCH).any(|later| later.packet == emission.packet);
                let mut packet_copy = Packet::new();
                let Some(context) = running.context_of(emission, &verdicts[..position]) else { continue };
                let packet = match emission.packet {
                    PacketRef::Input(index) => running.batch.packets_mut().get_mut(usize::from(index)),
                    extra => running.out.generated_mut(extra),
                };
                let Some(packet) = packet else { continue };
                let packet = match is_used_later {
                    true => {
                        packet_copy.copy_from(packet);
                        &mut packet_copy
                    }
                    false => packet,
                };
                self.route_packet(leg, context, *emission, packet, batch, out);
            }
            running.verdicts = verdicts;
        }
        running.batch.clear();
        running.contexts.clear();
        // Packets only move to later legs, so the leg is empty.
        self.legs[leg] = running;
    }

    /// Routes a packet after a half: down to the lower half, back up in a return header, or out.
    /// `context` belongs to the received packet that it came from.
    fn route_packet(
        &mut self,
        leg: usize,
        context: InputContext,
        emission: PacketVerdict,
        packet: &mut Packet,
        batch: &mut Batch,
        out: &mut BatchOutput,
    ) {
        let wiring = self.wiring.clone();
        let context = InputContext {
            origin: if emission.origin == PacketOrigin::Received { context.origin } else { emission.origin },
            ..context
        };
        match (leg, emission.verdict) {
            (TO_UPPER, Verdict::Forward { port }) if port.0 == wiring.lower_port => {
                self.send_down(context, packet, batch, out)
            }
            (TO_LOWER, Verdict::Forward { port }) => {
                let Ok(header) = packet.prepend(wiring.bridge_bytes) else {
                    return self.deliver(
                        context,
                        Verdict::Drop(EngineReason::PacketTooLong.into()),
                        packet,
                        batch,
                        out,
                    );
                };
                bridge_wire::write_return_header(header, wiring.key, port.0, context.mark);
                wiring.stats.returned.fetch_add(1, Relaxed);
                match context.upstream_port {
                    Some(port) => self.deliver(context, Verdict::Forward { port }, packet, batch, out),
                    None => {
                        packet.ingress_port = PortId(wiring.lower_port);
                        packet.metered_len_bytes = None;
                        if self.legs[RETURN].batch.remaining_capacity() == 0 {
                            self.run_leg(RETURN, batch, out);
                        }
                        self.legs[RETURN].push_packet(packet, context);
                    }
                }
            }
            (_, verdict) => {
                if leg == TO_UPPER {
                    wiring.stats.served_above.fetch_add(1, Relaxed);
                }
                self.deliver(context, verdict, packet, batch, out);
            }
        }
    }

    /// Sends a packet with a bridge header to a link, or to the lower half in this process.
    fn send_down(&mut self, context: InputContext, packet: &mut Packet, batch: &mut Batch, out: &mut BatchOutput) {
        let wiring = self.wiring.clone();
        let length = u16::try_from(context.length).unwrap_or(0);
        let port = batch.packets().get(usize::from(context.input)).map_or(0, |input| input.ingress_port.0);
        let Some(header) = bridge_wire::complete_header(packet.bytes_mut(), wiring.key, port, length, context.mark)
        else {
            // The program itself sent the packet to this port, which is invalid for it.
            return self.deliver(context, Verdict::Drop(EngineReason::UnknownPort.into()), packet, batch, out);
        };
        wiring.stats.sent_down.fetch_add(1, Relaxed);
        let flow = wiring.flow_by_index(packet.bytes()).unwrap_or(context.flow);
        if let Some(port) = wiring.links.choose_link(flow, packet.rx_time_ns) {
            return self.deliver(context, Verdict::Forward { port: PortId(port) }, packet, batch, out);
        }
        if self.below.is_none() {
            return self.deliver(context, Verdict::Drop(EngineReason::LowerTierDown.into()), packet, batch, out);
        }
        wiring.enter_below(packet, header);
        if self.legs[TO_LOWER].batch.remaining_capacity() == 0 {
            self.run_leg(TO_LOWER, batch, out);
        }
        wiring.stats.entered_below.fetch_add(1, Relaxed);
        self.legs[TO_LOWER].push_packet(packet, context);
    }

    /// Sends queued hit reports to the switch.
    fn send_reports(&self, now: u64, out: &mut BatchOutput) {
        for port in &self.own_upstream_ports {
            for frame in self.wiring.outbox.take_frames(*port) {
                let Some((reference, slot)) = out.add_generated() else { return };
                slot.rx_time_ns = now;
                if slot.set_bytes(&frame).is_ok() {
                    let verdict = Verdict::Forward { port: PortId(*port) };
                    out.emit(PacketVerdict { packet: reference, origin: PacketOrigin::Generated, verdict });
                }
            }
        }
    }

    /// Keeps the records of traced packets for later queries.
    #[cold]
    fn keep_traced(&mut self, batch: &Batch, out: &BatchOutput) {
        for (input, record) in &mut self.traced {
            let of_it = self.verdicts.iter().filter(|(of, _)| of == input);
            of_it.for_each(|(_, emission)| record.note(emission, batch, out));
        }
        self.wiring.followed.store_records(self.traced.drain(..).map(|(_, record)| record), io::now());
    }

    /// Emits a packet's verdict. The packet goes into the slot of its input, if that is still free,
    /// else into a generated packet, because an input can have several results.
    fn deliver(
        &mut self,
        context: InputContext,
        verdict: Verdict,
        packet: &mut Packet,
        batch: &mut Batch,
        out: &mut BatchOutput,
    ) {
        let (input, index) = (PacketRef::Input(context.input), usize::from(context.input));
        // The trace id must not leave with the packet, because ports can pass packets on unchanged.
        packet.trace_id = 0;
        if matches!(verdict, Verdict::Drop(_)) {
            // Its bytes are counted in its slot.
            let is_used = self.is_input_used.get(index).copied().unwrap_or(true);
            if let Some(slot) = batch.packets_mut().get_mut(index).filter(|_| !is_used) {
                let (port, at) = (slot.ingress_port, slot.rx_time_ns);
                std::mem::swap(slot, packet);
                slot.truncate(context.length as usize);
                (slot.ingress_port, slot.rx_time_ns) = (port, at);
            }
            return self
                .verdicts
                .push((context.input, PacketVerdict { packet: input, origin: context.origin, verdict }));
        }
        let slot = match (batch.packets_mut().get_mut(index), self.is_input_used.get_mut(index)) {
            (Some(slot), Some(is_used)) if !*is_used => {
                *is_used = true;
                Some((input, slot))
            }
            _ => out.add_generated(),
        };
        let Some((reference, slot)) = slot else {
            let verdict = Verdict::Drop(EngineReason::ReplicationLimit.into());
            return self
                .verdicts
                .push((context.input, PacketVerdict { packet: input, origin: context.origin, verdict }));
        };
        std::mem::swap(slot, packet);
        self.verdicts.push((context.input, PacketVerdict { packet: reference, origin: context.origin, verdict }));
    }
}

/// Starts the record of a traced packet.
#[cold]
fn trace_record(packet: &Packet, mark: u16, from_above: bool, from_below: bool) -> TraceRecord {
    let came = match (from_above, from_below) {
        (true, _) => TraceSource::Above,
        (_, true) => TraceSource::Below,
        _ => TraceSource::Front,
    };
    let bytes = if came == TraceSource::Front { Vec::new() } else { packet.bytes().to_vec() };
    let (port, at) = (packet.ingress_port.0, packet.rx_time_ns);
    TraceRecord {
        trace_id: mark,
        came,
        bytes,
        port,
        received_at_ns: at,
        engine_spans: Vec::new(),
        outcomes: Vec::new(),
        more: 0,
    }
}

/// Runs a half over a leg with traced packets, and records its time span and notes for each.
/// `traced` has the records by input number.
#[cold]
fn process_traced(engine: &mut dyn Engine, leg: usize, running: &mut TierLeg, traced: &mut [(u16, TraceRecord)]) {
    let began_ns = io::now();
    engine.process(&mut running.batch, &mut running.out);
    let done_ns = io::now();
    let notes = engine.take_trace_notes();
    for context in running.contexts.iter().filter(|context| context.mark != 0) {
        let notes = notes.iter().find(|(mark, _)| *mark == context.mark).map(|(_, note)| note.clone());
        let Some((_, record)) = traced.iter_mut().find(|(input, _)| *input == context.input) else { continue };
        // Copies of a packet are processed together.
        if record.engine_spans.last().is_none_or(|last| last.began_ns != began_ns) {
            record.engine_spans.push(EngineSpan {
                is_lower_half: leg == TO_LOWER,
                engine: engine.name().to_owned(),
                began_ns,
                done_ns,
                engine_note: notes,
            });
        }
    }
}

impl TierLeg {
    /// Swaps a packet onto the leg; an empty one takes its place. The leg must have capacity.
    fn push_packet(&mut self, packet: &mut Packet, of: InputContext) {
        packet.trace_id = of.mark;
        let (port, at, came_with) = (packet.ingress_port, packet.rx_time_ns, packet.metered_len_bytes);
        if self.batch.push_swap(packet).is_ok() {
            self.contexts.push(of);
        }
        // Later code reads the packet's arrival from its original slot.
        (packet.ingress_port, packet.rx_time_ns, packet.metered_len_bytes) = (port, at, came_with);
    }

    /// Returns the context of a verdict's packet. A generated packet has the context of the
    /// preceding input.
    fn context_of(&self, emission: &PacketVerdict, before: &[PacketVerdict]) -> Option<InputContext> {
        let index = match emission.packet {
            PacketRef::Input(index) => index,
            PacketRef::Generated(_) => before.iter().rev().find_map(|earlier| match earlier.packet {
                PacketRef::Input(index) => Some(index),
                PacketRef::Generated(_) => None,
            })?,
        };
        self.contexts.get(usize::from(index)).copied()
    }
}

impl Engine for TiersWorker {
    fn name(&self) -> &str {
        "tiers"
    }

    fn reasons(&self) -> &ReasonTable {
        &self.reasons
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        let wiring = self.wiring.clone();
        let _gate = wiring.write_gate.read();
        self.is_input_used = [false; MAX_BATCH];
        self.classify_batch(batch);
        for leg in [TO_UPPER, TO_LOWER, RETURN] {
            self.run_leg(leg, batch, out);
        }
        // Packets that passed more legs have later verdicts; the sort restores the input order.
        self.verdicts.sort_by_key(|(input, _)| *input);
        if !self.traced.is_empty() {
            self.keep_traced(batch, out);
        }
        self.verdicts.drain(..).for_each(|(_, emission)| out.emit(emission));
    }

    /// Advances the halves' clocks, and sends reports and due probes of the links.
    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        let wiring = self.wiring.clone();
        let _gate = wiring.write_gate.read();
        for engine in [&mut self.above, &mut self.below].into_iter().flatten() {
            engine.tick(now, out);
        }
        wiring.links.tick(now);
        self.send_reports(now, out);
        if !wiring.links.is_empty() && wiring.links.is_probe_due(now) {
            for port in wiring.links.probed_ports() {
                let Some((reference, slot)) = out.add_generated() else { break };
                slot.rx_time_ns = now;
                if let Ok(header) = slot.prepend(wiring.bridge_bytes.max(60)) {
                    bridge_wire::write_probe(header, wiring.key);
                    out.emit(PacketVerdict {
                        packet: reference,
                        origin: PacketOrigin::Generated,
                        verdict: Verdict::Forward { port: PortId(port) },
                    });
                }
            }
        }
    }

    fn on_idle(&mut self) {
        for engine in [&mut self.above, &mut self.below].into_iter().flatten() {
            engine.on_idle();
        }
    }
}
