//! Where packets are copied for whoever traces: around a worker's engine.
//!
//! While nobody traces, this is one load and one comparison a batch. Otherwise the packets that a trace asks for are copied before the engine has
//! them, and what becomes of each is put beside it. It goes to the tracer by a queue that is bounded in packets and bytes. The worker never
//! waits: it takes no lock that it does not get at once, wakes nobody, and what has no room in the queue is counted as lost.

use crate::explain::filter::Filter;
use crate::explain::marks::Marks;
use crate::running::Running;
use ir::Pipeline;
use packet::{Batch, DropReason, Emission, Engine, MAX_BATCH, Origin, Output, PacketRef, ReasonTable, Verdict};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Traces at a time.
pub const MAX_SESSIONS: usize = 8;
/// Packets that wait for a tracer.
const MAX_WAITING: usize = 1024;
/// Bytes of them, and of what became of them.
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Of a trace of packets that other tiers may drop: so many are followed at a time, so that other processes remember them still when they are asked.
const MAX_FOLLOWED: usize = 32;
/// Copies of one packet that are kept; the others are counted.
const MAX_COPIES: usize = 32;

/// Which packets a trace asks for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Those that it takes; `None`: all.
    pub filter: Option<Filter>,
    /// Those that come in on this port.
    pub port: Option<u32>,
    /// Those of which something is dropped; and of those that are followed the ones that go on to another tier, which may drop them.
    pub drops: bool,
    /// The same for this reason.
    pub reason: Option<String>,
    /// They get a mark, by which other processes know them again.
    pub follow: bool,
    /// Ports to other tiers: packets that come there were somewhere else before, and are not those that are followed.
    pub inner_ports: Vec<u32>,
}

impl Wanted {
    fn takes(&self, bytes: &[u8], port: u32) -> bool {
        if self.follow && self.inner_ports.contains(&port) {
            return false;
        }
        self.port.is_none_or(|wanted| wanted == port) && self.filter.as_ref().is_none_or(|filter| filter.takes(bytes))
    }

    /// Whether what became of a packet decides, too.
    fn by_outcome(&self) -> bool {
        self.drops || self.reason.is_some()
    }

    /// Whether what became of it is what is wanted. Of one that is followed to another tier nobody knows that here: whoever follows it does.
    fn takes_outcome(&self, seen: &Seen, reasons: &ReasonTable) -> bool {
        let named = |reason: DropReason| {
            let name = reasons.drop_name(reason);
            self.reason.as_ref().is_none_or(|wanted| **wanted == *name)
        };
        let dropped = |fate: &Fate| matches!(fate.verdict, Verdict::Drop(reason) if named(reason));
        let leaves =
            |fate: &Fate| matches!(fate.verdict, Verdict::Forward { port } if self.inner_ports.contains(&port.0));
        !self.by_outcome() || seen.fates.iter().any(|fate| dropped(fate) || seen.mark != 0 && leaves(fate))
    }
}

/// What became of a packet, or of a copy of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fate {
    /// The verdict.
    pub verdict: Verdict,
    /// How the packet came to be.
    pub origin: Origin,
    /// The bytes that left the engine; none of a packet that was dropped.
    pub bytes: Vec<u8>,
}

impl Fate {
    /// Notes what an engine said of a packet, with its bytes unless it was dropped; of copies beyond [`MAX_COPIES`] only how many.
    pub(crate) fn note(fates: &mut Vec<Fate>, more: &mut usize, emission: &Emission, bytes: &[u8]) {
        if fates.len() == MAX_COPIES {
            *more += 1;
            return;
        }
        let dropped = matches!(emission.verdict, Verdict::Drop(_));
        let bytes = if dropped { Vec::new() } else { bytes.to_vec() };
        fates.push(Fate { verdict: emission.verdict, origin: emission.origin, bytes });
    }
}

