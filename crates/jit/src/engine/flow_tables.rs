//! [`FlowTables`]: tables that packets write, as the control plane reads, counts and clears them:
//! in pages, from the table that packets use, with no lock from one page to the next.
//!
//! A page holds each lock for some hundred entries. An entry is as of one moment, but not all
//! entries are of the same moment (P4Runtime promises no more).

use super::{EngineShared, Execution, Jit};
use crate::idle_profiles::tick_of;
use crate::packet_written::{DEFAULT_SIZE, FlowTableCounts, PacketWrittenTable};
use entries::{Counter, KeyFilter, PackedKey, StoredEntry};
use flowtable::{ChangeReader, EntryRef, JoinError, Member, SubscribeError};
use interp::{EntryRuntimeState, TICK_NS};
use ir::TableId;
use std::sync::Arc;

/// Records that a page of a read examines: meanwhile a member keeps removed records from being used
/// again.
pub(super) const READ_RECORDS: u32 = 8192;
/// Records that a page of a removal examines.
const REMOVE_RECORDS: u32 = 2048;
/// Changes by one worker that a subscription holds until they are read. If there are more, the entry is
/// visited as it is then.
const CHANGES_OF_WORKER: u32 = 1 << 14;
/// Entries for which the host is used at once. Workers wait for it if their packets count.
pub(super) const HOST_ENTRIES: usize = 128;

/// The flow tables of an engine that runs native code. Clones name the same tables.
#[derive(Clone)]
pub struct FlowTables(Arc<EngineShared>);

/// Selection of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowQuery {
    /// Condition on the packed key ([`entries::ControlState::layout`]).
    pub keys: KeyFilter,
    /// Selects only entries without a hit for longer than this, in nanoseconds.
    pub idle_longer_than_ns: Option<u64>,
}

/// Properties of a flow table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowTableInfo {
    /// Number of entries.
    pub entries: u64,
    /// Largest number of entries since the program was loaded, looked at once in each expiry.
    pub high_water: u64,
    /// The same since [`FlowTables::reset_peaks`].
    pub high_water_since_reset: u64,
    /// Maximum number of entries.
    pub size: u32,
    /// Whether the program declares no size, so that `size` is the default.
    pub has_default_size: bool,
    /// Counts since the program was loaded.
    pub counts: FlowTableCounts,
}

/// An entry of a flow table.
#[derive(Clone, Debug)]
pub struct FlowEntry {
    /// Key, action and idle timeout.
    pub entry: StoredEntry,
    /// Nanoseconds since the last hit, or since the addition.
    pub idle_ns: u64,
    /// Nanoseconds until the idle timeout is over; `None`: it has none.
    pub left_ns: Option<u64>,
    /// Its direct counter, if the table has one.
    pub counter: Option<Counter>,
}

/// A page of a read.
#[derive(Clone, Debug, Default)]
pub struct FlowPage {
    /// Entries that match, at most as many as were wanted.
    pub entries: Vec<FlowEntry>,
    /// Number of entries that match.
    pub matching: u64,
}

/// A page of a removal.
#[derive(Clone, Debug, Default)]
pub struct RemovedFlows {
    /// The removed entries that the control state had: all but the newest.
    pub entries: Vec<StoredEntry>,
    /// Number of removed entries.
    pub removed: u64,
    /// Where to continue; `None` behind the last entry.
    pub next: Option<u32>,
}

impl Jit {
    /// Returns the tables that packets write; `None` if there is none, or the interpreter runs the
    /// program.
    pub fn flow_tables(&self) -> Option<FlowTables> {
        match &self.execution {
            Execution::Native { shared, .. } if !shared.program.runtime.written.is_empty() => {
                Some(FlowTables(shared.clone()))
            }
            _ => None,
        }
    }
}

impl FlowTables {
    fn table(&self, table: TableId) -> Option<&PacketWrittenTable> {
        self.0.program.runtime.written.get(table)
    }

    /// Returns the flow tables in the program's order.
    pub fn ids(&self) -> impl Iterator<Item = TableId> {
        self.0.pipeline.tables.keys().filter(|table| self.table(*table).is_some())
    }

