//! The table and the operations of its members.
#![allow(unsafe_code)]

use crate::area::Area;
use crate::shape::{MAX_IDLE_TICKS, PROFILES};
use crate::{Addition, EntryRef, RecordId, RecordLayout, Refusal, Shape, ShapeError, SweepReport, life};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// An exact-match table that packets write. Clones name the same table.
#[derive(Clone)]
pub struct FlowTable(Arc<Inner>);

/// A table has as many members as its shape allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the table has {0} members: raise the number of members of its shape, or drop one")]
pub struct JoinError(pub usize);

struct Inner {
    shape: Shape,
    layout: RecordLayout,
    records: Area,
    counters: Option<Area>,
    idle_ticks: Vec<AtomicU32>,
    epoch: AtomicU64,
    /// For each member the epoch of its batch; `PARKED` if it holds no record.
    seen: Vec<AtomicU64>,
    plain: Mutex<Plain>,
}

/// What one lock protects.
struct Plain {
    index: HashMap<Box<[u8]>, u32>,
    free: Vec<u32>,
    next: u32,
    retired: VecDeque<(u64, u32)>,
    doubted: VecDeque<(u64, u32)>,
    cursor: u32,
    owners: HashMap<u32, OwnerCount>,
    joined: Vec<bool>,
}

#[derive(Clone, Copy)]
struct OwnerCount {
    count: u32,
    limit: u32,
    high_water: u32,
}

impl Default for OwnerCount {
    fn default() -> Self {
        OwnerCount { count: 0, limit: u32::MAX, high_water: 0 }
    }
}

/// Epoch of a member that holds no record.
const PARKED: u64 = u64::MAX;
/// Records beyond `size`: they are used while removed ones wait for the end of all batches.
const SPARE: u32 = 4096;

impl FlowTable {
    /// Creates an empty table. `seed` makes the hash of keys secret; a random one defends against
    /// packets with chosen keys.
    pub fn new(shape: Shape, seed: u64) -> Result<FlowTable, ShapeError> {
        let _ = seed;
        shape.check()?;
        let layout = RecordLayout::new(&shape);
        let records = (shape.size + SPARE) as usize + 1;
        let counters = if shape.has_counters { Some(Area::new(records * 16)?) } else { None };
        let idle = |profile: usize| AtomicU32::new(shape.idle_ticks.get(profile).copied().unwrap_or(0));
        let plain = Plain {
            index: HashMap::new(),
            free: Vec::new(),
            next: 1,
            retired: VecDeque::new(),
            doubted: VecDeque::new(),
            cursor: 1,
            owners: HashMap::new(),
            joined: vec![false; shape.members],
        };
        Ok(FlowTable(Arc::new(Inner {
            records: Area::new(records * layout.stride)?,
            counters,
            idle_ticks: (0..PROFILES).map(idle).collect(),
            epoch: AtomicU64::new(1),
            seen: (0..shape.members).map(|_| AtomicU64::new(PARKED)).collect(),
            plain: Mutex::new(plain),
            layout,
            shape,
        })))
    }

    /// Returns a new member: a worker, sweeper or controller. It is parked until its first batch.
    pub fn join(&self) -> Result<Member, JoinError> {
        let mut plain = self.0.plain.lock();
        let number = plain.joined.iter().position(|joined| !joined).ok_or(JoinError(self.0.seen.len()))?;
        plain.joined[number] = true;
        Ok(Member { table: self.0.clone(), number, now: 0, is_parked: true })
    }

    /// Returns the shape that the table was created with.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Returns the positions of a record's parts.
    pub fn layout(&self) -> RecordLayout {
        self.0.layout
    }

    /// Returns the address of record 0; record `n` begins `n * layout().stride` bytes later.
    /// Records never move, and 64 bytes after the last may be read.
    pub fn records_base(&self) -> *const u8 {
        self.0.records.at(0)
    }

    /// Returns the number of entries.
    pub fn count(&self) -> u64 {
        self.0.plain.lock().index.len() as u64
    }