/// A packet with what became of it.
#[derive(Debug)]
pub struct Seen {
    /// As it came in.
    pub bytes: Vec<u8>,
    /// The port.
    pub port: u32,
    /// When, in nanoseconds since the Unix epoch.
    pub at: u64,
    /// The worker that had it.
    pub worker: usize,
    /// Its mark; 0: it has none.
    pub mark: u16,
    /// What the engine said of it.
    pub told: Option<String>,
    /// The program that had it.
    pub pipeline: Option<Arc<Pipeline>>,
    /// What became of it and its copies, in order.
    pub fates: Vec<Fate>,
    /// Copies beyond those.
    pub more: usize,
}

impl Seen {
    fn size(&self) -> usize {
        self.bytes.len() + self.fates.iter().map(|fate| fate.bytes.len() + size_of::<Fate>()).sum::<usize>()
    }
}

/// One trace, as workers see it.
#[derive(Debug)]
pub struct Session {
    wanted: Wanted,
    queue: SyncSender<Arc<Seen>>,
    /// Packets that it still takes.
    left: AtomicU64,
    waiting: AtomicUsize,
    /// Packets in the queue.
    queued: AtomicUsize,
    lost: AtomicU64,
}

impl Session {
    /// A trace of at most so many packets, and the end of its queue. What is taken from there is given back by [`Session::taken`].
    pub fn new(wanted: Wanted, packets: u64) -> (Arc<Session>, Receiver<Arc<Seen>>) {
        let (queue, end) = sync_channel(MAX_WAITING);
        let (left, lost) = (AtomicU64::new(packets), AtomicU64::new(0));
        let (waiting, queued) = (AtomicUsize::new(0), AtomicUsize::new(0));
        (Arc::new(Session { wanted, queue, left, waiting, queued, lost }), end)
    }

    /// A packet has been taken from the queue.
    pub fn taken(&self, seen: &Seen) {
        self.waiting.fetch_sub(seen.size(), Relaxed);
        self.queued.fetch_sub(1, Relaxed);
    }

    /// Whether a packet that it takes is to be followed.
    fn follows(&self) -> bool {
        self.wanted.follow && (!self.wanted.by_outcome() || self.queued.load(Relaxed) < MAX_FOLLOWED)
    }

    /// Packets that it asked for and that had no room in the queue.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    fn give(&self, seen: &Arc<Seen>) {
        let one_less = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Relaxed, Relaxed, one_less).is_err() {
            return;
        }
        let size = seen.size();
        self.queued.fetch_add(1, Relaxed);
        let fits = self.waiting.fetch_add(size, Relaxed) + size <= MAX_WAITING_BYTES;
        if !fits || self.queue.try_send(seen.clone()).is_err() {
            self.waiting.fetch_sub(size, Relaxed);
            self.queued.fetch_sub(1, Relaxed);
            self.left.fetch_add(1, Relaxed);
            self.lost.fetch_add(1, Relaxed);
        }
    }
}

/// All traces of a node.
#[derive(Debug, Default)]
pub struct Taps {
    /// How often one began or ended.
    changes: AtomicU64,
    sessions: Mutex<Vec<Arc<Session>>>,
    marks: Mutex<Marks>,
}

impl Taps {
    /// A trace begins. Whether there was room for it.
    pub fn open(&self, session: &Arc<Session>) -> bool {
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MAX_SESSIONS {
            return false;
        }
        sessions.push(session.clone());
        self.changes.fetch_add(1, Relaxed);
        true
    }

    /// A mark for a packet that is followed; `None`: too many are on their way.
    fn mark(&self, now: u64) -> Option<u16> {
        self.marks.try_lock()?.give(now)
    }

    /// A trace ends.
    pub fn close(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|other| !Arc::ptr_eq(other, session));
        self.changes.fetch_add(1, Relaxed);
    }
}

/// A worker's engine with the tap around it.
pub struct Tapped {
    running: Running,
    worker: usize,
    taps: Arc<Taps>,
    /// [`Taps::changes`] as of `sessions`.
    known: u64,
    sessions: Vec<Arc<Session>>,
    /// The packets of the batch that somebody asks for.
    watched: Vec<Watched>,
}

