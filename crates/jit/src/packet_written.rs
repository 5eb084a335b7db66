//! [`PacketWrittenTables`]: tables to which packets add entries. All workers share one copy of each
//! ([`flowtable`]).
//!
//! Packets' entries are in these tables only. The control state has those of the control plane, and
//! gets one of a packet when the control plane names it or asks for all (`engine/added_entries.rs`).
//! So millions of sessions are held once, and a packet never waits for the control plane.

use crate::fallback_reason::FallbackReason;
use crate::idle_profiles::{IdleProfiles, tick_of};
use crate::leases::Leases;
use entries::{PackedKey, StoredEntry};
use flowtable::{Addition, EntryRef, FlowTable, Member, Refusal, Shape};
use interp::host::{ExternHost, HitTimes};
use interp::{EntryRuntimeState, TICK_NS};
use ir::{Entity, ExternArg, ExternFn, Inst, Pipeline, TableId};
use lookup::{EntryCodec, LiveTables};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of entries of a table that declares none. It bounds the memory that a scan can use,
/// because the control state holds each entry too.
pub const DEFAULT_SIZE: u32 = 1 << 20;
/// Entries for which memory is allocated ahead of need, at least and at most.
const MIN_AHEAD: u64 = 1 << 10;
const MAX_AHEAD: u64 = 1 << 20;
/// Maximum number of workers of an engine, and its control side.
const MEMBERS: usize = 256;

/// One table that packets write.
pub struct PacketWrittenTable {
    /// Its entries.
    pub flows: FlowTable,
    /// Converter of its entries.
    pub codec: EntryCodec,
    /// Idle times of its entries.
    pub idle_profiles: IdleProfiles,
    /// Whether the host keeps state of its entries: direct counters and meters.
    pub has_host_state: bool,
    /// Whether the program declares no size, so that [`DEFAULT_SIZE`] holds.
    pub has_default_size: bool,
    /// Entries that the control plane has inserted.
    inserted: AtomicU64,
    /// Entries of the program, of a store or of another process.
    restored: AtomicU64,
    /// Additions of packets that were refused because the worker is no member of the table.
    unjoined: AtomicU64,
    /// Largest number of entries that the control plane has seen: since the program was loaded, and
    /// since the last reset.
    peaks: [AtomicU64; 2],
    /// Number of entries when memory was last allocated ahead of need.
    count_at_population: AtomicU64,
}

/// Counts of a table that packets write, since the program was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowTableCounts {
    /// Entries that packets have added.
    pub added_by_packets: u64,
    /// Entries that the control plane has inserted, without those that it has restored.
    pub added_by_control: u64,
    /// Entries that were removed because their idle time was over.
    pub expired: u64,
    /// Entries that the control plane has removed.
    pub removed: u64,
    /// Refused additions by reason: the names of [`Refusal`]; `no_member`: the engine has more
    /// workers than the table has members.
    pub refused: Vec<(&'static str, u64)>,
}

impl PacketWrittenTable {
    /// Returns the idle time of an entry at the time `now_ns`, and its timeout, without its meter.
    pub fn level_of(&self, entry: &EntryRef<'_>, now_ns: u64) -> EntryRuntimeState {
        let tick_begin_ns = i128::from(now_ns - now_ns % TICK_NS);
        let since_ns = tick_begin_ns - i128::from(entry.idle_ticks) * i128::from(TICK_NS);
        EntryRuntimeState {
            meter: None,
            idle_since_ns: u64::try_from(since_ns).unwrap_or(0),
            idle_timeout_ns: self.idle_profiles.timeout_ns(entry.profile),
        }
    }

    /// Returns an entry as one that a packet has added.
    pub fn stored_entry(&self, entry: &EntryRef<'_>) -> StoredEntry {
        let (key, action) = (self.codec.decode_key(entry.key), self.codec.decode_value(entry.value));
        StoredEntry::from_packet(&key, action.packed(), self.idle_profiles.timeout_ns(entry.profile))
    }

    /// Returns the counts of the table.
    pub fn counts(&self) -> FlowTableCounts {
        let counts = self.flows.statistics();
        let [inserted, restored] = [&self.inserted, &self.restored].map(|count| count.load(Relaxed));
        let own = [("no_member", &self.unjoined)];
        let refused = Refusal::ALL.into_iter().map(|reason| (reason.name(), counts.refused(reason)));
        FlowTableCounts {
            added_by_packets: counts.added.saturating_sub(inserted + restored),
            added_by_control: inserted,
            expired: counts.expired,
            removed: counts.removed,
            refused: refused.chain(own.map(|(name, count)| (name, count.load(Relaxed)))).collect(),
        }
    }

