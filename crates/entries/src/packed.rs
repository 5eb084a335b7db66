//! Packed entries: entries to be written with their numbers as machine words.

use crate::entry::{MeterConfig, StoredActionRef, TableEntry, UpdateKind};
use crate::layout::KeyLayout;
use crate::stored_entry::{EntryExtras, EntryFields, StoredEntry};
use ir::{ActionId, Pipeline, TableId};
use packet::Counter;
use smallvec::SmallVec;
use std::sync::Arc;

/// [`TableEntry`] with its keys and arguments as words, laid out by [`KeyLayout`] and
/// [`crate::action_layout`]. For writers of millions of entries, because no number needs an
/// allocation.
///
/// [`crate::EntryPacker`] builds one from numbers, [`PackedEntry::pack`] from a [`TableEntry`].
/// Callers can also build the words themselves, because every entry is validated when it is
/// applied.
#[derive(Clone, PartialEq, Debug)]
pub struct PackedEntry {
    /// The table.
    pub table: TableId,
    /// See [`TableEntry::priority`].
    pub priority: i32,
    /// See [`TableEntry::idle_timeout_ns`].
    pub idle_timeout_ns: u64,
    /// See [`TableEntry::counter`].
    pub counter: Option<Counter>,
    /// See [`TableEntry::is_const`].
    pub is_const: bool,
    extras: Option<Box<EntryExtras>>,
    target: ActionTarget,
    /// Number of key words, which come first.
    key_len: u32,
    words: SmallVec<[u64; 6]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ActionTarget {
    Call(ActionId),
    Member(u32),
    Group(u32),
}

/// An id that no action has.
const NO_ACTION: ActionId = ActionId(u32::MAX);

impl PackedEntry {
    /// Creates an entry without priority, counter, meter, idle timeout or provenance.
    pub fn new(table: TableId, key: &[u64], action: StoredActionRef<'_>) -> PackedEntry {
        let mut entry = PackedEntry::identity(table, key);
        entry.set_action(action, 0);
        entry
    }

    /// Creates an entry with table and key only, enough to delete it. Inserting it fails, because
    /// it has no action.
    pub fn identity(table: TableId, key: &[u64]) -> PackedEntry {
        PackedEntry {
            table,
            priority: 0,
            idle_timeout_ns: 0,
            counter: None,
            is_const: false,
            extras: None,
            target: ActionTarget::Call(NO_ACTION),
            key_len: key.len() as u32,
            words: SmallVec::from_slice(key),
        }
    }

    /// Creates an entry with a key of zeros.
    pub(crate) fn with_zero_key(table: TableId, key_len: usize) -> PackedEntry {
        let mut entry = PackedEntry::identity(table, &[]);
        entry.words.resize(key_len, 0);
        entry.key_len = key_len as u32;
        entry
    }

    /// Creates the entry to write for inserting, modifying or deleting a stored entry; a deletion
    /// has only the identity.
    pub fn from_stored(kind: UpdateKind, table: TableId, entry: &StoredEntry) -> PackedEntry {
        match kind {
            UpdateKind::Delete => PackedEntry::identity(table, entry.key()).with_priority(entry.priority()),
            _ => PackedEntry::new(table, entry.key(), entry.action()).with_attributes_of(entry),
        }
    }

    /// Sets the priority.
    #[must_use]
    pub fn with_priority(mut self, priority: i32) -> PackedEntry {
        self.priority = priority;
        self
    }

    /// Sets the rare attributes: [`TableEntry::meter`], [`TableEntry::provenance`],
    /// [`TableEntry::metadata`].
    #[must_use]
    pub fn with_extras(
        mut self,
        meter: Option<MeterConfig>,
        provenance: Option<&Arc<str>>,
        metadata: &[u8],
    ) -> PackedEntry {
        self.set_extras(meter, provenance, metadata);
        self
    }

    /// Copies all attributes of a stored entry except key and action: priority, idle timeout,
    /// meter, provenance, metadata.
    #[must_use]
    pub fn with_attributes_of(mut self, entry: &StoredEntry) -> PackedEntry {
        (self.priority, self.idle_timeout_ns) = (entry.priority(), entry.idle_timeout_ns());
        self.set_extras(entry.meter().copied(), entry.provenance(), entry.metadata());
        self
    }

    /// Returns the words of the keys.
    pub fn key(&self) -> &[u64] {
        &self.words[..self.key_len as usize]
    }

    /// Returns the action, member or group.
    pub fn action(&self) -> StoredActionRef<'_> {
        match self.target {
            ActionTarget::Call(action) => StoredActionRef::Call(action, &self.words[self.key_len as usize..]),
            ActionTarget::Member(id) => StoredActionRef::Member(id),
            ActionTarget::Group(id) => StoredActionRef::Group(id),
        }
    }

    /// Returns the meter configuration, see [`TableEntry::meter`].
    pub fn meter(&self) -> Option<&MeterConfig> {
        self.extras.as_ref()?.meter.as_deref()
    }

    /// Returns the provenance, see [`TableEntry::provenance`].
    pub fn provenance(&self) -> Option<&Arc<str>> {
        self.extras.as_ref()?.provenance.as_ref()
    }

    /// Returns the metadata, see [`TableEntry::metadata`].
    pub fn metadata(&self) -> &[u8] {
        self.extras.as_ref().map_or(&[], |extras| &extras.metadata)
    }

    pub(crate) fn key_mut(&mut self) -> &mut [u64] {
        &mut self.words[..self.key_len as usize]
    }

    pub(crate) fn args_mut(&mut self) -> &mut [u64] {
        &mut self.words[self.key_len as usize..]
    }

    /// Sets the action, and appends `zeros` words of 0 to its arguments.
    pub(crate) fn set_action(&mut self, action: StoredActionRef<'_>, zeros: usize) {
        self.words.truncate(self.key_len as usize);
        self.target = match action {
            StoredActionRef::Call(action, args) => {
                self.words.extend_from_slice(args);
                ActionTarget::Call(action)
            }
            StoredActionRef::Member(id) => ActionTarget::Member(id),
            StoredActionRef::Group(id) => ActionTarget::Group(id),
        };
        self.words.resize(self.words.len() + zeros, 0);
    }

    pub(crate) fn set_extras(&mut self, meter: Option<MeterConfig>, provenance: Option<&Arc<str>>, metadata: &[u8]) {
        self.extras = EntryExtras::boxed_if_any(meter, provenance, metadata);
    }

    /// Converts to a stored entry.
    pub(crate) fn to_stored(&self, sequence: u64) -> StoredEntry {
        StoredEntry::new(EntryFields {
            key: self.key(),
            action: self.action(),
            priority: self.priority,
            is_const: self.is_const,
            sequence,
            idle_timeout_ns: self.idle_timeout_ns,
            extras: self.extras.clone(),
        })
    }

    /// Converts to the control plane's form, with numbers of any width; `None` if the number of key
    /// or argument words is wrong for the table and action.
    pub fn to_table_entry(&self, pipeline: &Pipeline) -> Option<TableEntry> {
        let layout = KeyLayout::new(&pipeline.tables.get(self.table)?.keys);
        if let StoredActionRef::Call(action, args) = self.action() {
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
