//! [`Entry`]: an entry as it is kept, in one small piece of memory.

use crate::entry::{MeterConfig, PackedAction, TableEntry};
use crate::layout::{KeyLayout, Strength};
use ir::{ActionId, MatchKind, Pipeline, TableId};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use triomphe::ThinArc;

/// An entry as it is kept. It doesn't change: a modified entry is another one. To clone it costs a count.
///
/// An entry with an exact key of two numbers and an action with two takes 72 bytes, of which 40 are not key and arguments. What few
/// entries have takes memory in those alone.
#[derive(Clone, PartialEq)]
pub struct Entry(ThinArc<Head, u64>);

/// What stands before the words: key, arguments, then idle time and priority if they are not 0.
#[derive(PartialEq)]
struct Head {
    sequence: u64,
    rare: Option<Box<Rare>>,
    /// The action, member or group.
    target: u32,
    /// Flags in the lowest 8 bits, then how many words the key has.
    shape: u32,
}

/// What few entries have.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Rare {
    /// Configuration of the direct meter.
    pub meter: Option<Box<MeterConfig>>,
    /// As in [`TableEntry::provenance`].
    pub provenance: Option<Arc<str>>,
    /// As in [`TableEntry::metadata`].
    pub metadata: Box<[u8]>,
}

impl Rare {
    /// In a box, or nothing if it is nothing.
    pub fn boxed(meter: Option<MeterConfig>, provenance: Option<&Arc<str>>, metadata: &[u8]) -> Option<Box<Rare>> {
        if meter.is_none() && provenance.is_none() && metadata.is_empty() {
            return None;
        }
        let (meter, provenance) = (meter.map(Box::new), provenance.cloned());
        Some(Box::new(Rare { meter, provenance, metadata: metadata.into() }))
    }
}

const CONST: u32 = 1;
const IDLE: u32 = 2;
const PRIORITY: u32 = 4;
const MEMBER: u32 = 8;
const GROUP: u32 = 16;
/// Bits of the flags in [`Head::shape`].
const FLAGS: u32 = 8;

/// What an entry is made of.
pub(crate) struct Parts<'a> {
    pub key: &'a [u64],
    pub action: PackedAction<'a>,
    pub priority: i32,
    pub is_const: bool,
    pub sequence: u64,
    pub idle_timeout_ns: u64,
    pub rare: Option<Box<Rare>>,
}

impl Entry {
    #[inline]
    pub(crate) fn new(parts: Parts<'_>) -> Entry {
        let (target, args, mut flags): (_, &[u64], _) = match parts.action {
            PackedAction::Call(action, args) => (action.0, args, 0),
            PackedAction::Member(id) => (id, &[], MEMBER),
            PackedAction::Group(id) => (id, &[], GROUP),
        };
        let mut words = SmallVec::<[u64; 12]>::from_slice(parts.key);
        words.extend_from_slice(args);
        if parts.is_const {
            flags |= CONST;
        }
        if parts.idle_timeout_ns != 0 {
            flags |= IDLE;
            words.push(parts.idle_timeout_ns);
        }
        if parts.priority != 0 {
            flags |= PRIORITY;
            words.push(u64::from(parts.priority as u32));
        }
        // A key of 2^24 words would be one of hundreds of fields of the greatest width.
        let shape = (parts.key.len() as u32) << FLAGS | flags;
        let head = Head { sequence: parts.sequence, rare: parts.rare, target, shape };
        Entry(ThinArc::from_header_and_slice(head, &words))
    }

    #[inline]
    fn head(&self) -> &Head {
        &self.0.header.header
    }

    #[inline]
    fn words(&self) -> &[u64] {
        &self.0.slice
    }

    #[inline]
    fn is(&self, flag: u32) -> bool {
        self.head().shape & flag != 0
    }

    /// The keys, laid out by the table's [`KeyLayout`].
    #[inline]
    pub fn key(&self) -> &[u64] {
        &self.words()[..(self.head().shape >> FLAGS) as usize]
    }

