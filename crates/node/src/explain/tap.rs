//! Capture of packets for traces, around a worker's engine.
//!
//! Without a trace, the tap costs one load and one comparison per batch. During a trace, it copies
//! the selected packets before the engine processes them, and adds their verdicts afterwards. The
//! tracer receives them through a queue that is bounded in packets and bytes. The worker never
//! waits: it takes a lock only if it is free, wakes no thread, and counts packets that exceed the
//! queue as lost.

use crate::explain::filter::PacketFilter;
use crate::explain::trace_ids::TraceIds;
use crate::worker_engine::WorkerEngine;
use ir::Pipeline;
use packet::{
    Batch, BatchOutput, DropReason, Engine, MAX_BATCH, PacketOrigin, PacketRef, PacketVerdict, ReasonTable, Verdict,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Maximum number of simultaneous traces.
pub const MAX_SESSIONS: usize = 8;
/// Maximum number of packets queued for a tracer.
const MAX_QUEUED_PACKETS: usize = 1024;
/// Maximum size in bytes of the queued packets, including the verdicts' bytes.
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// Maximum number of followed packets in the queue if the verdicts of other tiers decide. Bounds
/// their age, because other processes keep records only for a limited time.
const MAX_QUEUED_FOLLOWED: usize = 32;
/// Maximum number of recorded verdicts of one packet; further ones are counted.
const MAX_COPIES: usize = 32;

/// Selection of packets for a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceFilter {
    /// Selects packets that this filter accepts; `None`: all.
    pub filter: Option<PacketFilter>,
    /// Selects packets that arrive on this port.
    pub port: Option<u32>,
    /// Selects packets with a drop; of followed packets, also those sent to another tier, which may
    /// drop them.
    pub drops: bool,
    /// Like `drops`, for drops with this reason.
    pub reason: Option<String>,
    /// Gives the packets a trace id, by which other processes recognise them.
    pub follow: bool,
    /// Ports to other tiers. Packets from there are not followed, because they already passed
    /// another process.
    pub inner_ports: Vec<u32>,
}

impl TraceFilter {
    fn matches_packet(&self, bytes: &[u8], port: u32) -> bool {
        if self.follow && self.inner_ports.contains(&port) {
            return false;
        }
        self.port.is_none_or(|wanted| wanted == port) && self.filter.as_ref().is_none_or(|filter| filter.takes(bytes))
    }

    /// Returns whether the selection depends on the verdicts.
    fn needs_outcome(&self) -> bool {
        self.drops || self.reason.is_some()
    }

    /// Returns whether the verdicts match. A followed packet that was sent to another tier always
    /// matches, because the client that follows it decides.
    fn matches_outcome(&self, seen: &TracedPacket, reasons: &ReasonTable) -> bool {
        let named = |reason: DropReason| {
            let name = reasons.drop_name(reason);
            self.reason.as_ref().is_none_or(|wanted| **wanted == *name)
        };
        let dropped = |fate: &PacketOutcome| matches!(fate.verdict, Verdict::Drop(reason) if named(reason));
        let leaves = |fate: &PacketOutcome| matches!(fate.verdict, Verdict::Forward { port } if self.inner_ports.contains(&port.0));
        !self.needs_outcome() || seen.outcomes.iter().any(|fate| dropped(fate) || seen.trace_id != 0 && leaves(fate))
    }
}

/// Verdict of a packet or of a copy of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketOutcome {
    /// The verdict.
    pub verdict: Verdict,
    /// Origin of the packet.
    pub origin: PacketOrigin,
    /// Bytes that left the engine; empty for a dropped packet.
    pub bytes: Vec<u8>,
}

impl PacketOutcome {
    /// Records a verdict, with the packet's bytes unless it was dropped. Only counts verdicts
    /// beyond [`MAX_COPIES`].
    pub(crate) fn note(outcomes: &mut Vec<PacketOutcome>, more: &mut usize, emission: &PacketVerdict, bytes: &[u8]) {
        if outcomes.len() == MAX_COPIES {
            *more += 1;
            return;
        }
        let dropped = matches!(emission.verdict, Verdict::Drop(_));
        let bytes = if dropped { Vec::new() } else { bytes.to_vec() };
        outcomes.push(PacketOutcome { verdict: emission.verdict, origin: emission.origin, bytes });
    }
}

