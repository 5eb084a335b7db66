//! Several threads on one table, with forced switches at the gaps of the protocol. The results
//! about each key must be those of one after the other ("linearizable", Herlihy and Wing 1990).
//!
//! `FLOWTABLE_STRESS_SECONDS` makes the test longer; its seed is printed and can be set by
//! `FLOWTABLE_STRESS_SEED`.

use crate::random::Random;
use flowtable::{Addition, FlowTable, Member, NewEntry, RecordId, Refusal, Shape, set_chaos};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

const WORKERS: u64 = 3;
/// Keys of a round whose histories are checked.
const KEYS: u64 = 3;
/// Steps of each worker in a round; all together are at most 128, the bits of a search's state.
const STEPS: u64 = 40;
const ROUNDS: u64 = 20;
/// Calls that overlap another about the same key: with fewer, the test shows nothing.
const MIN_OVERLAPS: usize = 100;

/// What a call has returned; values are of entries.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Result {
    Find(Option<u32>),
    Add(u32, bool),
    Modify(Option<u32>),
    Remove(bool),
}

/// A call with the moments when it began and ended.
#[derive(Clone, Copy, Debug)]
struct Call {
    begin: u64,
    end: u64,
    result: Result,
}

/// Returns whether an order of the calls about one key explains all their results. No call comes
/// before one that had ended when it began.
fn is_explained(calls: &[Call], done: u128, now: Option<u32>, dead_ends: &mut HashSet<(u128, Option<u32>)>) -> bool {
    if done.count_ones() as usize == calls.len() {
        return true;
    }
    if dead_ends.contains(&(done, now)) {
        return false;
    }
    let waiting = || (0..calls.len()).filter(|i| done >> i & 1 == 0);
    let first_end = waiting().map(|i| calls[i].end).min().unwrap();
    for i in waiting().filter(|i| calls[*i].begin < first_end) {
        let then = match calls[i].result {
            Result::Find(found) => (found == now).then_some(now),
            Result::Add(value, true) => now.is_none().then_some(Some(value)),
            Result::Add(value, false) => (now == Some(value)).then_some(now),
            Result::Modify(Some(value)) => now.is_some().then_some(Some(value)),
            Result::Modify(None) => now.is_none().then_some(None),
            Result::Remove(true) => now.is_some().then_some(None),
            Result::Remove(false) => now.is_none().then_some(None),
        };
        if then.is_some_and(|then| is_explained(calls, done | 1 << i, then, dead_ends)) {
            return true;
        }
    }
    dead_ends.insert((done, now));
    false
}

#[test]
fn impossible_histories_are_not_explained() {
    let call = |begin, end, result| Call { begin, end, result };
    let explained = |calls: &[Call]| is_explained(calls, 0, None, &mut HashSet::new());
    assert!(explained(&[call(0, 3, Result::Find(Some(1))), call(1, 2, Result::Add(1, true))]));
    assert!(!explained(&[call(0, 1, Result::Find(Some(1))), call(2, 3, Result::Add(1, true))]));
    assert!(!explained(&[call(0, 3, Result::Add(1, true)), call(1, 2, Result::Add(2, true))]));
    assert!(!explained(&[call(0, 1, Result::Add(1, true)), call(2, 3, Result::Find(None))]));
}

/// Ends the process if its thread panics, because the other threads of the test would wait for it
/// forever. The message of the panic has been printed by then.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn key(n: u64) -> [u8; 12] {
    let mut key = [7; 12];
    key[..8].copy_from_slice(&n.to_le_bytes());
    key
}

struct Worker<'t> {
    member: Member,
    random: Random,
    id: u64,
    time: &'t AtomicU64,
    log: Vec<(u64, Call)>,
}

