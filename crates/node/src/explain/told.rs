//! [`Teller`]: runs a program's explainers, and says what becomes of a packet.

use super::tap::Fate;
use crate::config::Leads;
use entries::State;
use interp::host::architecture::reason_table;
use interp::{Config, Event, Explainer, Outputs, Registers, Step};
use ir::Pipeline;
use packet::{Origin, ReasonTable, Verdict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A program, or half of one, with its tables at one moment.
pub struct Part {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// Its tables.
    pub state: State,
    /// Its registers; they are read when asked for.
    pub registers: Registers,
}

/// A packet as it came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// It.
    pub bytes: &'a [u8],
    /// The port.
    pub port: u32,
    /// When, in nanoseconds since the Unix epoch.
    pub now: u64,
    /// The mark with which it is followed, or 0.
    pub mark: u16,
}

/// One of the verdicts sends the packet to a tier in another process, with a bridge header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Onward {
    /// Which, the first being 0.
    pub verdict: usize,
    /// To which tier.
    pub leads: Leads,
}

/// What became of a packet or of a copy of it, and its bytes then.
pub type End = (Verdict, Origin, Vec<u8>);

/// What is said of a packet.
#[derive(Default)]
pub struct Told {
    /// What happens to it, in order.
    pub steps: Vec<Step>,
    /// What becomes of it.
    pub ends: Vec<End>,
    /// Which of the ends go to tiers in other processes.
    pub onward: Vec<Onward>,
}

impl Told {
    /// A step that is no part of a program.
    pub fn say(&mut self, what: impl Into<String>) {
        self.steps.push(Step { event: Event::Architecture { what: what.into() }, at: None });
    }
}

/// Ports that lead to tiers of the program in other processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierPorts<'a> {
    /// To the switch.
    pub up: &'a [u32],
    /// To the tiers below.
    pub down: &'a [u32],
}

/// A packet as it comes to a flow cache: before a program, or before its lower half.
pub struct CacheInput<'a> {
    /// What runs behind the cache.
    pub part: &'a Part,
    /// The packet, with its bridge header if it has one.
    pub bytes: Vec<u8>,
    /// The port by which that program knows where it came from.
    pub port: u32,
}

/// A program, or what of it runs in this process, with its tables at one moment: what packets are explained by.
pub trait Explained: Send {
    /// The programs that it consists of, one at least, from the ports down. The first declares the reasons, the last has all tables.
    fn parts(&self) -> Vec<&Part>;

    /// How the explainer of a part runs it, by its index; `node`: how the node runs programs.
    fn settings(&self, part: usize, node: &Config) -> Config {
        let _ = part;
        node.clone()
    }

    /// Ports to tiers in other processes.
    fn tier_ports(&self) -> TierPorts<'_> {
        TierPorts::default()
    }

    /// Whether packets from outside come here, and not to another process with the switch.
    fn has_front_ports(&self) -> bool {
        true
    }

    /// What becomes of a packet. `None` never for a program that runs.
    fn tell(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<Told>;

    /// The packet as it comes to the flow cache; `None`: it comes to none here.
    fn cache_input(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<CacheInput<'_>>;
}

impl Explained for Part {
    fn parts(&self) -> Vec<&Part> {
        vec![self]
    }

    fn tell(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<Told> {
        let mut told = Told::default();
        told.ends = teller.run(0, self, came, &mut told.steps)?;
        Some(told)
    }

    fn cache_input(&self, _: &mut Teller, came: Arrival<'_>) -> Option<CacheInput<'_>> {
        Some(CacheInput { part: self, bytes: came.bytes.to_vec(), port: came.port })
    }
}

impl dyn Explained + '_ {
    /// The version of the tables that are asked.
    pub fn version(&self) -> u64 {
        self.parts().last().map_or(0, |part| part.state.version())
    }

    /// Names of the reasons that the program declares.
    pub fn reasons(&self) -> ReasonTable {
        self.parts().first().map(|part| reason_table(&part.pipeline)).unwrap_or_default()
    }

    /// Whether a teller for `former` can go on.
    pub(super) fn has_programs_of(&self, former: &dyn Explained) -> bool {
        let (new, old) = (self.parts(), former.parts());
        new.len() == old.len() && new.iter().zip(old).all(|(new, old)| Arc::ptr_eq(&new.pipeline, &old.pipeline))
    }

    /// Which of these verdicts lead to tiers in other processes.
    pub(super) fn onward(&self, fates: &[Fate]) -> Vec<Onward> {
        let TierPorts { up, down } = self.tier_ports();
        let leads = |fate: &Fate| match fate.verdict {
            Verdict::Forward { port } if down.contains(&port.0) => Some(Leads::Down),
            Verdict::Forward { port } if up.contains(&port.0) => Some(Leads::Up),
            _ => None,
        };
        let all = fates.iter().enumerate();
        all.filter_map(|(verdict, fate)| Some(Onward { verdict, leads: leads(fate)? })).collect()
    }
}

/// Explains packets: an explainer for each part of a program.
pub struct Teller(Vec<Explainer>);

impl Teller {
    /// For a program as it is divided. `None` never for one that runs.
    pub fn new(explained: &dyn Explained, settings: &Config) -> Option<Teller> {
        let parts = explained.parts().into_iter().enumerate();
        let make = |(index, part): (usize, &Part)| {
            Explainer::new(part.pipeline.clone(), explained.settings(index, settings)).ok()
        };
        parts.map(make).collect::<Option<Vec<Explainer>>>().map(Teller)
    }

    /// What a part of the program makes of a packet, by its index.
    pub fn run(&mut self, index: usize, part: &Part, came: Arrival<'_>, steps: &mut Vec<Step>) -> Option<Vec<End>> {
        let Arrival { bytes, port, now, .. } = came;
        let (outputs, trace) = self.0.get_mut(index)?.explain(&part.state, &part.registers, bytes, port, now)?;
        steps.extend(trace.steps);
        Some(ends(&outputs))
    }
}

fn ends(outputs: &Outputs) -> Vec<End> {
    outputs.packets().iter().map(|out| (out.verdict, out.origin, out.bytes.clone())).collect()
}
