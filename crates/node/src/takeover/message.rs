//! The messages of a take-over. The first of each side is JSON, in which other versions may have more; the rest is protocol 1, in postcard's form, in
//! which variants and fields keep their places.

use crate::observe::tallied::Tallied;
use crate::status::Count;
use crate::store::KeptConfig;
use crate::{Counts, PortCounts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The taker's first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Versions of the protocol that it speaks, best first.
    pub protocols: Vec<u32>,
    /// Which program it is, for people.
    pub program: String,
    /// The device that it expects.
    pub device_id: u64,
}

/// The giver's answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that both speak from now on; `None`: it refuses, and `why`.
    pub protocol: Option<u32>,
    /// Which program it is, for people.
    pub program: String,
    /// Why it refuses.
    pub why: Option<String>,
}

/// From the giver, after its welcome.
#[derive(Debug, Serialize, Deserialize)]
pub enum FromGiver {
    /// It does not go on with this: why.
    Refuses(String),
    /// What runs, and what was saved for a later commit.
    Configs { running: Option<KeptConfig>, saved: Option<KeptConfig> },
    /// A write batch, encoded as in the store.
    Batch(Vec<u8>),
    /// These were the tables.
    Tables,
    /// Its store is closed: where it was.
    StoreClosed(Option<PathBuf>),
    /// A port, with its descriptors; without a description: one that cannot be handed over.
    Port { number: u32, worker: u32, name: String, description: Option<Vec<u8>> },
    /// A listening socket, its descriptor, and the address by which its configuration called it.
    Listener(String),
    /// That was all.
    Last(Last),
    /// The ports are the taker's.
    Go,
}

/// What is known when nothing is in flight any more.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Last {
    /// Packets of controllers' that wait to go in.
    pub packets: Vec<Vec<u8>>,
    /// What all workers counted, by name.
    pub counts: CountsForm,
    /// What tables, actions and stages did, by name.
    pub tallied: Tallied,
}

/// From the taker, after its hello.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub enum FromTaker {
    /// It does not go on with this: why.
    Refuses(String),
    /// It has code and tables.
    Ready,
    /// It has opened its store.
    StoreOpen,
    /// All that is missing is the giver's word.
    Prepared,
    /// Its workers have the ports.
    Confirmed,
}

/// [`Counts`], without times and ports: ports bring their own.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct CountsForm {
    received: Count,
    forwarded: Count,
    to_cpu: BTreeMap<String, Count>,
    drops: BTreeMap<String, Count>,
    batches: u64,
    /// Ports that are not there any more.
    gone: Vec<Gone>,
}

/// What a port counted that has left.
#[derive(Debug, Serialize, Deserialize)]
struct Gone {
    number: u32,
    name: String,
    received: Count,
    sent: Count,
    drops: BTreeMap<String, Count>,
}

/// From counters to what can be sent, or back.
fn named<A: Copy, B: From<A>>(all: &BTreeMap<String, A>) -> BTreeMap<String, B> {
    all.iter().map(|(name, count)| (name.clone(), B::from(*count))).collect()
}

impl CountsForm {
    /// What all workers counted; `handed`: the ports that go over with their counters.
    pub fn of(all: &[Counts], handed: &[u32]) -> CountsForm {
        let sum: Counts = all.iter().sum();
        let gone = sum.ports.iter().filter(|(number, _)| !handed.contains(number));
        let gone = gone.map(|(number, port)| Gone {
            number: *number,
            name: port.name.clone(),
            received: port.received.into(),
            sent: port.sent.into(),
            drops: named(&port.drops),
        });
        CountsForm {
            received: sum.received.into(),
            forwarded: sum.forwarded.into(),
            to_cpu: named(&sum.to_cpu),
            drops: named(&sum.drops),
            batches: sum.batches,
            gone: gone.collect(),
        }
    }

    pub fn counts(self) -> Counts {
        let port = |gone: Gone| {
            let (received, sent) = (gone.received.into(), gone.sent.into());
            let drops = named(&gone.drops);
            (gone.number, PortCounts { name: gone.name, received, sent, drops, trouble: None })
        };
        Counts {
            received: self.received.into(),
            forwarded: self.forwarded.into(),
            to_cpu: named(&self.to_cpu),
            drops: named(&self.drops),
            batches: self.batches,
            ports: self.gone.into_iter().map(port).collect(),
            // Times are those of a process.
            ..Counts::default()
        }
    }
}
