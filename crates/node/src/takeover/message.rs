//! Messages of a take-over. The first message of each side is JSON, to which other versions can add
//! fields. The others use postcard's encoding, which identifies variants and fields by position:
//! later versions of the protocol only append.

use crate::dynamic_state::DynamicState;
use crate::observe::named_stats::{FlowTableCounts, NamedStats};
use crate::session_transfer::SessionBatch;
use crate::store::StoredConfig;
use crate::store_format::{NumberWords, number_to_words, words_to_number};
use crate::{PortCounts, WorkerCounts};
use entries::WriteBatch;
use interp::DigestMessage;
use ir::ExternId;
use p4runtime::DigestConfig;
use p4runtime::server::{DigestSnapshot, ServerStateSnapshot, UncommittedSnapshot};
use packet::Counter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// First message of the new process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hello {
    /// Supported protocol versions, best first.
    pub protocols: Vec<u32>,
    /// Description of the program, for the log.
    pub program: String,
    /// Device id that the new process expects.
    pub device_id: u64,
}

/// Response of the old process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Welcome {
    /// Selected protocol version; `None`: refused, see `why`.
    pub protocol: Option<u32>,
    /// Description of the program, for the log.
    pub program: String,
    /// Reason for refusing.
    pub why: Option<String>,
}

/// Messages of the old process after its welcome.
#[derive(Debug, Serialize, Deserialize)]
pub enum OldSideMessage {
    /// The old process aborts, with the reason.
    Refuses(String),
    /// The running config, and the config saved for a later commit.
    Configs { running: Option<StoredConfig>, saved: Option<StoredConfig> },
    /// A write batch, encoded as in the store.
    Batch(Vec<u8>),
    /// End of the tables.
    Tables,
    /// The store is closed, with its path.
    StoreClosed(Option<PathBuf>),
    /// A port with its descriptors. Without a description, the port cannot be handed over.
    Port { number: u32, worker: u32, name: String, description: Option<Vec<u8>> },
    /// A listening socket as a descriptor, with its address in the configuration.
    Listener(String),
    /// End of the state.
    Last(FinalState),
    /// The new process owns the ports.
    Go,
    /// Protocol 2. Dynamic state of meters and entries, sent after all batches.
    Levels(DynamicState),
    /// Protocol 2. A batch that waits for `COMMIT`, encoded as in the store.
    Waiting(Vec<u8>),
    /// Protocol 2. State of the server, without the batches that wait for `COMMIT`.
    Held(TransferredState),
    /// Protocol 3. The encoded numbers of a region's objects such as VPCs.
    Numbers(Vec<u8>),
    /// Protocol 4. The TAP on the host side of a port, as a descriptor, with its name.
    HostTap { port: u32, name: String },
    /// Protocol 5. Counts of tables to which packets add entries, by name.
    FlowTables(BTreeMap<String, FlowTableCounts>),
    /// Protocol 7. Twins of entries, and what they hold of pools and quotas, sent after all batches.
    Sessions(SessionBatch),
}

/// A digest's configuration: maximum delay of a message (ns), maximum number of messages in a list,
/// acknowledgement timeout (ns).
type DigestSettings = (u64, u32, u64);

/// State of the server ([`ServerStateSnapshot`]), and undelivered digest messages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TransferredState {
    lists: u64,
    digests: Vec<TransferredDigest>,
    /// Enabled digests of the config that waits for `COMMIT`, if any.
    waiting: Option<Vec<(u32, DigestSettings)>>,
    /// Undelivered digest messages: digest object and leaf values.
    untold: Vec<(u32, Vec<NumberWords>)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TransferredDigest {
    number: u32,
    settings: DigestSettings,
    messages: Vec<Vec<u8>>,
    waited_ns: u64,
}

fn digest_settings(config: &DigestConfig) -> DigestSettings {
    (config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)
}

fn digest_config((max_timeout_ns, max_list_size, ack_timeout_ns): DigestSettings) -> DigestConfig {
    DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns }
}

impl TransferredState {
    pub fn from_server_state(form: ServerStateSnapshot, untold: &[DigestMessage]) -> TransferredState {
        let digest = |digest: DigestSnapshot| TransferredDigest {
            number: digest.number,
            settings: digest_settings(&digest.config),
            messages: digest.messages,
            waited_ns: u64::try_from(digest.age.as_nanos()).unwrap_or(u64::MAX),
        };
        let waiting = |form: UncommittedSnapshot| {
            form.digests.iter().map(|(id, config)| (*id, digest_settings(config))).collect()
        };
        let leaves = |message: &DigestMessage| (message.digest.0, message.values.iter().map(number_to_words).collect());
        TransferredState {
            lists: form.sent_lists,
            digests: form.digests.into_iter().map(digest).collect(),
            waiting: form.uncommitted.map(waiting),
            untold: untold.iter().map(leaves).collect(),
        }
    }

