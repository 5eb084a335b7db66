//! What the maps of all rewrites share: a shadow of the first pipeline's tables, by which a batch is checked as a whole before any of it is
//! translated, and other tables' numbers.

use super::{EntryMap, MapError, RewriteError};
use entries::{ActionSpec, Change, Entry, EntryId, State, Update, WriteBatch};
use ir::{ActionCall, ConstEntry, Entity, Loc, Pipeline, TableId};
use std::sync::Arc;

/// New entries in one batch that are worth placing together.
const MANY: usize = 256;

/// What becomes of an entry of a rewritten table.
#[derive(Clone, Copy)]
pub(super) enum EntryChange<'a> {
    /// It is new.
    Inserted(&'a Entry),
    /// It is replaced.
    Modified(&'a Entry, &'a Entry),
    /// It goes.
    Deleted(&'a Entry),
}

/// Where the entries of rewritten tables lie.
pub(super) trait Rule: Send {
    /// Whether a table of the first pipeline is rewritten.
    fn owns(&self, table: TableId) -> bool;
    /// From here on changes can be taken back.
    fn begin(&mut self);
    /// Takes back all since the beginning.
    fn undo(&mut self);
    /// Adds the writes to the second pipeline that a change of the first one's entry makes. The error is a sentence.
    fn entry(&mut self, table: TableId, change: EntryChange<'_>, out: &mut Vec<Update>) -> Result<(), String>;
    /// Places many new entries at once, each given with its index in the batch, if that is better than one after the other; the writes that
    /// come of it have the index that they come from. `false`: it is not, and nothing was done.
    fn place(&mut self, entries: &[(usize, &Entry)], out: &mut Vec<(usize, Update)>) -> Result<bool, String> {
        let _ = (entries, out);
        Ok(false)
    }
    /// As [`EntryMap::figures`].
    fn figures(&self) -> Vec<(String, f64)>;
}

/// The map of a rewrite.
pub(super) struct Shadowed<R> {
    now: State,
    before: Option<State>,
    /// The number in the second pipeline of each table of the first: where its default action is, and its entries if it is not rewritten.
    numbers: Vec<TableId>,
    rule: R,
    origins: Vec<usize>,
}

impl<R: Rule> Shadowed<R> {
    /// A map from `first`, and the second pipeline with the entries that the program declares. `second` has no entries in the tables of
    /// `rewritten`, which are those that the rule writes to.
    pub(super) fn new(
        first: &Arc<Pipeline>,
        mut second: Pipeline,
        numbers: Vec<TableId>,
        rewritten: &[TableId],
        mut rule: R,
    ) -> Result<(Shadowed<R>, Arc<Pipeline>), RewriteError> {
        let name = second.name.clone();
        let bug =
            |what: String| RewriteError::new(&name, format!("the rewritten program is wrong, which is a bug: {what}"));
        let now = State::new(first.clone()).map_err(|error| bug(error.to_string()))?;
        let mut updates = Vec::new();
        rule.begin();
        for table in first.tables.keys().filter(|table| rule.owns(*table)).collect::<Vec<_>>() {
            for entry in now.entries(table) {
                let said = rule.entry(table, EntryChange::Inserted(entry), &mut updates);
                said.map_err(|reason| RewriteError::new(&first.tables[table].preamble.name, reason))?;
            }
        }
        if !updates.is_empty() {
            let mut state = State::new(Arc::new(second.clone())).map_err(|error| bug(error.to_string()))?;
            state.apply(&WriteBatch { updates }).map_err(|error| bug(error.to_string()))?;
            for table in rewritten {
                second.tables[*table].entries = declared(&state, *table);
            }
        }
        // Verifies, and takes out what a rewrite has left behind: blocks that nothing leads to, chains of jumps.
        ir::passes::run_passes(&mut second, |_, _, _| {}).map_err(|error| bug(error.to_string()))?;
        Ok((Shadowed { now, before: None, numbers, rule, origins: Vec::new() }, Arc::new(second)))
    }

    fn number(&self, table: TableId) -> TableId {
        self.numbers.get(table.index()).copied().unwrap_or(table)
    }

    fn id(&self, id: &EntryId) -> EntryId {
        EntryId { table: self.number(id.table), ..id.clone() }
    }

    /// A write to what is not rewritten.
    fn passed(&self, update: &Update) -> Update {
        match update {
            Update::Entry(kind, entry) => {
                let mut entry = entry.clone();
                entry.table = self.number(entry.table);
                Update::Entry(*kind, entry)
            }
            Update::Packed(kind, entry) => {
                let mut entry = entry.clone();
                entry.table = self.number(entry.table);
                Update::Packed(*kind, entry)
            }
            Update::DefaultAction(table, spec) => Update::DefaultAction(self.number(*table), spec.clone()),
            Update::DirectMeter(id, config) => Update::DirectMeter(self.id(id), *config),
            Update::DirectCounter(id, data) => Update::DirectCounter(self.id(id), *data),
            other => other.clone(),
        }
    }

    /// Gives the rule all changes of its tables at once, if they are many new entries and nothing else.
    fn place(&mut self, changes: &[Change], out: &mut Vec<Update>) -> Result<bool, MapError> {
        let mut new = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            match change {
                Change::Inserted(table, entry, _) if self.rule.owns(*table) => new.push((index, entry)),
                Change::Modified(table, ..) | Change::Deleted(table, _) if self.rule.owns(*table) => return Ok(false),
                _ => {}
            }
        }
        let Some((index, _)) = new.first().copied().filter(|_| new.len() >= MANY) else { return Ok(false) };
        let mut writes = Vec::new();
        let placed = self.rule.place(&new, &mut writes).map_err(|reason| MapError { index, reason })?;
        for (index, update) in writes {
            self.origins.push(index);
            out.push(update);
        }
        Ok(placed)
    }

    fn updates(&mut self, batch: &WriteBatch, changes: &[Change]) -> Result<Vec<Update>, MapError> {
        let mut out = Vec::with_capacity(batch.updates.len());
        self.origins.clear();
        let placed = self.place(changes, &mut out)?;
        for (index, (update, change)) in batch.updates.iter().zip(changes).enumerate() {
            let entry = match change {
                Change::Inserted(table, entry, _) => Some((*table, EntryChange::Inserted(entry))),
                Change::Modified(table, old, new, _) => Some((*table, EntryChange::Modified(old, new))),
                Change::Deleted(table, entry) => Some((*table, EntryChange::Deleted(entry))),
                _ => None,
            };
            match entry.filter(|(table, _)| self.rule.owns(*table)) {
                Some(_) if placed => {}
                Some((table, change)) => {
                    let said = self.rule.entry(table, change, &mut out);
                    said.map_err(|reason| MapError { index, reason })?;
                }
                None => out.push(self.passed(update)),
            }
            self.origins.resize(out.len(), index);
        }
        Ok(out)
    }
}

impl<R: Rule> EntryMap for Shadowed<R> {
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, MapError> {
        let before = self.now.clone();
        let changes = self.now.apply(batch).map_err(|e| MapError { index: e.index, reason: e.error.to_string() })?;
        self.rule.begin();
        match self.updates(batch, &changes) {
            Ok(updates) => {
                self.before = Some(before);
                Ok(WriteBatch { updates })
            }
            Err(error) => {
                self.before = Some(before);
                self.undo();
                Err(error)
            }
        }
    }

    fn origins(&self) -> &[usize] {
        &self.origins
    }

    fn undo(&mut self) {
        if let Some(before) = self.before.take() {
            self.now = before;
            self.rule.undo();
        }
    }

    fn figures(&self) -> Vec<(String, f64)> {
        self.rule.figures()
    }
}

/// A table's entries as the program would declare them. They are not const: the map decides who may change them, and moves them.
fn declared(state: &State, table: TableId) -> Vec<ConstEntry> {
    let pipeline = state.pipeline();
    let one = |entry: &Entry| {
        let entry = entry.to_table_entry(pipeline, table);
        let action = match entry.action {
            ActionSpec::Call(call) => call,
            // Tables with profiles are not rewritten.
            ActionSpec::Member(_) | ActionSpec::Group(_) => {
                ActionCall { action: pipeline.tables[table].default_action.action, args: Vec::new() }
            }
        };
        ConstEntry { keys: entry.keys, priority: entry.priority, action, is_const: false, loc: Loc::default() }
    };
    let mut entries: Vec<ConstEntry> = state.entries(table).map(one).collect();
    entries.sort_by(|a, b| (&a.keys, a.priority).cmp(&(&b.keys, b.priority)));
    entries
}