struct Watched {
    index: u16,
    /// Bits of those sessions.
    by: u8,
    seen: Seen,
}

impl Tapped {
    /// The engine of the worker with this number.
    pub fn new(running: Running, worker: usize, taps: Arc<Taps>) -> Tapped {
        Tapped { running, worker, taps, known: 0, sessions: Vec::new(), watched: Vec::new() }
    }

    /// Puts another engine in the place of the one that runs, which is given back.
    pub fn exchange(&mut self, running: Running) -> Running {
        std::mem::replace(&mut self.running, running)
    }

    #[inline]
    fn is_watched(&mut self) -> bool {
        if self.taps.changes.load(Relaxed) != self.known {
            self.learn();
        }
        !self.sessions.is_empty()
    }

    #[cold]
    fn learn(&mut self) {
        // The next batch tries again.
        let Some(sessions) = self.taps.sessions.try_lock() else { return };
        self.sessions.clone_from(&sessions);
        self.known = self.taps.changes.load(Relaxed);
    }

    #[cold]
    fn process_watched(&mut self, batch: &mut Batch, out: &mut Output) {
        self.watch(batch);
        self.running.process(batch, out);
        if self.watched.iter().any(|watched| watched.seen.mark != 0) {
            for (mark, told) in self.running.told() {
                if let Some(watched) = self.watched.iter_mut().find(|watched| watched.seen.mark == mark) {
                    watched.seen.told = Some(told);
                }
            }
            // A port may give the packet on as it is.
            batch.packets_mut().iter_mut().for_each(|packet| packet.mark = 0);
        }
        if !self.watched.is_empty() {
            self.note_fates(batch, out);
            self.give();
        }
    }

    /// Copies the packets that somebody asks for.
    fn watch(&mut self, batch: &mut Batch) {
        let pipeline = self.running.pipeline();
        let mut left = [0; MAX_SESSIONS];
        for (left, session) in left.iter_mut().zip(&self.sessions) {
            *left = session.left.load(Relaxed);
        }
        for (index, packet) in (0..).zip(batch.packets_mut()) {
            let (mut by, mut follow) = (0, false);
            for (bit, (session, left)) in self.sessions.iter().zip(&mut left).enumerate() {
                if *left != 0 && session.wanted.takes(packet.bytes(), packet.ingress_port.0) {
                    by |= 1 << bit;
                    follow |= session.follows();
                    *left -= u64::from(!session.wanted.by_outcome());
                }
            }
            if by != 0 {
                let (bytes, port, at) = (packet.bytes().to_vec(), packet.ingress_port.0, packet.received_at);
                let (worker, pipeline, fates) = (self.worker, pipeline.cloned(), Vec::new());
                packet.mark = if follow { self.taps.mark(at).unwrap_or(0) } else { 0 };
                let (mark, told) = (packet.mark, None);
                let seen = Seen { bytes, port, at, worker, mark, told, pipeline, fates, more: 0 };
                self.watched.push(Watched { index, by, seen });
            }
        }
    }

    /// Puts what became of each packet beside it. An engine says what becomes of one packet at a time, and first of the packet itself; so a copy
    /// belongs to the last packet before it.
    fn note_fates(&mut self, batch: &Batch, out: &Output) {
        let mut places = [usize::MAX; MAX_BATCH];
        for (place, watched) in self.watched.iter().enumerate() {
            places[usize::from(watched.index)] = place;
        }
        let mut current = usize::MAX;
        for (emission, packet) in out.iter(batch) {
            if let PacketRef::Input(index) = emission.packet {
                current = places.get(usize::from(index)).copied().unwrap_or(usize::MAX);
            }
            let Some(Watched { seen, .. }) = self.watched.get_mut(current) else { continue };
            Fate::note(&mut seen.fates, &mut seen.more, &emission, packet.bytes());
        }
    }