impl Worker<'_> {
    fn value_of(&self, id: RecordId) -> u32 {
        let value = self.member.value_ptr(id);
        #[allow(unsafe_code)]
        // SAFETY: this batch has found the record, and its value has four bytes.
        unsafe {
            value.cast::<u32>().read_unaligned()
        }
    }

    /// Adds and removes keys that no other worker uses: buckets divide and overflow, records are
    /// used again.
    fn disturb(&mut self, base: u64) {
        for n in 0..self.random.below(6) {
            let added = self.member.find_or_add(&key(base + n), &[0; 4], 0, 0);
            let is_new = matches!(added, Addition::Added(_) | Addition::Refused(Refusal::Busy));
            assert!(is_new, "{added:?}");
            if n % 3 == 0 && matches!(added, Addition::Added(_)) {
                assert!(self.member.remove(&key(base + n)).is_some());
            }
        }
    }

    fn step(&mut self, round: u64, step: u64) {
        if self.random.below(4) == 0 {
            self.member.begin_batch(1);
        }
        self.disturb(1_000_000 + (round * WORKERS + self.id) * 1000 + step * 8);
        let n = self.random.below(KEYS) + round * KEYS;
        let (key, value) = (key(n), (self.id * 1000 + step) as u32);
        let begin = self.time.fetch_add(1, SeqCst);
        let result = match self.random.below(6) {
            0 => Result::Remove(self.member.remove(&key).is_some()),
            1 | 2 => match self.member.find_or_add(&key, &value.to_le_bytes(), 0, 0) {
                Addition::Added(id) => Result::Add(self.value_of(id), true),
                Addition::Found(id) => Result::Add(self.value_of(id), false),
                // The other worker has lost its core while it held the lock. Nothing happened.
                Addition::Refused(_) => return,
            },
            3 => {
                let id = self.member.modify(&key, &value.to_le_bytes(), Some(0)).expect("free records");
                Result::Modify(id.is_some().then_some(value))
            }
            4 => {
                let id = self.member.lookup(&key);
                Result::Find(id.is_some().then(|| self.value_of(id)))
            }
            _ => {
                let mut out = [RecordId::NONE];
                self.member.lookup_batch(&key, key.len(), &mut out);
                Result::Find(out[0].is_some().then(|| self.value_of(out[0])))
            }
        };
        self.log.push((n, Call { begin, end: self.time.fetch_add(1, SeqCst), result }));
    }
}