    /// Counts an addition of a worker that is no member of the table.
    pub fn count_unjoined(&self) {
        self.unjoined.fetch_add(1, Relaxed);
    }

    /// Allocates memory for as many more entries as were added since the last call, twice, so that
    /// packets seldom wait for the kernel to clear pages.
    pub fn populate_ahead(&self) {
        let count = self.flows.count();
        let grown = count.saturating_sub(self.count_at_population.swap(count, Relaxed));
        if grown > 0 {
            self.flows.populate_ahead((2 * grown).clamp(MIN_AHEAD, MAX_AHEAD) as u32);
        }
    }

    /// Notes the present number of entries. Returns it, and the largest ones since the program was
    /// loaded and since the last reset.
    pub fn note_peak(&self) -> [u64; 3] {
        let now = self.flows.count();
        let [all, since_reset] = [0, 1].map(|n| self.peaks[n].fetch_max(now, Relaxed).max(now));
        [now, all, since_reset]
    }

    /// Lets the largest number of entries since the last reset be the present one.
    pub fn reset_peak(&self) {
        self.peaks[1].store(self.flows.count(), Relaxed);
    }
}

/// The tables of an engine that packets write.
pub struct PacketWrittenTables {
    tables: Vec<Option<PacketWrittenTable>>,
    /// Ports and shares of quotas that their entries hold.
    pub leases: Leases,
    /// The time of the engine.
    pub times: Arc<HitTimes>,
    control: Mutex<Vec<Option<Member>>>,
}