    /// What to do.
    #[inline]
    pub fn action(&self) -> PackedAction<'_> {
        let target = self.head().target;
        if self.is(MEMBER) {
            PackedAction::Member(target)
        } else if self.is(GROUP) {
            PackedAction::Group(target)
        } else {
            let words = self.words();
            let end = words.len() - usize::from(self.is(IDLE)) - usize::from(self.is(PRIORITY));
            PackedAction::Call(ActionId(target), &words[(self.head().shape >> FLAGS) as usize..end])
        }
    }

    /// As in [`TableEntry::priority`].
    #[inline]
    pub fn priority(&self) -> i32 {
        match self.words() {
            [.., last] if self.is(PRIORITY) => *last as u32 as i32,
            _ => 0,
        }
    }

    /// Idle time in nanoseconds; 0 is none.
    pub fn idle_timeout_ns(&self) -> u64 {
        match (self.words(), self.is(PRIORITY)) {
            ([.., time, _], true) | ([.., time], false) if self.is(IDLE) => *time,
            _ => 0,
        }
    }

    /// Declared by the program as `const`.
    pub fn is_const(&self) -> bool {
        self.is(CONST)
    }

    /// Order of insertion: of two entries that match with one priority, the one inserted first wins. A modified entry keeps its
    /// place.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.head().sequence
    }

    /// Configuration of the direct meter.
    pub fn meter(&self) -> Option<&MeterConfig> {
        self.head().rare.as_ref()?.meter.as_deref()
    }

    /// As in [`TableEntry::provenance`].
    pub fn provenance(&self) -> Option<&Arc<str>> {
        self.head().rare.as_ref()?.provenance.as_ref()
    }

    /// As in [`TableEntry::metadata`].
    pub fn metadata(&self) -> &[u8] {
        self.head().rare.as_ref().map_or(&[], |rare| &rare.metadata)
    }

    /// How many clones of it there are, this one among them: what is gone from everywhere has one.
    pub fn holders(&self) -> usize {
        ThinArc::strong_count(&self.0)
    }

    /// Bytes of memory that it takes, without what few entries have.
    pub fn memory_bytes(&self) -> usize {
        // The count, the number of words, and what is there.
        2 * size_of::<usize>() + size_of::<Head>() + size_of_val(&self.0.slice)
    }

    /// Asks for its memory, which will be read soon.
    #[inline]
    pub fn expect(&self) {
        crate::prefetch::prefetch(self.0.as_ptr().cast(), 2);
    }

    /// The same with another configuration of its meter.
    pub(crate) fn with_meter(&self, meter: Option<MeterConfig>) -> Entry {
        Entry::new(Parts {
            key: self.key(),
            action: self.action(),
            priority: self.priority(),
            is_const: self.is_const(),
            sequence: self.sequence(),
            idle_timeout_ns: self.idle_timeout_ns(),
            rare: Rare::boxed(meter, self.provenance(), self.metadata()),
        })
    }

    /// In the control plane's form. `pipeline` and `table` must be those that it was validated against.
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
    /// How strong an entry of this layout is.
    pub fn strength(&self, entry: &Entry) -> Strength {
        let prefixes = self.fields.iter().filter(|field| field.kind == MatchKind::Lpm);
        let bits = prefixes.map(|field| field.second(entry.key())[0]).sum();
        (Reverse(entry.priority()), Reverse(bits), entry.sequence())
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key())
            .field("priority", &self.priority())
            .field("is_const", &self.is_const())
            .field("action", &self.action())
            .field("sequence", &self.sequence())
            .field("idle_timeout_ns", &self.idle_timeout_ns())
            .field("rare", &self.head().rare)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever an entry has comes out again, in any combination.
    #[test]
    fn all_parts() {
        let meter = MeterConfig { cir: 1, cburst: 2, pir: 3, pburst: 4 };
        let actions =
            [PackedAction::Call(ActionId(7), &[8, 9]), PackedAction::Member(u32::MAX), PackedAction::Group(3)];
        for bits in 0..64u64 {
            let has = |bit: u64| bits >> bit & 1 == 1;
            for action in actions {
                let (priority, idle_timeout_ns) =
                    (if has(0) { i32::MAX } else { 0 }, if has(1) { u64::MAX } else { 0 });
                let provenance = has(4).then(|| Arc::from("here"));
                let metadata: &[u8] = if has(5) { &[1, 2] } else { &[] };
                let rare = Rare::boxed(has(3).then_some(meter), provenance.as_ref(), metadata);
                let key: &[u64] = if bits % 3 == 0 { &[] } else { &[5, 6] };
                let parts = Parts { key, action, priority, is_const: has(2), sequence: bits, idle_timeout_ns, rare };
                let entry = Entry::new(parts);
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
        // What stands before the words, with the count and the length: 40 bytes.
        assert_eq!(size_of::<Head>(), 24);
        assert_eq!(size_of::<Option<Entry>>(), 8);
    }
}
