//! Interface of the devices that tests run on.

use entries::{Counter, EntryId, MeterConfig, WriteBatch};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;

/// Cell of a counter or meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectCell {
    /// Index of an indexed object.
    Index(u64),
    /// Entry of a direct object.
    Entry(EntryId),
}

/// A packet that the device sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Egress port.
    pub port: u32,
    /// Bytes of the packet.
    pub bytes: Vec<u8>,
}

/// Reason why a device refused a command: a sentence that names the fix.
pub type Refusal = String;

/// An engine with the control plane that tests need. All indices and ids are those of the pipeline.
pub trait Device {
    /// Returns the pipeline.
    fn pipeline(&self) -> &Pipeline;
    /// Applies a batch of writes, all or none.
    fn write(&mut self, batch: WriteBatch) -> Result<(), Refusal>;
    /// Returns the entries of a table, including those that the data plane added, but without those
    /// that the program declares.
    fn entries(&self, table: TableId) -> Vec<EntryId>;
    /// Returns whether a multicast group, or with `clone` a clone session, of this id exists.
    fn has_group(&self, id: u32, clone: bool) -> bool;
    /// Returns the value of a counter.
    fn counter(&self, counter: ExternId, cell: &ObjectCell) -> Result<Counter, Refusal>;
    /// Returns the rates of a meter; `None` if they were never set.
    fn meter(&self, meter: ExternId, cell: &ObjectCell) -> Result<Option<MeterConfig>, Refusal>;
    /// Returns the value of a register as the leaves of the element's type.
    fn register(&self, register: ExternId, index: u64) -> Result<Vec<BigUint>, Refusal>;
    /// Processes a packet. Returns the sent packets in order.
    fn inject(&mut self, port: u32, bytes: &[u8]) -> Result<Vec<Sent>, Refusal>;
    /// Removes and returns the digest messages since the last call: the digest and the leaves of
    /// the message.
    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)>;
    /// Removes and returns the entries that were reported idle since the last call.
    fn take_idle(&mut self) -> Vec<EntryId>;
    /// Advances the clock. Returns the packets sent because of that.
    fn advance(&mut self, nanoseconds: u64) -> Result<Vec<Sent>, Refusal>;
}