/// Lets all workers go through a round step by step. Returns the calls about the keys.
fn run_round(table: &FlowTable, seed: u64, round: u64) -> Vec<(u64, Call)> {
    let (time, arrived) = (AtomicU64::new(0), AtomicU64::new(0));
    let (time, arrived) = (&time, &arrived);
    std::thread::scope(|scope| {
        let workers = (0..WORKERS).map(|id| {
            scope.spawn(move || {
                let _abort = AbortOnPanic;
                let random = Random(seed ^ round << 32 ^ id << 48);
                let member = table.join().expect("a member");
                let mut worker = Worker { member, random, id, time, log: Vec::new() };
                worker.member.begin_batch(1);
                for step in 0..STEPS {
                    arrived.fetch_add(1, SeqCst);
                    while arrived.load(SeqCst) < WORKERS * (step + 1) {
                        std::thread::yield_now();
                    }
                    worker.step(round, step);
                }
                worker.log
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker that ends")).collect()
    })
}

#[test]
fn histories_of_each_key_are_explained_by_an_order() {
    let setting = |name: &str| std::env::var(name).ok().map(|it| it.parse::<u64>().expect("a number"));
    let seconds = setting("FLOWTABLE_STRESS_SECONDS").unwrap_or(2);
    let seed = setting("FLOWTABLE_STRESS_SEED").unwrap_or(0x5eed);
    println!("seed {seed}");
    set_chaos(true);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut tables, mut calls_count, mut overlaps) = (0u64, 0, 0);
    // On a busy machine it takes longer until enough calls overlap.
    while Instant::now() < end || overlaps < MIN_OVERLAPS && tables < 1000 {
        let table = FlowTable::new(Shape { members: 4, ..Shape::new(12, 4, 60_000) }, seed + tables).unwrap();
        for round in 0..ROUNDS {
            let log = run_round(&table, seed + tables, round);
            for n in round * KEYS..(round + 1) * KEYS {
                let calls: Vec<Call> = log.iter().filter(|(key, _)| *key == n).map(|(_, call)| *call).collect();
                let overlaps_other = |a: &&Call| calls.iter().any(|b| a.begin < b.begin && b.begin < a.end);
                overlaps += calls.iter().filter(overlaps_other).count();
                calls_count += calls.len();
                let explained = is_explained(&calls, 0, None, &mut HashSet::new());
                assert!(explained, "seed {seed}, table {tables}: no order explains {calls:?}");
            }
        }
        tables += 1;
    }
    set_chaos(false);
    println!("{tables} tables, {calls_count} calls, {overlaps} of them during another about the same key");
    assert!(overlaps >= MIN_OVERLAPS, "only {overlaps} of {calls_count} calls overlap");
}

/// Threads add and remove pairs with few keys, so that they often meet at one. In the end each twin
/// names the other, each lease was released once or is an entry's, and removing all gives back all.
#[test]
fn pairs_of_several_threads_end_together() {
    let shape = Shape { has_pairs: true, has_leases: true, members: 5, owners: 1, ..Shape::new(12, 4, 5000) };
    let table = FlowTable::new(shape, 3).unwrap();
    set_chaos(true);
    let (mut added, mut released) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for id in 0..WORKERS {
            let mut member = table.join().unwrap();
            workers.push(scope.spawn(move || {
                let (mut random, mut added, mut released) = (Random(id), Vec::new(), Vec::new());
                for step in 0..6000 {
                    if step % 16 == 0 {
                        member.begin_batch(1);
                    }
                    let (n, twin) = (random.below(40), 40 + random.below(40));
                    if random.below(2) == 0 {
                        member.remove(&key([n, twin][random.below(2) as usize]));
                        released.extend(member.take_released());
                        continue;
                    }
                    let lease = (id as u32) << 24 | (step + 1);
                    let (key, twin_key) = (key(n), key(twin));
                    let first = NewEntry::new(&key, 0).with_owner(1).with_lease(lease);
                    if member.add_pair([&first, &NewEntry::new(&twin_key, 0)], |_, _| {}).is_ok() {
                        added.push(lease);
                    }
                    assert!(member.take_released().is_empty());
                }
                (added, released)
            }));
        }
        for (of_worker, released_by_worker) in workers.into_iter().map(|worker| worker.join().unwrap()) {
            added.extend(of_worker);
            released.extend(released_by_worker);
        }
    });
    set_chaos(false);
    let mut member = table.join().unwrap();
    member.begin_batch(1);
    let mut entries = Vec::new();
    member.read(1, u32::MAX, |entry| entries.push((entry.id, entry.twin, entry.lease)));
    assert_eq!(table.count(), entries.len() as u64);
    for (id, twin, _) in &entries {
        assert_eq!(member.entry(*twin).map(|twin| twin.twin), Some(*id), "half of a pair");
    }
    released.extend(entries.iter().map(|(_, _, lease)| *lease).filter(|lease| *lease != 0));
    added.sort();
    released.sort();
    assert_eq!(released, added, "each lease is released once");
    assert!(added.len() > 1000, "only {} pairs were added", added.len());
    for (id, ..) in &entries {
        member.remove_record(*id);
    }
    assert_eq!((table.count(), table.owner_count(1)), (0, 0));
}

/// Adds an entry. Tries again if the thread that has the bucket's lock has lost its core.
fn add_patiently(member: &mut Member, key: &[u8]) -> Addition {
    loop {
        match member.find_or_add(key, &[0; 4], 0, 0) {
            Addition::Refused(Refusal::Busy) => std::thread::yield_now(),
            result => return result,
        }
    }
}

/// Workers hit their entries once per tick while a sweeper removes idle ones: no entry that is hit
/// ends, and each that is not does.
#[test]
fn entries_in_use_never_end_under_a_sweep() {
    const OWN: u64 = 50;
    const TICKS: u32 = 80;
    let shape = Shape { idle_ticks: vec![6], members: 5, ..Shape::new(12, 4, 100_000) };
    let table = FlowTable::new(shape, 3).unwrap();
    set_chaos(true);
    let (tick, arrived) = (AtomicU32::new(1000), AtomicU64::new(0));
    let (tick, arrived, table) = (&tick, &arrived, &table);
    let removed = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for id in 0..WORKERS {
            let mut member = table.join().unwrap();
            workers.push(scope.spawn(move || {
                let _abort = AbortOnPanic;
                for _ in 0..TICKS {
                    let now = tick.load(SeqCst);
                    member.begin_batch(now);
                    for n in 0..OWN {
                        let is_first = now == 1000;
                        match add_patiently(&mut member, &key(id << 32 | n)) {
                            Addition::Added(_) => assert!(is_first, "an entry that was in use has ended at {now}"),
                            Addition::Found(_) => assert!(!is_first),
                            Addition::Refused(reason) => panic!("{reason}"),
                        }
                    }
                    // Never hit again.
                    add_patiently(&mut member, &key(id << 32 | 1 << 20 | u64::from(now)));
                    // The last worker of a tick begins the next.
                    if (arrived.fetch_add(1, SeqCst) + 1) % WORKERS == 0 {
                        tick.fetch_add(1, SeqCst);
                    }
                    while tick.load(SeqCst) == now {
                        std::thread::yield_now();
                    }
                }
            }));
        }
        let mut sweeper = table.join().unwrap();
        let mut removed = 0;
        while tick.load(SeqCst) < 1000 + TICKS {
            sweeper.begin_batch(tick.load(SeqCst));
            removed += sweeper.sweep(u32::MAX, |_| {}).removed;
            std::thread::yield_now();
        }
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        for later in [10, 10, 20, 20, 30, 30] {
            sweeper.begin_batch(1000 + TICKS + later);
            removed += sweeper.sweep(u32::MAX, |_| {}).removed;
        }
        removed
    });
    set_chaos(false);
    assert_eq!(u64::from(removed), WORKERS * (OWN + u64::from(TICKS)));
    assert_eq!(table.count(), 0);
}

