//! The messages of a take-over. The first of each side is JSON, in which other versions may have more; the rest is in postcard's form, in which
//! variants and fields keep their places: what a later version of the protocol has more comes after them.

use crate::levels::Levels;
use crate::observe::tallied::Tallied;
use crate::record::{Number, big, number};
use crate::store::KeptConfig;
use crate::{Counts, PortCounts};
use entries::WriteBatch;
use interp::DigestMessage;
use ir::ExternId;
use p4runtime::DigestConfig;
use p4runtime::server::{DigestForm, HeldForm, WaitingForm};
use packet::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

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
    /// Protocol 2. What packets and time have left in meters and entries: after all batches.
    Levels(Levels),
    /// Protocol 2. A batch that waits for `COMMIT`, encoded as in the store.
    Waiting(Vec<u8>),
    /// Protocol 2. What the server of the giver held, beside the batches that wait.
    Held(Belongings),
    /// Protocol 3. The numbers of a region's VPCs and the like, encoded.
    Numbers(Vec<u8>),
}

/// A digest's configuration: the longest that a message waits (ns), most messages of a list, how long an acknowledgement is waited for (ns).
type DigestSettings = (u64, u32, u64);

/// [`HeldForm`], and digest messages that the server was not told of.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Belongings {
    lists: u64,
    digests: Vec<BelongingDigest>,
    /// Digests of what waits for `COMMIT`, if that is known.
    waiting: Option<Vec<(u32, DigestSettings)>>,
    /// Digest object, and the leaves of the message.
    untold: Vec<(u32, Vec<Number>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BelongingDigest {
    number: u32,
    settings: DigestSettings,
    messages: Vec<Vec<u8>>,
    waited_ns: u64,
}

fn settings(config: &DigestConfig) -> DigestSettings {
    (config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)
}

fn config((max_timeout_ns, max_list_size, ack_timeout_ns): DigestSettings) -> DigestConfig {
    DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns }
}

impl Belongings {
    pub fn of(form: HeldForm, untold: &[DigestMessage]) -> Belongings {
        let digest = |digest: DigestForm| BelongingDigest {
            number: digest.number,
            settings: settings(&digest.config),
            messages: digest.messages,
            waited_ns: u64::try_from(digest.waited.as_nanos()).unwrap_or(u64::MAX),
        };
        let waiting = |form: WaitingForm| form.digests.iter().map(|(id, config)| (*id, settings(config))).collect();
        let leaves = |message: &DigestMessage| (message.digest.0, message.values.iter().map(number).collect());
        Belongings {
            lists: form.lists,
            digests: form.digests.into_iter().map(digest).collect(),
            waiting: form.waiting.map(waiting),
            untold: untold.iter().map(leaves).collect(),
        }
    }

    /// With the batches that wait for `COMMIT`.
    pub fn form(self, batches: Vec<WriteBatch>) -> (HeldForm, Vec<DigestMessage>) {
        let digest = |digest: BelongingDigest| DigestForm {
            number: digest.number,
            config: config(digest.settings),
            messages: digest.messages,
            waited: Duration::from_nanos(digest.waited_ns),
        };
        let waiting = |digests: Vec<(u32, DigestSettings)>| WaitingForm {
            digests: digests.into_iter().map(|(id, settings)| (id, config(settings))).collect(),
            batches: Arc::new(batches),
        };
        let leaves = |(digest, values): (u32, Vec<Number>)| DigestMessage {
            digest: ExternId(digest),
            values: values.into_iter().map(big).collect(),
        };
        let (digests, untold) = (self.digests.into_iter().map(digest), self.untold.into_iter().map(leaves));
        let form = HeldForm { lists: self.lists, digests: digests.collect(), waiting: self.waiting.map(waiting) };
        (form, untold.collect())
    }
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
    received: Counter,
    forwarded: Counter,
    to_cpu: BTreeMap<String, Counter>,
    drops: BTreeMap<String, Counter>,
    batches: u64,
    /// Ports that are not there any more.
    gone: Vec<Gone>,
}

/// What a port counted that has left.
#[derive(Debug, Serialize, Deserialize)]
struct Gone {
    number: u32,
    name: String,
    received: Counter,
    sent: Counter,
    drops: BTreeMap<String, Counter>,
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
            received: port.received,
            sent: port.sent,
            drops: named(&port.drops),
        });
        CountsForm {
            received: sum.received,
            forwarded: sum.forwarded,
            to_cpu: named(&sum.to_cpu),
            drops: named(&sum.drops),
            batches: sum.batches,
            gone: gone.collect(),
        }
    }

    pub fn counts(self) -> Counts {
        let port = |gone: Gone| {
            let (received, sent) = (gone.received, gone.sent);
            let drops = named(&gone.drops);
            (gone.number, PortCounts { name: gone.name, received, sent, drops, trouble: None })
        };
        Counts {
            received: self.received,
            forwarded: self.forwarded,
            to_cpu: named(&self.to_cpu),
            drops: named(&self.drops),
            batches: self.batches,
            ports: self.gone.into_iter().map(port).collect(),
            // Times are those of a process.
            ..Counts::default()
        }
    }
}