/// A captured packet with its verdicts.
#[derive(Debug)]
pub struct TracedPacket {
    /// Bytes as received.
    pub bytes: Vec<u8>,
    /// Ingress port.
    pub port: u32,
    /// Time of arrival in ns since the Unix epoch.
    pub received_at_ns: u64,
    /// The worker that processed it.
    pub worker: usize,
    /// Trace id; 0: none.
    pub trace_id: u16,
    /// Note of the engine about the packet.
    pub engine_note: Option<String>,
    /// The program that processed it.
    pub pipeline: Option<Arc<Pipeline>>,
    /// Verdicts of the packet and its copies, in order.
    pub outcomes: Vec<PacketOutcome>,
    /// Number of further verdicts that are not listed.
    pub more: usize,
}

impl TracedPacket {
    fn size(&self) -> usize {
        self.bytes.len() + self.outcomes.iter().map(|fate| fate.bytes.len() + size_of::<PacketOutcome>()).sum::<usize>()
    }
}

/// A trace, as shared with the workers.
#[derive(Debug)]
pub struct TraceSession {
    wanted: TraceFilter,
    queue: SyncSender<Arc<TracedPacket>>,
    /// Number of packets that the trace still accepts.
    remaining_packets: AtomicU64,
    queued_bytes: AtomicUsize,
    /// Number of packets in the queue.
    queued_packets: AtomicUsize,
    lost: AtomicU64,
}

impl TraceSession {
    /// Creates a trace of at most `packets` packets, and the receiving end of its queue. The
    /// receiver calls [`TraceSession::taken`] for each packet.
    pub fn new(wanted: TraceFilter, packets: u64) -> (Arc<TraceSession>, Receiver<Arc<TracedPacket>>) {
        let (queue, end) = sync_channel(MAX_QUEUED_PACKETS);
        let (left, lost) = (AtomicU64::new(packets), AtomicU64::new(0));
        let (waiting, queued) = (AtomicUsize::new(0), AtomicUsize::new(0));
        (
            Arc::new(TraceSession {
                wanted,
                queue,
                remaining_packets: left,
                queued_bytes: waiting,
                queued_packets: queued,
                lost,
            }),
            end,
        )
    }

    /// Releases the queue space of a packet that was received.
    pub fn taken(&self, seen: &TracedPacket) {
        self.queued_bytes.fetch_sub(seen.size(), Relaxed);
        self.queued_packets.fetch_sub(1, Relaxed);
    }

    /// Returns whether selected packets get a trace id.
    fn wants_trace_id(&self) -> bool {
        self.wanted.follow && (!self.wanted.needs_outcome() || self.queued_packets.load(Relaxed) < MAX_QUEUED_FOLLOWED)
    }

    /// Returns the number of matching packets that were lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn offer_packet(&self, seen: &Arc<TracedPacket>) {
        let one_less = |left: u64| left.checked_sub(1);
        if self.remaining_packets.fetch_update(Relaxed, Relaxed, one_less).is_err() {
            return;
        }
        let size = seen.size();
        self.queued_packets.fetch_add(1, Relaxed);
        let fits = self.queued_bytes.fetch_add(size, Relaxed) + size <= MAX_QUEUED_BYTES;
        if !fits || self.queue.try_send(seen.clone()).is_err() {
            self.queued_bytes.fetch_sub(size, Relaxed);
            self.queued_packets.fetch_sub(1, Relaxed);
            self.remaining_packets.fetch_add(1, Relaxed);
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

/// All traces of a node.
#[derive(Debug, Default)]
pub struct TraceSessions {
    /// Number of traces started and ended so far.
    changes: AtomicU64,
    sessions: Mutex<Vec<Arc<TraceSession>>>,
    trace_ids: Mutex<TraceIds>,
}

impl TraceSessions {
    /// Adds a trace. Returns `false` if there are too many.
    pub fn open(&self, session: &Arc<TraceSession>) -> bool {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MAX_SESSIONS {
            return false;
        }
        sessions.push(session.clone());
        self.changes.fetch_add(1, Relaxed);
        true
    }

    /// Allocates the trace id of a followed packet; `None` if too many packets are in flight.
    fn allocate_trace_id(&self, now: u64) -> Option<u16> {
        self.trace_ids.try_lock()?.allocate_id(now)
    }

    /// Removes a trace.
    pub fn close(&self, session: &Arc<TraceSession>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|other| !Arc::ptr_eq(other, session));
        self.changes.fetch_add(1, Relaxed);
    }
}

/// A worker's engine with the tap around it.
pub struct TappedEngine {
    running: WorkerEngine,
    worker: usize,
    taps: Arc<TraceSessions>,
    /// Value of [`TraceSessions::changes`] when `sessions` was copied.
    known: u64,
    sessions: Vec<Arc<TraceSession>>,
    /// Captured packets of the current batch.
    watched: Vec<CapturedPacket>,
}

struct CapturedPacket {
    index: u16,
    /// Bit set of the sessions that selected the packet.
    by: u8,
    seen: TracedPacket,
}

impl TappedEngine {
    /// Wraps the engine of worker `worker`.
    pub fn new(running: WorkerEngine, worker: usize, taps: Arc<TraceSessions>) -> TappedEngine {
        TappedEngine { running, worker, taps, known: 0, sessions: Vec::new(), watched: Vec::new() }
    }