    /// Returns the number of entries of an owner (1 to `owners`).
    pub fn owner_count(&self, owner: u32) -> u32 {
        self.0.plain.lock().owners.get(&owner).map_or(0, |it| it.count)
    }

    /// Returns the greatest number of entries that an owner has had.
    pub fn owner_high_water(&self, owner: u32) -> u32 {
        self.0.plain.lock().owners.get(&owner).map_or(0, |it| it.high_water)
    }

    /// Sets the maximum number of entries of an owner; `u32::MAX`, the initial one, is no limit.
    /// Entries beyond a lowered limit stay until they are removed.
    pub fn set_owner_limit(&self, owner: u32, limit: u32) {
        self.0.plain.lock().owners.entry(owner).or_default().limit = limit;
    }

    /// Changes a profile's idle time in ticks, of all entries that have the profile; 0: never.
    pub fn set_idle_ticks(&self, profile: u8, ticks: u32) -> Result<(), ShapeError> {
        if ticks > MAX_IDLE_TICKS {
            return Err(ShapeError::Idle { ticks });
        }
        self.0.idle_ticks[usize::from(profile)].store(ticks, Relaxed);
        Ok(())
    }

    /// Returns a profile's idle time in ticks; 0: never.
    pub fn idle_ticks(&self, profile: u8) -> u32 {
        self.0.idle_ticks[usize::from(profile)].load(Relaxed)
    }
}

impl Inner {
    fn record(&self, id: u32) -> *mut u8 {
        self.records.at(id as usize * self.layout.stride)
    }

    fn word(&self, id: u32, at: usize) -> &AtomicU32 {
        // SAFETY: the record lies in the area, `at` is a multiple of 4 as is the stride, and these
        // words are accessed as atomics only.
        unsafe { AtomicU32::from_ptr(self.record(id).wrapping_add(at).cast()) }
    }

    fn slack(&self, profile: u8) -> u32 {
        life::slack_ticks(self.idle_ticks[usize::from(profile)].load(Relaxed), self.shape.tick_ns)
    }

    fn has_passed(&self, stamp: u64) -> bool {
        self.seen.iter().all(|seen| seen.load(SeqCst) >= stamp)
    }

    /// Returns the key of a record that no writer changes.
    fn key(&self, id: u32) -> &[u8] {
        // SAFETY: the lock is held or the record is live in the caller's batch: no writer.
        unsafe { std::slice::from_raw_parts(self.record(id).wrapping_add(self.layout.key), self.layout.key_bytes) }
    }

    fn owner(&self, id: u32) -> u32 {
        let mut bytes = [0; 4];
        let len = self.layout.owner_bytes;
        // SAFETY: as for `key`.
        let from = unsafe { std::slice::from_raw_parts(self.record(id).wrapping_add(self.layout.owner), len) };
        bytes[..len].copy_from_slice(from);
        u32::from_le_bytes(bytes)
    }

    /// Returns a record that all members have forgotten.
    fn allocate(&self, plain: &mut Plain) -> Option<u32> {
        while let Some((stamp, id)) = plain.retired.front().copied() {
            if !self.has_passed(stamp) {
                break;
            }
            plain.retired.pop_front();
            self.word(id, RecordLayout::LIFE).store(life::FREE, Release);
            plain.free.push(id);
        }
        plain.free.pop().or_else(|| {
            let id = plain.next;
            (id <= self.shape.size + SPARE).then(|| plain.next += 1).map(|()| id)
        })
    }

    fn retire(&self, plain: &mut Plain, id: u32) {
        let word = self.word(id, RecordLayout::LIFE);
        word.store(life::dead(word.load(Relaxed)), Release);
        plain.retired.push_back((self.epoch.fetch_add(1, SeqCst) + 1, id));
    }

    fn remove(&self, plain: &mut Plain, key: &[u8]) -> Option<u32> {
        let id = plain.index.remove(key)?;
        let owner = self.owner(id);
        if owner != 0 {
            plain.owners.entry(owner).or_default().count -= 1;
        }
        self.retire(plain, id);
        Some(id)
    }
}

