//! [`TraceRecords`]: recent packets with a trace id in their bridge header, kept for queries from
//! other processes.
//!
//! The process with the switch allocates the trace ids while a trace follows packets (`mod.rs`). A
//! front port cannot inject one, because it drops packets with a bridge header. Without such
//! packets, a worker does no work here. The records are bounded in number, bytes and age; the
//! oldest are evicted first. A worker that finds the ring locked does not wait.

use super::tap::PacketOutcome;
use packet::{Batch, BatchOutput, PacketVerdict};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of records.
pub const MAX_RECORDS: usize = 256;
/// Maximum size in bytes of the records, including the verdicts' bytes.
const MAX_BYTES: usize = 2 << 20;
/// Maximum age of a record in nanoseconds.
const RETENTION_NS: u64 = 60_000_000_000;

/// Source of a packet in this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceSource {
    /// A front port.
    Front,
    /// The switch.
    Above,
    /// The lower tiers; the packet returns.
    Below,
}

/// Time of a packet in one half's engine, shared with its batch, in ns since the Unix epoch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EngineSpan {
    /// Whether the engine runs the lower half.
    pub is_lower_half: bool,
    /// Name of the engine.
    pub engine: String,
    /// Time when the engine received the batch.
    pub began_ns: u64,
    /// Time when the engine finished the batch.
    pub done_ns: u64,
    /// Note of the engine about the packet.
    pub engine_note: Option<String>,
}

/// Record of a packet with a trace id.
#[derive(Clone, Debug)]
pub struct TraceRecord {
    /// Trace id.
    pub trace_id: u16,
    /// Source of the packet.
    pub came: TraceSource,
    /// Bytes as received; empty for a packet from a front port, because the process that allocated
    /// the trace id has them.
    pub bytes: Vec<u8>,
    /// Ingress port.
    pub port: u32,
    /// Time of arrival in ns since the Unix epoch.
    pub received_at_ns: u64,
    /// Times in the engines, in order.
    pub engine_spans: Vec<EngineSpan>,
    /// Verdicts of the packet and its copies.
    pub outcomes: Vec<PacketOutcome>,
    /// Number of further verdicts that are not listed.
    pub more: usize,
}

impl TraceRecord {
    /// Records a verdict of the packet from the output of its batch.
    pub fn note(&mut self, emission: &PacketVerdict, batch: &Batch, out: &BatchOutput) {
        let packet = out.packet(batch, emission.packet).filter(|_| self.came != TraceSource::Front);
        let bytes = packet.map(|packet| packet.bytes()).unwrap_or_default();
        PacketOutcome::note(&mut self.outcomes, &mut self.more, emission, bytes);
    }

    fn size(&self) -> usize {
        let outcomes = self.outcomes.iter().map(|fate| fate.bytes.len() + size_of::<PacketOutcome>());
        size_of::<TraceRecord>() + self.bytes.len() + outcomes.sum::<usize>()
    }
}

#[derive(Debug, Default)]
struct RecordRing {
    records: VecDeque<Arc<TraceRecord>>,
    bytes: usize,
}

impl RecordRing {
    /// Evicts records that are too old or exceed the limits, the oldest first.
    fn evict_old_records(&mut self, now: u64) {
        let stays = |record: &Arc<TraceRecord>| now.saturating_sub(record.received_at_ns) <= RETENTION_NS;
        while self.records.len() > MAX_RECORDS
            || self.bytes > MAX_BYTES
            || self.records.front().is_some_and(|record| !stays(record))
        {
            let Some(gone) = self.records.pop_front() else { return };
            self.bytes -= gone.size();
        }
    }
}

/// Records of all workers.
#[derive(Debug, Default)]
pub struct TraceRecords {
    ring: Mutex<RecordRing>,
    lost: AtomicU64,
}

impl TraceRecords {
    /// Stores records. Never waits: drops them if the ring is locked.
    pub fn store_records(&self, records: impl Iterator<Item = TraceRecord>, now: u64) {
        let Some(mut ring) = self.ring.try_lock() else {
            self.lost.fetch_add(records.count() as u64, Relaxed);
            return;
        };
        for record in records {
            ring.bytes += record.size();
            ring.records.push_back(Arc::new(record));
            ring.evict_old_records(now);
        }
    }

    /// Returns the records with this trace id, the oldest first.
    pub fn records_of(&self, trace_id: u16, now: u64) -> Vec<Arc<TraceRecord>> {
        let mut ring = self.ring.lock();
        ring.evict_old_records(now);
        ring.records.iter().filter(|record| record.trace_id == trace_id).cloned().collect()
    }

    /// Returns the number of stored records, and of records lost because the ring was locked.
    pub fn count(&self) -> (usize, u64) {
        let ring = self.ring.lock();
        (ring.records.len(), self.lost.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(trace_id: u16, received_at_ns: u64, bytes: usize) -> TraceRecord {
        let (engine_spans, outcomes) = (Vec::new(), Vec::new());
        TraceRecord {
            trace_id,
            came: TraceSource::Above,
            bytes: vec![0; bytes],
            port: 1,
            received_at_ns,
            engine_spans,
            outcomes,
            more: 0,
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_in_packets_bytes_and_time() {
        let followed = TraceRecords::default();
        followed.store_records((1..=1_000).map(|mark| record(mark, u64::from(mark), 60)), 1_000);
        assert_eq!(followed.count(), (MAX_RECORDS, 0));
        assert!(followed.records_of(1, 1_000).is_empty(), "the oldest is gone");
        assert_eq!(followed.records_of(1_000, 1_000).len(), 1);
        followed.store_records((1..=1_000).map(|mark| record(mark, 2_000, 60_000)), 2_000);
        assert_eq!(followed.count().0, MAX_BYTES / (60_000 + size_of::<TraceRecord>()));
        assert_eq!(followed.records_of(1_000, 2_000 + RETENTION_NS).len(), 1);
        assert!(
            followed.records_of(1_000, 2_001 + RETENTION_NS).is_empty() && followed.count().0 == 0,
            "they are too old"
        );
        // While a reader holds the lock, a worker does not wait.
        let reading = followed.ring.lock();
        followed.store_records([record(1, 3_000, 60)].into_iter(), 3_000);
        drop(reading);
        assert_eq!(followed.count(), (0, 1));
    }
}