    /// Returns notes for the operator about tables without a declared size.
    pub fn notes(&self) -> Vec<String> {
        let defaults = self.ids().filter(|table| self.table(*table).is_some_and(|table| table.has_default_size));
        let note = |table: TableId| {
            let name = &self.0.pipeline.tables[table].preamble.name;
            format!("{name} has no `size`: it takes at most {DEFAULT_SIZE} entries; declare the size that it needs")
        };
        defaults.map(note).collect()
    }

    /// Returns the properties of a flow table; `None` for another table.
    pub fn info(&self, table: TableId) -> Option<FlowTableInfo> {
        let written = self.table(table)?;
        let [entries, high_water, high_water_since_reset] = written.note_peak();
        Some(FlowTableInfo {
            entries,
            high_water,
            high_water_since_reset,
            size: written.flows.shape().size,
            has_default_size: written.has_default_size,
            counts: written.counts(),
        })
    }

    /// Lets all high-water marks since the last reset be the present numbers of entries.
    pub fn reset_peaks(&self) {
        self.ids().filter_map(|table| self.table(table)).for_each(PacketWrittenTable::reset_peak);
    }

    /// Begins to read the entries of a flow table; `None` for another table.
    ///
    /// # Errors
    /// The table has as many workers and readers as it can have.
    pub fn reader(&self, table: TableId, query: &FlowQuery) -> Option<Result<FlowReader, JoinError>> {
        let written = self.table(table)?;
        let filter = written.codec.encode_filter(&query.keys);
        Some(written.flows.join().map(|member| FlowReader {
            shared: self.0.clone(),
            table,
            member,
            filter,
            query: query.clone(),
            next: Some(1),
        }))
    }

    /// Subscribes to the entries that packets add to a flow table from now on; `None` for another
    /// table. A table has one subscriber.
    ///
    /// # Errors
    /// There is a subscriber, or there are as many workers and readers as there can be.
    pub fn changes(&self, table: TableId) -> Option<Result<FlowChanges, SubscribeError>> {
        let written = self.table(table)?;
        let reader = written.flows.subscribe(CHANGES_OF_WORKER);
        Some(reader.map(|reader| FlowChanges { shared: self.0.clone(), table, reader }))
    }

    /// Begins to read the entries of a flow table as the control state has them, with all that a
    /// controller has set. With `has_values` they have their idle times and counters. `None` for
    /// another table.
    pub fn stored(&self, table: TableId, has_values: bool) -> Option<StoredFlows> {
        self.table(table)?;
        let next = Some(ReadPosition::Record(1));
        Some(StoredFlows { shared: self.0.clone(), table, has_values, next })
    }

    /// Removes the entries among some thousand records from `cursor` on (1: the first) that match,
    /// from the table, the control state and the host, each with its twin. `None` for another table.
    pub fn remove_page(&self, table: TableId, query: &FlowQuery, cursor: u32) -> Option<RemovedFlows> {
        let filter = self.table(table)?.codec.encode_filter(&query.keys);
        // Nothing else removes entries while this lock is held, and packets do not need it.
        let mut live = self.0.live.lock();
        let written = &self.0.program.runtime.written;
        let now_ns = self.0.program.runtime.hit_times.now();
        let (mut removed, mut keys) = (Vec::new(), Vec::new());
        let next = written.with_control(table, |written, member| {
            let mut matching = Vec::new();
            let next = member.read(cursor, REMOVE_RECORDS, |entry| {
                if matches(&filter, &entry) && is_idle(written, &entry, query, now_ns) {
                    matching.push((entry.id, written.codec.decode_key(entry.key)));
                }
            });
            for (record, key) in matching {
                let stored = live.state().get_entry(table, key.as_slice(), 0);
                if !stored.is_some_and(StoredEntry::is_const) {
                    member.remove_record_with(record, |entry| {
                        removed.push(entry.id.0);
                        keys.push(written.codec.decode_key(entry.key));
                    });
                }
            }
            next
        })?;
        let count = keys.len() as u64;
        let stored = |key: &PackedKey| live.state().get_entry(table, key.as_slice(), 0).cloned();
        let entries = keys.iter().filter_map(stored).collect();
        if written.get(table).is_some_and(|written| written.has_host_state) {
            let mut host = self.0.program.runtime.host.lock();
            removed.iter().for_each(|record| host.entry_removed(table, *record));
        }
        self.0.forget_removed(&mut live, table, keys);
        Some(RemovedFlows { entries, removed: count, next })
    }
}

