//! Common part of entry maps: a shadow of the first pipeline's tables, which validates a whole
//! batch before its translation, and the renumbering of other tables.

use super::{EntryMap, EntryMapError, TransformError};
use entries::{ActionSpec, ControlState, EntryId, StateChange, StateUpdate, StoredEntry, WriteBatch};
use ir::{ActionCall, ConstEntry, Entity, Pipeline, SourceLoc, TableId};
use std::sync::Arc;

/// Minimum number of new entries in a batch for joint placement.
const MIN_JOINT_PLACEMENT: usize = 256;

/// Change of an entry in a transformed table.
#[derive(Clone, Copy)]
pub(super) enum EntryChange<'a> {
    /// New entry.
    Inserted(&'a StoredEntry),
    /// Old and new version of a modified entry.
    Modified(&'a StoredEntry, &'a StoredEntry),
    /// Deleted entry.
    Deleted(&'a StoredEntry),
}

/// Mapping of a transform's entries.
pub(super) trait EntryMapping: Send {
    /// Returns whether a table of the first pipeline is transformed.
    fn is_mapped(&self, table: TableId) -> bool;
    /// Starts recording changes for undo.
    fn begin_batch(&mut self);
    /// Undoes all changes since the batch began.
    fn undo_batch(&mut self);
    /// Appends the writes to the second pipeline for a change of an entry. The error is a sentence.
    fn map_entry(&mut self, table: TableId, change: EntryChange<'_>, out: &mut Vec<StateUpdate>) -> Result<(), String>;
    /// Places many new entries jointly, each given with its index in the batch. The resulting
    /// writes have the index of their origin. Returns `false`, and does nothing, if joint placement
    /// is not worthwhile.
    fn map_jointly(
        &mut self,
        entries: &[(usize, &StoredEntry)],
        out: &mut Vec<(usize, StateUpdate)>,
    ) -> Result<bool, String> {
        let _ = (entries, out);
        Ok(false)
    }
    /// Returns statistics ([`EntryMap::stats`]).
    fn stats(&self) -> Vec<(String, f64)>;
}

/// Entry map of a transform with a shadow of the original tables.
pub(super) struct ShadowedMap<R> {
    shadow: ControlState,
    previous: Option<ControlState>,
    /// Number in the second pipeline of each table of the first: the table with its default action,
    /// and with its entries if it is not transformed.
    numbers: Vec<TableId>,
    mapping: R,
    origins: Vec<usize>,
}

impl<R: EntryMapping> ShadowedMap<R> {
    /// Creates the map from `original`, and the second pipeline with the declared entries.
    /// `numbers` has the second pipeline's table for each of the first. `rewritten` lists the
    /// tables that the mapping writes to. They must have no entries in `transformed`.
    pub(super) fn new(
        original: &Arc<Pipeline>,
        mut transformed: Pipeline,
        numbers: Vec<TableId>,
        rewritten: &[TableId],
        mut rule: R,
    ) -> Result<(ShadowedMap<R>, Arc<Pipeline>), TransformError> {
        let name = transformed.name.clone();
        let bug = |reason: String| {
            TransformError::new(&name, format!("the transformed program is invalid, which is a bug: {reason}"))
        };
        let shadow = ControlState::new(original.clone()).map_err(|error| bug(error.to_string()))?;
        let mut updates = Vec::new();
        rule.begin_batch();
        for table in original.tables.keys().filter(|table| rule.is_mapped(*table)).collect::<Vec<_>>() {
            for entry in shadow.entries(table) {
                let mapped = rule.map_entry(table, EntryChange::Inserted(entry), &mut updates);
                mapped.map_err(|reason| TransformError::new(&original.tables[table].preamble.name, reason))?;
            }
        }
        if !updates.is_empty() {
            let mut state = ControlState::new(Arc::new(transformed.clone())).map_err(|error| bug(error.to_string()))?;
            state.apply(&WriteBatch { updates }).map_err(|error| bug(error.to_string()))?;
            for table in rewritten {
                transformed.tables[*table].entries = declared_entries(&state, *table);
            }
        }
        // Verifies the pipeline and removes leftovers of the transform: unreachable blocks and
        // chains of jumps.
        ir::passes::run_passes(&mut transformed, |_, _, _| {}).map_err(|error| bug(error.to_string()))?;
        Ok((ShadowedMap { shadow, previous: None, numbers, mapping: rule, origins: Vec::new() }, Arc::new(transformed)))
    }

    fn mapped_table(&self, table: TableId) -> TableId {
        self.numbers.get(table.index()).copied().unwrap_or(table)
    }

    fn mapped_id(&self, id: &EntryId) -> EntryId {
        EntryId { table: self.mapped_table(id.table), ..id.clone() }
    }

    /// Renumbers an update of a table that is not transformed.
    fn pass_update(&self, update: &StateUpdate) -> StateUpdate {
        match update {
            StateUpdate::Entry(kind, entry) => {
                let mut entry = entry.clone();
                entry.table = self.mapped_table(entry.table);
                StateUpdate::Entry(*kind, entry)
            }
            StateUpdate::Packed(kind, entry) => {
                let mut entry = entry.clone();
                entry.table = self.mapped_table(entry.table);
                StateUpdate::Packed(*kind, entry)
            }
            StateUpdate::DefaultAction(table, spec) => {
                StateUpdate::DefaultAction(self.mapped_table(*table), spec.clone())
            }
            StateUpdate::DirectMeter(id, config) => StateUpdate::DirectMeter(self.mapped_id(id), *config),
            StateUpdate::DirectCounter(id, data) => StateUpdate::DirectCounter(self.mapped_id(id), *data),
            other => other.clone(),
        }
    }

    /// Gives the mapping all changes of its tables jointly, if they are many inserts and nothing
    /// else. Returns whether it placed them.
    fn place_jointly(&mut self, changes: &[StateChange], out: &mut Vec<StateUpdate>) -> Result<bool, EntryMapError> {
        let mut inserts = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            match change {
                StateChange::Inserted(table, entry, _) if self.mapping.is_mapped(*table) => {
                    inserts.push((index, entry))
                }
                StateChange::Modified(table, ..) | StateChange::Deleted(table, _) if self.mapping.is_mapped(*table) => {
                    return Ok(false);
                }
                _ => {}
            }
        }
        let Some((index, _)) = inserts.first().copied().filter(|_| inserts.len() >= MIN_JOINT_PLACEMENT) else {
            return Ok(false);
        };
        let mut writes = Vec::new();
        let placed =
            self.mapping.map_jointly(&inserts, &mut writes).map_err(|reason| EntryMapError { index, reason })?;
        for (index, update) in writes {
            self.origins.push(index);
            out.push(update);
        }
        Ok(placed)
    }

    /// Translates the changes that a batch makes, and records for each resulting update the index
    /// of its origin.
    fn translate_changes(
        &mut self,
        batch: &WriteBatch,
        changes: &[StateChange],
    ) -> Result<Vec<StateUpdate>, EntryMapError> {
        let mut out = Vec::with_capacity(batch.updates.len());
        self.origins.clear();
        let are_placed = self.place_jointly(changes, &mut out)?;
        for (index, (update, change)) in batch.updates.iter().zip(changes).enumerate() {
            let entry = match change {
                StateChange::Inserted(table, entry, _) => Some((*table, EntryChange::Inserted(entry))),
                StateChange::Modified(table, old, new, _) => Some((*table, EntryChange::Modified(old, new))),
                StateChange::Deleted(table, entry) => Some((*table, EntryChange::Deleted(entry))),
                _ => None,
            };
            match entry.filter(|(table, _)| self.mapping.is_mapped(*table)) {
                Some(_) if are_placed => {}
                Some((table, change)) => {
                    let mapped = self.mapping.map_entry(table, change, &mut out);
                    mapped.map_err(|reason| EntryMapError { index, reason })?;
                }
                None => out.push(self.pass_update(update)),
            }
            self.origins.resize(out.len(), index);
        }
        Ok(out)
    }
}

impl<R: EntryMapping> EntryMap for ShadowedMap<R> {
    fn translate(&mut self, batch: &WriteBatch) -> Result<WriteBatch, EntryMapError> {
        let before = self.shadow.clone();
        let changes =
            self.shadow.apply(batch).map_err(|e| EntryMapError { index: e.index, reason: e.error.to_string() })?;
        self.mapping.begin_batch();
        match self.translate_changes(batch, &changes) {
            Ok(updates) => {
                self.previous = Some(before);
                Ok(WriteBatch { updates })
            }
            Err(error) => {
                self.previous = Some(before);
                self.undo();
                Err(error)
            }
        }
    }

    fn origins(&self) -> &[usize] {
        &self.origins
    }

    fn undo(&mut self) {
        if let Some(before) = self.previous.take() {
            self.shadow = before;
            self.mapping.undo_batch();
        }
    }

    fn stats(&self) -> Vec<(String, f64)> {
        self.mapping.stats()
    }
}

/// Returns a table's entries as declarations. They are not const, because the map controls changes
/// and moves entries.
fn declared_entries(state: &ControlState, table: TableId) -> Vec<ConstEntry> {
    let pipeline = state.pipeline();
    let one = |entry: &StoredEntry| {
        let entry = entry.to_table_entry(pipeline, table);
        let action = match entry.action {
            ActionSpec::Call(call) => call,
            // Tables with profiles are not transformed.
            ActionSpec::Member(_) | ActionSpec::Group(_) => {
                ActionCall { action: pipeline.tables[table].default_action.action, args: Vec::new() }
            }
        };
        ConstEntry { keys: entry.keys, priority: entry.priority, action, is_const: false, loc: SourceLoc::default() }
    };
    let mut entries: Vec<ConstEntry> = state.entries(table).map(one).collect();
    entries.sort_by(|a, b| (&a.keys, a.priority).cmp(&(&b.keys, b.priority)));
    entries
}
