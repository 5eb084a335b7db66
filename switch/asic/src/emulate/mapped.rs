//! [`MappedSwitch`]: a switch that runs a transformed program, with its entry map. The controller
//! reads and writes the tables of the original program and finds each entry as written.

use super::engine::EmulatedSwitch;
use crate::transform::EntryMap;
use entries::{ControlState, Counter, EntryError, StateUpdate, StoredEntry, UpdateError, WriteBatch, WriteError};
use interp::{EntryRuntimeState, IdleEntry};
use ir::{ActionId, Pipeline, TableId};
use packet::{Batch, BatchOutput, Engine, ReasonTable};
use std::sync::Arc;
use thiserror::Error;

/// Reason why a program cannot be controlled through an entry map.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MappedError {
    /// Packets or time change a table, which the map cannot observe.
    #[error(
        "table {table}: packets add entries or entries expire, and the entry map of a transformed program cannot observe that; run the program \
         without transforms"
    )]
    ChangesByItself {
        /// Name of the table.
        table: String,
    },
    /// The transformed program has other objects, which is a bug of a transform.
    #[error("the transformed program has other objects than the original one: {what} differs, which is a bug")]
    Objects {
        /// Name of the object.
        what: String,
    },
}

/// A switch with an optional entry map. Tables, entries and objects are always those of the
/// original program.
pub struct MappedSwitch {
    switch: EmulatedSwitch,
    front: Option<MapFront>,
}

/// Packets go to the switch directly. Only the control plane uses the map.
impl Engine for MappedSwitch {
    fn name(&self) -> &str {
        Engine::name(&self.switch)
    }

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(&self.switch)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.switch.process(batch, out);
    }

    fn tick(&mut self, now: u64, out: &mut BatchOutput) {
        self.switch.tick(now, out);
    }
}

/// Entry map before a switch that runs a transformed program.
struct MapFront {
    map: Box<dyn EntryMap>,
    /// Written state, in the original program's tables.
    state: ControlState,
    /// For each table of the original program, the switch's table with exactly the same entries, if
    /// any.
    tables: Vec<Option<TableId>>,
}

impl MappedSwitch {
    /// Creates a switch that runs the original program.
    pub fn unmapped(switch: EmulatedSwitch) -> MappedSwitch {
        MappedSwitch { switch, front: None }
    }

    /// Creates a switch that runs the program to which `map` translates writes of `pipeline`.
    ///
    /// # Errors
    /// [`MappedError`].
    pub fn behind_map(
        pipeline: &Arc<Pipeline>,
        switch: EmulatedSwitch,
        map: Box<dyn EntryMap>,
    ) -> Result<MappedSwitch, MappedError> {
        if let Some(table) = pipeline.tables.values().find(|table| table.add_on_miss || table.idle_timeout) {
            return Err(MappedError::ChangesByItself { table: table.preamble.name.clone() });
        }
        let transformed = switch.pipeline();
        for (id, object) in pipeline.externs.iter() {
            let name = &object.preamble.name;
            if transformed.externs.get(id).is_none_or(|other| other.preamble.name != *name) {
                return Err(MappedError::Objects { what: name.clone() });
            }
        }
        // State creation succeeds because the switch's pipeline was made from this one.
        let state =
            ControlState::new(pipeline.clone()).map_err(|error| MappedError::Objects { what: error.to_string() })?;
        let original_names: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        let transformed_names: Vec<&str> =
            transformed.tables.values().map(|table| table.preamble.name.as_str()).collect();
        let unchanged_table = |table: &ir::Table| {
            let name = table.preamble.name.as_str();
            // Transforms name derived tables with the original name as prefix. If such a table
            // exists, some entries are in it.
            let is_derived = |other: &&str| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
            if transformed_names.iter().any(|name| is_derived(name) && !original_names.contains(name)) {
                return None;
            }
            let mut same_name = transformed.tables.iter();
            let same_name = same_name.find(|(_, other)| other.preamble.name == name)?;
            (same_name.1.keys == table.keys && same_name.1.actions == table.actions).then_some(same_name.0)
        };
        let tables = pipeline.tables.values().map(unchanged_table).collect();
        Ok(MappedSwitch { switch, front: Some(MapFront { map, state, tables }) })
    }

    /// Returns the inner switch, with the tables of the transformed program and the objects of both
    /// programs.
    pub fn switch(&self) -> &EmulatedSwitch {
        &self.switch
    }

    /// Returns the inner switch for changes other than to its tables.
    pub fn switch_mut(&mut self) -> &mut EmulatedSwitch {
        &mut self.switch
    }

    /// Returns statistics of the map by name.
    pub fn stats(&self) -> Vec<(String, f64)> {
        self.front.as_ref().map(|front| front.map.stats()).unwrap_or_default()
    }

    /// Returns the state written by the control plane, with entries added by packets.
    pub fn state(&self) -> &ControlState {
        self.front.as_ref().map_or_else(|| self.switch.state(), |front| &front.state)
    }