/// Subscription to the entries that are added to a flow table.
pub struct FlowChanges {
    shared: Arc<EngineShared>,
    table: TableId,
    reader: ChangeReader,
}

impl FlowChanges {
    /// Visits entries that were added since the last call, at first all entries, and that are still
    /// there: about `budget` changes. An entry can be visited again when its idle time changes.
    pub fn poll(&mut self, budget: u32, mut visit: impl FnMut(StoredEntry)) {
        let Some(written) = self.shared.program.runtime.written.get(self.table) else { return };
        let now = tick_of(self.shared.program.runtime.hit_times.now());
        self.reader.poll(now, budget, |change| {
            if let Some(entry) = &change.entry {
                visit(written.stored_entry(entry));
            }
        });
    }
}

/// Reads a flow table page by page. Between two pages it holds no lock and no record.
pub struct FlowReader {
    shared: Arc<EngineShared>,
    table: TableId,
    member: Member,
    /// Condition on the words of a lookup key.
    filter: KeyFilter,
    query: FlowQuery,
    next: Option<u32>,
}

impl FlowReader {
    /// Reads the next page; `None` behind the last. Of the entries that match, at most `wanted` are
    /// returned, and all are counted.
    ///
    /// An entry that packets added in the last milliseconds can be missing.
    pub fn next_page(&mut self, wanted: usize) -> Option<FlowPage> {
        let cursor = self.next?;
        let written = self.shared.program.runtime.written.get(self.table)?;
        let (mut found, mut matching) = (Vec::new(), 0);
        let now_ns = self.shared.program.runtime.hit_times.now();
        self.member.begin_batch(tick_of(now_ns));
        self.next = self.member.read(cursor, READ_RECORDS, |entry| {
            if matches(&self.filter, &entry) && is_idle(written, &entry, &self.query, now_ns) {
                matching += 1;
                if found.len() < wanted {
                    found.push((entry.id.0, flow_entry(written, &entry, now_ns)));
                }
            }
        });
        self.member.park();
        self.shared.add_counters(self.table, &mut found);
        Some(FlowPage { entries: found.into_iter().map(|(_, entry)| entry).collect(), matching })
    }
}

/// An entry of a flow table with all that a controller has set.
#[derive(Clone, Debug)]
pub struct StoredFlow {
    /// The entry.
    pub entry: StoredEntry,
    /// Nanoseconds since the last hit, or since the addition.
    pub idle_ns: Option<u64>,
    /// Its direct counter.
    pub counter: Option<Counter>,
}

/// Reads a flow table's entries, page by page: first those that only the table has, by record, then
/// those of the control state. So an entry that is there all the time is not missed. One that a
/// controller modifies for the first time meanwhile can come twice. Between two pages it holds no
/// lock and no entries.
pub struct StoredFlows {
    shared: Arc<EngineShared>,
    table: TableId,
    has_values: bool,
    next: Option<ReadPosition>,
}

/// How far a read has come.
#[derive(Clone, Copy)]
enum ReadPosition {
    /// The next record.
    Record(u32),
    /// The next page of the control state.
    State(usize),
}

impl StoredFlows {
    /// Returns the next page; `None` behind the last.
    pub fn next_page(&mut self) -> Option<Vec<StoredFlow>> {
        match self.next? {
            ReadPosition::Record(cursor) => Some(self.next_records(cursor)),
            ReadPosition::State(page) => {
                let live = self.shared.live.lock();
                let (entries, next) = live.state().entries_page(self.table, page);
                let entries: Vec<StoredEntry> = entries.cloned().collect();
                self.next = next.map(ReadPosition::State);
                drop(live);
                Some(entries.into_iter().map(|entry| self.with_values(entry)).collect())
            }
        }
    }

