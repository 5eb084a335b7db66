//! [`LiveTrace`]: packets that pass, each with what became of it and why.

use crate::device::Node;
use crate::explain::Present;
use crate::explain::answer::{Arrived, Explanation, Traced, Verdicted};
use crate::explain::tap::{Seen, Session, Wanted};
use crate::explain::told::{Arrival, Explained, Teller, Told};
use interp::host::architecture::reason_table;
use packet::ReasonTable;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

/// The most packets of a trace.
pub const MAX_PACKETS: u64 = 100_000;
/// How long a trace may last.
pub const MAX_TIME: Duration = Duration::from_secs(3600);
/// How often the queue is looked at: nobody calls.
const LOOK: Duration = Duration::from_millis(2);
/// Tables are looked at anew after this time at the earliest: a write after a look copies a little.
const SETTLE: Duration = Duration::from_millis(10);

/// What [`LiveTrace::next`] gives.
#[derive(Debug)]
pub enum Next {
    /// A packet.
    Packet(Box<Traced>),
    /// None has come in the time that was given.
    Waiting,
    /// There are as many as were asked for, or the time is over.
    Ended,
}

/// A trace that runs. It ends when it is dropped.
pub struct LiveTrace<'a> {
    node: &'a Node,
    session: Arc<Session>,
    queue: Receiver<Arc<Seen>>,
    deadline: Instant,
    packets: u64,
    number: u64,
    /// The tables as they were last looked at, when that was in nanoseconds since the Unix epoch, and who explains by them.
    known: Option<Known>,
}

struct Known {
    present: Present,
    at: u64,
    teller: Option<Teller>,
    reasons: ReasonTable,
}

impl<'a> LiveTrace<'a> {
    /// Begins one. `None`: there are too many already.
    pub(crate) fn begin(node: &'a Node, wanted: Wanted, packets: u64, time: Duration) -> Option<LiveTrace<'a>> {
        let packets = packets.min(MAX_PACKETS);
        let (session, queue) = Session::new(wanted, packets);
        let deadline = Instant::now() + time.min(MAX_TIME);
        node.plane.taps().open(&session).then_some(LiveTrace {
            node,
            session,
            queue,
            deadline,
            packets,
            number: 0,
            known: None,
        })
    }

    /// Packets that it should have shown and that were lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.session.lost()
    }

    /// Packets that it has shown.
    pub fn shown(&self) -> u64 {
        self.number
    }

    /// The next packet, if it comes within `patience`.
    pub fn next(&mut self, patience: Duration) -> Next {
        let until = Instant::now() + patience;
        loop {
            if self.number == self.packets {
                return Next::Ended;
            }
            match self.queue.try_recv() {
                Ok(seen) => {
                    self.session.taken(&seen);
                    self.number += 1;
                    return Next::Packet(Box::new(self.explained(&seen)));
                }
                Err(TryRecvError::Disconnected) => return Next::Ended,
                Err(TryRecvError::Empty) => {}
            }
            let now = Instant::now();
            if now >= self.deadline {
                return Next::Ended;
            }
            if now >= until {
                return Next::Waiting;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The tables, no older than the packet.
    fn look(&mut self, seen: &Seen) -> Option<&mut Known> {
        if self.known.as_ref().is_none_or(|known| known.at < seen.at) {
            if let Some(known) = &self.known {
                let since = Duration::from_nanos(io::now().saturating_sub(known.at));
                // Packets that have come meanwhile are explained by the same look.
                std::thread::sleep(SETTLE.saturating_sub(since));
            }
            let former = self.known.take();
            let present = self.node.present()?;
            let at = io::now();
            let same = former.filter(|known| {
                Arc::ptr_eq(&known.present.pipeline, &present.pipeline)
                    && present.explained.has_programs_of(&*known.present.explained)
            });
            let (teller, reasons) = match same {
                Some(known) => (known.teller, known.reasons),
                None => (Teller::new(&*present.explained, &self.node.settings), reason_table(&present.pipeline)),
            };
            self.known = Some(Known { present, at, teller, reasons });
        }
        self.known.as_mut()
    }

    fn explained(&mut self, seen: &Seen) -> Traced {
        let number = self.number;
        let reasons = seen.pipeline.as_ref().map(|pipeline| reason_table(pipeline)).unwrap_or_default();
        let fate = |fate: &crate::explain::tap::Fate| Verdicted::new(fate.verdict, fate.origin, &fate.bytes, &reasons);
        let mut traced = Traced {
            number,
            packet: Arrived::new(&seen.bytes, seen.port, seen.at),
            worker: seen.worker,
            mark: seen.mark,
            told: seen.told.clone(),
            became: seen.fates.iter().map(fate).collect(),
            onward: Vec::new(),
            more: seen.more,
            later_ns: 0,
            differs: None,
            explanation: None,
        };
        let Some(pipeline) = &seen.pipeline else {
            traced.differs = Some("there was no program, and so there is nothing to explain".to_owned());
            return traced;
        };
        let Some(known) = self.look(seen).filter(|known| Arc::ptr_eq(pipeline, &known.present.pipeline)) else {
            let why = "the program has been changed since; the tables that this packet met are no more";
            traced.differs = Some(why.to_owned());
            return traced;
        };
        traced.later_ns = known.at.saturating_sub(seen.at);
        let explained = &*known.present.explained;
        traced.onward = explained.onward(&seen.fates);
        let teller = known.teller.as_mut();
        let came = Arrival { bytes: &seen.bytes, port: seen.port, now: seen.at, mark: seen.mark };
        let told = teller.and_then(|teller| explained.tell(teller, came));
        let became = (&traced.became[..], traced.more);
        (traced.explanation, traced.differs) = compared(told, (explained, &known.reasons), became, traced.later_ns);
        traced
    }
}

impl Drop for LiveTrace<'_> {
    fn drop(&mut self) {
        self.node.plane.taps().close(&self.session);
    }
}

/// What the tables say of a packet, and why there is nothing of it, or something else than what became of the packet.
pub(super) fn compared(
    told: Option<Told>,
    (explained, reasons): (&dyn Explained, &ReasonTable),
    (became, more): (&[Verdicted], usize),
    later_ns: u64,
) -> (Option<Explanation>, Option<String>) {
    let Some(told) = told else {
        return (None, Some("the explainer does not take this program, which is a bug".to_owned()));
    };
    let explanation = Explanation::new(told, reasons, explained.version());
    let differs = difference(became, more, &explanation.verdicts, later_ns);
    (Some(explanation), differs)
}

/// Says so if the explanation does not end where the packet did.
fn difference(became: &[Verdicted], more: usize, explained: &[Verdicted], later_ns: u64) -> Option<String> {
    let first = became.iter().zip(explained).position(|(a, b)| a != b);
    let count = became.len() + more != explained.len();
    let what = match first {
        Some(at) if became[at].to_string() != explained[at].to_string() => {
            format!("the packet was {}, the explanation says {}", became[at], explained[at])
        }
        Some(_) => "the packet left with other bytes than the explanation says".to_owned(),
        None if count => format!("{} verdicts, the explanation has {}", became.len() + more, explained.len()),
        None => return None,
    };
    let later = later_ns as f64 / 1e6;
    Some(format!(
        "{what}; tables, registers or meters are not as they were: the explanation is by those of {later:.1} ms later, meters full"
    ))
}
