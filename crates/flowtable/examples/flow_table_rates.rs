//! Measures the table: `cargo run --release -p flowtable --example flow_table_rates -- [ENTRIES ...]`, without
//! arguments 1,000,000 and 10,000,000.
//!
//! Times are of the thread's own processor time, medians of 7 windows of 0.12 s. "Limit" is what
//! the machine gives: a line of an index of the same size by prefetch, then a record that it
//! names; nothing is hashed, compared or written.
#![allow(unsafe_code)]

use flowtable::{FlowTable, Member, RecordId, Shape};
use std::hint::black_box;

const KEY: usize = 20;
const VALUE: usize = 17;
const BATCH: usize = 256;

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

fn write_key(n: u64, key: &mut [u8]) {
    key[..8].copy_from_slice(&mix(n).to_le_bytes());
    key[8..16].copy_from_slice(&n.wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes());
    key[16..20].copy_from_slice(&(n as u32).to_le_bytes());
}

/// Returns the processor time of this thread in seconds: others on the core do not count.
fn thread_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Prints the median of windows, in millions a second.
fn measure(name: &str, entries: u64, mut run: impl FnMut() -> u64) {
    run();
    let mut rates: Vec<f64> = (0..7)
        .map(|_| {
            let (start, mut done) = (thread_seconds(), 0);
            while thread_seconds() - start < 0.12 {
                done += run();
            }
            done as f64 / (thread_seconds() - start) / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    println!("{name:36} {entries:>10}  median {:7.2}  best {:7.2} M/s", rates[3], rates[6]);
}

/// Keys of one batch.
struct Batch {
    keys: Vec<u8>,
    out: Vec<RecordId>,
}

impl Batch {
    fn new() -> Batch {
        Batch { keys: vec![0; BATCH * KEY], out: vec![RecordId::NONE; BATCH] }
    }

    fn fill(&mut self, numbers: impl Iterator<Item = u64>) -> usize {
        let pairs = self.keys.chunks_exact_mut(KEY).zip(numbers);
        pairs.map(|(key, n)| write_key(n, key)).count()
    }

    fn key(&self, n: usize) -> &[u8] {
        &self.keys[n * KEY..(n + 1) * KEY]
    }

    fn lookup(&mut self, member: &mut Member, count: usize) {
        member.lookup_batch(&self.keys, KEY, &mut self.out[..count]);
    }
}

fn limit(entries: u64, stride: usize) {
    let lines = (entries * 100 / 765 + 1).next_power_of_two();
    let index: Vec<u32> = in_huge_pages(lines * 16, (0..lines * 16).map(|n| mix(n / 16 * 77) as u32));
    let count = (entries + 2) * stride as u64 / 64;
    let records: Vec<Line> = in_huge_pages(count, (0..count).map(|n| Line([n; 8])));
    let word = |n: usize| &records[n / 8].0[n % 8];
    let mut random = Random(entries);
    const AHEAD: usize = 20;
    let prefetch = |address: *const u8| {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<3>(address.cast())
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = address;
    };
    let (mut line, mut other, mut record) = ([0usize; BATCH], [0u32; BATCH], [0usize; BATCH]);
    measure(&format!("limit: a line, a record of {stride}"), entries, || {
        let mut sum = 0;
        for step in 0..BATCH + 2 * AHEAD {
            if step < BATCH {
                let n = random.next();
                (line[step], other[step]) = ((n & (lines - 1)) as usize * 16, (n >> 32) as u32);
                prefetch(index[line[step]..].as_ptr().cast());
            }
            let second = step.wrapping_sub(AHEAD);
            if second < BATCH {
                // Another record each time, but not known before the line is there.
                let n = (u64::from(index[line[second]] ^ other[second]) * entries) >> 32;
                record[second] = n as usize * stride / 8;
                prefetch((&raw const *word(record[second])).cast());
                if !stride.is_multiple_of(64) {
                    prefetch((&raw const *word(record[second] + stride / 8 - 1)).cast());
                }
            }
            let third = step.wrapping_sub(2 * AHEAD);
            if third < BATCH {
                sum += word(record[third]) + word(record[third] + stride / 8 - 1);
            }
        }
        black_box(sum);
        BATCH as u64
    });
}

/// A cache line of a record.
#[repr(align(64))]
struct Line([u64; 8]);

/// Collects into memory whose pages are huge if the system allows it.
fn in_huge_pages<T>(count: u64, items: impl Iterator<Item = T>) -> Vec<T> {
    let mut memory = Vec::with_capacity(count as usize + (2 << 20) / size_of::<T>());
    let start = (memory.as_ptr() as usize).next_multiple_of(2 << 20);
    let bytes = count as usize * size_of::<T>();
    // SAFETY: advice on pages of this allocation, which has 2 MiB more than the items.
    unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_HUGEPAGE) };
    memory.extend(items);
    memory
}

