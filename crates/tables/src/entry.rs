//! Entries: as the control plane writes them ([`TableEntry`]) and as they are kept ([`Entry`]).

use crate::batch::{CounterData, MeterConfig};
use crate::layout::{KeyLayout, unpack_args};
use ir::{ActionCall, ActionId, KeyMatch, Pipeline, TableId};
use smallvec::SmallVec;
use std::sync::Arc;

/// What an entry does with a packet that matches.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum ActionSpec {
    /// Runs the action with these arguments.
    Call(ActionCall),
    /// Runs the action of a member of the table's action profile or selector.
    Member(u32),
    /// Runs the action of one member of a group of the table's action selector.
    Group(u32),
}

/// An entry as the control plane writes it.
#[derive(Clone, PartialEq, Debug)]
pub struct TableEntry {
    /// The table.
    pub table: TableId,
    /// One for each key of the table but selector keys, in order.
    pub keys: Vec<KeyMatch>,
    /// Greater wins; from 1. 0 for tables without priorities ([`ir::Table::has_priority`]).
    pub priority: i32,
    /// What to do.
    pub action: ActionSpec,
    /// Sets the entry's direct counter. `None`: an inserted entry starts at 0, a modified one goes on counting.
    pub counter: Option<CounterData>,
    /// Configures the entry's direct meter. `None`: unconfigured, i.e. always green.
    pub meter: Option<MeterConfig>,
    /// Idle time in nanoseconds; 0 is none.
    pub idle_timeout_ns: u64,
    /// Where the entry comes from (a line of the region file): shown in traces, without other meaning.
    pub provenance: Option<Arc<str>>,
    /// The controller's own data (P4Runtime `metadata`).
    pub metadata: Vec<u8>,
    /// Declared by the program as `const`.
    pub is_const: bool,
}

impl TableEntry {
    /// An entry without priority, counter, meter, idle time or provenance.
    pub fn new(table: TableId, keys: Vec<KeyMatch>, action: ActionSpec) -> TableEntry {
        TableEntry {
            table,
            keys,
            priority: 0,
            action,
            counter: None,
            meter: None,
            idle_timeout_ns: 0,
            provenance: None,
            metadata: Vec::new(),
            is_const: false,
        }
    }

    /// The same with a priority.
    pub fn with_priority(mut self, priority: i32) -> TableEntry {
        self.priority = priority;
        self
    }

    /// The same with a provenance.
    pub fn with_provenance(mut self, provenance: impl Into<Arc<str>>) -> TableEntry {
        self.provenance = Some(provenance.into());
        self
    }
}

/// The keys of an entry as words, laid out by the table's [`KeyLayout`].
pub type PackedKey = SmallVec<[u64; 3]>;

/// [`ActionSpec`] with the arguments as words, in the order of the action's parameters.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Action {
    /// Runs the action with these arguments.
    Call(ActionId, Box<[u64]>),
    /// A member of the table's profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

impl Action {
    /// In the control plane's form. `pipeline` must be the one that it was validated against.
    pub fn to_spec(&self, pipeline: &Pipeline) -> ActionSpec {
        match self {
            Action::Call(action, words) => {
                ActionSpec::Call(ActionCall { action: *action, args: unpack_args(pipeline, *action, words) })
            }
            Action::Member(id) => ActionSpec::Member(*id),
            Action::Group(id) => ActionSpec::Group(*id),
        }
    }
}

/// An entry as it is kept.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The keys.
    pub key: PackedKey,
    /// As in [`TableEntry::priority`].
    pub priority: i32,
    /// Declared by the program as `const`.
    pub is_const: bool,
    /// What to do.
    pub action: Action,
    /// Order of insertion: of two entries that match with one priority, the one inserted first wins. A modified entry keeps
    /// its place.
    pub sequence: u64,
    /// Idle time in nanoseconds; 0 is none.
    pub idle_timeout_ns: u64,
    /// Configuration of the direct meter.
    pub meter: Option<Box<MeterConfig>>,
    /// As in [`TableEntry::provenance`].
    pub provenance: Option<Arc<str>>,
    /// As in [`TableEntry::metadata`].
    pub metadata: Box<[u8]>,
}

impl Entry {
    /// In the control plane's form. `pipeline` and `table` must be those that it was validated against.
    pub fn to_table_entry(&self, pipeline: &Pipeline, table: TableId) -> TableEntry {
        TableEntry {
            table,
            keys: KeyLayout::new(&pipeline.tables[table].keys).unpack(&self.key),
            priority: self.priority,
            action: self.action.to_spec(pipeline),
            counter: None,
            meter: self.meter.as_deref().copied(),
            idle_timeout_ns: self.idle_timeout_ns,
            provenance: self.provenance.clone(),
            metadata: self.metadata.to_vec(),
            is_const: self.is_const,
        }
    }
}
