//! What is said of a packet: as it goes to clients, one JSON document each.

use super::told::{End, Onward, Told};
use interp::Outputs;
use packet::{Origin, ReasonTable, Verdict, hex};
use serde::{Deserialize, Serialize};

/// What became of a packet, or of a copy of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdicted {
    /// It left on a port.
    Forward {
        /// The port.
        port: u32,
        /// Its bytes as hex digits.
        hex: String,
        /// How it came to be, if it is a copy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy: Option<String>,
    },
    /// It went to the controller.
    Cpu {
        /// Why.
        reason: String,
        /// Its bytes as hex digits.
        hex: String,
        /// How it came to be, if it is a copy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy: Option<String>,
    },
    /// It was dropped.
    Drop {
        /// Why.
        reason: String,
        /// How it came to be, if it is a copy.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copy: Option<String>,
    },
}

impl Verdicted {
    /// By the names of the program that it was.
    pub fn new(verdict: Verdict, origin: Origin, bytes: &[u8], reasons: &ReasonTable) -> Verdicted {
        let copy = match origin {
            Origin::Received => None,
            Origin::Multicast { group, instance } => Some(format!("replica {instance} of multicast group {group}")),
            Origin::Clone { session } => Some(format!("copy for session {session}")),
            Origin::Generated => Some("made by the engine".to_owned()),
        };
        match verdict {
            Verdict::Forward { port } => Verdicted::Forward { port: port.0, hex: hex(bytes), copy },
            Verdict::ToCpu { reason } => {
                Verdicted::Cpu { reason: reasons.cpu_name(reason).into_owned(), hex: hex(bytes), copy }
            }
            Verdict::Drop(reason) => Verdicted::Drop { reason: reasons.drop_name(reason).into_owned(), copy },
        }
    }

    /// All of one packet.
    pub fn all(outputs: &Outputs, reasons: &ReasonTable) -> Vec<Verdicted> {
        outputs.packets().iter().map(|out| Verdicted::new(out.verdict, out.origin, &out.bytes, reasons)).collect()
    }

    /// The bytes that left, as hex digits.
    pub fn hex(&self) -> Option<&str> {
        match self {
            Verdicted::Forward { hex, .. } | Verdicted::Cpu { hex, .. } => Some(hex),
            Verdicted::Drop { .. } => None,
        }
    }
}

/// In words, without the bytes.
impl std::fmt::Display for Verdicted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let copy = match self {
            Verdicted::Forward { port, hex, copy } => {
                write!(f, "sent on port {port}, {} bytes", hex.len() / 2)?;
                copy
            }
            Verdicted::Cpu { reason, copy, .. } => {
                write!(f, "to the CPU: {reason}")?;
                copy
            }
            Verdicted::Drop { reason, copy } => {
                write!(f, "dropped: {reason}")?;
                copy
            }
        };
        copy.as_ref().map_or(Ok(()), |copy| write!(f, " ({copy})"))
    }
}

/// A packet as it came in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Arrived {
    /// The port.
    pub port: u32,
    /// Its length.
    pub bytes: usize,
    /// Its bytes as hex digits.
    pub hex: String,
    /// When, in nanoseconds since the Unix epoch; of a packet that did not come, the time for which it is explained.
    pub at_ns: u64,
}

impl Arrived {
    /// From the bytes themselves.
    pub fn new(bytes: &[u8], port: u32, at_ns: u64) -> Arrived {
        Arrived { port, bytes: bytes.len(), hex: hex(bytes), at_ns }
    }
}

/// What a packet would do, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// Step by step.
    pub steps: Vec<interp::Step>,
    /// What becomes of it.
    pub verdicts: Vec<Verdicted>,
    /// The version of the tables: it grows with each write.
    pub tables_version: u64,
    /// Those of the verdicts that lead to other tiers elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub onward: Vec<Onward>,
}

impl Explanation {
    /// Of what an explainer says.
    pub(super) fn new(told: Told, reasons: &ReasonTable, tables_version: u64) -> Explanation {
        let Told { steps, ends, onward } = told;
        let named = |(verdict, origin, bytes): &End| Verdicted::new(*verdict, *origin, bytes, reasons);
        Explanation { steps, verdicts: ends.iter().map(named).collect(), tables_version, onward }
    }
}

/// Of a packet that came: what became of it, and why.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Traced {
    /// Its place in this trace, the first being 1.
    pub number: u64,
    /// The packet.
    pub packet: Arrived,
    /// The worker that had it.
    pub worker: usize,
    /// By which other processes know it again; 0: it has none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub mark: u16,
    /// What the engine says of what it did, if it does: a flow cache, of a packet with a mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
    /// What really became of it.
    pub became: Vec<Verdicted>,
    /// What of that went to tiers in other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub onward: Vec<Onward>,
    /// Copies of it beyond those.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// How long after it the tables were looked at, in nanoseconds.
    pub later_ns: u64,
    /// Why there is no explanation, or why it says something else than what became of the packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// What the tables say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

fn is_none(mark: &u16) -> bool {
    *mark == 0
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}
