//! [`LiveTrace`]: passing packets with their verdicts and explanations.

use crate::device::Node;
use crate::explain::ExplainSnapshot;
use crate::explain::explainer::{ExplainTarget, ExplainedPacket, PacketArrival, PacketExplainer};
use crate::explain::tap::{TraceFilter, TraceSession, TracedPacket};
use crate::explain::trace_json::{Explanation, PacketJson, TraceJson, VerdictJson};
use interp::host::architecture::reason_table;
use packet::{PortId, ReasonTable};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// Maximum number of packets of a trace.
pub const MAX_PACKETS: u64 = 100_000;
/// Maximum duration of a trace.
pub const MAX_TIME: Duration = Duration::from_secs(3600);
/// Polling interval of the queue, because workers never wake the tracer.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Minimum age of a snapshot before the next one is taken, because a write after a snapshot copies
/// memory.
const MIN_SNAPSHOT_AGE: Duration = Duration::from_millis(10);

/// Result of [`LiveTrace::next`].
#[derive(Debug)]
pub enum NextPacket {
    /// A packet.
    Packet(Box<TraceJson>),
    /// No packet arrived within the given time.
    Waiting,
    /// The requested number of packets is reached, or the time is over.
    Ended,
}

/// A running trace. Ends when dropped.
pub struct LiveTrace<'a> {
    node: &'a Node,
    session: Arc<TraceSession>,
    queue: Receiver<Arc<TracedPacket>>,
    deadline: Instant,
    packets: u64,
    number: u64,
    /// The last snapshot with its explainer.
    known: Option<CachedSnapshot>,
}

struct CachedSnapshot {
    present: ExplainSnapshot,
    taken_at_ns: u64,
    teller: Option<PacketExplainer>,
    reasons: ReasonTable,
}

impl<'a> LiveTrace<'a> {
    /// Starts a trace. Returns `None` if there are too many traces.
    pub(crate) fn begin(node: &'a Node, wanted: TraceFilter, packets: u64, time: Duration) -> Option<LiveTrace<'a>> {
        let packets = packets.min(MAX_PACKETS);
        let (session, queue) = TraceSession::new(wanted, packets);
        let deadline = Instant::now() + time.min(MAX_TIME);
        node.plane.trace_sessions().open(&session).then_some(LiveTrace {
            node,
            session,
            queue,
            deadline,
            packets,
            number: 0,
            known: None,
        })
    }

    /// Returns the number of matching packets that were lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.session.lost()
    }

    /// Returns the number of packets shown so far.
    pub fn shown(&self) -> u64 {
        self.number
    }

