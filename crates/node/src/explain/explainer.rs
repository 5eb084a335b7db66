//! [`PacketExplainer`]: runs a program's explainers, and returns events and verdicts of a packet.

use super::tap::PacketOutcome;
use crate::config::TierLink;
use entries::ControlState;
use interp::host::architecture::reason_table;
use interp::{Config, Explainer, Outputs, Registers, TraceEvent, TraceStep};
use ir::Pipeline;
use packet::{PacketOrigin, ReasonTable, Verdict};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A program, or one half of it, with its tables at one moment.
pub struct ProgramState {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// Its tables.
    pub state: ControlState,
    /// Its registers, read on demand.
    pub registers: Registers,
}

/// A received packet.
#[derive(Clone, Copy, Debug)]
pub struct PacketArrival<'a> {
    /// Bytes of the packet.
    pub bytes: &'a [u8],
    /// Ingress port.
    pub port: u32,
    /// Time of arrival in ns since the Unix epoch.
    pub now: u64,
    /// Trace id; 0: none.
    pub trace_id: u16,
}

/// A verdict that sends the packet to a tier in another process, with a bridge header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TierHandoff {
    /// Index of the verdict, from 0.
    pub verdict: usize,
    /// Direction of the tier.
    pub tier_link: TierLink,
}

/// Verdict, origin and final bytes of a packet or of a copy of it.
pub type ExplainedVerdict = (Verdict, PacketOrigin, Vec<u8>);

/// Explanation of a packet.
#[derive(Default)]
pub struct ExplainedPacket {
    /// Events in order.
    pub steps: Vec<TraceStep>,
    /// Verdicts of the packet and its copies.
    pub verdicts: Vec<ExplainedVerdict>,
    /// The verdicts that send the packet to tiers in other processes.
    pub tier_handoffs: Vec<TierHandoff>,
}

impl ExplainedPacket {
    /// Adds an event outside of a program.
    pub fn add_step(&mut self, what: impl Into<String>) {
        self.steps.push(TraceStep { event: TraceEvent::Architecture { what: what.into() }, at: None });
    }
}

/// Ports to tiers of the program in other processes.
#[derive(Clone, Copy, Debug, Default)]
pub struct TierPorts<'a> {
    /// Ports to the switch.
    pub up: &'a [u32],
    /// Ports to the lower tiers.
    pub down: &'a [u32],
}

/// A packet as it reaches a flow cache, before a program or before its lower half.
pub struct CacheInput<'a> {
    /// The program after the cache.
    pub part: &'a ProgramState,
    /// Bytes of the packet, including a bridge header.
    pub bytes: Vec<u8>,
    /// Ingress port as that program knows it.
    pub port: u32,
}

/// A program, or its part in this process, with its tables at one moment. Packets are explained by
/// it.
pub trait ExplainTarget: Send {
    /// Returns the programs in the order in which packets pass them, at least one. The first
    /// declares the reasons, the last has all tables.
    fn program_states(&self) -> Vec<&ProgramState>;

    /// Returns the settings of the explainer of a program, by its index; `node` are the node's
    /// settings.
    fn settings(&self, part: usize, node: &Config) -> Config {
        let _ = part;
        node.clone()
    }

    /// Returns the ports to tiers in other processes.
    fn tier_ports(&self) -> TierPorts<'_> {
        TierPorts::default()
    }

    /// Returns whether this process has front ports; otherwise another process with the switch has
    /// them.
    fn has_front_ports(&self) -> bool {
        true
    }

    /// Explains a packet. Never returns `None` for a running program.
    fn explain_packet(&self, teller: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<ExplainedPacket>;

    /// Returns the packet as it reaches the flow cache; `None` if it does not reach one in this
    /// process.
    fn cache_input(&self, teller: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<CacheInput<'_>>;
}

impl ExplainTarget for ProgramState {
    fn program_states(&self) -> Vec<&ProgramState> {
        vec![self]
    }

    fn explain_packet(&self, teller: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<ExplainedPacket> {
        let mut told = ExplainedPacket::default();
        told.verdicts = teller.explain_in_program(0, self, came, &mut told.steps)?;
        Some(told)
    }

    fn cache_input(&self, _: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<CacheInput<'_>> {
        Some(CacheInput { part: self, bytes: came.bytes.to_vec(), port: came.port })
    }
}

impl dyn ExplainTarget + '_ {
    /// Returns the version of the tables.
    pub fn tables_version(&self) -> u64 {
        self.program_states().last().map_or(0, |part| part.state.version())
    }

    /// Returns the names of the reasons that the program declares.
    pub fn reasons(&self) -> ReasonTable {
        self.program_states().first().map(|part| reason_table(&part.pipeline)).unwrap_or_default()
    }

    /// Returns whether an explainer made for `former` can be reused.
    pub(super) fn has_same_programs(&self, former: &dyn ExplainTarget) -> bool {
        let (new, old) = (self.program_states(), former.program_states());
        new.len() == old.len() && new.iter().zip(old).all(|(new, old)| Arc::ptr_eq(&new.pipeline, &old.pipeline))
    }

    /// Returns the verdicts that send the packet to tiers in other processes.
    pub(super) fn tier_handoffs(&self, outcomes: &[PacketOutcome]) -> Vec<TierHandoff> {
        let TierPorts { up, down } = self.tier_ports();
        let link = |fate: &PacketOutcome| match fate.verdict {
            Verdict::Forward { port } if down.contains(&port.0) => Some(TierLink::Lower),
            Verdict::Forward { port } if up.contains(&port.0) => Some(TierLink::Upper),
            _ => None,
        };
        let all = outcomes.iter().enumerate();
        all.filter_map(|(verdict, fate)| Some(TierHandoff { verdict, tier_link: link(fate)? })).collect()
    }
}

/// Explains packets, with one explainer for each program of an [`ExplainTarget`].
pub struct PacketExplainer(Vec<Explainer>);

impl PacketExplainer {
    /// Creates the explainers of a program. Never returns `None` for a running program.
    pub fn new(explained: &dyn ExplainTarget, settings: &Config) -> Option<PacketExplainer> {
        let parts = explained.program_states().into_iter().enumerate();
        let make = |(index, part): (usize, &ProgramState)| {
            Explainer::new(part.pipeline.clone(), explained.settings(index, settings)).ok()
        };
        parts.map(make).collect::<Option<Vec<Explainer>>>().map(PacketExplainer)
    }

    /// Explains a packet in one program, selected by its index. Appends the events to `steps`.
    pub fn explain_in_program(
        &mut self,
        index: usize,
        part: &ProgramState,
        came: PacketArrival<'_>,
        steps: &mut Vec<TraceStep>,
    ) -> Option<Vec<ExplainedVerdict>> {
        let PacketArrival { bytes, port, now, .. } = came;
        let (outputs, trace) = self.0.get_mut(index)?.explain(&part.state, &part.registers, bytes, port, now)?;
        steps.extend(trace.steps);
        Some(verdicts_of(&outputs))
    }
}

fn verdicts_of(outputs: &Outputs) -> Vec<ExplainedVerdict> {
    outputs.packets().iter().map(|out| (out.verdict, out.origin, out.bytes.clone())).collect()
}