/// One user of a table: a worker, the sweeper, a controller. Members work at the same time.
///
/// Records that an operation returns are good until this member's next [`Member::begin_batch`]
/// or [`Member::park`]: until then no other entry uses them, even if the entry is removed. A
/// member that neither begins batches nor parks keeps removed records from being used again.
pub struct Member {
    table: Arc<Inner>,
    number: usize,
    now: u32,
    is_parked: bool,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.park();
        self.table.plain.lock().joined[self.number] = false;
    }
}

impl Member {
    /// Begins a batch at tick `now`: all records of earlier batches are forgotten.
    pub fn begin_batch(&mut self, now: u32) {
        self.now = now;
        self.is_parked = false;
        self.table.seen[self.number].store(self.table.epoch.load(SeqCst), SeqCst);
    }

    /// Forgets all records, so that this member stops no other while it sleeps.
    pub fn park(&mut self) {
        self.is_parked = true;
        self.table.seen[self.number].store(PARKED, SeqCst);
    }

    /// Returns the tick of the batch.
    pub fn now(&self) -> u32 {
        self.now
    }

    /// Looks up `out.len()` keys; key `n` begins at byte `n * stride` of `keys`. A record of 0
    /// means that the key was not in the table at one moment during the call. Each hit counts
    /// for the entry's idle time as [`Shape::hits_restart`] says.
    ///
    /// # Panics
    /// Panics if `keys` is shorter than that.
    pub fn lookup_batch(&mut self, keys: &[u8], stride: usize, out: &mut [RecordId]) {
        let key_bytes = self.table.layout.key_bytes;
        for (n, out) in out.iter_mut().enumerate() {
            *out = self.lookup(&keys[n * stride..n * stride + key_bytes]);
        }
    }

    /// Looks up one key, as [`Member::lookup_batch`] does.
    pub fn lookup(&mut self, key: &[u8]) -> RecordId {
        assert!(!self.is_parked, "a lookup outside of a batch");
        let plain = self.table.plain.lock();
        match plain.index.get(key) {
            Some(id) => {
                self.touch(*id, self.table.shape.hits_restart);
                RecordId(*id)
            }
            None => RecordId::NONE,
        }
    }

