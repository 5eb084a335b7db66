//! How long writes take, with a reader that looks up all the time: `cargo bench -p tables --bench live`.

#[path = "../tests/live/pipeline.rs"]
#[allow(dead_code)]
mod pipeline;
#[path = "../tests/live/random.rs"]
#[allow(dead_code)]
mod random;
#[path = "../tests/live/value.rs"]
#[allow(dead_code)]
mod value;

use pipeline::*;
use random::Random;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;
use tables::fast::{Live, Reader};
use tables::*;

fn main() {
    state_alone();
    bulk();
    writes_under_lookups();
}

const MANY: u64 = 1_000_000;
const BATCH: usize = 64;

/// Looks up random hosts in batches until it is told to stop.
fn reads(o: &Overlay, mut reader: Reader, stop: &AtomicBool, count: &AtomicU64) {
    let mut random = Random(7);
    let mut out = [std::ptr::null(); BATCH];
    while !stop.load(Relaxed) {
        let keys: [u64; BATCH] = std::array::from_fn(|_| host_of(random.below(2 * MANY)));
        let lookups = reader.enter();
        lookups.lookup_batch(o.hosts, &keys, &mut out);
        black_box(value::read_all(lookups, &out));
        count.fetch_add(BATCH as u64, Relaxed);
    }
}

/// Hosts spread over VNIs and addresses.
fn spread(n: u64) -> (u64, u64) {
    (n & 0xff_ffff, (n.wrapping_mul(0x9e37_79b9)) & 0xffff_ffff)
}

fn host_of(n: u64) -> u64 {
    let (vni, address) = spread(n);
    host_key(vni, address)
}

fn many(o: &Overlay, kind: UpdateKind, range: std::ops::Range<u64>) -> WriteBatch {
    let one = |n| {
        let (vni, address) = spread(n);
        Update::Entry(kind, o.host(vni, address, n))
    };
    range.map(one).collect()
}

/// Nanoseconds that this thread has been on a core: on a machine that others use too, what counts.
fn on_core() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn timed<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let (start, core) = (Instant::now(), on_core());
    let result = work();
    let (took, core) = (start.elapsed(), on_core() - core);
    let (rate, each) = (count as f64 / took.as_secs_f64() / 1e6, took.as_nanos() as f64 / count as f64);
    let core = core as f64 / count as f64;
    println!("{what:42} {rate:7.3} M/s {each:7.0} ns each; on a core: {core:6.0} ns, {:7.3} M/s", 1e3 / core);
    result
}

fn state_alone() {
    let o = overlay();
    for _ in 0..3 {
        let mut state = State::new(Arc::new(o.pipeline.clone())).unwrap();
        let batch = many(&o, UpdateKind::Insert, 0..MANY);
        let changes = timed("State::apply, one batch of inserts", MANY, || state.apply(&batch).unwrap());
        timed("  dropping its changes", MANY, || drop(changes));
        let batch = many(&o, UpdateKind::Delete, 0..MANY);
        timed("State::apply, one batch of deletes", MANY, || state.apply(&batch).unwrap());
        let singles: Vec<WriteBatch> = (0..MANY).map(|n| many(&o, UpdateKind::Insert, n..n + 1)).collect();
        timed("State::apply, inserts one by one", MANY, || {
            for single in &singles {
                state.apply(single).unwrap();
            }
        });
    }
}

fn writes_under_lookups() {
    let o = overlay();
    for round in 0..3 {
        println!("round {round}");
        for readers in [0, 1] {
            println!("{readers} readers");
            writes(&o, readers);
        }
    }
}

/// Large batches alone, for a profile.
fn bulk() {
    let o = overlay();
    let insert = many(&o, UpdateKind::Insert, 0..MANY);
    let delete = many(&o, UpdateKind::Delete, 0..MANY);
    for numbers in [false, false, true] {
        let mut live = Live::new(Arc::new(o.pipeline.clone()), |_| numbers).unwrap();
        for (what, batch) in [("insert", &insert), ("delete", &delete), ("insert again", &insert)] {
            timed(&format!("bulk {what}, both copies"), MANY, || {
                live.write(batch).map(drop).unwrap();
                assert!(live.settle());
            });
        }
    }
}

fn writes(o: &Overlay, readers: usize) {
    let mut live = Live::new(Arc::new(o.pipeline.clone()), |_| true).unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let reader = live.reader();
            scope.spawn(|| reads(o, reader, &stop, &count));
        }
        let start = Instant::now();
        let all = many(o, UpdateKind::Insert, 0..MANY);
        timed("bulk insert (one batch)", MANY, || live.write(&all).map(drop).unwrap());
        timed("  and the other copy", MANY, || while !live.settle() {});
        println!("  {} bytes an entry", live.memory_bytes() as u64 / MANY);
        let each = |kind| (MANY..MANY * 5 / 4).map(|n| many(o, kind, n..n + 1)).collect::<Vec<_>>();
        for kind in [UpdateKind::Insert, UpdateKind::Delete] {
            singles(&mut live, &format!("{kind:?} one by one"), &each(kind));
        }
        let all = many(o, UpdateKind::Delete, 0..MANY);
        timed("bulk delete (one batch)", MANY, || live.write(&all).map(drop).unwrap());
        timed("  and the other copy", MANY, || while !live.settle() {});
        println!("lookups meanwhile: {:.1} M/s", count.load(Relaxed) as f64 / start.elapsed().as_secs_f64() / 1e6);
        stop.store(true, Relaxed);
    });
}

/// Thirds of the batches: each waited for; in groups of 32; published as soon as possible.
fn singles(live: &mut Live, what: &str, batches: &[WriteBatch]) {
    let third = batches.len() / 3;
    let (first, rest) = batches.split_at(third);
    let (second, last) = rest.split_at(third);
    timed(&format!("{what}, each published"), first.len() as u64, || {
        for batch in first {
            live.write(batch).unwrap();
        }
    });
    timed(&format!("{what}, 32 published together"), second.len() as u64, || {
        for batches in second.chunks(32) {
            assert!(live.write_many(batches).iter().all(Result::is_ok));
        }
    });
    timed(&format!("{what}, write_soon"), last.len() as u64, || {
        for batch in last {
            live.write_soon(batch).unwrap();
        }
        live.publish();
    });
}
