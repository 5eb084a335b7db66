//! Entries as the control plane writes them ([`TableEntry`]), and what actions and keys are as words.

use crate::layout::unpack_args;
use ir::{ActionCall, ActionId, KeyMatch, Pipeline, TableId};
use packet::Counter;
use smallvec::SmallVec;
use std::sync::Arc;

/// What is done with an object that has an identity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum UpdateKind {
    /// It must not be there yet.
    Insert,
    /// It must be there.
    Modify,
    /// It must be there; only its identity is looked at.
    Delete,
}

/// Configuration of an RFC 2698 meter, in the meter's unit (packets or bytes).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MeterConfig {
    /// Committed rate, units per second.
    pub cir: u64,
    /// Committed burst, units.
    pub cburst: u64,
    /// Peak rate, units per second; at least the committed rate.
    pub pir: u64,
    /// Peak burst, units.
    pub pburst: u64,
}

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
    pub counter: Option<Counter>,
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

/// [`ActionSpec`] with the arguments as words, in the order of the action's parameters, laid out by [`action_layout`].
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
        self.packed().to_spec(pipeline)
    }

    /// The same, borrowed.
    pub fn packed(&self) -> PackedAction<'_> {
        match self {
            Action::Call(action, words) => PackedAction::Call(*action, words),
            Action::Member(id) => PackedAction::Member(*id),
            Action::Group(id) => PackedAction::Group(*id),
        }
    }
}

/// [`Action`] with its arguments elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PackedAction<'a> {
    /// Runs the action with these arguments.
    Call(ActionId, &'a [u64]),
    /// A member of the table's profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
}

impl PackedAction<'_> {
    /// In the control plane's form. `pipeline` must be the one that it was validated against.
    pub fn to_spec(&self, pipeline: &Pipeline) -> ActionSpec {
        match self {
            PackedAction::Call(action, words) => {
                ActionSpec::Call(ActionCall { action: *action, args: unpack_args(pipeline, *action, words) })
            }
            PackedAction::Member(id) => ActionSpec::Member(*id),
            PackedAction::Group(id) => ActionSpec::Group(*id),
        }
    }

    /// The same with its own arguments.
    pub fn to_action(&self) -> Action {
        match self {
            PackedAction::Call(action, words) => Action::Call(*action, (*words).into()),
            PackedAction::Member(id) => Action::Member(*id),
            PackedAction::Group(id) => Action::Group(*id),
        }
    }
}
