//! [`TiersExplainer`]: explains packets of a partitioned program across its halves.

use super::plan::with_inner_port;
use interp::Config;
use node::config::TierLink;
use node::explain::{
    CacheInput, ExplainTarget, ExplainedPacket, PacketArrival, PacketExplainer, ProgramState, TierHandoff, TierPorts,
};
use offload::partition::{HITS, PROBE, RETURNED, RestartPoints, bridge_wire};
use packet::{EngineReason, PacketOrigin, PortId, Verdict};

/// Chooses a link from a packet at arrival and its frame with the bridge header.
pub type LinkChooser = Box<dyn Fn(&[u8], &[u8]) -> Option<u32> + Send + Sync>;

/// Index of the upper half among the parts, if it is in this process.
const ABOVE: usize = 0;

const NO_BRIDGE: &str = "no valid bridge header, or one with another key, on a port to another tier";

/// Explainer of a partitioned program with a snapshot of its tables.
pub struct TiersExplainer {
    /// Upper half, if it is in this process.
    pub above: Option<ProgramState>,
    /// Lower half, if it is in this process.
    pub below: Option<ProgramState>,
    /// Key of bridge headers.
    pub key: u32,
    /// Port of the upper half to the lower tier.
    pub lower_port: u32,
    /// Length of a bridge header in bytes.
    pub bridge_bytes: usize,
    /// Ports to lower tiers in other processes.
    pub down: Vec<u32>,
    /// Ports to the switch, if it is in another process.
    pub up: Vec<u32>,
    /// Returns the down port for a packet and its bridged frame; `None`: no tier is alive.
    pub link: LinkChooser,
    /// Reasons of the cut points, by number.
    pub stops: Vec<String>,
    /// Cut points at which packets restart below.
    pub restarts: RestartPoints,
}

impl ExplainTarget for TiersExplainer {
    fn program_states(&self) -> Vec<&ProgramState> {
        self.above.iter().chain(&self.below).collect()
    }

    fn settings(&self, part: usize, node: &Config) -> Config {
        match part == ABOVE && self.above.is_some() {
            true => with_inner_port(node, self.lower_port),
            false => node.clone(),
        }
    }

    fn tier_ports(&self) -> TierPorts<'_> {
        TierPorts { up: &self.up, down: &self.down }
    }

    fn has_front_ports(&self) -> bool {
        self.above.is_some()
    }

    fn explain_packet(&self, teller: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<ExplainedPacket> {
        match &self.above {
            _ if self.up.contains(&came.port) => self.tell_from_switch(teller, came),
            _ if self.down.contains(&came.port) => self.tell_from_below(teller, came),
            _ if bridge_wire::is_bridged(came.bytes, self.key) => Some(explain_drop(
                "a bridge header on a front port, with this switch's key",
                EngineReason::UnexpectedBridgeHeader,
            )),
            Some(above) => self.tell_from_front(above, teller, came),
            None => {
                let what = "the switch is in another process, and this is no port to it";
                Some(explain_drop(what, EngineReason::LowerTierDown))
            }
        }
    }

    fn cache_input(&self, teller: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<CacheInput<'_>> {
        let part = self.below.as_ref()?;
        if self.up.contains(&came.port) {
            let header = bridge_wire::read_header(came.bytes, self.key)?;
            let (bytes, port) = self.lower_input(came.bytes, header);
            return Some(CacheInput { part, bytes: bytes.to_vec(), port });
        }
        let first = teller.explain_in_program(ABOVE, self.above.as_ref()?, came, &mut Vec::new())?;
        let stamped = |(verdict, _, mut frame): (Verdict, PacketOrigin, Vec<u8>)| {
            self.stamped(came, verdict, &mut frame).map(|header| (header, frame))
        };
        let (header, frame) = first.into_iter().find_map(stamped)?;
        let (bytes, port) = self.lower_input(&frame, header);
        Some(CacheInput { part, bytes: bytes.to_vec(), port })
    }
}

