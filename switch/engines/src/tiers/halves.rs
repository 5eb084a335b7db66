//! [`Halves`]: explains packets of a program that is divided among tiers, and follows them from one half to the other.

use super::plan::with_port;
use interp::Config;
use node::config::Leads;
use node::explain::{Arrival, CacheInput, Explained, Onward, Part, Teller, TierPorts, Told};
use offload::cut::{BACK, HELLO, HITS, wire};
use packet::{EngineReason, Origin, PortId, Verdict};

/// Chooses among links: a packet as it came, and the frame with its bridge header.
pub type Link = Box<dyn Fn(&[u8], &[u8]) -> Option<u32> + Send + Sync>;

/// The upper half's index among the parts, if it is in this process.
const ABOVE: usize = 0;

const NO_BRIDGE: &str = "no bridge header that belongs here, or one with another key, on a port to another tier";

/// A program that is divided among tiers, with its tables at one moment.
pub struct Halves {
    /// The upper half, if it is in this process.
    pub above: Option<Part>,
    /// The lower half, if it is in this process.
    pub below: Option<Part>,
    /// The key of bridge headers.
    pub key: u32,
    /// The upper half's port that leads down.
    pub down_port: u32,
    /// Bytes of a bridge header.
    pub bridge: usize,
    /// Ports to tiers below in other processes.
    pub down: Vec<u32>,
    /// Ports to the switch, if that is in another process.
    pub up: Vec<u32>,
    /// Over which of the ports that lead down a packet, and what is sent of it, would go now; `None`: no tier answers there.
    pub link: Link,
    /// Why packets stop, by number.
    pub stops: Vec<String>,
}

impl Explained for Halves {
    fn parts(&self) -> Vec<&Part> {
        self.above.iter().chain(&self.below).collect()
    }

    fn settings(&self, part: usize, node: &Config) -> Config {
        match part == ABOVE && self.above.is_some() {
            true => with_port(node, self.down_port),
            false => node.clone(),
        }
    }

    fn tier_ports(&self) -> TierPorts<'_> {
        TierPorts { up: &self.up, down: &self.down }
    }

    fn has_front_ports(&self) -> bool {
        self.above.is_some()
    }

    fn tell(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<Told> {
        match &self.above {
            _ if self.up.contains(&came.port) => self.tell_from_switch(teller, came),
            _ if self.down.contains(&came.port) => self.tell_from_below(teller, came),
            _ if wire::is_bridged(came.bytes, self.key) => {
                Some(refused("a bridge header on a front port, with this switch's key", EngineReason::ForgedBridge))
            }
            Some(above) => self.tell_from_front(above, teller, came),
            None => {
                let what = "the switch is in another process, and this is no port to it";
                Some(refused(what, EngineReason::TierDown))
            }
        }
    }

    fn cache_input(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<CacheInput<'_>> {
        let part = self.below.as_ref()?;
        if self.up.contains(&came.port) {
            return Some(CacheInput { part, bytes: came.bytes.to_vec(), port: came.port });
        }
        let first = teller.run(ABOVE, self.above.as_ref()?, came, &mut Vec::new())?;
        let bytes = first
            .into_iter()
            .find_map(|(verdict, _, mut frame)| self.stamped(came, verdict, &mut frame).map(|_| frame))?;
        Some(CacheInput { part, bytes, port: self.down_port })
    }
}

impl Halves {
    fn below_index(&self) -> usize {
        usize::from(self.above.is_some())
    }

    /// Why packets stop there.
    fn stop(&self, number: u8) -> &str {
        self.stops.get(usize::from(number)).map_or("a stop", String::as_str)
    }

    /// Fills in the bridge header of a frame, if the upper half sends it down.
    fn stamped(&self, came: Arrival<'_>, verdict: Verdict, frame: &mut [u8]) -> Option<wire::Told> {
        let length = u16::try_from(came.bytes.len()).unwrap_or(0);
        match verdict {
            Verdict::Forward { port: PortId(to) } if to == self.down_port => {
                wire::stamp(frame, self.key, came.port, length, came.mark)
            }
            _ => None,
        }
    }

