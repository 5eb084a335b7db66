//! [`WorkerFlows`]: one worker's access to the tables to which packets add entries.

use crate::packet_written::{AddedEntry, PacketWrittenTables};
use flowtable::{Addition, Member, RecordId, Refusal};
use interp::host::{ExternHost, PortLease};
use ir::{Entity, TableId};
use parking_lot::Mutex;
use std::sync::Arc;

/// One worker's access to the tables that packets write.
pub struct WorkerFlows {
    shared: Arc<PacketWrittenTables>,
    /// By table; `None` for one that packets do not write.
    members: Vec<Option<Member>>,
    /// Entries added in this batch.
    added: Vec<AddedEntry>,
    /// Number of entries that this worker has added.
    added_count: u64,
    /// Records found for a queue.
    records: Vec<RecordId>,
    /// Ports that a packet has taken and that no entry holds yet.
    held_ports: Vec<PortLease>,
    /// Index of this packet in its chunk.
    port_holder: usize,
}

/// No packet of a chunk.
const NO_LANE: usize = usize::MAX;

impl WorkerFlows {
    /// Makes the access of one more worker.
    pub fn new(shared: &Arc<PacketWrittenTables>) -> WorkerFlows {
        WorkerFlows {
            shared: shared.clone(),
            members: shared.join(),
            added: Vec::new(),
            added_count: 0,
            records: Vec::new(),
            held_ports: Vec::new(),
            port_holder: NO_LANE,
        }
    }

    /// Begins a batch; records of the previous one are forgotten.
    pub fn begin_batch(&mut self) {
        self.members.iter_mut().flatten().for_each(|member| member.begin_batch(0));
    }

    /// Releases the ports that no entry got, at the end of a chunk of packets.
    pub fn release_held_ports(&mut self, host: &Mutex<ExternHost>) {
        if !self.held_ports.is_empty() {
            host.lock().release_ports(&self.held_ports);
            self.held_ports.clear();
        }
        self.port_holder = NO_LANE;
    }

    /// Ends a batch: shows added entries to the control plane.
    pub fn end_batch(&mut self) {
        if !self.added.is_empty() {
            self.shared.append_added(&mut self.added);
        }
    }

    /// Lets removed records be used again while this worker has no packets.
    pub fn park(&mut self) {
        self.members.iter_mut().flatten().for_each(Member::park);
    }

    /// Adds an entry with this lookup key, whose value `fill` writes. Returns its record; `None` if
    /// the key is there, or the table is full.
    pub fn add_entry(&mut self, table: TableId, key: &[u8], mut fill: impl FnMut(&mut [u8])) -> Option<RecordId> {
        let Some(member) = self.members.get_mut(table.index()).and_then(Option::as_mut) else {
            if let Some(written) = self.shared.get(table) {
                written.count_unjoined();
            }
            return None;
        };
        let filled = |value: &mut [u8]| {
            fill(value);
            Ok::<(), Refusal>(())
        };
        match member.find_or_add_with(key, 0, 0, filled) {
            Addition::Added(record) => {
                self.added_count += 1;
                Some(record)
            }
            // The table counts refusals by reason.
            Addition::Found(_) | Addition::Refused(_) => None,
        }
    }

    /// Removes an entry that the packet has just added, because its twin was refused.
    pub fn remove_added(&mut self, table: TableId, record: RecordId) {
        if let Some(member) = self.members.get_mut(table.index()).and_then(Option::as_mut) {
            member.remove_record(record);
        }
    }

    /// Lets the packet at index `lane` of the chunk take a port: `take` calls the host. First the
    /// ports of a packet before it are released that no entry got.
    pub fn take_port(&mut self, host: &mut ExternHost, lane: usize, take: impl FnOnce(&mut ExternHost)) {
        if self.port_holder != lane {
            host.release_ports(&self.held_ports);
            self.held_ports.clear();
            self.port_holder = lane;
        }
        take(host);
        self.held_ports.extend(host.take_ports());
    }

    /// Returns the ports that the packet at index `lane` of the chunk has taken, for the entry that
    /// it has added.
    pub fn held_ports(&mut self, lane: usize) -> Vec<PortLease> {
        if self.port_holder == lane { std::mem::take(&mut self.held_ports) } else { Vec::new() }
    }

    /// Returns the generation of a record that this worker's batch has added or found.
    pub fn generation(&self, table: TableId, record: RecordId) -> u32 {
        self.members[table.index()].as_ref().map_or(0, |member| member.generation(record))
    }

    /// Lists an entry that this worker has added.
    pub fn list_added(&mut self, entry: AddedEntry) {
        self.added.push(entry);
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