    /// Replaces the engine, and returns the old one.
    pub fn exchange(&mut self, running: WorkerEngine) -> WorkerEngine {
        std::mem::replace(&mut self.running, running)
    }

    #[inline]
    fn has_sessions(&mut self) -> bool {
        if self.taps.changes.load(Relaxed) != self.known {
            self.reload_sessions();
        }
        !self.sessions.is_empty()
    }

    #[cold]
    fn reload_sessions(&mut self) {
        // Retried with the next batch.
        let Some(sessions) = self.taps.sessions.try_lock() else { return };
        self.sessions.clone_from(&sessions);
        self.known = self.taps.changes.load(Relaxed);
    }

    #[cold]
    fn process_captured(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.capture_packets(batch);
        self.running.process(batch, out);
        if self.watched.iter().any(|watched| watched.seen.trace_id != 0) {
            for (mark, told) in self.running.take_trace_notes() {
                if let Some(watched) = self.watched.iter_mut().find(|watched| watched.seen.trace_id == mark) {
                    watched.seen.engine_note = Some(told);
                }
            }
            // Clears the trace ids, because a port can pass a packet on with its metadata.
            batch.packets_mut().iter_mut().for_each(|packet| packet.trace_id = 0);
        }
        if !self.watched.is_empty() {
            self.record_outcomes(batch, out);
            self.deliver_captured();
        }
    }

    /// Copies the packets that traces select.
    fn capture_packets(&mut self, batch: &mut Batch) {
        let pipeline = self.running.pipeline();
        let mut left = [0; MAX_SESSIONS];
        for (left, session) in left.iter_mut().zip(&self.sessions) {
            *left = session.remaining_packets.load(Relaxed);
        }
        for (index, packet) in (0..).zip(batch.packets_mut()) {
            let (mut by, mut follow) = (0, false);
            for (bit, (session, left)) in self.sessions.iter().zip(&mut left).enumerate() {
                if *left != 0 && session.wanted.matches_packet(packet.bytes(), packet.ingress_port.0) {
                    by |= 1 << bit;
                    follow |= session.wants_trace_id();
                    *left -= u64::from(!session.wanted.needs_outcome());
                }
            }
            if by != 0 {
                let (bytes, port, received_at_ns) = (packet.bytes().to_vec(), packet.ingress_port.0, packet.rx_time_ns);
                let (worker, pipeline, outcomes) = (self.worker, pipeline.cloned(), Vec::new());
                packet.trace_id = if follow { self.taps.allocate_trace_id(received_at_ns).unwrap_or(0) } else { 0 };
                let (trace_id, engine_note) = (packet.trace_id, None);
                let seen = TracedPacket {
                    bytes,
                    port,
                    received_at_ns,
                    worker,
                    trace_id,
                    engine_note,
                    pipeline,
                    outcomes,
                    more: 0,
                };
                self.watched.push(CapturedPacket { index, by, seen });
            }
        }
    }

    /// Assigns the verdicts to the captured packets. The engine emits the outputs of one packet
    /// together, the packet itself first; so a copy belongs to the last input packet before it.
    fn record_outcomes(&mut self, batch: &Batch, out: &BatchOutput) {
        let mut places = [usize::MAX; MAX_BATCH];
        for (place, watched) in self.watched.iter().enumerate() {
            places[usize::from(watched.index)] = place;
        }
        let mut current = usize::MAX;
        for (emission, packet) in out.iter(batch) {
            if let PacketRef::Input(index) = emission.packet {
                current = places.get(usize::from(index)).copied().unwrap_or(usize::MAX);
            }
            let Some(CapturedPacket { seen, .. }) = self.watched.get_mut(current) else { continue };
            PacketOutcome::note(&mut seen.outcomes, &mut seen.more, &emission, packet.bytes());
        }
    }