    fn tell_from_front(&self, above: &Part, teller: &mut Teller, came: Arrival<'_>) -> Option<Told> {
        let mut told = said("tier switch: the upper half of the program");
        let first = teller.run(ABOVE, above, came, &mut told.steps)?;
        for (verdict, origin, mut frame) in first {
            let Some(stamped) = self.stamped(came, verdict, &mut frame) else {
                told.ends.push((verdict, origin, frame));
                continue;
            };
            told.say(format!(
                "tier switch: down at stop {}, {}; a bridge header in front, {} bytes in all",
                stamped.stop,
                self.stop(stamped.stop),
                frame.len()
            ));
            match (&self.below, (self.link)(came.bytes, &frame)) {
                (_, Some(port)) => {
                    told.say(format!("the tiers below are in another process, behind port {port}"));
                    told.onward.push(Onward { verdict: told.ends.len(), leads: Leads::Down });
                    told.ends.push((Verdict::Forward { port: PortId(port) }, origin, frame));
                }
                (Some(below), None) => {
                    self.tell_here(below, teller, Arrival { bytes: &frame, ..came }, origin, &mut told)?
                }
                (None, None) => {
                    told.say("no tier below answers");
                    told.ends.push((Verdict::Drop(EngineReason::TierDown.into()), origin, Vec::new()));
                }
            }
        }
        Some(told)
    }

    /// The lower half is in this process, too.
    fn tell_here(
        &self,
        below: &Part,
        teller: &mut Teller,
        came: Arrival<'_>,
        origin: Origin,
        told: &mut Told,
    ) -> Option<()> {
        told.say("tiers dpu and cpu: the lower half of the program");
        let came = Arrival { port: self.down_port, ..came };
        for (verdict, of, bytes) in teller.run(self.below_index(), below, came, &mut told.steps)? {
            if let Verdict::Forward { port } = verdict {
                told.say(format!("tier switch: back in a bridge header, and out on {port}"));
            }
            told.ends.push((verdict, if of == Origin::Received { origin } else { of }, bytes));
        }
        Some(())
    }

    /// The packet comes back over a link.
    fn tell_from_below(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<Told> {
        let above = self.above.as_ref()?;
        let header = match wire::read(came.bytes, self.key) {
            Some(header) if header.stop == BACK => header,
            Some(header) if matches!(header.stop, HELLO | HITS) => {
                let what = "no packet: a tier below answers, or says what was hit there";
                return Some(refused(what, EngineReason::TierAnswer));
            }
            _ => return Some(refused(NO_BRIDGE, EngineReason::NotBridged)),
        };
        let mut told = said(format!("tier switch: back from the tiers below, to leave on port {}", header.port));
        let came = Arrival { port: self.down_port, ..came };
        told.ends = teller.run(ABOVE, above, came, &mut told.steps)?;
        Some(told)
    }

    /// The switch is in another process, and the packet came from there.
    fn tell_from_switch(&self, teller: &mut Teller, came: Arrival<'_>) -> Option<Told> {
        let below = self.below.as_ref()?;
        let header = match wire::read(came.bytes, self.key) {
            Some(header) if header.stop < HITS => header,
            Some(header) if header.stop == HELLO => {
                let what = "no packet: the switch asks whether this tier is there";
                let verdict = Verdict::Forward { port: PortId(came.port) };
                let ends = vec![(verdict, Origin::Received, came.bytes.to_vec())];
                return Some(Told { ends, ..said(what) });
            }
            _ => return Some(refused(NO_BRIDGE, EngineReason::NotBridged)),
        };
        let mut told = Told::default();
        told.say(format!(
            "tiers dpu and cpu: from the switch at stop {}, {}; it came there on port {}",
            header.stop,
            self.stop(header.stop),
            header.port
        ));
        for (verdict, origin, frame) in teller.run(self.below_index(), below, came, &mut told.steps)? {
            let Verdict::Forward { port: to } = verdict else {
                told.ends.push((verdict, origin, frame));
                continue;
            };
            told.say(format!("back to the switch in a bridge header, to leave on {to}"));
            let mut bytes = vec![0; self.bridge];
            wire::back(&mut bytes, self.key, to.0, header.mark);
            bytes.extend_from_slice(&frame);
            told.onward.push(Onward { verdict: told.ends.len(), leads: Leads::Up });
            told.ends.push((Verdict::Forward { port: PortId(came.port) }, origin, bytes));
        }
        Some(told)
    }
}

/// It begins with a step that is no part of a program.
fn said(what: impl Into<String>) -> Told {
    let mut told = Told::default();
    told.say(what);
    told
}

/// It is dropped before the program sees it.
fn refused(what: &str, reason: EngineReason) -> Told {
    let ends = vec![(Verdict::Drop(reason.into()), Origin::Received, Vec::new())];
    Told { ends, ..said(what) }
}
