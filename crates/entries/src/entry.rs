//! Entries as the control plane writes them ([`TableEntry`]), and the packed form of actions and
//! keys.

use crate::layout::unpack_args;
use ir::{ActionCall, ActionId, KeyMatch, Pipeline, TableId};
use packet::Counter;
use smallvec::SmallVec;
use std::sync::Arc;

/// Kind of an update of an object with an identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum UpdateKind {
    /// Creates the object; it must not exist.
    Insert,
    /// Changes the object; it must exist.
    Modify,
    /// Removes the object; it must exist, and only its identity is used.
    Delete,
}

/// Configuration of an RFC 2698 meter, in the meter's unit (packets or bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MeterConfig {
    /// Committed information rate, units per second.
    pub cir: u64,
    /// Committed burst size, units.
    pub cburst: u64,
    /// Peak information rate, units per second; at least the committed rate.
    pub pir: u64,
    /// Peak burst size, units.
    pub pburst: u64,
}

/// Action of an entry.
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
    /// One match for each key of the table except selector keys, in order.
    pub keys: Vec<KeyMatch>,
    /// Priority, from 1; the greatest wins. 0 for tables without priorities
    /// ([`ir::Table::has_priority`]).
    pub priority: i32,
    /// Action, member or group.
    pub action: ActionSpec,
    /// Sets the entry's direct counter. `None`: an inserted entry starts at 0, a modified one keeps
    /// its count.
    pub counter: Option<Counter>,
    /// Configures the entry's direct meter. `None`: unconfigured, i.e. always green.
    pub meter: Option<MeterConfig>,
    /// Idle timeout in nanoseconds; 0 is none.
    pub idle_timeout_ns: u64,
    /// Provenance of the entry (a line of the region file); shown in traces, without other meaning.
    pub provenance: Option<Arc<str>>,
    /// The controller's own data (P4Runtime `metadata`).
    pub metadata: Vec<u8>,
    /// Declared by the program as `const`.
    pub is_const: bool,
}

impl TableEntry {
    /// Creates an entry without priority, counter, meter, idle timeout or provenance.
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

    /// Sets the priority.
    pub fn with_priority(mut self, priority: i32) -> TableEntry {
        self.priority = priority;
        self
    }

    /// Sets the provenance.
    pub fn with_provenance(mut self, provenance: impl Into<Arc<str>>) -> TableEntry {
        self.provenance = Some(provenance.into());
        self
    }
}

/// The keys of an entry as words, laid out by the table's [`crate::KeyLayout`].
pub type PackedKey = SmallVec<[u64; 3]>;

/// [`ActionSpec`] with packed arguments: words in the order of the action's parameters, laid out by
/// [`crate::action_layout`].
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum StoredAction {
    /// Runs the action with these arguments.
    Call(ActionId, Box<[u64]>),
    /// A member of the table's profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

impl StoredAction {
    /// Converts to the control plane's form. `pipeline` must be the one that the action was
    /// validated against.
    pub fn to_spec(&self, pipeline: &Pipeline) -> ActionSpec {
        self.packed().to_spec(pipeline)
    }

    /// Returns a borrowed view of the action.
    pub fn packed(&self) -> StoredActionRef<'_> {
        match self {
            StoredAction::Call(action, words) => StoredActionRef::Call(*action, words),
            StoredAction::Member(id) => StoredActionRef::Member(*id),
            StoredAction::Group(id) => StoredActionRef::Group(*id),
        }
    }
}

/// [`StoredAction`] with borrowed arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum StoredActionRef<'a> {
    /// Runs the action with these arguments.
    Call(ActionId, &'a [u64]),
    /// A member of the table's profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

impl StoredActionRef<'_> {
    /// Converts to the control plane's form. `pipeline` must be the one that the action was
    /// validated against.
    pub fn to_spec(&self, pipeline: &Pipeline) -> ActionSpec {
        match self {
            StoredActionRef::Call(action, words) => {
                ActionSpec::Call(ActionCall { action: *action, args: unpack_args(pipeline, *action, words) })
            }
            StoredActionRef::Member(id) => ActionSpec::Member(*id),
            StoredActionRef::Group(id) => ActionSpec::Group(*id),
        }
    }

    /// Copies the action with its arguments.
    pub fn to_action(&self) -> StoredAction {
        match self {
            StoredActionRef::Call(action, words) => StoredAction::Call(*action, (*words).into()),
            StoredActionRef::Member(id) => StoredAction::Member(*id),
            StoredActionRef::Group(id) => StoredAction::Group(*id),
        }
    }
}
