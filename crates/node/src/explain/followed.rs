//! What a process did with a packet that another one has given a mark: its part of the packet's story.

use super::answer::{Arrived, Explanation, Verdicted};
use super::live::compared;
use super::marked::{Came, Record, Spent};
use super::tap::Fate;
use super::told::{Arrival, Explained, Onward, Teller};
use crate::device::Node;
use packet::ReasonTable;
use serde::{Deserialize, Serialize};

/// From where a packet came to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameFrom {
    /// By a front port: the process that gave the mark. Its trace has the packet.
    Front,
    /// From the switch.
    Above,
    /// Back from the tiers below.
    Below,
}

/// The time in one tier's engine, which a packet shares with others of its batch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InTier {
    /// `switch`, `dpu, cpu`, or `cpu`.
    pub tier: String,
    /// Its engine.
    pub engine: String,
    /// When it began, in nanoseconds since the Unix epoch by this machine's clock.
    pub began_ns: u64,
    /// When it had done.
    pub done_ns: u64,
    /// What it says of the packet, if it does: a flow cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub told: Option<String>,
}

impl From<&Spent> for InTier {
    fn from(spent: &Spent) -> InTier {
        let Spent { lower, engine, began, done, told } = spent;
        let tier = match (lower, &**engine) {
            (false, _) => "switch",
            (true, "flowcache") => "dpu, cpu",
            (true, _) => "cpu",
        };
        InTier { tier: tier.to_owned(), engine: engine.clone(), began_ns: *began, done_ns: *done, told: told.clone() }
    }
}

/// What a process did with a packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FollowedPart {
    /// Its mark.
    pub mark: u16,
    /// From where it came.
    pub came: CameFrom,
    /// The packet as it came, with its bridge header; without bytes if it came by a front port.
    pub packet: Arrived,
    /// Its tiers' times.
    pub tiers: Vec<InTier>,
    /// What became of it; of a packet from a front port without its bytes.
    pub became: Vec<Verdicted>,
    /// What of that went to tiers in other processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub onward: Vec<Onward>,
    /// Copies of it beyond those.
    #[serde(default)]
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

impl Node {
    /// What this process did with packets that have that mark, the oldest first; it remembers a few hundred, for a minute. Marks are given by [`Node::trace`] of the
    /// process with the switch; one is given again after some thousand others, so whoever asks compares the packet's bytes, too.
    pub fn followed(&self, mark: u16) -> Vec<FollowedPart> {
        let records = {
            let inner = self.inner();
            inner.current.as_ref().map(|current| current.engine.followed(mark)).unwrap_or_default()
        };
        let Some(present) = (!records.is_empty()).then(|| self.present()).flatten() else { return Vec::new() };
        let explained = &*present.explained;
        let reasons = explained.reasons();
        // Of those that came by a front port nothing is explained here.
        let explains = records.iter().any(|record| record.came != Came::Front);
        let mut teller = explains.then(|| Teller::new(explained, &self.settings)).flatten();
        records.iter().map(|record| part(record, explained, &reasons, teller.as_mut())).collect()
    }
}

fn part(
    record: &Record,
    explained: &dyn Explained,
    reasons: &ReasonTable,
    teller: Option<&mut Teller>,
) -> FollowedPart {
    let Record { mark, came, bytes, port, at, spent, fates, more } = record;
    let verdict = |fate: &Fate| Verdicted::new(fate.verdict, fate.origin, &fate.bytes, reasons);
    let mut part = FollowedPart {
        mark: *mark,
        came: match came {
            Came::Front => CameFrom::Front,
            Came::Above => CameFrom::Above,
            Came::Below => CameFrom::Below,
        },
        packet: Arrived::new(bytes, *port, *at),
        tiers: spent.iter().map(InTier::from).collect(),
        became: fates.iter().map(verdict).collect(),
        onward: explained.onward(fates),
        more: *more,
        later_ns: io::now().saturating_sub(*at),
        differs: None,
        explanation: None,
    };
    if part.came == CameFrom::Front {
        return part;
    }
    let came = Arrival { bytes, port: *port, now: *at, mark: *mark };
    let told = teller.and_then(|teller| explained.tell(teller, came));
    let became = (&part.became[..], part.more);
    (part.explanation, part.differs) = compared(told, (explained, reasons), became, part.later_ns);
    part
}

/// By which clocks are known to be the same: the kernel's name for this boot of the machine.
pub fn machine() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}