    fn deliver_captured(&mut self) {
        let reasons = self.running.reasons();
        for CapturedPacket { by, seen, .. } in self.watched.drain(..) {
            let seen = Arc::new(seen);
            for (bit, session) in self.sessions.iter().enumerate() {
                if by & 1 << bit != 0 && session.wanted.matches_outcome(&seen, reasons) {
                    session.offer_packet(&seen);
                }
            }
        }
    }
}

impl Engine for TappedEngine {
    fn name(&self) -> &str {
        self.running.name()
    }

    fn reasons(&self) -> &ReasonTable {
        self.running.reasons()
    }

    #[inline]
    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        if self.has_sessions() {
            self.process_captured(batch, out);
        } else {
            self.running.process(batch, out);
        }
    }

    fn takes_offloads(&self) -> bool {
        self.running.takes_offloads()
    }

    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        // Releases traces that have ended, even if no packet arrives.
        self.has_sessions();
        self.running.tick(now, out);
    }

    fn on_idle(&mut self) {
        self.running.on_idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    /// Returns the nanoseconds per batch, for many empty batches.
    fn cost(engine: &mut dyn Engine) -> f64 {
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        let count = 500_000;
        let start = Instant::now();
        for _ in 0..count {
            black_box(&mut *engine).process(black_box(&mut batch), &mut out);
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    }

    /// Prints the cost of the tap per batch, without a limit. Checks that no packet is captured
    /// without a trace, and that nothing remains after one.
    #[test]
    fn without_a_trace_the_engine_is_as_it_is() {
        let taps = Arc::new(TraceSessions::default());
        let mut tapped = TappedEngine::new(WorkerEngine::default(), 0, taps.clone());
        let (mut bare, mut best) = (WorkerEngine::default(), [f64::INFINITY; 2]);
        for _ in 0..5 {
            // Takes the minimum, because other processes use the machine too.
            best = [best[0].min(cost(&mut bare)), best[1].min(cost(&mut tapped))];
        }
        let [without, with] = best;
        println!("an empty batch takes {without:.2} ns without the tap, {with:.2} ns with it");
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        batch.push_bytes(&[0; 60], packet::PortId(1), 5).expect("room");
        let process = |tapped: &mut TappedEngine, batch: &mut Batch, out: &mut BatchOutput| {
            out.clear();
            tapped.process(batch, out);
            assert_eq!(out.verdicts().len(), 1);
        };
        process(&mut tapped, &mut batch, &mut out);
        let (session, queue) = TraceSession::new(TraceFilter::default(), 10);
        assert!(taps.open(&session) && queue.try_recv().is_err());
        process(&mut tapped, &mut batch, &mut out);
        let seen = queue.try_recv().expect("the packet");
        assert_eq!((seen.received_at_ns, seen.port, seen.outcomes.len(), seen.pipeline.is_none()), (5, 1, 1, true));
        assert_eq!((seen.trace_id, batch.packets()[0].trace_id), (0, 0), "nobody follows it");
        let wanted = TraceFilter { follow: true, inner_ports: vec![2], ..TraceFilter::default() };
        let (follows, its_queue) = TraceSession::new(wanted, 10);
        assert!(taps.open(&follows));
        process(&mut tapped, &mut batch, &mut out);
        let seen = its_queue.try_recv().expect("the packet");
        assert!(seen.trace_id != 0 && batch.packets()[0].trace_id == 0, "it has one in the engine, and none behind it");
        assert_eq!(queue.try_recv().map(|seen| seen.trace_id).ok(), Some(seen.trace_id), "both see the same packet");
        batch.packets_mut()[0].ingress_port = packet::PortId(2);
        process(&mut tapped, &mut batch, &mut out);
        assert!(its_queue.try_recv().is_err(), "what comes from another tier is no packet of its own");
        assert_eq!((queue.try_recv().map(|seen| seen.trace_id).ok(), batch.packets()[0].trace_id), (Some(0), 0));
        taps.close(&follows);
        taps.close(&session);
        tapped.tick(6, &mut out);
        assert_eq!(Arc::strong_count(&session), 1, "the worker has let go of it");
        process(&mut tapped, &mut batch, &mut out);
        assert!(queue.try_recv().is_err());
    }
}