impl PacketWrittenTables {
    /// Makes the empty tables marked in `written`, the pools and the quotas; `live` converts their entries.
    /// `host` leaves their idle times to them.
    ///
    /// # Errors
    /// A table with longer keys or values, or more entries, than native code supports.
    pub fn new(
        pipeline: &Pipeline,
        live: &LiveTables,
        written: &[bool],
        host: &mut ExternHost,
    ) -> Result<Self, FallbackReason> {
        let mut tables = Vec::new();
        let leases = Leases::new(pipeline)?;
        for (id, declared) in pipeline.tables.iter() {
            let Some(codec) = live.codec(id).filter(|_| written[id.index()]) else {
                tables.push(None);
                continue;
            };
            let size = declared.size.map_or(Ok(DEFAULT_SIZE), u32::try_from).map_err(|_| FallbackReason::TooLarge)?;
            let shape = Shape {
                hits_restart: host.restarts_on_hit(id),
                notify: !host.deletes_idle(id),
                tick_ns: TICK_NS,
                has_pairs: adds_pairs(pipeline, id),
                has_leases: !leases.is_empty(),
                members: MEMBERS,
                ..Shape::new(codec.layout().words * size_of::<u64>(), codec.max_value_len_bytes(), size)
            };
            let flows = FlowTable::new(shape, seed(id)).map_err(|_| FallbackReason::TooLarge)?;
            host.leave_idle_times(id);
            let has_host_state = declared.direct_counter.is_some() || declared.direct_meter.is_some();
            let has_default_size = declared.size.is_none();
            let [inserted, restored, unjoined] = Default::default();
            let codec = codec.clone();
            let table = PacketWrittenTable {
                flows,
                codec,
                idle_profiles: IdleProfiles::default(),
                has_host_state,
                has_default_size,
                inserted,
                restored,
                unjoined,
                peaks: Default::default(),
                count_at_population: AtomicU64::new(0),
            };
            tables.push(Some(table));
        }
        let control = tables.iter().map(|table| table.as_ref().and_then(|table| table.flows.join().ok())).collect();
        Ok(PacketWrittenTables { tables, leases, times: host.hit_times().clone(), control: Mutex::new(control) })
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

    /// Runs `work` as the control plane's member of a table; `None` if packets do not write it. What
    /// entries held that it removes is released.
    pub fn with_control<R>(
        &self,
        table: TableId,
        work: impl FnOnce(&PacketWrittenTable, &mut Member) -> R,
    ) -> Option<R> {
        let written = self.get(table)?;
        let mut members = self.control.lock();
        let member = members.get_mut(table.index())?.as_mut()?;
        member.begin_batch(tick_of(self.times.now()));
        let result = work(written, member);
        let released = member.take_released();
        member.park();
        self.leases.release(&released, self.times.now());
        Some(result)
    }

    /// Takes over the times of all expire time profiles, which the control plane has changed.
    pub fn update_profiles(&self, host: &ExternHost) {
        for table in (0..self.tables.len()).map(TableId::from_index) {
            self.with_control(table, |written, member| {
                written.idle_profiles.update(&written.flows, member, |profile| host.expire_time(table, profile));
            });
        }
    }

    /// Returns the number of an entry that is in the table.
    pub fn entry_number(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        let record = self.with_control(table, |written, member| member.find(&written.codec.encode_key(entry)))?;
        record.is_some().then_some(record.0)
    }

    /// Inserts an entry of the program, of a store or of another process. Returns its number; `None`
    /// if the table has no space.
    pub fn restore(&self, table: TableId, entry: &StoredEntry) -> Option<u32> {
        let inserted = |table: &PacketWrittenTable| table.inserted.load(Relaxed);
        let written = self.get(table)?;
        let before = inserted(written);
        let number = self.insert(table, entry).ok()?;
        // Only the control plane inserts, and it does one thing at a time.
        if inserted(written) != before {
            written.inserted.store(before, Relaxed);
            written.restored.fetch_add(1, Relaxed);
        }
        Some(number)
    }

    /// Inserts an entry of the control plane. Returns its number, and with a packet's entry of the
    /// same key replaced, that of the packet's.
    ///
    /// # Errors
    /// The table is full because packets have added entries meanwhile.
    pub fn insert(&self, table: TableId, entry: &StoredEntry) -> Result<u32, Refusal> {
        let insert = |written: &PacketWrittenTable, member: &mut Member| {
            let (key, value) = (written.codec.encode_key(entry), written.codec.encode_value(entry.action()));
            let profile = written.idle_profiles.number_of_timeout(&written.flows, entry.idle_timeout_ns());
            match member.find_or_add(&key, &value, profile, 0) {
                Addition::Added(record) => {
                    written.inserted.fetch_add(1, Relaxed);
                    Ok(record.0)
                }
                Addition::Found(_) => member.modify(&key, &value, Some(profile)).map(|record| record.0),
                Addition::Refused(refusal) => Err(refusal),
            }
        };
        self.with_control(table, insert).unwrap_or(Err(Refusal::Malformed))
    }

    /// Replaces action and idle timeout of an entry. If the timeout is the same, the idle time goes
    /// on. Returns its numbers before and after.
    ///
    /// # Errors
    /// No record is free, because workers still use removed ones.
    pub fn modify(&self, table: TableId, old: &StoredEntry, new: &StoredEntry) -> Result<[u32; 2], Refusal> {
        let modify = |written: &PacketWrittenTable, member: &mut Member| {
            let key = written.codec.encode_key(new);
            let before = member.find(&key);
            let timeout_ns = new.idle_timeout_ns();
            let profile = (timeout_ns != old.idle_timeout_ns())
                .then(|| written.idle_profiles.number_of_timeout(&written.flows, timeout_ns));
            let after = member.modify(&key, &written.codec.encode_value(new.action()), profile)?;
            Ok([before.0, after.0])
        };
        self.with_control(table, modify).unwrap_or(Err(Refusal::Malformed))
    }

    /// Removes an entry and its twin. Returns the numbers and keys of both.
    pub fn remove(&self, table: TableId, entry: &StoredEntry) -> Vec<(u32, PackedKey)> {
        let remove = |written: &PacketWrittenTable, member: &mut Member| {
            let mut removed = Vec::new();
            let record = member.find(&written.codec.encode_key(entry));
            member.remove_record_with(record, |entry| {
                removed.push((entry.id.0, written.codec.decode_key(entry.key)));
            });
            removed
        };
        self.with_control(table, remove).unwrap_or_default()
    }

    /// Returns the entry of a packed key.
    pub fn find_entry(&self, table: TableId, key: &[u64]) -> Option<StoredEntry> {
        let find = |written: &PacketWrittenTable, member: &mut Member| {
            let record = member.find(&written.codec.encode_key_words(key));
            member.entry(record).map(|entry| written.stored_entry(&entry))
        };
        self.with_control(table, find)?
    }

    /// Returns the idle time of an entry, and its timeout, without its meter.
    pub fn level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        let now_ns = self.times.now();
        let level = |written: &PacketWrittenTable, member: &mut Member| {
            let record = member.find(&written.codec.encode_key(entry));
            member.entry(record).map(|entry| written.level_of(&entry, now_ns))
        };
        self.with_control(table, level)?
    }

    /// Sets the idle time of an entry, and its timeout.
    pub fn set_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        self.with_control(table, |written, member| {
            let record = member.find(&written.codec.encode_key(entry));
            let profile = written.idle_profiles.number_of_timeout(&written.flows, level.idle_timeout_ns);
            member.set_idle_since(record, tick_of(level.idle_since_ns), profile);
        });
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

/// Returns whether packets add entries to a table in pairs.
fn adds_pairs(pipeline: &Pipeline, table: TableId) -> bool {
    pipeline.insts().any(|data| {
        let Inst::Extern { func: ExternFn::AddEntry, args, .. } = &data.inst else { return false };
        args.len() > ExternFn::TWIN_KEY && args.contains(&ExternArg::Table(table))
    })
}
