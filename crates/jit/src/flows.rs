//! [`WorkerFlows`]: one worker's access to the tables to which packets add entries.

use crate::leases::HeldLease;
use crate::packet_written::PacketWrittenTables;
use flowtable::{Addition, EntryRef, Member, NewEntry, RecordId, Refusal};
use ir::{Entity, ExternId, TableId};
use std::sync::Arc;

/// One worker's access to the tables that packets write.
pub struct WorkerFlows {
    shared: Arc<PacketWrittenTables>,
    /// By table; `None` for one that packets do not write.
    members: Vec<Option<Member>>,
    /// Number of entries that this worker has added.
    added_count: u64,
    /// Records found for a queue.
    records: Vec<RecordId>,
    /// Ports and shares of quotas that a packet has taken and that no entry holds yet.
    held: Vec<HeldLease>,
    /// Index of this packet in its chunk.
    holder: usize,
    /// Index of the last packet of the chunk that added an entry.
    adder: usize,
}

/// No packet of a chunk.
const NO_LANE: usize = usize::MAX;

/// A new entry of a packet.
pub struct PacketEntry<'a> {
    /// Lookup key.
    pub key: &'a [u8],
    /// Number of the idle time.
    pub idle_number: u8,
    /// Index of the packet in its chunk.
    pub lane: usize,
}

impl WorkerFlows {
    /// Makes the access of one more worker.
    pub fn new(shared: &Arc<PacketWrittenTables>) -> WorkerFlows {
        WorkerFlows {
            shared: shared.clone(),
            members: shared.join(),
            added_count: 0,
            records: Vec::new(),
            held: Vec::new(),
            holder: NO_LANE,
            adder: NO_LANE,
        }
    }

    /// Begins a batch at this tick; records of the previous one are forgotten.
    pub fn begin_batch(&mut self, tick: u32) {
        self.members.iter_mut().flatten().for_each(|member| member.begin_batch(tick));
    }

    /// Sets the tick of the packets that use a table next.
    #[inline]
    pub fn set_tick(&mut self, table: TableId, tick: u32) {
        if let Some(member) = self.member(table) {
            member.set_tick(tick);
        }
    }

    #[inline]
    fn member(&mut self, table: TableId) -> Option<&mut Member> {
        self.members.get_mut(table.index())?.as_mut()
    }

    /// Releases what packets took and no entry got, at the end of a chunk of packets.
    pub fn release_held(&mut self) {
        self.release_leases_of_holder();
        (self.holder, self.adder) = (NO_LANE, NO_LANE);
    }

    fn release_leases_of_holder(&mut self) {
        if !self.held.is_empty() {
            self.shared.leases.release_unused(&self.held);
            self.held.clear();
        }
    }

    /// Ends a batch: forgets all records.
    pub fn end_batch(&mut self) {
        self.members.iter_mut().flatten().for_each(Member::end_batch);
    }

    /// Lets removed records be used again while this worker has no packets.
    pub fn park(&mut self) {
        self.members.iter_mut().flatten().for_each(Member::park);
    }

    /// Adds the entry of a packet, with the value that `fill` writes. It gets what the
    /// packet has taken. Returns its record; `None` if the key is there, or the table is full.
    pub fn add_entry(
        &mut self,
        table: TableId,
        new: &PacketEntry<'_>,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Option<RecordId> {
        let (member, lease) = self.member_and_lease(table, new)?;
        let entry = NewEntry::new(new.key, new.idle_number).with_lease(lease);
        let added = member.find_or_add_with(&entry, |value| {
            fill(value);
            Ok(())
        });
        let Addition::Added(record) = added else {
            // The table counts refusals by reason.
            self.keep_leases(new, lease, matches!(added, Addition::Found(_)));
            return None;
        };
        self.note_additions(1, new, lease);
        Some(record)
    }

    /// Adds the entry of a packet and its twin, or none. `fill` writes the value of entry 0 or 1.
    /// The first gets what the packet has taken. Returns the records.
    pub fn add_pair(
        &mut self,
        table: TableId,
        new: &PacketEntry<'_>,
        twin_key: &[u8],
        fill: impl FnMut(usize, &mut [u8]),
    ) -> Option<[RecordId; 2]> {
        let (member, lease) = self.member_and_lease(table, new)?;
        let entry = NewEntry::new(new.key, new.idle_number).with_lease(lease);
        match member.add_pair([&entry, &NewEntry::new(twin_key, new.idle_number)], fill) {
            Ok(records) => {
                self.note_additions(2, new, lease);
                Some(records)
            }
            Err(refusal) => {
                self.keep_leases(new, lease, refusal == Refusal::KeyTaken);
                None
            }
        }
    }

