//! [`PacketWrittenTables`]: tables to which packets add entries. All workers share one copy of each
//! ([`flowtable`]).
//!
//! A worker adds an entry while it runs a packet, and lists it. Before the control plane reads or
//! writes anything, the engine enters the listed entries in its control state
//! (`engine/added_entries.rs`). So a packet never waits for the control plane.

use crate::fallback_reason::FallbackReason;
use entries::StoredEntry;
use flowtable::{Addition, FlowTable, Member, RecordId, Refusal, Shape};
use ir::{Entity, Pipeline, TableId};
use lookup::{EntryCodec, LiveTables};
use parking_lot::Mutex;

/// Maximum number of entries of a table that declares none.
const DEFAULT_SIZE: u32 = 1 << 24;
/// Maximum number of workers of an engine, and its control side.
const MEMBERS: usize = 256;

/// An entry that a packet has added and that the control state does not have yet.
#[derive(Clone, Copy, Debug)]
pub struct AddedEntry {
    /// Its table.
    pub table: TableId,
    /// Its record, which is its number.
    pub record: RecordId,
    /// Number of its expire time profile.
    pub profile: u8,
    /// Time of the packet in nanoseconds.
    pub added_ns: u64,
    /// Whether the host has its state already.
    pub has_host_state: bool,
}

/// One table that packets write.
pub struct PacketWrittenTable {
    /// Its entries.
    pub flows: FlowTable,
    /// Converter of its entries.
    pub codec: EntryCodec,
    /// Whether packets can change state of an entry that the host keeps, such as a direct counter.
    pub has_host_state: bool,
}

/// The tables of an engine that packets write.
#[derive(Default)]
pub struct PacketWrittenTables {
    tables: Vec<Option<PacketWrittenTable>>,
    added: Mutex<Vec<AddedEntry>>,
    control: Mutex<Vec<Option<Member>>>,
}

impl PacketWrittenTables {
    /// Makes the empty tables marked in `written`; `live` converts their entries.
    ///
    /// # Errors
    /// A table with longer keys or values, or more entries, than native code supports.
    pub fn new(pipeline: &Pipeline, live: &LiveTables, written: &[bool]) -> Result<Self, FallbackReason> {
        let mut tables = Vec::new();
        for (id, declared) in pipeline.tables.iter() {
            let Some(codec) = live.codec(id).filter(|_| written[id.index()]) else {
                tables.push(None);
                continue;
            };
            let size = declared.size.map_or(Ok(DEFAULT_SIZE), u32::try_from).map_err(|_| FallbackReason::TooLarge)?;
            let shape = Shape {
                // The host keeps idle times, as it does for the entries of all tables.
                hits_restart: false,
                members: MEMBERS,
                ..Shape::new(codec.layout().words * size_of::<u64>(), codec.max_value_len_bytes(), size)
            };
            let flows = FlowTable::new(shape, seed(id)).map_err(|_| FallbackReason::TooLarge)?;
            let has_host_state =
                declared.direct_counter.is_some() || declared.direct_meter.is_some() || changes_sessions(pipeline, id);
            tables.push(Some(PacketWrittenTable { flows, codec: codec.clone(), has_host_state }));
        }
        let control = tables.iter().map(|table| table.as_ref().and_then(|table| table.flows.join().ok())).collect();
        Ok(PacketWrittenTables { tables, control: Mutex::new(control), ..Default::default() })
    }

    /// Returns a table, if packets write it.
    pub fn get(&self, table: TableId) -> Option<&PacketWrittenTable> {
        self.tables.get(table.index())?.as_ref()
    }

    /// Returns whether there is no such table.
    pub fn is_empty(&self) -> bool {
        self.tables.iter().all(Option::is_none)
    }

    /// Returns a new worker's membership of each table; nothing if packets write none.
    pub fn join(&self) -> Vec<Option<Member>> {
        if self.is_empty() {
            return Vec::new();
        }
        self.tables.iter().map(|table| table.as_ref().and_then(|table| table.flows.join().ok())).collect()
    }

