//! [`Mapped`]: a switch that runs a rewritten program, with the map of writes in front of it. Who controls it writes and reads the tables of the program
//! that was written, and finds each entry as it was written.

use super::engine::Switch;
use crate::rewrite::EntryMap;
use entries::{Counter, Entry, EntryError, State, Update, UpdateError, WriteBatch, WriteError};
use interp::{EntryLevel, IdleEntry};
use ir::{ActionId, Pipeline, TableId};
use packet::{Batch, Engine, Output, ReasonTable};
use std::sync::Arc;
use thiserror::Error;

/// A program that cannot be controlled through a map of writes.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MappedError {
    /// Packets or time change a table, and the map would not learn of it.
    #[error(
        "table {table}: packets add entries or entries grow too old, and the map in front of a rewritten program does not learn of that; run the program \
         without rewrites"
    )]
    ChangesByItself {
        /// Its name.
        table: String,
    },
    /// Always a bug of a rewrite.
    #[error("the rewritten program has other objects than the first one: {what} is another one there, which is a bug")]
    Objects {
        /// An object.
        what: String,
    },
}

/// A switch, perhaps behind a map of writes. Tables, entries and objects are always those of the program that was written.
pub struct Mapped {
    switch: Switch,
    front: Option<Front>,
}

/// Packets meet the switch; the map is the control plane's.
impl Engine for Mapped {
    fn name(&self) -> &str {
        Engine::name(&self.switch)
    }

    fn reasons(&self) -> &ReasonTable {
        Engine::reasons(&self.switch)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.switch.process(batch, out);
    }

    fn tick(&mut self, now: u64, out: &mut Output) {
        self.switch.tick(now, out);
    }
}

/// What is in front of a switch that runs a rewritten program.
struct Front {
    map: Box<dyn EntryMap>,
    /// What was written, in the first program's tables.
    state: State,
    /// For each table of the first program the one that has exactly its entries, if there is one.
    tables: Vec<Option<TableId>>,
}

impl Mapped {
    /// A switch that runs the program as it was written.
    pub fn plain(switch: Switch) -> Mapped {
        Mapped { switch, front: None }
    }

    /// A switch that runs what `map` maps writes of `pipeline` to.
    ///
    /// # Errors
    /// See [`MappedError`].
    pub fn behind(pipeline: &Arc<Pipeline>, switch: Switch, map: Box<dyn EntryMap>) -> Result<Mapped, MappedError> {
        if let Some(table) = pipeline.tables.values().find(|table| table.add_on_miss || table.idle_timeout) {
            return Err(MappedError::ChangesByItself { table: table.preamble.name.clone() });
        }
        let second = switch.pipeline();
        for (id, object) in pipeline.externs.iter() {
            let name = &object.preamble.name;
            if second.externs.get(id).is_none_or(|other| other.preamble.name != *name) {
                return Err(MappedError::Objects { what: name.clone() });
            }
        }
        // A pipeline that the switch's was made from has a state.
        let state = State::new(pipeline.clone()).map_err(|error| MappedError::Objects { what: error.to_string() })?;
        let first: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        let made: Vec<&str> = second.tables.values().map(|table| table.preamble.name.as_str()).collect();
        let same = |table: &ir::Table| {
            let name = table.preamble.name.as_str();
            // A rewrite calls the tables that it makes of another one by that one's name and more; then some entries are there.
            let part = |made: &&str| made.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'));
            if made.iter().any(|made| part(made) && !first.contains(made)) {
                return None;
            }
            let mut there = second.tables.iter();
            let there = there.find(|(_, other)| other.preamble.name == name)?;
            (there.1.keys == table.keys && there.1.actions == table.actions).then_some(there.0)
        };
        let tables = pipeline.tables.values().map(same).collect();
        Ok(Mapped { switch, front: Some(Front { map, state, tables }) })
    }

    /// The switch itself. Its tables are those of the rewritten program, its objects those of both.
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// The same, to be changed: not its tables.
    pub fn switch_mut(&mut self) -> &mut Switch {
        &mut self.switch
    }

    /// Figures about the map, by name.
    pub fn figures(&self) -> Vec<(String, f64)> {
        self.front.as_ref().map(|front| front.map.figures()).unwrap_or_default()
    }

    /// What the control plane has written, and what packets have added.
    pub fn state(&self) -> &State {
        self.front.as_ref().map_or_else(|| self.switch.state(), |front| &front.state)
    }

    /// The program that was written.
    pub fn pipeline(&self) -> &Arc<Pipeline> {
        self.state().pipeline()
    }