    /// Writes a due hit: the timer restarts if `restarts`, and doubt ends.
    fn touch(&self, id: u32, restarts: bool) -> bool {
        let life = self.table.word(id, RecordLayout::LIFE);
        let mut word = life.load(Acquire);
        loop {
            if !life::is_live(word) {
                return false;
            }
            if life::ticks_since_due(word, self.now) < 0 {
                return true;
            }
            let profile = life::profile(word);
            let due = self.now.wrapping_add(self.table.slack(profile));
            let next = if restarts { life::live(due, profile) } else { word & !life::DOUBT };
            match life.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Adds an entry, or finds the one that has the key.
    pub fn find_or_add(&mut self, key: &[u8], value: &[u8], profile: u8, owner: u32) -> Addition {
        if value.len() != self.table.layout.value_bytes {
            return Addition::Refused(Refusal::Malformed);
        }
        self.find_or_add_with(key, profile, owner, |bytes| {
            bytes.copy_from_slice(value);
            Ok(())
        })
    }

    /// Adds an entry whose value `fill` writes, or finds the one that has the key. `fill` is
    /// called only if the key is not there and the limits allow an entry, while no other member
    /// can add the key; it may refuse.
    pub fn find_or_add_with(
        &mut self,
        key: &[u8],
        profile: u8,
        owner: u32,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Refusal>,
    ) -> Addition {
        assert!(!self.is_parked, "an addition outside of a batch");
        let table = self.table.clone();
        if key.len() != table.layout.key_bytes || owner > table.shape.owners {
            return Addition::Refused(Refusal::Malformed);
        }
        let mut plain = table.plain.lock();
        if let Some(id) = plain.index.get(key) {
            self.touch(*id, table.shape.hits_restart);
            return Addition::Found(RecordId(*id));
        }
        if plain.index.len() >= table.shape.size as usize {
            return Addition::Refused(Refusal::Full);
        }
        let of_owner = plain.owners.get(&owner).copied().unwrap_or_default();
        if owner != 0 && of_owner.count >= of_owner.limit {
            return Addition::Refused(Refusal::OwnerLimit);
        }
        let Some(id) = table.allocate(&mut plain) else { return Addition::Refused(Refusal::Full) };
        let layout = table.layout;
        // SAFETY: no entry and no member uses the record.
        let bytes = unsafe { std::slice::from_raw_parts_mut(table.record(id).wrapping_add(8), layout.stride - 8) };
        bytes.fill(0);
        if let Err(refusal) = fill(&mut bytes[layout.value - 8..][..layout.value_bytes]) {
            plain.free.push(id);
            return Addition::Refused(refusal);
        }
        bytes[layout.owner - 8..][..layout.owner_bytes].copy_from_slice(&owner.to_le_bytes()[..layout.owner_bytes]);
        bytes[layout.key - 8..][..layout.key_bytes].copy_from_slice(key);
        if let Some(counters) = &table.counters {
            // SAFETY: as above.
            unsafe { counters.at(id as usize * 16).write_bytes(0, 16) };
        }
        table.word(id, RecordLayout::GENERATION).fetch_add(1, Relaxed);
        let due = self.now.wrapping_add(table.slack(profile));
        table.word(id, RecordLayout::LIFE).store(life::live(due, profile), Release);
        plain.index.insert(key.into(), id);
        if owner != 0 {
            let it = plain.owners.entry(owner).or_default();
            it.count += 1;
            it.high_water = it.high_water.max(it.count);
        }
        Addition::Added(RecordId(id))
    }

    /// Replaces the value and profile of an entry, as one step; the entry gets another record.
    /// Its state and counters go on. Returns the new record, or that nothing changed.
    pub fn modify(&mut self, key: &[u8], value: &[u8], profile: u8) -> Result<RecordId, Refusal> {
        assert!(!self.is_parked, "a change outside of a batch");
        let table = self.table.clone();
        if value.len() != table.layout.value_bytes {
            return Err(Refusal::Malformed);
        }
        let mut plain = table.plain.lock();
        let Some(old) = plain.index.get(key).copied() else { return Ok(RecordId::NONE) };
        let Some(id) = table.allocate(&mut plain) else { return Err(Refusal::Full) };
        let layout = table.layout;
        // SAFETY: nobody uses the new record, and the old one's bytes do not change.
        unsafe {
            std::ptr::copy_nonoverlapping(table.record(old).add(8), table.record(id).add(8), layout.stride - 8);
            table.record(id).add(layout.value).copy_from_nonoverlapping(value.as_ptr(), value.len());
            if let Some(counters) = &table.counters {
                counters.at(id as usize * 16).copy_from_nonoverlapping(counters.at(old as usize * 16), 16);
            }
        }
        table.word(id, RecordLayout::GENERATION).fetch_add(1, Relaxed);
        let due = self.now.wrapping_add(table.slack(profile));
        table.word(id, RecordLayout::LIFE).store(life::live(due, profile), Release);
        plain.index.insert(key.into(), id);
        table.retire(&mut plain, old);
        Ok(RecordId(id))
    }

    /// Removes an entry. Returns the record that it had, or [`RecordId::NONE`].
    pub fn remove(&mut self, key: &[u8]) -> RecordId {
        assert!(!self.is_parked, "a removal outside of a batch");
        RecordId(self.table.remove(&mut self.table.plain.lock(), key).unwrap_or(0))
    }

    /// Restarts the idle time of a record that this batch has found. Returns whether its entry
    /// is still in the table.
    pub fn restart_timer(&mut self, id: RecordId) -> bool {
        id.is_some() && self.touch(id.0, true)
    }

    /// Gives a record that this batch has found another profile and restarts its idle time.
    /// Returns whether its entry is still in the table.
    pub fn set_profile(&mut self, id: RecordId, profile: u8) -> bool {
        let life = self.table.word(id.0, RecordLayout::LIFE);
        let next = life::live(self.now.wrapping_add(self.table.slack(profile)), profile);
        id.is_some() && life.fetch_update(AcqRel, Acquire, |word| life::is_live(word).then_some(next)).is_ok()
    }

    /// Examines at most `budget` records, beginning where the last call ended, and removes
    /// entries whose idle time is over; in tables that notify they stay. `on_expired` gets each.
    /// Entries are removed in two steps, with a batch of all members in between.
    pub fn sweep(&mut self, budget: u32, mut on_expired: impl FnMut(EntryRef<'_>)) -> SweepReport {
        assert!(!self.is_parked, "a sweep outside of a batch");
        let table = self.table.clone();
        let mut plain = table.plain.lock();
        let mut report = SweepReport::default();
        while let Some((stamp, id)) = plain.doubted.front().copied() {
            if !table.has_passed(stamp) {
                break;
            }
            plain.doubted.pop_front();
            let word = table.word(id, RecordLayout::LIFE).load(Acquire);
            if let (true, Some(entry)) = (word & life::DOUBT != 0, self.entry(RecordId(id))) {
                on_expired(entry);
                report.removed += 1;
                table.remove(&mut plain, &table.key(id).to_vec());
            }
        }
        let end = plain.next.min(plain.cursor.saturating_add(budget));
        for id in plain.cursor..end {
            report.examined += 1;
            let life = table.word(id, RecordLayout::LIFE);
            let word = life.load(Acquire);
            let idle = table.idle_ticks[usize::from(life::profile(word))].load(Relaxed);
            let is_over = idle != 0 && life::ticks_since_due(word, self.now) >= idle as i32;
            if !life::is_live(word) || word & life::DOUBT != 0 || !is_over {
                continue;
            }
            if table.shape.notify {
                let next = life::live(self.now, life::profile(word));
                if life.compare_exchange(word, next, AcqRel, Relaxed).is_ok() {
                    report.notified += 1;
                    self.entry(RecordId(id)).into_iter().for_each(&mut on_expired);
                }
            } else if life.compare_exchange(word, word | life::DOUBT, AcqRel, Relaxed).is_ok() {
                report.doubted += 1;
                plain.doubted.push_back((table.epoch.fetch_add(1, SeqCst) + 1, id));
            }
        }
        let is_end = end == plain.next;
        plain.cursor = if is_end { 1 } else { end };
        report.is_complete = is_end && plain.doubted.is_empty();
        report
    }

    /// Shows at most `budget` records from record `cursor` on (1: the first) to `visit`, if they
    /// are entries. Returns where to go on, or `None` behind the last. Each entry is as of one
    /// moment, not all of the same moment; entries that stay all the time are shown once.
    pub fn read(&mut self, cursor: u32, budget: u32, mut visit: impl FnMut(EntryRef<'_>)) -> Option<u32> {
        let next = self.table.plain.lock().next;
        let end = next.min(cursor.saturating_add(budget));
        (cursor.max(1)..end).filter_map(|id| self.entry(RecordId(id))).for_each(&mut visit);
        (end < next).then_some(end)
    }

    /// Removes the entries among `budget` records from `cursor` on that `matches` accepts.
    /// Returns where to go on, as [`Member::read`], and how many were removed.
    pub fn delete_where(
        &mut self,
        cursor: u32,
        budget: u32,
        mut matches: impl FnMut(EntryRef<'_>) -> bool,
    ) -> (Option<u32>, u32) {
        let mut keys = Vec::new();
        let next = self.read(cursor, budget, |entry| {
            if matches(entry) {
                keys.push(entry.key.to_vec());
            }
        });
        let removed = keys.iter().filter(|key| self.remove(key).is_some()).count();
        (next, removed as u32)
    }

    /// Returns a record's entry, if it is live.
    pub fn entry(&self, id: RecordId) -> Option<EntryRef<'_>> {
        if self.is_parked || id.0 == 0 || id.0 > self.table.shape.size + SPARE {
            return None;
        }
        let word = self.table.word(id.0, RecordLayout::LIFE).load(Acquire);
        if !life::is_live(word) {
            return None;
        }
        let idle = self.table.idle_ticks[usize::from(life::profile(word))].load(Relaxed);
        let left = idle as i32 - life::ticks_since_due(word, self.now);
        Some(EntryRef {
            id,
            generation: self.generation(id),
            key: self.table.key(id.0),
            // SAFETY: a record that is live during this batch is not written before the next.
            value: unsafe { std::slice::from_raw_parts(self.value_ptr(id), self.table.layout.value_bytes) },
            profile: life::profile(word),
            owner: self.table.owner(id.0),
            left_ticks: (idle != 0).then_some(left.max(0) as u32),
        })
    }

    /// Returns the address of a record's value, whose first byte is the action. The value stays
    /// as it is until this member's next batch, if this batch has found the record.
    pub fn value_ptr(&self, id: RecordId) -> *const u8 {
        self.table.record(id.0).wrapping_add(self.table.layout.value)
    }

    /// Returns a record's generation.
    pub fn generation(&self, id: RecordId) -> u32 {
        self.table.word(id.0, RecordLayout::GENERATION).load(Relaxed)
    }

    /// Returns an entry's word of state, 0 at first; `None` if the table has none.
    pub fn state(&self, id: RecordId) -> Option<&AtomicU32> {
        self.table.shape.has_state.then(|| self.table.word(id.0, self.table.layout.state))
    }

    /// Returns an entry's counters of packets and bytes; `None` if the table has none.
    pub fn counters(&self, id: RecordId) -> Option<[&AtomicU64; 2]> {
        let at = self.table.counters.as_ref()?.at(id.0 as usize * 16).cast::<u64>();
        // SAFETY: both words lie in the area, are aligned and accessed as atomics only.
        Some(unsafe { [AtomicU64::from_ptr(at), AtomicU64::from_ptr(at.wrapping_add(1))] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_finds_expires_and_removes() {
        let shape = Shape { owners: 3, idle_ticks: vec![0, 8], has_state: true, ..Shape::new(20, 17, 2) };
        let table = FlowTable::new(shape, 1).unwrap();
        let mut member = table.join().unwrap();
        member.begin_batch(100);
        table.set_owner_limit(2, 1);
        let Addition::Added(a) = member.find_or_add(&[1; 20], &[7; 17], 1, 2) else { panic!() };
        assert_eq!(member.find_or_add(&[1; 20], &[8; 17], 1, 2), Addition::Found(a));
        assert_eq!(member.find_or_add(&[2; 20], &[8; 17], 1, 2), Addition::Refused(Refusal::OwnerLimit));
        let Addition::Added(b) = member.find_or_add(&[2; 20], &[8; 17], 0, 0) else { panic!() };
        assert_eq!(member.find_or_add(&[3; 20], &[8; 17], 0, 0), Addition::Refused(Refusal::Full));
        let mut out = [RecordId::NONE; 3];
        let keys = [[2u8; 20], [1; 20], [3; 20]].concat();
        member.lookup_batch(&keys, 20, &mut out);
        assert_eq!(out, [b, a, RecordId::NONE]);
        assert_eq!(member.entry(a).unwrap().value, &[7; 17]);
        for (tick, removed) in [(108, 0), (109, 0), (109, 1)] {
            member.begin_batch(tick);
            assert_eq!(member.sweep(1000, |entry| assert_eq!(entry.key, [1; 20])).removed, removed, "{tick}");
        }
        assert_eq!((table.count(), table.owner_count(2), table.owner_high_water(2)), (1, 0, 1));
        assert_eq!((member.remove(&[2; 20]), member.lookup(&[2; 20])), (b, RecordId::NONE));
    }
}
