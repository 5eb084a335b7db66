//! [`Teller`]: runs a program's explainers, one for each half if the program is divided among tiers, and follows a packet from one to the other.

use super::answer::Onward;
use super::tap::Fate;
use crate::config::Leads;
use crate::engine::{Controlled, Halves, Parts, with_state};
use crate::tiers::with_port;
use interp::host::architecture::reason_table;
use interp::{Config, Event, Explainer, Outputs, Registers, Step};
use ir::Pipeline;
use offload::cut::{BACK, HELLO, HITS, wire};
use packet::{EngineReason, Origin, PortId, ReasonTable, Verdict};
use std::sync::Arc;
use tables::State;

/// A program, or half of one, with its tables at one moment.
pub struct Part {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// Its tables.
    pub state: State,
    /// Its registers; they are read when asked for.
    pub registers: Registers,
}

impl Part {
    /// What an engine runs, as it is now.
    pub(crate) fn of<E: Controlled + ?Sized>(engine: &E) -> Part {
        let state = with_state(engine, State::clone);
        Part { pipeline: state.pipeline().clone(), state, registers: engine.registers() }
    }
}

/// What became of a packet.
pub type End = (Verdict, Origin, Vec<u8>);

/// What is said of a packet.
#[derive(Default)]
pub struct Told {
    pub steps: Vec<Step>,
    pub ends: Vec<End>,
    /// Which of the ends go to tiers in other processes.
    pub onward: Vec<Onward>,
}

impl Told {
    fn say(&mut self, what: String) {
        self.steps.push(said(what));
    }
}

/// A packet as it came.
#[derive(Clone, Copy)]
struct Came<'a> {
    bytes: &'a [u8],
    port: u32,
    now: u64,
    mark: u16,
}

/// Explains packets.
pub struct Teller {
    above: Option<Explainer>,
    below: Option<Explainer>,
}

impl Teller {
    /// For a program as it is divided. `None` never for one that runs.
    pub fn new(parts: &Parts, settings: &Config) -> Option<Teller> {
        let make = |part: &Part, settings: &Config| Explainer::new(part.pipeline.clone(), settings.clone()).ok();
        match parts {
            Parts::Whole(part) => Some(Teller { above: Some(make(part, settings)?), below: None }),
            Parts::Halves(halves) => {
                let Halves { above, below, down_port, .. } = &**halves;
                let inside = with_port(settings, *down_port);
                let above = above.as_ref().map(|part| make(part, &inside));
                let below = below.as_ref().map(|part| make(part, settings));
                Some(Teller { above: above.flatten(), below: below.flatten() })
            }
        }
    }

    /// What becomes of a packet that arrives on a port at `now` nanoseconds, step by step; with this mark, or 0.
    pub fn tell(&mut self, parts: &Parts, bytes: &[u8], port: u32, now: u64, mark: u16) -> Option<Told> {
        let came = Came { bytes, port, now, mark };
        match parts {
            Parts::Whole(part) => {
                let mut told = Told::default();
                told.ends = Teller::part(&mut self.above, part, came, &mut told.steps)?;
                Some(told)
            }
            Parts::Halves(halves) if halves.up.contains(&port) => self.tell_from_switch(halves, came),
            Parts::Halves(halves) if halves.down.contains(&port) => self.tell_from_below(halves, came),
            Parts::Halves(halves) if wire::is_bridged(bytes, halves.key) => Some(refused(
                "a bridge header on a front port, with this switch's key".to_owned(),
                EngineReason::ForgedBridge,
            )),
            Parts::Halves(halves) => match &halves.above {
                Some(above) => self.tell_from_front(halves, above, came),
                None => Some(refused(
                    "the switch is in another process, and this is no port to it".to_owned(),
                    EngineReason::TierDown,
                )),
            },
        }
    }

    /// The frame that goes down to the lower half, if one does.
    pub fn frame_down(&mut self, halves: &Halves, bytes: &[u8], port: u32, now: u64) -> Option<Vec<u8>> {
        let came = Came { bytes, port, now, mark: 0 };
        let first = Teller::part(&mut self.above, halves.above.as_ref()?, came, &mut Vec::new())?;
        first.into_iter().find_map(|(verdict, _, mut frame)| stamped(halves, came, verdict, &mut frame).map(|_| frame))
    }

