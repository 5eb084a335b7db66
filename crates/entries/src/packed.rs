//! [`PackedEntry`]: an entry to be written whose numbers are machine words already.

use crate::entry::{MeterConfig, PackedAction, TableEntry, UpdateKind};
use crate::kept::{Entry, Parts, Rare};
use crate::layout::KeyLayout;
use ir::{ActionId, Pipeline, TableId};
use packet::Counter;
use smallvec::SmallVec;
use std::sync::Arc;

/// [`TableEntry`] with its keys and arguments as words, laid out by [`KeyLayout`] and [`crate::action_layout`]: what a writer of millions
/// of entries gives, as nothing is allocated for a number.
///
/// [`crate::EntryPacker`] makes one of numbers, [`PackedEntry::pack`] of a [`TableEntry`]. Or the words are put together elsewhere:
/// whether they are an entry of the table is looked at when the entry is applied, as with every other entry.
#[derive(Clone, PartialEq, Debug)]
pub struct PackedEntry {
    /// The table.
    pub table: TableId,
    /// As [`TableEntry::priority`].
    pub priority: i32,
    /// As [`TableEntry::idle_timeout_ns`].
    pub idle_timeout_ns: u64,
    /// As [`TableEntry::counter`].
    pub counter: Option<Counter>,
    /// As [`TableEntry::is_const`].
    pub is_const: bool,
    rare: Option<Box<Rare>>,
    target: Target,
    /// Words of the key, which come first.
    key_len: u32,
    words: SmallVec<[u64; 6]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Call(ActionId),
    Member(u32),
    Group(u32),
}

/// No table has it.
const NO_ACTION: ActionId = ActionId(u32::MAX);

impl PackedEntry {
    /// An entry without priority, counter, meter, idle time or provenance.
    pub fn new(table: TableId, key: &[u64], action: PackedAction<'_>) -> PackedEntry {
        let mut entry = PackedEntry::identity(table, key);
        entry.set_action(action, 0);
        entry
    }

    /// Table and key, which is enough to delete an entry. To insert it is refused: it has no action.
    pub fn identity(table: TableId, key: &[u64]) -> PackedEntry {
        PackedEntry {
            table,
            priority: 0,
            idle_timeout_ns: 0,
            counter: None,
            is_const: false,
            rare: None,
            target: Target::Call(NO_ACTION),
            key_len: key.len() as u32,
            words: SmallVec::from_slice(key),
        }
    }

    /// With a key of zeros.
    pub(crate) fn blank(table: TableId, key_len: usize) -> PackedEntry {
        let mut entry = PackedEntry::identity(table, &[]);
        entry.words.resize(key_len, 0);
        entry.key_len = key_len as u32;
        entry
    }

    /// What is written so that a table gets an entry, has it changed, or loses it: of a deletion only the identity.
    pub fn of(kind: UpdateKind, table: TableId, entry: &Entry) -> PackedEntry {
        match kind {
            UpdateKind::Delete => PackedEntry::identity(table, entry.key()).with_priority(entry.priority()),
            _ => PackedEntry::new(table, entry.key(), entry.action()).with_attributes_of(entry),
        }
    }

    /// The same with a priority.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> PackedEntry {
        self.priority = priority;
        self
    }

    /// The same with what few entries have: [`TableEntry::meter`], [`TableEntry::provenance`], [`TableEntry::metadata`].
    #[must_use]
    pub fn with_rare(
        mut self,
        meter: Option<MeterConfig>,
        provenance: Option<&Arc<str>>,
        metadata: &[u8],
    ) -> PackedEntry {
        self.set_rare(meter, provenance, metadata);
        self
    }

    /// The same with all that a kept entry has besides key and action: priority, idle time, meter, provenance, metadata.
    #[must_use]
    pub fn with_attributes_of(mut self, entry: &Entry) -> PackedEntry {
        (self.priority, self.idle_timeout_ns) = (entry.priority(), entry.idle_timeout_ns());
        self.set_rare(entry.meter().copied(), entry.provenance(), entry.metadata());
        self
    }

    /// The words of the keys.
    pub fn key(&self) -> &[u64] {
        &self.words[..self.key_len as usize]
    }

    /// What to do.
    pub fn action(&self) -> PackedAction<'_> {
        match self.target {
            Target::Call(action) => PackedAction::Call(action, &self.words[self.key_len as usize..]),
            Target::Member(id) => PackedAction::Member(id),
            Target::Group(id) => PackedAction::Group(id),
        }
    }

    /// As [`TableEntry::meter`].
    pub fn meter(&self) -> Option<&MeterConfig> {
        self.rare.as_ref()?.meter.as_deref()
    }

    /// As [`TableEntry::provenance`].
    pub fn provenance(&self) -> Option<&Arc<str>> {
        self.rare.as_ref()?.provenance.as_ref()
    }

    /// As [`TableEntry::metadata`].
    pub fn metadata(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| &rare.metadata)
    }

    pub(crate) fn key_mut(&mut self) -> &mut [u64] {
        &mut self.words[..self.key_len as usize]
    }

    pub(crate) fn args_mut(&mut self) -> &mut [u64] {
        &mut self.words[self.key_len as usize..]
    }

    /// The action, with so many words of 0 behind the arguments that it brings.
    pub(crate) fn set_action(&mut self, action: PackedAction<'_>, zeros: usize) {
        self.words.truncate(self.key_len as usize);
        self.target = match action {
            PackedAction::Call(action, args) => {
                self.words.extend_from_slice(args);
                Target::Call(action)
            }
            PackedAction::Member(id) => Target::Member(id),
            PackedAction::Group(id) => Target::Group(id),
        };
        self.words.resize(self.words.len() + zeros, 0);
    }

    pub(crate) fn set_rare(&mut self, meter: Option<MeterConfig>, provenance: Option<&Arc<str>>, metadata: &[u8]) {
        self.rare = Rare::boxed(meter, provenance, metadata);
    }

    /// As it is kept.
    pub(crate) fn kept(&self, sequence: u64) -> Entry {
        Entry::new(Parts {
            key: self.key(),
            action: self.action(),
            priority: self.priority,
            is_const: self.is_const,
            sequence,
            idle_timeout_ns: self.idle_timeout_ns,
            rare: self.rare.clone(),
        })
    }

    /// In the control plane's form, if key and arguments have the words that table and action give them; else `None`.
    pub fn to_table_entry(&self, pipeline: &Pipeline) -> Option<TableEntry> {
        let layout = KeyLayout::new(&pipeline.tables.get(self.table)?.keys);
        if let PackedAction::Call(action, args) = self.action() {
            let params = &pipeline.actions.get(action)?.params;
            let words = params.iter().map(|param| crate::words_for(param.ty.width())).sum::<usize>();
            (args.len() == words).then_some(())?;
        }
        (self.key().len() == layout.len).then(|| TableEntry {
            table: self.table,
            keys: layout.unpack(self.key()),
            priority: self.priority,
            action: self.action().to_spec(pipeline),
            counter: self.counter,
            meter: self.meter().copied(),
            idle_timeout_ns: self.idle_timeout_ns,
            provenance: self.provenance().cloned(),
            metadata: self.metadata().to_vec(),
            is_const: self.is_const,
        })
    }
}
