//! Entries of a program with one table of one key.

use entries::{ActionSpec, StateUpdate, TableEntry, UpdateKind};
use ir::{ActionCall, KeyMatch, Pipeline};

/// Returns an update of the entry with that key: the named action and its arguments.
pub fn entry(pipeline: &Pipeline, kind: UpdateKind, key: KeyMatch, name: &str, args: &[u64]) -> StateUpdate {
    let table = pipeline.tables.keys().next().expect("a table");
    let mut actions = pipeline.actions.iter();
    let (action, _) = actions.find(|(_, action)| action.preamble.name.ends_with(name)).expect("an action");
    let args = args.iter().map(|arg| (*arg).into()).collect();
    let call = ActionSpec::Call(ActionCall { action, args });
    StateUpdate::Entry(kind, TableEntry::new(table, vec![key], call))
}