impl TiersExplainer {
    fn below_index(&self) -> usize {
        usize::from(self.above.is_some())
    }

    /// Returns the reason of a cut point.
    fn cut_point_reason(&self, number: u8) -> &str {
        self.stops.get(usize::from(number)).map_or("a cut point", String::as_str)
    }

    /// Returns what the lower half gets of a frame with a bridge header, and the ingress port. A packet
    /// that restarts has no bridge header, and its own port.
    fn lower_input<'f>(&self, frame: &'f [u8], header: bridge_wire::BridgeFields) -> (&'f [u8], u32) {
        match frame.get(self.bridge_bytes..).filter(|_| self.restarts.contains(header.cut_point)) {
            Some(packet) => (packet, header.port),
            None => (frame, self.lower_port),
        }
    }

    /// Completes the bridge header of a frame that the upper half sends down.
    fn stamped(
        &self,
        came: PacketArrival<'_>,
        verdict: Verdict,
        frame: &mut [u8],
    ) -> Option<bridge_wire::BridgeFields> {
        let length = u16::try_from(came.bytes.len()).unwrap_or(0);
        match verdict {
            Verdict::Forward { port: PortId(to) } if to == self.lower_port => {
                bridge_wire::complete_header(frame, self.key, came.port, length, came.trace_id)
            }
            _ => None,
        }
    }

    /// Explains a packet from a port: through the upper half, and where it goes down, through the
    /// lower half or to a link. `None` if a half cannot explain packets.
    fn tell_from_front(
        &self,
        above: &ProgramState,
        explainer: &mut PacketExplainer,
        arrival: PacketArrival<'_>,
    ) -> Option<ExplainedPacket> {
        let mut explanation = start_explanation("tier switch: the upper half of the program");
        let first = explainer.explain_in_program(ABOVE, above, arrival, &mut explanation.steps)?;
        for (verdict, origin, mut frame) in first {
            let Some(header) = self.stamped(arrival, verdict, &mut frame) else {
                explanation.verdicts.push((verdict, origin, frame));
                continue;
            };
            explanation.add_step(format!(
                "tier switch: down at cut point {}, {}; with a bridge header, {} bytes in all",
                header.cut_point,
                self.cut_point_reason(header.cut_point),
                frame.len()
            ));
            match (&self.below, (self.link)(arrival.bytes, &frame)) {
                (_, Some(port)) => {
                    explanation.add_step(format!("the tiers below are in another process, behind port {port}"));
                    explanation
                        .tier_handoffs
                        .push(TierHandoff { verdict: explanation.verdicts.len(), tier_link: TierLink::Lower });
                    explanation.verdicts.push((Verdict::Forward { port: PortId(port) }, origin, frame));
                }
                (Some(below), None) => {
                    let (bytes, port) = self.lower_input(&frame, header);
                    let arrival = PacketArrival { bytes, port, ..arrival };
                    self.tell_here(below, explainer, arrival, origin, &mut explanation)?;
                }
                (None, None) => {
                    explanation.add_step("no tier below answers");
                    explanation.verdicts.push((Verdict::Drop(EngineReason::LowerTierDown.into()), origin, Vec::new()));
                }
            }
        }
        Some(explanation)
    }

    /// Explains the lower half in this process.
    fn tell_here(
        &self,
        below: &ProgramState,
        teller: &mut PacketExplainer,
        came: PacketArrival<'_>,
        origin: PacketOrigin,
        told: &mut ExplainedPacket,
    ) -> Option<()> {
        told.add_step(match came.port == self.lower_port {
            true => "tiers dpu and cpu: the lower half of the program",
            false => "tiers dpu and cpu: the whole program, with the packet as it arrived",
        });
        for (verdict, of, bytes) in teller.explain_in_program(self.below_index(), below, came, &mut told.steps)? {
            if let Verdict::Forward { port } = verdict {
                told.add_step(format!("tier switch: back in a bridge header, and out on {port}"));
            }
            told.verdicts.push((verdict, if of == PacketOrigin::Received { origin } else { of }, bytes));
        }
        Some(())
    }

    /// Explains a packet that returns over a link.
    fn tell_from_below(&self, teller: &mut PacketExplainer, came: PacketArrival<'_>) -> Option<ExplainedPacket> {
        let above = self.above.as_ref()?;
        let header = match bridge_wire::read_header(came.bytes, self.key) {
            Some(header) if header.cut_point == RETURNED => header,
            Some(header) if matches!(header.cut_point, PROBE | HITS) => {
                let what = "no packet: a probe answer or hit report of a lower tier";
                return Some(explain_drop(what, EngineReason::TierProbeReply));
            }
            _ => return Some(explain_drop(NO_BRIDGE, EngineReason::MissingBridgeHeader)),
        };
        let mut told =
            start_explanation(format!("tier switch: back from the tiers below, to leave on port {}", header.port));
        let came = PacketArrival { port: self.lower_port, ..came };
        told.verdicts = teller.explain_in_program(ABOVE, above, came, &mut told.steps)?;
        Some(told)
    }

    /// Explains a packet from a switch in another process. `None` if there is no lower half, or it
    /// cannot explain packets.
    fn tell_from_switch(&self, explainer: &mut PacketExplainer, arrival: PacketArrival<'_>) -> Option<ExplainedPacket> {
        let below = self.below.as_ref()?;
        let header = match bridge_wire::read_header(arrival.bytes, self.key) {
            Some(header) if header.cut_point < HITS => header,
            Some(header) if header.cut_point == PROBE => {
                let text = "no packet: a liveness probe of the switch";
                let verdict = Verdict::Forward { port: PortId(arrival.port) };
                let verdicts = vec![(verdict, PacketOrigin::Received, arrival.bytes.to_vec())];
                return Some(ExplainedPacket { verdicts, ..start_explanation(text) });
            }
            _ => return Some(explain_drop(NO_BRIDGE, EngineReason::MissingBridgeHeader)),
        };
        let mut explanation = ExplainedPacket::default();
        explanation.add_step(format!(
            "tiers dpu and cpu: from the switch at stop {}, {}; it came there on port {}",
            header.cut_point,
            self.cut_point_reason(header.cut_point),
            header.port
        ));
        let (bytes, port) = self.lower_input(arrival.bytes, header);
        let entered = PacketArrival { bytes, port, ..arrival };
        for (verdict, origin, frame) in
            explainer.explain_in_program(self.below_index(), below, entered, &mut explanation.steps)?
        {
            let Verdict::Forward { port } = verdict else {
                explanation.verdicts.push((verdict, origin, frame));
                continue;
            };
            explanation.add_step(format!("back to the switch in a bridge header, to leave on {port}"));
            let mut bytes = vec![0; self.bridge_bytes];
            bridge_wire::write_return_header(&mut bytes, self.key, port.0, header.trace_id);
            bytes.extend_from_slice(&frame);
            explanation
                .tier_handoffs
                .push(TierHandoff { verdict: explanation.verdicts.len(), tier_link: TierLink::Upper });
            explanation.verdicts.push((Verdict::Forward { port: PortId(arrival.port) }, origin, bytes));
        }
        Some(explanation)
    }
}

/// Starts an explanation with a step outside of a program.
fn start_explanation(what: impl Into<String>) -> ExplainedPacket {
    let mut told = ExplainedPacket::default();
    told.add_step(what);
    told
}

/// Explains a drop before the program.
fn explain_drop(what: &str, reason: EngineReason) -> ExplainedPacket {
    let ends = vec![(Verdict::Drop(reason.into()), PacketOrigin::Received, Vec::new())];
    ExplainedPacket { verdicts: ends, ..start_explanation(what) }
}
