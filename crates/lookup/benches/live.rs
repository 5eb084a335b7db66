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

use entries::*;
use lookup::{Live, Reader};
use pipeline::*;
use random::Random;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;

fn main() {
    memory();
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

/// The same, packed, as a server does it: from the shortest bytes.
fn many_packed(o: &Overlay, kind: UpdateKind, range: std::ops::Range<u64>) -> WriteBatch {
    let layout = KeyLayout::new(&o.pipeline.tables[o.hosts].keys);
    let bytes = |number: u64| {
        let mut out = Vec::new();
        push_bytes(&[number], &mut out);
        out
    };
    let one = |n: u64| {
        let (vni, address) = spread(n);
        let mut packer = EntryPacker::new(&o.pipeline, &layout, o.hosts)?;
        packer.exact(0, &bytes(vni)[..])?.exact(1, &bytes(address)[..])?.call(o.forward)?;
        packer.arg(0, &bytes(n & 0xffff)[..])?.arg(1, &bytes(n & 0xffff_ffff)[..])?;
        Ok::<_, Box<EntryError>>(Update::Packed(kind, packer.finish()?))
    };
    range.map(one).collect::<Result<_, _>>().unwrap()
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// What a state takes for each of a million entries of the gateway's VM tables, and a state with both copies of lookups for the
/// overlay's.
fn memory() {
    let chunks = || (0..MANY / 10_000).map(|chunk| chunk * 10_000..(chunk + 1) * 10_000);
    for width in [32, 128] {
        let mut p = ir::Pipeline::new("vms", ir::Arch::Pna);
        let on_server = action(&mut p, &[width, 48]);
        let keys = [24, width].map(|width| key(ir::Type::Bit(width), ir::MatchKind::Exact));
        let vms = table(&mut p, keys.to_vec(), &[on_server]);
        let mut state = State::new(Arc::new(p)).unwrap();
        let write = |state: &mut State, range: std::ops::Range<u64>| {
            let one = |n| {
                let (vni, address) = spread(n);
                let mut packer = state.packer(vms)?;
                packer.exact(0, vni)?.exact(1, address)?.call(on_server)?.arg(0, n)?.arg(1, n)?;
                Ok::<_, Box<EntryError>>(Update::Packed(UpdateKind::Insert, packer.finish()?))
            };
            let batch: WriteBatch = range.map(one).collect::<Result<_, _>>().unwrap();
            state.apply(&batch).unwrap();
        };
        // What a batch takes on its way is there from the beginning.
        write(&mut state, 0..1);
        let before = resident();
        chunks().for_each(|range| write(&mut state, range.start.max(1)..range.end));
        println!("State, VMs of {width} bits: {} resident bytes an entry", (resident() - before) / MANY);
        std::mem::forget(state);
    }
    let o = overlay();
    let mut live = Live::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let before = resident();
    chunks().for_each(|range| drop(live.write(&many_packed(&o, UpdateKind::Insert, range)).unwrap()));
    assert!(live.settle());
    let (all, lookups) = ((resident() - before) / MANY, live.memory_bytes() as u64 / MANY);
    println!("State and lookups of the overlay's VMs: {all}, of which both copies of lookups {lookups}");
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
    for (form, many) in FORMS.into_iter().cycle().take(4) {
        let mut state = State::new(Arc::new(o.pipeline.clone())).unwrap();
        let batch = many(&o, UpdateKind::Insert, 0..MANY);
        let changes =
            timed(&format!("State::apply, one batch of inserts, {form}"), MANY, || state.apply(&batch).unwrap());
        timed("  dropping its changes", MANY, || drop(changes));
        let batch = many(&o, UpdateKind::Delete, 0..MANY);
        timed(&format!("State::apply, one batch of deletes, {form}"), MANY, || state.apply(&batch).unwrap());
        let singles: Vec<WriteBatch> = (0..MANY).map(|n| many(&o, UpdateKind::Insert, n..n + 1)).collect();
        timed(&format!("State::apply, inserts one by one, {form}"), MANY, || {
            for single in &singles {
                state.apply(single).unwrap();
            }
        });
    }
}

type Many = fn(&Overlay, UpdateKind, std::ops::Range<u64>) -> WriteBatch;

/// Both forms of an entry.
const FORMS: [(&str, Many); 2] = [("numbers", many), ("packed", many_packed)];

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

/// Large batches alone, for a profile: into an empty table, and chunks of what comes and goes in one with a million entries.
fn bulk() {
    let o = overlay();
    for (form, many) in FORMS.into_iter().cycle().take(4) {
        let mut live = Live::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
        for (what, kind) in
            [("insert", UpdateKind::Insert), ("delete", UpdateKind::Delete), ("again", UpdateKind::Insert)]
        {
            let batch = many(&o, kind, 0..MANY);
            timed(&format!("bulk {what}, both copies, {form}"), MANY, || {
                live.write(&batch).map(drop).unwrap();
                assert!(live.settle());
            });
        }
        let more = MANY..MANY + 200_000;
        // The first time, tables grow.
        for kind in [UpdateKind::Insert, UpdateKind::Delete].into_iter().cycle().take(6) {
            let chunks: Vec<_> = more.clone().step_by(50_000).map(|n| many(&o, kind, n..n + 50_000)).collect();
            timed(&format!("chunks of 50000, {kind:?}, {form}"), 200_000, || {
                for batch in &chunks {
                    live.write_soon(batch).unwrap();
                }
                live.publish();
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
