//! Readers on other threads see each batch as a whole, over all tables, and never an older one after a newer one.

use crate::pipeline::*;
use crate::random::Random;
use crate::value;
use entries::{Update, UpdateKind, WriteBatch};
use lookup::{Live, Lookups, Reader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

const KEYS: u64 = 8;

/// The values that `hosts` and `routes` give for a key, each as a number; 0 on a miss.
fn both(o: &Overlay, lookups: &Lookups, index: u64) -> (u64, u64) {
    let (mut host, mut route) = ([std::ptr::null()], [std::ptr::null()]);
    lookups.lookup_batch(o.hosts, &[host_key(1, index)], &mut host);
    // The exact part, then the address, each in its own word.
    lookups.lookup_batch(o.routes, &[1, index << 8 | 7], &mut route);
    // A value has 7 bytes: arm, port and address.
    let seven = |out: &[*const u8]| value::read_all(lookups, out) & (u64::MAX >> 8);
    (seven(&host), seven(&route))
}

/// Makes host and route of an index lead to the same place, or takes both away.
fn batch(o: &Overlay, live: &Live, index: u64, to: u64, delete: bool) -> WriteBatch {
    let there = live.state().entries(o.hosts).any(|e| e.key()[1] == index);
    let kind = match (there, delete) {
        (true, true) => UpdateKind::Delete,
        (true, false) => UpdateKind::Modify,
        (false, _) => UpdateKind::Insert,
    };
    let route = Update::Entry(kind, o.route(1, index << 8, 24, to));
    let host = Update::Entry(kind, o.host(1, index, to));
    WriteBatch::from_iter(if to.is_multiple_of(2) { [route, host] } else { [host, route] })
}

struct Progress {
    stop: AtomicBool,
    /// How many different versions each reader has seen.
    seen: [AtomicU64; 2],
    torn: AtomicU64,
}

fn read(o: &Overlay, mut reader: Reader, progress: &Progress, me: usize) {
    let mut random = Random(me as u64);
    let mut last = 0;
    while !progress.stop.load(Relaxed) {
        let lookups = reader.enter();
        let version = lookups.version();
        let index = random.below(KEYS);
        let first = both(o, lookups, index);
        // The same again later in the batch: what the reader holds does not change.
        let again = both(o, lookups, index);
        if first.0 != first.1 || first != again || version < last {
            progress.torn.fetch_add(1, Relaxed);
        }
        if version > last {
            progress.seen[me].fetch_add(1, Relaxed);
        }
        last = version;
        if random.one_in(50) {
            reader.park();
        }
        if random.one_in(20) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn two_tables_change_together_or_not_at_all() {
    let o = overlay();
    let mut live = Live::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let progress = Progress { stop: AtomicBool::new(false), seen: Default::default(), torn: AtomicU64::new(0) };
    let mut random = Random(1);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (reader, o, progress) = (live.reader(), &o, &progress);
            scope.spawn(move || read(o, reader, progress, me));
        }
        let mut to = 0;
        // Until both have seen enough, however busy the machine is.
        while progress.seen.iter().any(|seen| seen.load(Relaxed) < 500) {
            to += 1;
            let batch = batch(&o, &live, random.below(KEYS), to, random.one_in(4));
            match random.below(4) {
                0 => live.write_soon(&batch).map(drop).unwrap(),
                1 => assert!(live.write_many([&batch]).iter().all(Result::is_ok)),
                2 => drop(live.settle()),
                _ => live.write(&batch).map(drop).unwrap(),
            }
        }
        progress.stop.store(true, Relaxed);
    });
    assert_eq!(progress.torn.load(Relaxed), 0, "a reader saw half a batch, or went back");
    live.publish();
    let mut reader = live.reader();
    assert_eq!(reader.enter().version(), live.state().version());
}

/// A reader that went away with its copy: it may go on with that as long as it likes, and everybody else goes on as well.
#[test]
fn a_lost_reader_stops_nobody() {
    let o = overlay();
    let mut live = Live::new(Arc::new(o.pipeline.clone()), |_| true).unwrap();
    live.set_patience(Duration::from_millis(1));
    live.write(&batch(&o, &live, 0, 7, false)).unwrap();
    let (mut lost, mut other) = (live.reader(), live.reader());
    let kept = lost.enter().clone();
    let before = both(&o, &kept, 0);
    for to in 1..20 {
        live.write(&batch(&o, &live, to % KEYS, 1000 + to, false)).unwrap();
        let lookups = other.enter();
        assert_eq!(lookups.version(), live.state().version());
        assert_ne!(both(&o, lookups, 0), (0, 0));
    }
    assert_eq!(both(&o, &kept, 0), before);
    assert_eq!(kept.version(), 1);
    assert!(!live.settle(), "two readers hold something old");
    drop(kept);
    lost.park();
    other.park();
    assert!(live.settle());
}
