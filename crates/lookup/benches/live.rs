//! Duration of writes while a reader looks up continuously: `cargo bench -p lookup --bench live`.

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
use lookup::{LeftRightReader, LiveTables};
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

/// Looks up random hosts in batches until `stop` is set.
fn reads(o: &Overlay, mut reader: LeftRightReader, stop: &AtomicBool, count: &AtomicU64) {
    let mut random = Random(7);
    let mut out = [std::ptr::null(); BATCH];
    while !stop.load(Relaxed) {
        let keys: [u64; BATCH] = std::array::from_fn(|_| host_of(random.below(2 * MANY)));
        let lookups = reader.acquire();
        lookups.lookup_batch(o.hosts, &keys, &mut out);
        black_box(value::read_all(lookups, &out));
        count.fetch_add(BATCH as u64, Relaxed);
    }
}

/// Spreads hosts over VNIs and addresses.
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
        StateUpdate::Entry(kind, o.host(vni, address, n))
    };
    range.map(one).collect()
}

/// Creates a batch of packed entries as a server does, from minimal byte strings.
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
        Ok::<_, Box<EntryError>>(StateUpdate::Packed(kind, packer.finish()?))
    };
    range.map(one).collect::<Result<_, _>>().unwrap()
}

/// Returns the resident bytes of this process.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// Prints the memory per entry of a state with a million entries of the gateway's VM tables, and of
/// a state with both copies of the overlay's lookups.
fn memory() {
    let chunks = || (0..MANY / 10_000).map(|chunk| chunk * 10_000..(chunk + 1) * 10_000);
    for width in [32, 128] {
        let mut p = ir::Pipeline::new("vms", ir::Arch::Pna);
        let on_server = action(&mut p, &[width, 48]);
        let keys = [24, width].map(|width| key(ir::Type::Bit(width), ir::MatchKind::Exact));
        let vms = table(&mut p, keys.to_vec(), &[on_server]);
        let mut state = ControlState::new(Arc::new(p)).unwrap();
        let write = |state: &mut ControlState, range: std::ops::Range<u64>| {
            let insertion = |index| {
                let (vni, address) = spread(index);
                let mut packer = state.entry_packer(vms)?;
                packer.exact(0, vni)?.exact(1, address)?.call(on_server)?.arg(0, index)?.arg(1, index)?;
                Ok::<_, Box<EntryError>>(StateUpdate::Packed(UpdateKind::Insert, packer.finish()?))
            };
            let batch: WriteBatch = range.map(insertion).collect::<Result<_, _>>().unwrap();
            state.apply(&batch).unwrap();
        };
        // The first write allocates the batch's scratch memory before the measurement.
        write(&mut state, 0..1);
        let before = resident();
        chunks().for_each(|range| write(&mut state, range.start.max(1)..range.end));
        println!("State, VMs of {width} bits: {} resident bytes an entry", (resident() - before) / MANY);
        std::mem::forget(state);
    }
    let o = overlay();
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let before = resident();
    chunks().for_each(|range| drop(live.write(&many_packed(&o, UpdateKind::Insert, range)).unwrap()));
    assert!(live.sync_standby());
    let (bytes_per_entry, lookup_bytes_per_entry) = ((resident() - before) / MANY, live.memory_bytes() as u64 / MANY);
    println!(
        "State and lookups of the overlay's VMs: {bytes_per_entry}, of which both copies of lookups {lookup_bytes_per_entry}"
    );
}

/// Returns the nanoseconds that this thread has run on a core, because other processes may share
/// the machine.
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
        let mut state = ControlState::new(Arc::new(o.pipeline.clone())).unwrap();
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

/// Large batches for profiling: into an empty table, and repeated insertion and deletion in a table
/// of a million entries.
fn bulk() {
    let o = overlay();
    for (form, many) in FORMS.into_iter().cycle().take(4) {
        let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
        for (label, kind) in
            [("insert", UpdateKind::Insert), ("delete", UpdateKind::Delete), ("again", UpdateKind::Insert)]
        {
            let batch = many(&o, kind, 0..MANY);
            timed(&format!("bulk {label}, both copies, {form}"), MANY, || {
                live.write(&batch).map(drop).unwrap();
                assert!(live.sync_standby());
            });
        }
        let new_entries = MANY..MANY + 200_000;
        // Tables grow in the first round.
        for kind in [UpdateKind::Insert, UpdateKind::Delete].into_iter().cycle().take(6) {
            let chunks: Vec<_> = new_entries.clone().step_by(50_000).map(|n| many(&o, kind, n..n + 50_000)).collect();
            timed(&format!("chunks of 50000, {kind:?}, {form}"), 200_000, || {
                for batch in &chunks {
                    live.write_deferred(batch).unwrap();
                }
                live.publish();
            });
        }
    }
}

/// Prints the rates of inserting and deleting a million entries, in one batch and one by one, while
/// `readers` threads look up continuously.
fn writes(o: &Overlay, readers: usize) {
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| true).unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..readers {
            let reader = live.reader();
            scope.spawn(|| reads(o, reader, &stop, &count));
        }
        let start = Instant::now();
        let inserts = many(o, UpdateKind::Insert, 0..MANY);
        timed("bulk insert (one batch)", MANY, || live.write(&inserts).map(drop).unwrap());
        timed("  and the other copy", MANY, || while !live.sync_standby() {});
        println!("  {} bytes an entry", live.memory_bytes() as u64 / MANY);
        let single_writes = |kind| (MANY..MANY * 5 / 4).map(|n| many(o, kind, n..n + 1)).collect::<Vec<_>>();
        for kind in [UpdateKind::Insert, UpdateKind::Delete] {
            singles(&mut live, &format!("{kind:?} one by one"), &single_writes(kind));
        }
        let deletes = many(o, UpdateKind::Delete, 0..MANY);
        timed("bulk delete (one batch)", MANY, || live.write(&deletes).map(drop).unwrap());
        timed("  and the other copy", MANY, || while !live.sync_standby() {});
        println!("lookups meanwhile: {:.1} M/s", count.load(Relaxed) as f64 / start.elapsed().as_secs_f64() / 1e6);
        stop.store(true, Relaxed);
    });
}

/// Writes each third of the batches differently: published one by one, in groups of 32, and
/// deferred.
fn singles(live: &mut LiveTables, label: &str, batches: &[WriteBatch]) {
    let third = batches.len() / 3;
    let (first, rest) = batches.split_at(third);
    let (second, last) = rest.split_at(third);
    timed(&format!("{label}, each published"), first.len() as u64, || {
        for batch in first {
            live.write(batch).unwrap();
        }
    });
    timed(&format!("{label}, 32 published together"), second.len() as u64, || {
        for batches in second.chunks(32) {
            assert!(live.write_batches(batches).iter().all(Result::is_ok));
        }
    });
    timed(&format!("{label}, write_deferred"), last.len() as u64, || {
        for batch in last {
            live.write_deferred(batch).unwrap();
        }
        live.publish();
    });
}