    /// Converts to the server's state. `batches` wait for `COMMIT`.
    pub fn into_server_state(self, batches: Vec<WriteBatch>) -> (ServerStateSnapshot, Vec<DigestMessage>) {
        let digest = |digest: TransferredDigest| DigestSnapshot {
            number: digest.number,
            config: digest_config(digest.settings),
            messages: digest.messages,
            age: Duration::from_nanos(digest.waited_ns),
        };
        let waiting = |digests: Vec<(u32, DigestSettings)>| UncommittedSnapshot {
            digests: digests.into_iter().map(|(id, settings)| (id, digest_config(settings))).collect(),
            batches: Arc::new(batches),
        };
        let leaves = |(digest, values): (u32, Vec<NumberWords>)| DigestMessage {
            digest: ExternId(digest),
            values: values.into_iter().map(words_to_number).collect(),
        };
        let (digests, untold) = (self.digests.into_iter().map(digest), self.untold.into_iter().map(leaves));
        let form = ServerStateSnapshot {
            sent_lists: self.lists,
            digests: digests.collect(),
            uncommitted: self.waiting.map(waiting),
        };
        (form, untold.collect())
    }
}

/// Final state, after the last packet.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FinalState {
    /// Pending packets from controllers.
    pub packets: Vec<Vec<u8>>,
    /// Counts of all workers, by name.
    pub counts: TransferredCounts,
    /// Statistics of tables, actions and stages, by name.
    pub tallied: NamedStats,
}

/// Messages of the new process after its hello.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub enum NewSideMessage {
    /// The new process aborts, with the reason.
    Refuses(String),
    /// Code and tables are loaded.
    Ready,
    /// The store is open.
    StoreOpen,
    /// Everything is prepared for the hand-over.
    Prepared,
    /// The workers have the ports.
    Confirmed,
}

/// [`WorkerCounts`] without times, and without ports that are handed over with their own counters.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TransferredCounts {
    received: Counter,
    forwarded: Counter,
    to_cpu: BTreeMap<String, Counter>,
    drops: BTreeMap<String, Counter>,
    batches: u64,
    /// Ports that are not handed over.
    gone: Vec<RemovedPortCounters>,
}

/// Counters of a port that is not handed over.
#[derive(Debug, Serialize, Deserialize)]
struct RemovedPortCounters {
    number: u32,
    name: String,
    received: Counter,
    sent: Counter,
    drops: BTreeMap<String, Counter>,
}

/// Converts counters by name to or from their transferred form.
fn convert_counters<A: Copy, B: From<A>>(all: &BTreeMap<String, A>) -> BTreeMap<String, B> {
    all.iter().map(|(name, count)| (name.clone(), B::from(*count))).collect()
}

impl TransferredCounts {
    /// Converts the counts of all workers; `handed`: the ports that are handed over with their
    /// counters.
    pub fn from_worker_counts(all: &[WorkerCounts], handed: &[u32]) -> TransferredCounts {
        let sum: WorkerCounts = all.iter().sum();
        let gone = sum.ports.iter().filter(|(number, _)| !handed.contains(number));
        let gone = gone.map(|(number, port)| RemovedPortCounters {
            number: *number,
            name: port.name.clone(),
            received: port.received,
            sent: port.sent,
            drops: convert_counters(&port.drops),
        });
        TransferredCounts {
            received: sum.received,
            forwarded: sum.forwarded,
            to_cpu: convert_counters(&sum.to_cpu),
            drops: convert_counters(&sum.drops),
            batches: sum.batches,
            gone: gone.collect(),
        }
    }

    pub fn into_worker_counts(self) -> WorkerCounts {
        let port = |gone: RemovedPortCounters| {
            let (received, sent) = (gone.received, gone.sent);
            let drops = convert_counters(&gone.drops);
            (gone.number, PortCounts { name: gone.name, received, sent, drops, fault: None })
        };
        WorkerCounts {
            received: self.received,
            forwarded: self.forwarded,
            to_cpu: convert_counters(&self.to_cpu),
            drops: convert_counters(&self.drops),
            batches: self.batches,
            ports: self.gone.into_iter().map(port).collect(),
            // Times refer to one process.
            ..WorkerCounts::default()
        }
    }
}