    fn give(&mut self) {
        let reasons = self.running.reasons();
        for Watched { by, seen, .. } in self.watched.drain(..) {
            let seen = Arc::new(seen);
            for (bit, session) in self.sessions.iter().enumerate() {
                if by & 1 << bit != 0 && session.wanted.takes_outcome(&seen, reasons) {
                    session.give(&seen);
                }
            }
        }
    }
}

impl Engine for Tapped {
    fn name(&self) -> &str {
        self.running.name()
    }

    fn reasons(&self) -> &ReasonTable {
        self.running.reasons()
    }

    #[inline]
    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        if self.is_watched() {
            self.process_watched(batch, out);
        } else {
            self.running.process(batch, out);
        }
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        // Lets go of traces that have ended, also if no packet arrives.
        self.is_watched();
        self.running.tick(now, out);
    }

    fn rest(&mut self) {
        self.running.rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::time::Instant;

    /// Nanoseconds for each of many empty batches.
    fn cost(engine: &mut dyn Engine) -> f64 {
        let (mut batch, mut out) = (Batch::new(), Output::new());
        let count = 500_000;
        let start = Instant::now();
        for _ in 0..count {
            black_box(&mut *engine).process(black_box(&mut batch), &mut out);
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    }

    /// What the tap costs a batch is printed, not judged. What is judged: without a trace nothing is kept, after one nothing is left.
    #[test]
    fn without_a_trace_the_engine_is_as_it_is() {
        let taps = Arc::new(Taps::default());
        let mut tapped = Tapped::new(Running::default(), 0, taps.clone());
        let (mut bare, mut best) = (Running::default(), [f64::INFINITY; 2]);
        for _ in 0..5 {
            // The least, as others use the machine, too.
            best = [best[0].min(cost(&mut bare)), best[1].min(cost(&mut tapped))];
        }
        let [without, with] = best;
        println!("an empty batch takes {without:.2} ns without the tap, {with:.2} ns with it");
        let (mut batch, mut out) = (Batch::new(), Output::new());
        batch.push_bytes(&[0; 60], packet::PortId(1), 5).expect("room");
        let process = |tapped: &mut Tapped, batch: &mut Batch, out: &mut Output| {
            out.clear();
            tapped.process(batch, out);
            assert_eq!(out.emissions().len(), 1);
        };
        process(&mut tapped, &mut batch, &mut out);
        let (session, queue) = Session::new(Wanted::default(), 10);
        assert!(taps.open(&session) && queue.try_recv().is_err());
        process(&mut tapped, &mut batch, &mut out);
        let seen = queue.try_recv().expect("the packet");
        assert_eq!((seen.at, seen.port, seen.fates.len(), seen.pipeline.is_none()), (5, 1, 1, true));
        assert_eq!((seen.mark, batch.packets()[0].mark), (0, 0), "nobody follows it");
        let wanted = Wanted { follow: true, inner_ports: vec![2], ..Wanted::default() };
        let (follows, its_queue) = Session::new(wanted, 10);
        assert!(taps.open(&follows));
        process(&mut tapped, &mut batch, &mut out);
        let seen = its_queue.try_recv().expect("the packet");
        assert!(seen.mark != 0 && batch.packets()[0].mark == 0, "it has one in the engine, and none behind it");
        assert_eq!(queue.try_recv().map(|seen| seen.mark).ok(), Some(seen.mark), "both see the same packet");
        batch.packets_mut()[0].ingress_port = packet::PortId(2);
        process(&mut tapped, &mut batch, &mut out);
        assert!(its_queue.try_recv().is_err(), "what comes from another tier is no packet of its own");
        assert_eq!((queue.try_recv().map(|seen| seen.mark).ok(), batch.packets()[0].mark), (Some(0), 0));
        taps.close(&follows);
        taps.close(&session);
        tapped.tick(6, &mut out);
        assert_eq!(Arc::strong_count(&session), 1, "the worker has let go of it");
        process(&mut tapped, &mut batch, &mut out);
        assert!(queue.try_recv().is_err());
    }
}
