//! What a test runs on.

use entries::{Counter, EntryId, MeterConfig, WriteBatch};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;

/// A cell of a counter or meter: an index of an indexed one, or an entry's of a direct one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Of an indexed object.
    Index(u64),
    /// Of a direct object.
    Entry(EntryId),
}

/// A packet that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The port.
    pub port: u32,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Why a device refused a command: a sentence that names the mend.
pub type Refusal = String;

/// An engine with a control plane, as far as tests use it. All indices and ids are those of the pipeline.
pub trait Device {
    /// What it runs.
    fn pipeline(&self) -> &Pipeline;
    /// Carries out writes, all or none.
    fn write(&mut self, batch: WriteBatch) -> Result<(), Refusal>;
    /// The entries of a table, those of the program left out and those that the data plane added included.
    fn entries(&self, table: TableId) -> Vec<EntryId>;
    /// Whether there is a multicast group or (`clone`) a clone session of that number.
    fn has_group(&self, id: u32, clone: bool) -> bool;
    /// The value of a counter.
    fn counter(&self, counter: ExternId, cell: &Cell) -> Result<Counter, Refusal>;
    /// The rates of a meter; `None` if they were never set.
    fn meter(&self, meter: ExternId, cell: &Cell) -> Result<Option<MeterConfig>, Refusal>;
    /// The value of a register: the element's leaves.
    fn register(&self, register: ExternId, index: u64) -> Result<Vec<BigUint>, Refusal>;
    /// Processes a packet and gives what left, in order.
    fn inject(&mut self, port: u32, bytes: &[u8]) -> Result<Vec<Sent>, Refusal>;
    /// Takes the digest messages since the last call: the digest and the leaves of the message.
    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)>;
    /// Takes the entries that were reported idle since the last call.
    fn take_idle(&mut self) -> Vec<EntryId>;
    /// Moves the clock; gives what left because of it.
    fn advance(&mut self, nanoseconds: u64) -> Result<Vec<Sent>, Refusal>;
}