/// Two readers look up keys that stay, and keys that come and go, while a writer lets small tables
/// grow, entries move, and records be used again. Keys that stay are always found. What a lookup
/// has found stays as it is until the reader's next batch.
#[test]
fn readers_find_whole_entries_while_tables_change() {
    const STAYING: u64 = 40;
    const PASSING: u64 = 1600;
    const MIN_BATCHES: u64 = 5000;
    set_chaos(true);
    for seed in 0..20 {
        let table = FlowTable::new(Shape { members: 4, ..Shape::new(12, 8, 2000) }, seed).unwrap();
        let (is_over, batches) = (AtomicBool::new(false), AtomicU64::new(0));
        let (table, is_over, batches) = (&table, &is_over, &batches);
        let mut writer = table.join().unwrap();
        writer.begin_batch(1);
        (0..STAYING).for_each(|n| assert!(matches!(add_number(&mut writer, n), Addition::Added(_))));
        std::thread::scope(|scope| {
            for id in 0..2 {
                let mut reader = table.join().unwrap();
                scope.spawn(move || {
                    let _abort = AbortOnPanic;
                    let mut random = Random(seed << 8 | id);
                    while !is_over.load(Relaxed) {
                        reader.begin_batch(1);
                        batches.fetch_add(1, Relaxed);
                        let numbers = [0; 8].map(|_: u64| random.below(STAYING + PASSING));
                        let keys: Vec<u8> = numbers.iter().flat_map(|n| key(*n)).collect();
                        let mut out = [RecordId::NONE; 8];
                        reader.lookup_batch(&keys, 12, &mut out);
                        let staying = random.below(STAYING);
                        assert!(reader.lookup(&key(staying)).is_some(), "seed {seed}: {staying} was not found");
                        std::thread::yield_now();
                        for (n, id) in numbers.into_iter().zip(out) {
                            assert!(id.is_some() || n >= STAYING, "seed {seed}: {n} was not found");
                            if id.is_some() {
                                assert_eq!(read_number(&reader, id), n, "seed {seed}: another entry's value");
                            }
                        }
                    }
                });
            }
            let mut random = Random(seed);
            for step in 0u64.. {
                if step % 8 == 0 {
                    writer.begin_batch(1);
                    std::thread::yield_now();
                }
                if step > 3000 && batches.load(Relaxed) > MIN_BATCHES {
                    break;
                }
                let n = STAYING + random.below(PASSING);
                // The table grows at first, then entries come and go.
                if random.below(2) == 0 || step < 800 {
                    add_number(&mut writer, n);
                } else {
                    writer.remove(&key(n));
                }
            }
            is_over.store(true, Relaxed);
        });
    }
    set_chaos(false);
}

/// Adds an entry whose value is its number.
fn add_number(member: &mut Member, n: u64) -> Addition {
    member.find_or_add(&key(n), &n.to_le_bytes(), 0, 0)
}

/// Reads the value of a record that this batch has found, be its entry removed or not.
#[allow(unsafe_code)]
fn read_number(member: &Member, id: RecordId) -> u64 {
    // SAFETY: the value has eight bytes and is not written during the batch.
    unsafe { member.value_ptr(id).cast::<u64>().read_unaligned() }
}