    /// Applies a batch as a whole: packets of the next batch see it.
    ///
    /// # Errors
    /// An update is not valid ([`entries::UpdateError`]), or the chip has no room ([`EntryError::NoRoom`], [`EntryError::NoPlace`], with the table that
    /// was written to); nothing has changed.
    pub fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let Some(front) = &mut self.front else { return self.switch.write(batch) };
        let mut next = front.state.clone();
        next.apply(batch)?;
        let name = |index: usize| batch.updates.get(index).and_then(table_of).map(|id| name(&front.state, id));
        let translated = front.map.translate(batch).map_err(|refused| {
            let table = name(refused.index).unwrap_or_default();
            WriteError { index: refused.index, error: EntryError::NoPlace { table, reason: refused.reason }.into() }
        })?;
        if let Err(refused) = self.switch.write(&translated) {
            let index = front.map.origins().get(refused.index).copied().unwrap_or(refused.index);
            let table = name(index).unwrap_or_default();
            front.map.undo();
            return Err(WriteError { index, error: as_written(table, refused.error) });
        }
        front.state = next;
        Ok(())
    }

    /// Time passes: the entries whose idle time is over.
    pub fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        // A rewritten program has none.
        let mut idle = self.switch.advance_time(now);
        idle.extend(self.switch.take_idle());
        idle
    }

    /// The switch's table that has exactly the entries of one of the program's.
    fn own(&self, table: TableId) -> Option<TableId> {
        match &self.front {
            None => Some(table),
            Some(front) => front.tables.get(ir::Entity::index(table)).copied().flatten(),
        }
    }

    /// The direct counter of an entry that is in the table.
    pub fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.switch.entry_counter(self.own(table)?, entry)
    }

    /// Nanoseconds since a packet hit an entry that is in the table, or since it was inserted.
    pub fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.switch.entry_idle_for(self.own(table)?, entry)
    }

    /// As [`Switch::entry_level`].
    pub fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.switch.entry_level(self.own(table)?, entry)
    }

    /// As [`Switch::set_entry_level`].
    pub fn set_entry_level(&mut self, table: TableId, entry: &Entry, level: EntryLevel) {
        if let Some(table) = self.own(table) {
            self.switch.set_entry_level(table, entry, level);
        }
    }

    /// As [`Switch::applied`]. `None`: no table of the chip has just the entries of this one, so nobody counts its hits.
    pub fn applied(&self, table: TableId) -> Option<Vec<(ActionId, [Counter; 2])>> {
        self.own(table).map(|table| self.switch.applied(table))
    }

    /// The tables of the chip in the rewritten program's order: name, room for entries, and where, for people. Those that are looked up nowhere are left out.
    pub fn places(&self) -> Vec<(String, u64, String)> {
        let placed = self.switch.placed();
        let one = |(id, table): (TableId, &ir::Table)| {
            let parts = &placed.tables.get(&id).filter(|placed| !placed.parts.is_empty())?.parts;
            let room = self.switch.fill(id).iter().map(|(_, room)| room).sum();
            let part = |part: &super::PlacedPart| format!("pass {} stage {}", part.pass, part.stage);
            Some((table.preamble.name.clone(), room, parts.iter().map(part).collect::<Vec<_>>().join(", ")))
        };
        self.switch.pipeline().tables.iter().filter_map(one).collect()
    }
}

fn name(state: &State, table: TableId) -> String {
    state.pipeline().tables.get(table).map(|table| table.preamble.name.clone()).unwrap_or_default()
}

/// The table that an update is about.
fn table_of(update: &Update) -> Option<TableId> {
    match update {
        Update::Entry(_, entry) => Some(entry.table),
        Update::Packed(_, entry) => Some(entry.table),
        Update::DefaultAction(table, _) => Some(*table),
        Update::DirectMeter(id, _) | Update::DirectCounter(id, _) => Some(id.table),
        _ => None,
    }
}

/// A refusal of the rewritten program, told of the table that was written to.
fn as_written(table: String, error: UpdateError) -> UpdateError {
    let UpdateError::Entry(error) = error else { return error };
    match *error {
        EntryError::NoRoom { table: held, capacity, parts } if held != table => {
            EntryError::NoRoom { table, capacity, parts: format!("as {held}: {parts}") }.into()
        }
        same @ EntryError::NoRoom { .. } => same.into(),
        other => EntryError::NoPlace { table, reason: other.to_string() }.into(),
    }
}