    /// Returns the member that adds an entry, and the lease of what its packet holds (0: nothing).
    /// Counts an addition without a member.
    fn member_and_lease(&mut self, table: TableId, new: &PacketEntry<'_>) -> Option<(&mut Member, u32)> {
        let Some(member) = self.members.get_mut(table.index()).and_then(Option::as_mut) else {
            self.shared.get(table).inspect(|written| written.count_unjoined());
            return None;
        };
        let is_holder = self.holder == new.lane;
        Some((member, if is_holder { self.shared.leases.join(&self.held)? } else { 0 }))
    }

    /// Counts added entries, which hold what the packet has taken from now on.
    fn note_additions(&mut self, count: u64, new: &PacketEntry<'_>, lease: u32) {
        self.adder = new.lane;
        if lease != 0 {
            self.held.clear();
        }
        self.added_count += count;
    }

    /// Leaves what a refused addition would hold with its packet. If another worker has added its
    /// session at the same time, ports do not rest afterwards.
    fn keep_leases(&mut self, new: &PacketEntry<'_>, lease: u32, is_there: bool) {
        self.shared.leases.end_group(lease);
        if lease != 0 {
            // The packet itself may have added the key before.
            let is_fresh = is_there && self.adder != new.lane;
            self.held.iter_mut().for_each(|held| held.is_fresh = is_fresh);
        }
    }

    /// Executes `PortPool.take` for the packet at index `lane` of the chunk. Returns status, address
    /// and port.
    pub fn take_port(&mut self, pool: ExternId, lane: usize, args: [u32; 6], now_ns: u64) -> [u64; 3] {
        self.begin_holding(lane);
        let (results, lease) = self.shared.leases.ports.take(pool, args, now_ns);
        self.held.extend(lease.map(|lease| HeldLease { lease, taken_ns: now_ns, is_fresh: false }));
        results
    }

    /// Executes `EntryQuota.take` for the packet at index `lane` of the chunk.
    pub fn take_share(&mut self, quota: ExternId, lane: usize, [owner, max_entries]: [u32; 2]) -> bool {
        self.begin_holding(lane);
        let lease = self.shared.leases.quotas.take(quota, owner, max_entries);
        self.held.extend(lease.map(|lease| HeldLease { lease, taken_ns: 0, is_fresh: false }));
        lease.is_some()
    }

    /// Lets a packet hold what it takes next. First, what a packet before it took and no entry got is
    /// released.
    fn begin_holding(&mut self, lane: usize) {
        if self.holder != lane {
            self.release_leases_of_holder();
            self.holder = lane;
        }
    }

    /// Prefetches what taking a port touches for these subscribers of a pool.
    pub fn prefetch_ports(&self, pool: ExternId, subscribers: &[u32]) {
        self.shared.leases.ports.prefetch(pool, subscribers);
    }

    /// Returns an entry that this worker has added in this batch.
    pub fn entry(&self, table: TableId, record: RecordId) -> Option<EntryRef<'_>> {
        self.members.get(table.index())?.as_ref()?.entry(record)
    }

    /// Restarts the idle time of an entry that a packet has hit, with another number if one is
    /// passed.
    pub fn restart_timer(&mut self, table: TableId, record: RecordId, idle_number: Option<u8>) {
        let Some(member) = self.member(table) else { return };
        match idle_number {
            None => member.restart_timer(record),
            Some(number) => member.set_profile(record, number),
        };
    }

    /// Returns the number of entries that this worker has added so far.
    pub fn added_count(&self) -> u64 {
        self.added_count
    }

    /// Looks up `count` keys, `stride` bytes from one to the next.
    pub fn look_up(&mut self, table: TableId, keys: &[u8], stride: usize, count: usize) {
        self.records.clear();
        self.records.resize(count, RecordId::NONE);
        if let Some(member) = &mut self.members[table.index()] {
            member.lookup_batch(keys, stride, &mut self.records);
        }
    }

    /// Returns for each key of the last [`WorkerFlows::look_up`] the address of the entry's value
    /// and its record; both 0 after a miss. They are valid until the next batch.
    pub fn found(&self, table: TableId) -> impl Iterator<Item = [u64; 2]> {
        let member = self.members[table.index()].as_ref();
        self.records.iter().map(move |record| {
            let found = member.filter(|_| record.is_some());
            [found.map_or(0, |member| member.value_ptr(*record) as u64), u64::from(record.0)]
        })
    }
}