    /// What a part of a program makes of a packet.
    fn part(explainer: &mut Option<Explainer>, part: &Part, came: Came<'_>, steps: &mut Vec<Step>) -> Option<Vec<End>> {
        let Came { bytes, port, now, .. } = came;
        let (outputs, trace) = explainer.as_mut()?.explain(&part.state, &part.registers, bytes, port, now)?;
        steps.extend(trace.steps);
        Some(ends(&outputs))
    }

    fn tell_from_front(&mut self, halves: &Halves, above: &Part, came: Came<'_>) -> Option<Told> {
        let mut told = Told { steps: vec![said("tier switch: the upper half of the program")], ..Told::default() };
        let first = Teller::part(&mut self.above, above, came, &mut told.steps)?;
        for (verdict, origin, mut frame) in first {
            let Some(stamped) = stamped(halves, came, verdict, &mut frame) else {
                told.ends.push((verdict, origin, frame));
                continue;
            };
            told.say(format!(
                "tier switch: down at stop {}, {}; a bridge header in front, {} bytes in all",
                stamped.stop,
                halves.stop(stamped.stop),
                frame.len()
            ));
            match (&halves.below, (halves.link)(came.bytes, &frame)) {
                (_, Some(port)) => {
                    told.say(format!("the tiers below are in another process, behind port {port}"));
                    told.onward.push(Onward { verdict: told.ends.len(), leads: Leads::Down });
                    told.ends.push((Verdict::Forward { port: PortId(port) }, origin, frame));
                }
                (Some(below), None) => {
                    self.tell_here(halves, below, Came { bytes: &frame, ..came }, origin, &mut told)?
                }
                (None, None) => {
                    told.say("no tier below answers".to_owned());
                    told.ends.push((Verdict::Drop(EngineReason::TierDown.into()), origin, Vec::new()));
                }
            }
        }
        Some(told)
    }

    /// The lower half is in this process, too.
    fn tell_here(
        &mut self,
        halves: &Halves,
        below: &Part,
        came: Came<'_>,
        origin: Origin,
        told: &mut Told,
    ) -> Option<()> {
        told.say("tiers dpu and cpu: the lower half of the program".to_owned());
        let came = Came { port: halves.down_port, ..came };
        for (verdict, of, bytes) in Teller::part(&mut self.below, below, came, &mut told.steps)? {
            if let Verdict::Forward { port } = verdict {
                told.say(format!("tier switch: back in a bridge header, and out on {port}"));
            }
            told.ends.push((verdict, if of == Origin::Received { origin } else { of }, bytes));
        }
        Some(())
    }

    /// The packet comes back over a link.
    fn tell_from_below(&mut self, halves: &Halves, came: Came<'_>) -> Option<Told> {
        let above = halves.above.as_ref()?;
        let header = match wire::read(came.bytes, halves.key) {
            Some(header) if header.stop == BACK => header,
            Some(header) if matches!(header.stop, HELLO | HITS) => {
                let what = "no packet: a tier below answers, or says what was hit there".to_owned();
                return Some(refused(what, EngineReason::TierAnswer));
            }
            _ => return Some(refused(NO_BRIDGE.to_owned(), EngineReason::NotBridged)),
        };
        let what = format!("tier switch: back from the tiers below, to leave on port {}", header.port);
        let mut told = Told { steps: vec![said(what)], ..Told::default() };
        let came = Came { port: halves.down_port, ..came };
        told.ends = Teller::part(&mut self.above, above, came, &mut told.steps)?;
        Some(told)
    }

