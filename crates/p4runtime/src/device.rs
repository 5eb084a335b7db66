//! [`Device`]: what the P4Runtime service controls.

use crate::{DigestConfig, Refusal, Translations};
use bytes::Bytes;
use entries::{Counter, Entry, Port, State, WriteBatch, WriteError};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A forwarding pipeline config, as a controller gave it.
#[derive(Clone, Debug)]
pub struct Forwarding {
    /// The pipeline of the device config, verified.
    pub pipeline: Arc<Pipeline>,
    /// The encoded `P4Info`, as received.
    pub p4info: Bytes,
    /// As received.
    pub device_config: Bytes,
    /// The controller's own number for it.
    pub cookie: Option<u64>,
}

/// What a new pipeline takes over from the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: it starts with the program's own entries (`VERIFY_AND_COMMIT`, `COMMIT`).
    Nothing,
    /// All entries and other objects that are valid for it, too (`RECONCILE_AND_COMMIT`).
    WhatFits,
}

/// What a device tells on its own.
#[derive(Clone, Debug)]
pub enum Event {
    /// A packet for the controller, with the program's `packet_in` header in front, if it has one.
    PacketIn(Bytes),
    /// A digest message: the leaves of its type.
    Digest {
        /// The digest object.
        digest: ExternId,
        /// The leaves.
        values: Vec<BigUint>,
    },
    /// An entry that was idle for its time.
    Idle {
        /// Its table.
        table: TableId,
        /// The entry.
        entry: Entry,
        /// Since when, in nanoseconds.
        idle_ns: u64,
    },
}

/// Takes events. Called on any thread, must not wait; whether the event was taken, or else it is counted as lost by the device.
pub type EventSink = Arc<dyn Fn(Event) -> bool + Send + Sync>;

/// What the service controls. Functions may take their time: they are called on threads that may wait.
pub trait Device: Send + Sync + 'static {
    /// The device's number, which each request names.
    fn id(&self) -> u64;

    /// Checks a device config, without touching what runs.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if it is none, or contradicts itself; `UNIMPLEMENTED` if the device cannot run it.
    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, Refusal>;

    /// Keeps a verified config for a later commit, also over a restart.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn save(&self, config: &Forwarding) -> Result<(), Refusal>;

    /// Runs it from now on: packets see it when this returns. A config that was saved is none that waits any more, and no digests are kept.
    ///
    /// # Errors
    /// If it cannot be run; what ran goes on as before.
    fn commit(&self, config: &Forwarding, keep: Keep) -> Result<(), Refusal>;

    /// What was saved and not yet committed.
    fn saved(&self) -> Option<Forwarding>;

    /// What runs.
    fn running(&self) -> Option<Forwarding>;

    /// Applies batches in order, each as a whole or not at all. When it returns, packets see them, and they outlive a restart.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if nothing runs; `UNAVAILABLE` if they cannot be kept. Refusals of batches are in the list.
    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, Refusal>;

    /// Keeps which digests are enabled, by their numbers in P4Info, also over a restart; for the config that runs. One that keeps nothing does nothing.
    ///
    /// # Errors
    /// `UNAVAILABLE` if they cannot be kept.
    fn keep_digests(&self, _digests: &BTreeMap<u32, DigestConfig>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The digests that were enabled when the device was started, for the config that ran then.
    fn digests(&self) -> BTreeMap<u32, DigestConfig> {
        BTreeMap::new()
    }

    /// What has been written, as of now; later writes don't change it. `None`: nothing runs.
    fn state(&self) -> Option<State>;

    /// The ports and whether each is up; `None`: nothing is known of them.
    fn ports(&self) -> Option<BTreeMap<u32, Port>> {
        None
    }

    /// How strings of the control plane are translated, as the device is configured.
    fn translations(&self) -> Translations {
        Translations::new()
    }

    /// An element of an indexed counter; `None` beyond its end.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// The direct counter of an entry.
    fn direct_counter(&self, table: TableId, entry: &Entry) -> Option<Counter>;

    /// The leaves of an element of a register; `None` beyond its end.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// How many elements a counter, meter or register has.
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// Nanoseconds since a packet hit the entry (or it was inserted); `None` if its table has no idle times.
    fn idle_for(&self, table: TableId, entry: &Entry) -> Option<u64>;

    /// Sends a packet into the pipeline as if it had come in on the CPU port; the program's `packet_out` header, if it has one, is in front.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if nothing runs or there is no CPU port; `RESOURCE_EXHAUSTED` if there is no room; `INVALID_ARGUMENT` if it is
    /// too long.
    fn packet_out(&self, bytes: Bytes) -> Result<(), Refusal>;

    /// Events go there from now on.
    fn subscribe(&self, sink: EventSink);
}
