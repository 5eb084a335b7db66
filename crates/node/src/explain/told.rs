//! [`Teller`]: runs a program's explainers, one for each half if the program is divided among tiers, and follows a packet from one to the other.

use crate::engine::{Halves, Parts};
use interp::host::architecture::reason_table;
use interp::{Config, Event, Explainer, Outputs, Registers, Step};
use ir::Pipeline;
use offload::cut::{BACK, HELLO, wire};
use packet::{Origin, PortId, ReasonTable, Verdict};
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

/// What became of a packet.
pub type End = (Verdict, Origin, Vec<u8>);

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
                let mut inside = settings.clone();
                inside.ports = inside.ports.map(|mut ports| {
                    ports.insert(*down_port);
                    ports
                });
                let above = above.as_ref().map(|part| make(part, &inside));
                let below = below.as_ref().map(|part| make(part, settings));
                Some(Teller { above: above.flatten(), below: below.flatten() })
            }
        }
    }

    /// What becomes of a packet that arrives on a port at `now` nanoseconds, step by step.
    pub fn tell(&mut self, parts: &Parts, bytes: &[u8], port: u32, now: u64) -> Option<(Vec<Step>, Vec<End>)> {
        match parts {
            Parts::Whole(part) => {
                let (outputs, trace) = self.above.as_mut()?.explain(&part.state, &part.registers, bytes, port, now)?;
                Some((trace.steps, ends(&outputs)))
            }
            Parts::Halves(halves) => match (&halves.above, &halves.below) {
                (Some(above), _) => self.tell_from_front(halves, above, bytes, port, now),
                (None, Some(below)) => self.tell_from_switch(halves, below, bytes, port, now),
                (None, None) => None,
            },
        }
    }

    fn tell_from_front(
        &mut self,
        halves: &Halves,
        above: &Part,
        bytes: &[u8],
        port: u32,
        now: u64,
    ) -> Option<(Vec<Step>, Vec<End>)> {
        let Halves { below, key, down_port, stops, .. } = halves;
        let mut steps = vec![said("tier switch: the upper half of the program".to_owned())];
        let (outputs, trace) = self.above.as_mut()?.explain(&above.state, &above.registers, bytes, port, now)?;
        steps.extend(trace.steps);
        let mut all = Vec::new();
        for (verdict, origin, mut frame) in ends(&outputs) {
            let length = u16::try_from(bytes.len()).unwrap_or(0);
            let told = match verdict {
                Verdict::Forward { port: PortId(to) } if to == *down_port => {
                    wire::stamp(&mut frame, *key, port, length, 0)
                }
                _ => None,
            };
            let Some(told) = told else {
                all.push((verdict, origin, frame));
                continue;
            };
            let why = stops.get(usize::from(told.stop)).map_or("a stop", String::as_str);
            steps.push(said(format!(
                "tier switch: down at stop {}, {why}; a bridge header in front, {} bytes in all",
                told.stop,
                frame.len()
            )));
            let (Some(below), Some(explainer)) = (below, self.below.as_mut()) else {
                steps.push(said("the tiers below are in another process: ask there".to_owned()));
                all.push((verdict, origin, frame));
                continue;
            };
            steps.push(said("tiers dpu and cpu: the lower half of the program".to_owned()));
            let (outputs, trace) = explainer.explain(&below.state, &below.registers, &frame, *down_port, now)?;
            steps.extend(trace.steps);
            for (verdict, of, bytes) in ends(&outputs) {
                if let Verdict::Forward { port } = verdict {
                    steps.push(said(format!("tier switch: back in a bridge header, and out on {port}")));
                }
                all.push((verdict, if of == Origin::Received { origin } else { of }, bytes));
            }
        }
        Some((steps, all))
    }

    /// The switch is in another process, and the packet came from there.
    fn tell_from_switch(
        &mut self,
        halves: &Halves,
        below: &Part,
        bytes: &[u8],
        port: u32,
        now: u64,
    ) -> Option<(Vec<Step>, Vec<End>)> {
        let Halves { key, stops, bridge, .. } = halves;
        let told = wire::read(bytes, *key);
        let mut steps = vec![said(match told {
            Some(told) if told.stop == HELLO => "no packet: the switch asks whether this tier is there".to_owned(),
            Some(told) if told.stop == BACK => "a packet that is on its way back, and should not come here".to_owned(),
            Some(told) => {
                let why = stops.get(usize::from(told.stop)).map_or("a stop", String::as_str);
                format!(
                    "tiers dpu and cpu: from the switch at stop {}, {why}; it came there on port {}",
                    told.stop, told.port
                )
            }
            None => "not from the switch: no bridge header, or another key".to_owned(),
        })];
        let (outputs, trace) = self.below.as_mut()?.explain(&below.state, &below.registers, bytes, port, now)?;
        steps.extend(trace.steps);
        let mut all = ends(&outputs);
        for (verdict, _, frame) in &mut all {
            if let Verdict::Forward { port: to } = verdict {
                steps.push(said(format!("back to the switch in a bridge header, to leave on {to}")));
                let mut header = vec![0; *bridge];
                wire::back(&mut header, *key, to.0, 0);
                header.extend_from_slice(frame);
                (*frame, *verdict) = (header, Verdict::Forward { port: PortId(port) });
            }
        }
        Some((steps, all))
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

fn said(what: String) -> Step {
    Step { event: Event::Architecture { what }, at: None }
}

fn ends(outputs: &Outputs) -> Vec<End> {
    outputs.packets().iter().map(|out| (out.verdict, out.origin, out.bytes.clone())).collect()
}