    /// Returns entries that the control state does not have, from a record on.
    fn next_records(&mut self, cursor: u32) -> Vec<StoredFlow> {
        let runtime = &self.shared.program.runtime;
        let now_ns = runtime.hit_times.now();
        let read = |written: &PacketWrittenTable, member: &mut Member| {
            let mut found = Vec::new();
            let next = member.read(cursor, READ_RECORDS, |entry| {
                found.push((entry.id.0, flow_entry(written, &entry, now_ns)));
            });
            (found, next)
        };
        let (mut found, next) = runtime.written.with_control(self.table, read).unwrap_or_default();
        self.next = Some(next.map_or(ReadPosition::State(0), ReadPosition::Record));
        let live = self.shared.live.lock();
        found.retain(|(_, flow)| live.state().get_entry(self.table, flow.entry.key(), 0).is_none());
        drop(live);
        if self.has_values {
            self.shared.add_counters(self.table, &mut found);
        }
        let stored = |(_, FlowEntry { entry, idle_ns, counter, .. }): (u32, FlowEntry)| StoredFlow {
            entry,
            idle_ns: self.has_values.then_some(idle_ns),
            counter,
        };
        found.into_iter().map(stored).collect()
    }

    /// Returns the entry of a packed key.
    pub fn find(&self, key: &[u64]) -> Option<StoredFlow> {
        let known = self.shared.live.lock().state().get_entry(self.table, key, 0).cloned();
        let found = self.shared.program.runtime.written.find_entry(self.table, key)?;
        Some(self.with_values(known.unwrap_or(found)))
    }

    fn with_values(&self, entry: StoredEntry) -> StoredFlow {
        if !self.has_values {
            return StoredFlow { entry, idle_ns: None, counter: None };
        }
        let idle_ns = self.shared.idle_for_written(self.table, &entry);
        let number = self.shared.program.runtime.written.entry_number(self.table, &entry);
        let counter = number.and_then(|number| self.shared.host_at_latest_time().direct_counter(self.table, number));
        StoredFlow { entry, idle_ns, counter }
    }
}

/// Returns whether the lookup key of an entry matches.
fn matches(filter: &KeyFilter, entry: &EntryRef<'_>) -> bool {
    let (words, _) = entry.key.as_chunks::<8>();
    filter.matches(|index| words.get(index).map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
}

/// Returns whether the idle time of an entry is as the query asks.
fn is_idle(written: &PacketWrittenTable, entry: &EntryRef<'_>, query: &FlowQuery, now_ns: u64) -> bool {
    let idle_ns = || now_ns.saturating_sub(written.level_of(entry, now_ns).idle_since_ns);
    query.idle_longer_than_ns.is_none_or(|least_ns| idle_ns() > least_ns)
}

/// Returns an entry without its counter.
fn flow_entry(written: &PacketWrittenTable, entry: &EntryRef<'_>, now_ns: u64) -> FlowEntry {
    let EntryRuntimeState { idle_since_ns, .. } = written.level_of(entry, now_ns);
    FlowEntry {
        entry: written.stored_entry(entry),
        idle_ns: now_ns.saturating_sub(idle_since_ns),
        left_ns: entry.left_ticks.map(|ticks| u64::from(ticks) * TICK_NS),
        counter: None,
    }
}

impl EngineShared {
    /// Adds the direct counters of entries, by record.
    fn add_counters(&self, table: TableId, flows: &mut [(u32, FlowEntry)]) {
        if self.pipeline.tables[table].direct_counter.is_none() {
            return;
        }
        for chunk in flows.chunks_mut(HOST_ENTRIES) {
            let host = self.host_at_latest_time();
            for (record, flow) in chunk {
                flow.counter = Some(host.direct_counter(table, *record).unwrap_or_default());
            }
        }
    }
}