/// Adds keys; the batch is looked up before, as packets that miss are.
fn add(member: &mut Member, batch: &mut Batch, from: u64, to: u64) {
    for first in (from..to).step_by(BATCH) {
        member.begin_batch(1);
        let count = batch.fill(first..to);
        batch.lookup(member, count);
        for n in 0..count {
            member.find_or_add(batch.key(n), &[7; VALUE], 0, 0);
        }
    }
}

fn remove(member: &mut Member, batch: &mut Batch, from: u64, to: u64) {
    let count = batch.fill(from..to);
    batch.lookup(member, count);
    for n in 0..count {
        assert!(member.remove_record(batch.out[n]).is_some());
    }
}

fn bench(entries: u64, is_dense: bool) {
    let size = (entries + entries / 8 + 4096) as u32;
    let shape = Shape { idle_ticks: vec![2400], is_dense: Some(is_dense), ..Shape::new(KEY, VALUE, size) };
    let table = FlowTable::new(shape, 7).expect("a table");
    let stride = table.layout().stride;
    limit(entries, stride);
    let (mut member, mut batch) = (table.join().expect("a member"), Batch::new());
    let start = thread_seconds();
    let is_populated = table.populate_ahead(size);
    println!("memory for {size} entries: {:.2} s, complete: {is_populated}", thread_seconds() - start);
    let start = thread_seconds();
    add(&mut member, &mut batch, 0, entries);
    let seconds = thread_seconds() - start;
    let used = table.used_bytes();
    let of = |bytes: u64| bytes as f64 / entries as f64;
    println!(
        "filled at {:.2} M/s; bytes an entry: buckets {:.2}, overflow {:.2}, records {:.2}, all {:.2}",
        entries as f64 / seconds / 1e6,
        of(used.buckets),
        of(used.overflow),
        of(used.records),
        of(used.buckets + used.overflow + used.records)
    );
    let mut random = Random(entries + 1);
    measure("keys alone", entries, || {
        batch.fill((0..BATCH).map(|_| random.below(entries)));
        black_box(&batch.keys);
        BATCH as u64
    });
    measure("hits", entries, || {
        member.begin_batch(1);
        batch.fill((0..BATCH).map(|_| random.below(entries)));
        batch.lookup(&mut member, BATCH);
        assert!(batch.out.iter().all(|id| id.is_some()));
        BATCH as u64
    });
    let (mut oldest, mut next) = (0, entries);
    measure("9 hits, 1 added and 1 removed", entries, || {
        member.begin_batch(1);
        batch.fill((0..230).map(|_| oldest + entries / 8 + random.below(entries * 7 / 8 - 4096)));
        batch.lookup(&mut member, 230);
        add(&mut member, &mut batch, next, next + 26);
        remove(&mut member, &mut batch, oldest, oldest + 26);
        (oldest, next) = (oldest + 26, next + 26);
        256
    });
    measure("added, with as many removed", entries, || {
        add(&mut member, &mut batch, next, next + 256);
        remove(&mut member, &mut batch, oldest, oldest + 256);
        (oldest, next) = (oldest + 256, next + 256);
        256
    });
    sweep(&table, &mut member);
    delete(&table, &mut member);
}

/// Measures the first pass, which looks at all records, and seconds of table time after it, in
/// which no entry ends and each is looked at twice.
fn sweep(table: &FlowTable, member: &mut Member) {
    let mut tick = 1;
    let mut pass = |seconds: u32| {
        let (start, mut examined) = (thread_seconds(), 0u64);
        for _ in 0..seconds * 2 {
            tick += 4;
            member.begin_batch(tick);
            let report = member.sweep(u32::MAX, |_| {});
            examined += u64::from(report.examined);
            assert_eq!(report.removed, 0);
        }
        ((thread_seconds() - start) / f64::from(seconds) * 1e3, examined)
    };
    let ((first, _), (later, examined)) = (pass(1), pass(260));
    println!(
        "sweep of {}: first pass {first:.1} ms; then {later:.3} ms a second, {examined} looks in 260 s",
        table.count()
    );
}

/// Measures the removal by filter of all entries.
fn delete(table: &FlowTable, member: &mut Member) {
    let (start, count) = (thread_seconds(), table.count());
    let mut cursor = Some(1);
    while let Some(from) = cursor {
        member.begin_batch(1000);
        cursor = member.delete_where(from, 4096, |_| true).0;
    }
    println!("removal by filter: {:.1} ns an entry of {count}", (thread_seconds() - start) / count as f64 * 1e9);
    assert_eq!(table.count(), 0);
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).map(|n| n.parse().expect("a number of entries")).collect();
    for entries in if sizes.is_empty() { vec![1_000_000, 10_000_000] } else { sizes } {
        for is_dense in [false, true] {
            bench(entries, is_dense);
        }
    }
}