    /// The switch is in another process, and the packet came from there.
    fn tell_from_switch(&mut self, halves: &Halves, came: Came<'_>) -> Option<Told> {
        let below = halves.below.as_ref()?;
        let header = match wire::read(came.bytes, halves.key) {
            Some(header) if header.stop < HITS => header,
            Some(header) if header.stop == HELLO => {
                let what = "no packet: the switch asks whether this tier is there";
                let verdict = Verdict::Forward { port: PortId(came.port) };
                let ends = vec![(verdict, Origin::Received, came.bytes.to_vec())];
                return Some(Told { steps: vec![said(what)], ends, onward: Vec::new() });
            }
            _ => return Some(refused(NO_BRIDGE.to_owned(), EngineReason::NotBridged)),
        };
        let mut told = Told::default();
        told.say(format!(
            "tiers dpu and cpu: from the switch at stop {}, {}; it came there on port {}",
            header.stop,
            halves.stop(header.stop),
            header.port
        ));
        for (verdict, origin, frame) in Teller::part(&mut self.below, below, came, &mut told.steps)? {
            let Verdict::Forward { port: to } = verdict else {
                told.ends.push((verdict, origin, frame));
                continue;
            };
            told.say(format!("back to the switch in a bridge header, to leave on {to}"));
            let mut bytes = vec![0; halves.bridge];
            wire::back(&mut bytes, halves.key, to.0, header.mark);
            bytes.extend_from_slice(&frame);
            told.onward.push(Onward { verdict: told.ends.len(), leads: Leads::Up });
            told.ends.push((Verdict::Forward { port: PortId(came.port) }, origin, bytes));
        }
        Some(told)
    }
}

/// Fills in the bridge header of a frame, if the upper half sends it down.
fn stamped(halves: &Halves, came: Came<'_>, verdict: Verdict, frame: &mut [u8]) -> Option<wire::Told> {
    let length = u16::try_from(came.bytes.len()).unwrap_or(0);
    match verdict {
        Verdict::Forward { port: PortId(to) } if to == halves.down_port => {
            wire::stamp(frame, halves.key, came.port, length, came.mark)
        }
        _ => None,
    }
}

const NO_BRIDGE: &str = "no bridge header that belongs here, or one with another key, on a port to another tier";

/// It is dropped before the program sees it.
fn refused(what: String, reason: EngineReason) -> Told {
    let ends = vec![(Verdict::Drop(reason.into()), Origin::Received, Vec::new())];
    Told { steps: vec![said(what)], ends, onward: Vec::new() }
}

impl Halves {
    /// Why packets stop there.
    fn stop(&self, number: u8) -> &str {
        self.stops.get(usize::from(number)).map_or("a stop", String::as_str)
    }
}

impl Parts {
    /// The version of the tables that are asked.
    pub fn version(&self) -> u64 {
        match self {
            Parts::Whole(part) => part.state.version(),
            Parts::Halves(halves) => {
                halves.below.as_ref().or(halves.above.as_ref()).map_or(0, |part| part.state.version())
            }
        }
    }

    /// Which of these verdicts lead to tiers in other processes.
    pub(super) fn onward(&self, fates: &[Fate]) -> Vec<Onward> {
        let Parts::Halves(halves) = self else { return Vec::new() };
        let leads = |fate: &Fate| match fate.verdict {
            Verdict::Forward { port } if halves.down.contains(&port.0) => Some(Leads::Down),
            Verdict::Forward { port } if halves.up.contains(&port.0) => Some(Leads::Up),
            _ => None,
        };
        let all = fates.iter().enumerate();
        all.filter_map(|(verdict, fate)| Some(Onward { verdict, leads: leads(fate)? })).collect()
    }

    /// Names of the reasons that the program declares.
    pub fn reasons(&self) -> ReasonTable {
        let part = match self {
            Parts::Whole(part) => Some(part),
            Parts::Halves(halves) => halves.above.as_ref().or(halves.below.as_ref()),
        };
        part.map(|part| reason_table(&part.pipeline)).unwrap_or_default()
    }

    /// Whether those who explained for `former` can go on.
    pub fn same_programs(&self, former: &Parts) -> bool {
        let same = |a: &Option<Part>, b: &Option<Part>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.pipeline, &b.pipeline),
            (a, b) => a.is_none() && b.is_none(),
        };
        match (self, former) {
            (Parts::Whole(a), Parts::Whole(b)) => Arc::ptr_eq(&a.pipeline, &b.pipeline),
            (Parts::Halves(a), Parts::Halves(b)) => same(&a.above, &b.above) && same(&a.below, &b.below),
            _ => false,
        }
    }
}

fn said(what: impl Into<String>) -> Step {
    Step { event: Event::Architecture { what: what.into() }, at: None }
}

fn ends(outputs: &Outputs) -> Vec<End> {
    outputs.packets().iter().map(|out| (out.verdict, out.origin, out.bytes.clone())).collect()
}
