//! Entries as stored in tables: one small allocation each.

use crate::entry::{MeterConfig, StoredActionRef, TableEntry};
use crate::layout::{KeyLayout, MatchPrecedence};
use ir::{ActionId, MatchKind, Pipeline, TableId};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use triomphe::ThinArc;

/// A stored entry. It is immutable: modification creates a new one. A clone only increments a
/// reference count.
///
/// An entry with an exact key of two numbers and an action with two arguments takes 72 bytes, of
/// which 40 are overhead. Rare attributes take memory only in the entries that have them.
#[derive(Clone, PartialEq)]
pub struct StoredEntry(ThinArc<EntryHeader, u64>);

/// Header before the words of an entry. The words are: key, arguments, then idle timeout and
/// priority if they are not 0.
#[derive(PartialEq)]
struct EntryHeader {
    sequence: u64,
    extras: Option<Box<EntryExtras>>,
    /// The action, member or group id.
    action_id: u32,
    /// Flags in the lowest 8 bits, then the number of key words.
    flags_and_key_len: u32,
}

/// Attributes that few entries have.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct EntryExtras {
    /// Configuration of the direct meter.
    pub meter: Option<Box<MeterConfig>>,
    /// See [`TableEntry::provenance`].
    pub provenance: Option<Arc<str>>,
    /// See [`TableEntry::metadata`].
    pub metadata: Box<[u8]>,
}

impl EntryExtras {
    /// Boxes the attributes; `None` if the entry has none of them.
    pub fn boxed_if_any(
        meter: Option<MeterConfig>,
        provenance: Option<&Arc<str>>,
        metadata: &[u8],
    ) -> Option<Box<EntryExtras>> {
        if meter.is_none() && provenance.is_none() && metadata.is_empty() {
            return None;
        }
        let (meter, provenance) = (meter.map(Box::new), provenance.cloned());
        Some(Box::new(EntryExtras { meter, provenance, metadata: metadata.into() }))
    }
}

const CONST: u32 = 1;
const IDLE: u32 = 2;
const PRIORITY: u32 = 4;
const MEMBER: u32 = 8;
const GROUP: u32 = 16;
/// Number of flag bits in [`EntryHeader::flags_and_key_len`].
const FLAG_BITS: u32 = 8;

/// All fields of an entry.
pub(crate) struct EntryFields<'a> {
    pub key: &'a [u64],
    pub action: StoredActionRef<'a>,
    pub priority: i32,
    pub is_const: bool,
    pub sequence: u64,
    pub idle_timeout_ns: u64,
    pub extras: Option<Box<EntryExtras>>,
}

impl StoredEntry {
    /// Creates an entry in one allocation: a header, then the words of key, arguments, and of those
    /// of idle timeout and priority that are not 0. Flags in the header say which are there.
    #[inline]
    pub(crate) fn new(fields: EntryFields<'_>) -> StoredEntry {
        let (action_id, args, mut flags): (_, &[u64], _) = match fields.action {
            StoredActionRef::Call(action, args) => (action.0, args, 0),
            StoredActionRef::Member(id) => (id, &[], MEMBER),
            StoredActionRef::Group(id) => (id, &[], GROUP),
        };
        let mut words = SmallVec::<[u64; 12]>::from_slice(fields.key);
        words.extend_from_slice(args);
        if fields.is_const {
            flags |= CONST;
        }
        if fields.idle_timeout_ns != 0 {
            flags |= IDLE;
            words.push(fields.idle_timeout_ns);
        }
        if fields.priority != 0 {
            flags |= PRIORITY;
            words.push(u64::from(fields.priority as u32));
        }
        // 24 bits suffice for the length, because a key of 2^24 words would have hundreds of fields
        // of the maximum width.
        let flags_and_key_len = (fields.key.len() as u32) << FLAG_BITS | flags;
        let header = EntryHeader { sequence: fields.sequence, extras: fields.extras, action_id, flags_and_key_len };
        StoredEntry(ThinArc::from_header_and_slice(header, &words))
    }