    /// Appends entries that a worker has added. Leaves `added` empty.
    pub fn append_added(&self, added: &mut Vec<AddedEntry>) {
        self.added.lock().append(added);
    }

    /// Takes the added entries, in the order in which workers listed them.
    pub fn take_added(&self) -> Vec<AddedEntry> {
        std::mem::take(&mut self.added.lock())
    }

    /// Runs `work` as the control plane's member of a table; `None` if packets do not write it.
    pub fn with_control<R>(
        &self,
        table: TableId,
        work: impl FnOnce(&PacketWrittenTable, &mut Member) -> R,
    ) -> Option<R> {
        let written = self.get(table)?;
        let mut members = self.control.lock();
        let member = members.get_mut(table.index())?.as_mut()?;
        member.begin_batch(0);
        let result = work(written, member);
        member.park();
        Some(result)
    }

    /// Returns the number of an entry that is in the table.
    pub fn entry_number(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        let record = self.with_control(table, |written, member| member.lookup(&written.codec.encode_key(entry)))?;
        record.is_some().then_some(record.0)
    }

    /// Inserts an entry of the control plane. Returns its number, and with a packet's entry of the
    /// same key replaced, that of the packet's.
    ///
    /// # Errors
    /// The table is full because packets have added entries meanwhile.
    pub fn insert(&self, table: TableId, entry: &StoredEntry) -> Result<u32, Refusal> {
        let insert = |written: &PacketWrittenTable, member: &mut Member| {
            let (key, value) = (written.codec.encode_key(entry), written.codec.encode_value(entry.action()));
            match member.find_or_add(&key, &value, 0, 0) {
                Addition::Added(record) => Ok(record.0),
                Addition::Found(_) => member.modify(&key, &value, 0).map(|record| record.0),
                Addition::Refused(refusal) => Err(refusal),
            }
        };
        self.with_control(table, insert).unwrap_or(Err(Refusal::Malformed))
    }

    /// Replaces the action of an entry. Returns its numbers before and after.
    ///
    /// # Errors
    /// No record is free, because workers still use removed ones.
    pub fn modify(&self, table: TableId, entry: &StoredEntry) -> Result<[u32; 2], Refusal> {
        let modify = |written: &PacketWrittenTable, member: &mut Member| {
            let key = written.codec.encode_key(entry);
            let before = member.lookup(&key);
            let after = member.modify(&key, &written.codec.encode_value(entry.action()), 0)?;
            Ok([before.0, after.0])
        };
        self.with_control(table, modify).unwrap_or(Err(Refusal::Malformed))
    }

    /// Removes an entry. Returns the number that it had.
    pub fn remove(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        let record = self.with_control(table, |written, member| member.remove(&written.codec.encode_key(entry)))?;
        record.is_some().then_some(record.0)
    }

    /// Removes all entries of a table.
    pub fn clear(&self, table: TableId) {
        self.with_control(table, |_, member| {
            let mut cursor = Some(1);
            while let Some(next) = cursor {
                (cursor, _) = member.delete_where(next, 4096, |_| true);
            }
        });
    }

    /// Returns the memory of a table's entries in bytes; 0 if packets do not write it.
    pub fn memory_bytes(&self, table: TableId) -> usize {
        self.get(table).map_or(0, |table| table.flows.count() as usize * table.flows.layout().stride)
    }
}

/// Returns the seed of a table's hash. It differs from process to process, so that a sender cannot
/// choose keys that share a bucket.
fn seed(table: TableId) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(table.0)
}

/// Returns whether packets set expire times of a table's entries, add them in pairs, or give them
/// ports of a pool.
fn changes_sessions(pipeline: &Pipeline, table: TableId) -> bool {
    use ir::{ExternArg, ExternFn, Inst};
    pipeline.insts().any(|data| match &data.inst {
        Inst::Extern { func: ExternFn::PortPoolTake, .. } => true,
        Inst::Extern { func: ExternFn::SetEntryExpireTime, args, .. } => args.contains(&ExternArg::Table(table)),
        Inst::Extern { func: ExternFn::AddEntry, args, .. } => {
            args.len() > 4 && args.contains(&ExternArg::Table(table))
        }
        _ => false,
    })
}
