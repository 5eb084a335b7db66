//! [`Device`]: the device that the P4Runtime service controls.

use crate::{DigestConfig, P4RuntimeError, Translations};
use bytes::Bytes;
use entries::{ControlState, Counter, DevicePort, StoredEntry, WriteBatch, WriteError};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Forwarding pipeline config, as set by a controller.
#[derive(Clone, Debug)]
pub struct PipelineConfig {
    /// Verified pipeline of the device config.
    pub pipeline: Arc<Pipeline>,
    /// Encoded `P4Info`, as received.
    pub p4info: Bytes,
    /// Device config, as received.
    pub device_config: Bytes,
    /// The controller's cookie.
    pub cookie: Option<u64>,
}

/// State that a new pipeline takes over from the running one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileMode {
    /// None: starts with the program's own entries (`VERIFY_AND_COMMIT`, `COMMIT`).
    Nothing,
    /// All entries and other objects that are valid for the new pipeline (`RECONCILE_AND_COMMIT`).
    ValidObjects,
}

/// Event that a device reports by itself.
#[derive(Clone, Debug)]
pub enum DeviceEvent {
    /// Packet for the controller, preceded by the program's `packet_in` header if it has one.
    PacketIn(Bytes),
    /// Digest message.
    Digest {
        /// The digest object.
        digest: ExternId,
        /// Leaves of its type.
        values: Vec<BigUint>,
    },
    /// Entry with an expired idle timeout.
    Idle {
        /// Table of the entry.
        table: TableId,
        /// The entry.
        entry: StoredEntry,
        /// Time since its last hit in nanoseconds.
        idle_ns: u64,
    },
}

/// Callback for events, called on any thread; it must not block. Returns whether the event was
/// accepted; the device counts other events as lost.
pub type EventSink = Arc<dyn Fn(DeviceEvent) -> bool + Send + Sync>;

/// Values of an entry that a read asks for and that packets change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryValues {
    /// The direct counter.
    pub counter: bool,
    /// The time since the last hit.
    pub idle: bool,
}

/// An entry with values that packets change. Values that were not asked for, or that its table does
/// not have, are `None`.
#[derive(Clone, Debug)]
pub struct DeviceEntry {
    /// The entry.
    pub entry: StoredEntry,
    /// Its direct counter.
    pub counter: Option<Counter>,
    /// Nanoseconds since its last hit, or since it was inserted.
    pub idle_ns: Option<u64>,
}

/// A read of a table that packets write, page by page. It holds no lock and no entries between two
/// pages. An entry is as of one moment, but not all of the same moment; an entry that is in the
/// table all the time is read once.
pub trait EntryPages {
    /// Returns the next page of bounded length, which can be empty; `None` behind the last.
    fn next_page(&mut self) -> Option<Vec<DeviceEntry>>;

    /// Returns the entry with this packed key.
    fn find(&self, key: &[u64]) -> Option<DeviceEntry>;
}

/// Interface of a device to the service. Functions can block, because they are called on threads
/// for blocking work.
pub trait Device: Send + Sync + 'static {
    /// Returns the device id, which each request contains.
    fn id(&self) -> u64;

    /// Checks a device config, without effect on the running pipeline.
    fn verify(&self, device_config: &[u8]) -> Result<Arc<Pipeline>, P4RuntimeError>;

    /// Saves a verified config for a later commit; it survives a restart.
    ///
    /// # Errors
    /// The config cannot be stored.
    fn save(&self, config: &PipelineConfig) -> Result<(), P4RuntimeError>;

    /// Starts a config. Packets are processed by it when this returns. A saved config is discarded,
    /// and all digests are disabled.
    ///
    /// # Errors
    /// The device cannot run it; the running pipeline is unchanged.
    fn commit(&self, config: &PipelineConfig, keep: ReconcileMode) -> Result<(), P4RuntimeError>;

    /// Returns the config that was saved and not yet committed.
    fn saved(&self) -> Option<PipelineConfig>;

    /// Returns the running config.
    fn running(&self) -> Option<PipelineConfig>;

    /// Applies batches in order, each atomically. When this returns, packets see them, and they
    /// survive a restart.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if no pipeline runs; `UNAVAILABLE` if the batches cannot be stored.
    /// Errors of single batches are in the list.
    fn write(&self, batches: &[WriteBatch]) -> Result<Vec<Result<(), WriteError>>, P4RuntimeError>;

    /// Stores the enabled digests of the running config by P4Info id; they survive a restart. The
    /// default implementation, for a device without storage, does nothing.
    ///
    /// # Errors
    /// `UNAVAILABLE` if they cannot be stored.
    fn keep_digests(&self, _digests: &BTreeMap<u32, DigestConfig>) -> Result<(), P4RuntimeError> {
        Ok(())
    }

    /// Returns the digests that were enabled for the running config when the device was started.
    fn digests(&self) -> BTreeMap<u32, DigestConfig> {
        BTreeMap::new()
    }

    /// Returns a snapshot of the written state, unaffected by later writes. `None`: no pipeline
    /// runs.
    fn state(&self) -> Option<ControlState>;

    /// Begins to read a table that packets write, with these values. `None`: its entries are those of
    /// [`Device::state`], or another pipeline runs by now.
    fn entry_pages(
        &self,
        _pipeline: &Arc<Pipeline>,
        _table: TableId,
        _values: EntryValues,
    ) -> Option<Box<dyn EntryPages>> {
        None
    }

    /// Returns the ports and whether each is up; `None`: unknown.
    fn ports(&self) -> Option<BTreeMap<u32, DevicePort>> {
        None
    }

    /// Returns the configured translations of the control plane's strings.
    fn translations(&self) -> Translations {
        Translations::new()
    }

    /// Returns an element of an indexed counter; `None` beyond its end.
    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter>;

    /// Returns the direct counter of an entry.
    fn direct_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter>;

    /// Returns the leaves of an element of a register; `None` beyond its end.
    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>>;

    /// Returns the number of elements of a counter, meter or register.
    fn array_len(&self, object: ExternId) -> Option<u64>;

    /// Returns the nanoseconds since a packet hit the entry or it was inserted; `None` if its table
    /// has no idle timeouts.
    fn idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64>;

    /// Sends a packet into the pipeline as if received on the CPU port. It starts with the
    /// program's `packet_out` header, if it has one.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if no pipeline runs or there is no CPU port; `RESOURCE_EXHAUSTED` if
    /// the queue is full; `INVALID_ARGUMENT` if the packet is too long.
    fn packet_out(&self, bytes: Bytes) -> Result<(), P4RuntimeError>;

    /// Sets the callback for subsequent events.
    fn subscribe(&self, sink: EventSink);
}