    /// Returns the next packet, waiting at most `patience`.
    pub fn next(&mut self, patience: Duration) -> NextPacket {
        let until = Instant::now() + patience;
        loop {
            if self.number == self.packets {
                return NextPacket::Ended;
            }
            match self.queue.try_recv() {
                Ok(seen) => {
                    self.session.taken(&seen);
                    self.number += 1;
                    return NextPacket::Packet(Box::new(self.explain_packet(&seen)));
                }
                Err(TryRecvError::Disconnected) => return NextPacket::Ended,
                Err(TryRecvError::Empty) => {}
            }
            let now = Instant::now();
            if now >= self.deadline {
                return NextPacket::Ended;
            }
            if now >= until {
                return NextPacket::Waiting;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns a snapshot that is newer than the packet.
    fn refresh_snapshot(&mut self, seen: &TracedPacket) -> Option<&mut CachedSnapshot> {
        if self.known.as_ref().is_none_or(|known| known.taken_at_ns < seen.received_at_ns) {
            if let Some(known) = &self.known {
                let since = Duration::from_nanos(io::now().saturating_sub(known.taken_at_ns));
                // The same snapshot explains packets that arrive meanwhile.
                std::thread::sleep(MIN_SNAPSHOT_AGE.saturating_sub(since));
            }
            let former = self.known.take();
            let present = self.node.explain_snapshot()?;
            let taken_at_ns = io::now();
            let same = former.filter(|known| {
                Arc::ptr_eq(&known.present.pipeline, &present.pipeline)
                    && present.explained.has_same_programs(&*known.present.explained)
            });
            let (teller, reasons) = match same {
                Some(known) => (known.teller, known.reasons),
                None => {
                    (PacketExplainer::new(&*present.explained, &self.node.settings), reason_table(&present.pipeline))
                }
            };
            self.known = Some(CachedSnapshot { present, taken_at_ns, teller, reasons });
        }
        self.known.as_mut()
    }

    fn explain_packet(&mut self, seen: &TracedPacket) -> TraceJson {
        let number = self.number;
        let reasons = seen.pipeline.as_ref().map(|pipeline| reason_table(pipeline)).unwrap_or_default();
        let fate = |fate: &crate::explain::tap::PacketOutcome| {
            VerdictJson::new(fate.verdict, fate.origin, &fate.bytes, &reasons)
        };
        let mut traced = TraceJson {
            number,
            packet: PacketJson::new(&seen.bytes, seen.port, seen.received_at_ns),
            worker: seen.worker,
            trace_id: seen.trace_id,
            engine_note: seen.engine_note.clone(),
            verdicts: seen.outcomes.iter().map(fate).collect(),
            host: None,
            tier_handoffs: Vec::new(),
            omitted_verdicts: seen.more,
            explained_after_ns: 0,
            mismatch: None,
            explanation: None,
        };
        traced.host = traced.verdicts.iter().find_map(|verdict| match verdict {
            VerdictJson::Cpu { reason, .. } => self.node.plane.host().interface_of(PortId(seen.port), reason),
            _ => None,
        });
        let Some(pipeline) = &seen.pipeline else {
            traced.mismatch = Some("there was no program, and so there is nothing to explain".to_owned());
            return traced;
        };
        let Some(known) = self.refresh_snapshot(seen).filter(|known| Arc::ptr_eq(pipeline, &known.present.pipeline))
        else {
            let why = "the program has been changed since; the tables of this packet no longer exist";
            traced.mismatch = Some(why.to_owned());
            return traced;
        };
        traced.explained_after_ns = known.taken_at_ns.saturating_sub(seen.received_at_ns);
        let explained = &*known.present.explained;
        traced.tier_handoffs = explained.tier_handoffs(&seen.outcomes);
        let teller = known.teller.as_mut();
        let came =
            PacketArrival { bytes: &seen.bytes, port: seen.port, now: seen.received_at_ns, trace_id: seen.trace_id };
        let told = teller.and_then(|teller| explained.explain_packet(teller, came));
        let verdicts = (&traced.verdicts[..], traced.omitted_verdicts);
        (traced.explanation, traced.mismatch) =
            compare_explanation(told, (explained, &known.reasons), verdicts, traced.explained_after_ns);
        traced
    }
}

impl Drop for LiveTrace<'_> {
    fn drop(&mut self) {
        self.node.plane.trace_sessions().close(&self.session);
    }
}

/// Returns the explanation of a packet, and why it is missing or how it differs from the actual
/// verdicts.
pub(super) fn compare_explanation(
    told: Option<ExplainedPacket>,
    (explained, reasons): (&dyn ExplainTarget, &ReasonTable),
    (verdicts, more): (&[VerdictJson], usize),
    explained_after_ns: u64,
) -> (Option<Explanation>, Option<String>) {
    let Some(told) = told else {
        return (None, Some("the explainer does not support this program, which is a bug".to_owned()));
    };
    let explanation = Explanation::new(told, reasons, explained.tables_version());
    let mismatch = describe_mismatch(verdicts, more, &explanation.verdicts, explained_after_ns);
    (Some(explanation), mismatch)
}

/// Describes the first difference between the actual and the explained verdicts, if any. `actual`
/// has the first verdicts, and `omitted` is the number of further ones.
fn describe_mismatch(
    actual: &[VerdictJson],
    omitted: usize,
    explained: &[VerdictJson],
    explained_after_ns: u64,
) -> Option<String> {
    let first = actual.iter().zip(explained).position(|(a, b)| a != b);
    let has_other_count = actual.len() + omitted != explained.len();
    let what = match first {
        Some(at) if actual[at].to_string() != explained[at].to_string() => {
            format!("the packet was {}, the explanation says {}", actual[at], explained[at])
        }
        // Verdicts that print the same differ in the bytes of the packet.
        Some(_) => "the packet left with other bytes than the explanation says".to_owned(),
        None if has_other_count => {
            format!("{} verdicts, the explanation has {}", actual.len() + omitted, explained.len())
        }
        None => return None,
    };
    let later_ms = explained_after_ns as f64 / 1e6;
    Some(format!("{what}; the explanation uses tables and registers of {later_ms:.1} ms later, and full meters"))
}