    /// Creates an entry that a packet has added to an exact table, with sequence number 0, for an
    /// engine that keeps such entries itself.
    pub fn from_packet(key: &[u64], action: StoredActionRef<'_>, idle_timeout_ns: u64) -> StoredEntry {
        let (priority, is_const, sequence, extras) = (0, false, 0, None);
        StoredEntry::new(EntryFields { key, action, priority, is_const, sequence, idle_timeout_ns, extras })
    }

    /// Returns the entry without an idle timeout: a copy of it that others end.
    pub fn without_idle_timeout(&self) -> StoredEntry {
        self.with_idle_timeout(0)
    }

    /// Returns the entry with another idle timeout.
    pub(crate) fn with_idle_timeout(&self, idle_timeout_ns: u64) -> StoredEntry {
        StoredEntry::new(EntryFields { idle_timeout_ns, ..self.fields() })
    }

    fn fields(&self) -> EntryFields<'_> {
        EntryFields {
            key: self.key(),
            action: self.action(),
            priority: self.priority(),
            is_const: self.is_const(),
            sequence: self.sequence(),
            idle_timeout_ns: self.idle_timeout_ns(),
            extras: self.header().extras.clone(),
        }
    }

    #[inline]
    fn header(&self) -> &EntryHeader {
        &self.0.header.header
    }

    #[inline]
    fn words(&self) -> &[u64] {
        &self.0.slice
    }

    #[inline]
    fn has_flag(&self, flag: u32) -> bool {
        self.header().flags_and_key_len & flag != 0
    }

    /// Returns the keys, laid out by the table's [`KeyLayout`].
    #[inline]
    pub fn key(&self) -> &[u64] {
        &self.words()[..(self.header().flags_and_key_len >> FLAG_BITS) as usize]
    }

    /// Returns the action, member or group.
    #[inline]
    pub fn action(&self) -> StoredActionRef<'_> {
        let action_id = self.header().action_id;
        if self.has_flag(MEMBER) {
            StoredActionRef::Member(action_id)
        } else if self.has_flag(GROUP) {
            StoredActionRef::Group(action_id)
        } else {
            let words = self.words();
            let end = words.len() - usize::from(self.has_flag(IDLE)) - usize::from(self.has_flag(PRIORITY));
            StoredActionRef::Call(
                ActionId(action_id),
                &words[(self.header().flags_and_key_len >> FLAG_BITS) as usize..end],
            )
        }
    }

    /// Returns the priority, see [`TableEntry::priority`].
    #[inline]
    pub fn priority(&self) -> i32 {
        match self.words() {
            [.., last] if self.has_flag(PRIORITY) => *last as u32 as i32,
            _ => 0,
        }
    }

    /// Returns the idle timeout in nanoseconds; 0 is none.
    pub fn idle_timeout_ns(&self) -> u64 {
        match (self.words(), self.has_flag(PRIORITY)) {
            ([.., time, _], true) | ([.., time], false) if self.has_flag(IDLE) => *time,
            _ => 0,
        }
    }

    /// Reports whether the program declares the entry as `const`.
    pub fn is_const(&self) -> bool {
        self.has_flag(CONST)
    }

    /// Returns the insertion order: of two matching entries with one priority, the one inserted
    /// first wins. A modified entry keeps its position.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.header().sequence
    }

    /// Returns the configuration of the direct meter.
    pub fn meter(&self) -> Option<&MeterConfig> {
        self.header().extras.as_ref()?.meter.as_deref()
    }

    /// Returns the provenance, see [`TableEntry::provenance`].
    pub fn provenance(&self) -> Option<&Arc<str>> {
        self.header().extras.as_ref()?.provenance.as_ref()
    }

    /// Returns the metadata, see [`TableEntry::metadata`].
    pub fn metadata(&self) -> &[u8] {
        self.header().extras.as_ref().map_or(&[], |extras| &extras.metadata)
    }

    /// Returns the number of clones, including this one; 1 means that no table or snapshot holds
    /// the entry.
    pub fn reference_count(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// Returns the memory of the entry in bytes, without rare attributes.
    pub fn memory_bytes(&self) -> usize {
        // Reference count, number of words, header and words.
        2 * size_of::<usize>() + size_of::<EntryHeader>() + size_of_val(&self.0.slice)
    }

    /// Prefetches the entry.
    #[inline]
    pub fn prefetch(&self) {
        crate::prefetch::prefetch(self.0.as_ptr().cast(), 2);
    }

    /// Returns a copy with another meter configuration.
    pub(crate) fn with_meter(&self, meter: Option<MeterConfig>) -> StoredEntry {
        let extras = EntryExtras::boxed_if_any(meter, self.provenance(), self.metadata());
        StoredEntry::new(EntryFields { extras, ..self.fields() })
    }

    /// Converts to the control plane's form. `pipeline` and `table` must be those that the entry
    /// was validated against.
    pub fn to_table_entry(&self, pipeline: &Pipeline, table: TableId) -> TableEntry {
        TableEntry {
            table,
            keys: KeyLayout::new(&pipeline.tables[table].keys).unpack(self.key()),
            priority: self.priority(),
            action: self.action().to_spec(pipeline),
            counter: None,
            meter: self.meter().copied(),
            idle_timeout_ns: self.idle_timeout_ns(),
            provenance: self.provenance().cloned(),
            metadata: self.metadata().to_vec(),
            is_const: self.is_const(),
        }
    }
}

