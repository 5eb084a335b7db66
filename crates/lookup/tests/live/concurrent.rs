//! Readers on other threads see each batch in all tables or in none, and versions only increase.

use crate::pipeline::*;
use crate::random::Random;
use crate::value;
use entries::{StateUpdate, UpdateKind, WriteBatch};
use lookup::{LeftRightReader, LiveTables, LookupSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

const KEYS: u64 = 8;

/// Returns the values of `hosts` and `routes` for a key as numbers; 0 on a miss.
fn both(o: &Overlay, lookups: &LookupSet, index: u64) -> (u64, u64) {
    let (mut host, mut route) = ([std::ptr::null()], [std::ptr::null()]);
    lookups.lookup_batch(o.hosts, &[host_key(1, index)], &mut host);
    // The exact part and the address, each in its own word.
    lookups.lookup_batch(o.routes, &[1, index << 8 | 7], &mut route);
    // A value has 7 bytes: arm, port and address.
    let seven = |out: &[*const u8]| value::read_all(lookups, out) & (u64::MAX >> 8);
    (seven(&host), seven(&route))
}

/// Sets host and route of an index to the same value, or deletes both.
fn batch(o: &Overlay, live: &LiveTables, index: u64, to: u64, delete: bool) -> WriteBatch {
    let there = live.state().entries(o.hosts).any(|e| e.key()[1] == index);
    let kind = match (there, delete) {
        (true, true) => UpdateKind::Delete,
        (true, false) => UpdateKind::Modify,
        (false, _) => UpdateKind::Insert,
    };
    let route = StateUpdate::Entry(kind, o.route(1, index << 8, 24, to));
    let host = StateUpdate::Entry(kind, o.host(1, index, to));
    WriteBatch::from_iter(if to.is_multiple_of(2) { [route, host] } else { [host, route] })
}

struct Progress {
    stop: AtomicBool,
    /// Number of distinct versions that each reader has seen.
    seen: [AtomicU64; 2],
    torn: AtomicU64,
}

fn read(o: &Overlay, mut reader: LeftRightReader, progress: &Progress, me: usize) {
    let mut random = Random(me as u64);
    let mut last = 0;
    while !progress.stop.load(Relaxed) {
        let lookups = reader.acquire();
        let version = lookups.version();
        let index = random.below(KEYS);
        let first = both(o, lookups, index);
        // Repeat later in the batch, because the held copy must not change.
        let again = both(o, lookups, index);
        if first.0 != first.1 || first != again || version < last {
            progress.torn.fetch_add(1, Relaxed);
        }
        if version > last {
            progress.seen[me].fetch_add(1, Relaxed);
        }
        last = version;
        if random.one_in(50) {
            reader.release();
        }
        if random.one_in(20) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn two_tables_change_together_or_not_at_all() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let progress = Progress { stop: AtomicBool::new(false), seen: Default::default(), torn: AtomicU64::new(0) };
    let mut random = Random(1);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (reader, o, progress) = (live.reader(), &o, &progress);
            scope.spawn(move || read(o, reader, progress, me));
        }
        let mut to = 0;
        // Until both have seen enough versions, however busy the machine is.
        while progress.seen.iter().any(|seen| seen.load(Relaxed) < 500) {
            to += 1;
            let batch = batch(&o, &live, random.below(KEYS), to, random.one_in(4));
            match random.below(4) {
                0 => live.write_deferred(&batch).map(drop).unwrap(),
                1 => assert!(live.write_batches([&batch]).iter().all(Result::is_ok)),
                2 => drop(live.sync_standby()),
                _ => live.write(&batch).map(drop).unwrap(),
            }
        }
        progress.stop.store(true, Relaxed);
    });
    assert_eq!(progress.torn.load(Relaxed), 0, "a reader saw half a batch, or went back");
    live.publish();
    let mut reader = live.reader();
    assert_eq!(reader.acquire().version(), live.state().version());
}

/// A reader that never releases its copy keeps a valid copy, and neither the writer nor other
/// readers wait.
#[test]
fn a_lost_reader_stops_nobody() {
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| true).unwrap();
    live.set_reader_timeout(Duration::from_millis(1));
    live.write(&batch(&o, &live, 0, 7, false)).unwrap();
    let (mut lost, mut other) = (live.reader(), live.reader());
    let kept = lost.acquire().clone();
    let before = both(&o, &kept, 0);
    for to in 1..20 {
        live.write(&batch(&o, &live, to % KEYS, 1000 + to, false)).unwrap();
        let lookups = other.acquire();
        assert_eq!(lookups.version(), live.state().version());
        assert_ne!(both(&o, lookups, 0), (0, 0));
    }
    assert_eq!(both(&o, &kept, 0), before);
    assert_eq!(kept.version(), 1);
    assert!(!live.sync_standby(), "two readers hold something old");
    drop(kept);
    lost.release();
    other.release();
    assert!(live.sync_standby());
}