    /// Returns the original program.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        self.state().pipeline()
    }

    /// Applies a write batch atomically, in terms of the original program. The next batch of
    /// packets uses it.
    ///
    /// # Errors
    /// [`WriteError`]: an update is invalid ([`entries::UpdateError`]), or the chip lacks capacity
    /// ([`EntryError::ChipFull`], [`EntryError::ChipRejected`], with the original table). The state
    /// is unchanged.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let Some(front) = &mut self.front else { return self.switch.write(batch) };
        let mut next = front.state.clone();
        next.apply(batch)?;
        let name =
            |index: usize| batch.updates.get(index).and_then(updated_table).map(|id| table_name(&front.state, id));
        let translated = front.map.translate(batch).map_err(|refused| {
            let table = name(refused.index).unwrap_or_default();
            WriteError {
                index: refused.index,
                error: EntryError::ChipRejected { table, reason: refused.reason }.into(),
            }
        })?;
        if let Err(refused) = self.switch.write(&translated) {
            let index = front.map.origins().get(refused.index).copied().unwrap_or(refused.index);
            let table = name(index).unwrap_or_default();
            front.map.undo();
            return Err(WriteError { index, error: as_written_error(table, refused.error) });
        }
        front.state = next;
        Ok(())
    }

    /// Advances time to `now` (ns). Returns the entries with an expired idle time.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        // A transformed program has no idle times.
        let mut idle = self.switch.advance_time(now);
        idle.extend(self.switch.take_idle());
        idle
    }

    /// Returns the switch's table with exactly the entries of one of the program's tables.
    fn own_table(&self, table: TableId) -> Option<TableId> {
        match &self.front {
            None => Some(table),
            Some(front) => front.tables.get(ir::Entity::index(table)).copied().flatten(),
        }
    }

    /// Returns the direct counter of an entry of the table.
    pub fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.switch.entry_counter(self.own_table(table)?, entry)
    }

    /// Returns the nanoseconds since the last hit of an entry of the table, or since its insertion.
    pub fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        self.switch.entry_idle_for(self.own_table(table)?, entry)
    }

    /// Returns the runtime state of an entry ([`EmulatedSwitch::entry_level`]).
    pub fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        self.switch.entry_level(self.own_table(table)?, entry)
    }

    /// Sets the runtime state of an entry ([`EmulatedSwitch::set_entry_level`]).
    pub fn set_entry_level(&mut self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        if let Some(table) = self.own_table(table) {
            self.switch.set_entry_level(table, entry, level);
        }
    }

    /// Returns the packets of each action ([`EmulatedSwitch::action_counters`]). `None` if no table
    /// of the chip has exactly the entries of this one, so that its hits are not counted.
    pub fn action_counters(&self, table: TableId) -> Option<Vec<(ActionId, [Counter; 2])>> {
        self.own_table(table).map(|table| self.switch.action_counters(table))
    }

    /// Returns the chip's tables in the transformed program's order: name, capacity in entries, and
    /// stages, for users. Tables that are never applied are left out.
    pub fn table_locations(&self) -> Vec<(String, u64, String)> {
        let placed = self.switch.placed();
        let one = |(id, table): (TableId, &ir::Table)| {
            let parts = &placed.tables.get(&id).filter(|placed| !placed.parts.is_empty())?.parts;
            let room = self.switch.part_fill(id).iter().map(|(_, room)| room).sum();
            let part = |part: &super::PlacedPart| format!("pass {} stage {}", part.pass, part.stage);
            Some((table.preamble.name.clone(), room, parts.iter().map(part).collect::<Vec<_>>().join(", ")))
        };
        self.switch.pipeline().tables.iter().filter_map(one).collect()
    }
}

fn table_name(state: &ControlState, table: TableId) -> String {
    state.pipeline().tables.get(table).map(|table| table.preamble.name.clone()).unwrap_or_default()
}

/// Returns the table that an update changes.
fn updated_table(update: &StateUpdate) -> Option<TableId> {
    match update {
        StateUpdate::Entry(_, entry) => Some(entry.table),
        StateUpdate::Packed(_, entry) => Some(entry.table),
        StateUpdate::DefaultAction(table, _) => Some(*table),
        StateUpdate::DirectMeter(id, _) | StateUpdate::DirectCounter(id, _) => Some(id.table),
        _ => None,
    }
}

/// Converts an error of the transformed program to one of the original table.
fn as_written_error(table: String, error: UpdateError) -> UpdateError {
    let UpdateError::Entry(error) = error else { return error };
    match *error {
        EntryError::ChipFull { table: held, capacity, parts } if held != table => {
            EntryError::ChipFull { table, capacity, parts: format!("as {held}: {parts}") }.into()
        }
        same @ EntryError::ChipFull { .. } => same.into(),
        other => EntryError::ChipRejected { table, reason: other.to_string() }.into(),
    }
}