impl KeyLayout {
    /// Returns the precedence of an entry of this layout.
    pub fn match_precedence(&self, entry: &StoredEntry) -> MatchPrecedence {
        let prefixes = self.fields.iter().filter(|field| field.kind == MatchKind::Lpm);
        let bits = prefixes.map(|field| field.second(entry.key())[0]).sum();
        (Reverse(entry.priority()), Reverse(bits), entry.sequence())
    }
}

impl fmt::Debug for StoredEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key())
            .field("priority", &self.priority())
            .field("is_const", &self.is_const())
            .field("action", &self.action())
            .field("sequence", &self.sequence())
            .field("idle_timeout_ns", &self.idle_timeout_ns())
            .field("extras", &self.header().extras)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that all attributes of an entry can be read back, in any combination.
    #[test]
    fn all_parts() {
        let meter = MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4 };
        let actions =
            [StoredActionRef::Call(ActionId(7), &[8, 9]), StoredActionRef::Member(u32::MAX), StoredActionRef::Group(3)];
        for bits in 0..64u64 {
            let has = |bit: u64| bits >> bit & 1 == 1;
            for action in actions {
                let (priority, idle_timeout_ns) =
                    (if has(0) { i32::MAX } else { 0 }, if has(1) { u64::MAX } else { 0 });
                let provenance = has(4).then(|| Arc::from("here"));
                let metadata: &[u8] = if has(5) { &[1, 2] } else { &[] };
                let extras = EntryExtras::boxed_if_any(has(3).then_some(meter), provenance.as_ref(), metadata);
                let key: &[u64] = if bits % 3 == 0 { &[] } else { &[5, 6] };
                let fields =
                    EntryFields { key, action, priority, is_const: has(2), sequence: bits, idle_timeout_ns, extras };
                let entry = StoredEntry::new(fields);
                assert_eq!((entry.key(), entry.action(), entry.priority()), (key, action, priority));
                assert_eq!((entry.is_const(), entry.sequence()), (has(2), bits));
                assert_eq!(entry.idle_timeout_ns(), idle_timeout_ns);
                assert_eq!((entry.meter(), entry.provenance()), (has(3).then_some(&meter), provenance.as_ref()));
                assert_eq!(entry.metadata(), metadata);
                let other = entry.with_meter(None);
                assert_eq!((other.meter(), other.provenance()), (None, provenance.as_ref()));
                assert_eq!(other == entry, !has(3));
            }
        }
    }

    #[test]
    fn size() {
        // Overhead before the words, with reference count and length: 40 bytes.
        assert_eq!(size_of::<EntryHeader>(), 24);
        assert_eq!(size_of::<Option<StoredEntry>>(), 8);
    }
}
