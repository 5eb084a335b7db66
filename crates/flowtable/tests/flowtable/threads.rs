//! Several threads on one table, with forced switches at the gaps of the protocol. The results
//! about each key must be those of one after the other ("linearizable", Herlihy and Wing 1990).
//!
//! `FLOWTABLE_STRESS_SECONDS` makes the test longer; its seed is printed and can be set by
//! `FLOWTABLE_STRESS_SEED`.

use crate::random::Random;
use flowtable::{Addition, FlowTable, Member, RecordId, Refusal, Shape, set_chaos};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

const WORKERS: u64 = 3;
/// Keys of a round whose histories are checked.
const KEYS: u64 = 3;
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
fn is_explained(calls: &[Call], done: u64, now: Option<u32>, dead_ends: &mut HashSet<(u64, Option<u32>)>) -> bool {
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
            self.member.find_or_add(&key(base + n), &[0; 4], 0, 0);
            if n % 3 == 0 {
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
                let id = self.member.modify(&key, &value.to_le_bytes(), 0).expect("free records");
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
                assert!(calls.len() <= 64, "{} calls are too many for the search", calls.len());
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

/// Threads add and remove pairs of keys that collide in the twin's index. In the end both keys of
/// each entry lead to it, all others to none, and removing all gives back all.
#[test]
fn twins_of_several_threads_stay_pairs() {
    let shape = Shape { twin_key_bytes: 8, members: 4, owners: 1, ..Shape::new(12, 4, 5000) };
    let table = FlowTable::new(shape, 3).unwrap();
    set_chaos(true);
    std::thread::scope(|scope| {
        for id in 0..WORKERS {
            let mut member = table.join().unwrap();
            scope.spawn(move || {
                let mut random = Random(id);
                for step in 0..6000 {
                    if step % 16 == 0 {
                        member.begin_batch(1);
                    }
                    let (n, twin) = (random.below(1500), random.below(3000));
                    match random.below(5) {
                        0 | 1 => drop(member.find_or_add_twins(&key(n), 0, 1, |_, to| {
                            to.copy_from_slice(&twin.to_le_bytes());
                            Ok(())
                        })),
                        2 => drop(member.remove(&key(n))),
                        3 => drop(member.remove_twin(&twin.to_le_bytes())),
                        _ => {
                            let id = member.lookup_twin(&twin.to_le_bytes());
                            let entry = member.entry(id);
                            assert!(entry.is_none_or(|entry| entry.twin_key == twin.to_le_bytes()));
                        }
                    }
                }
            });
        }
    });
    set_chaos(false);
    let mut member = table.join().unwrap();
    member.begin_batch(1);
    let mut entries = Vec::new();
    member.read(1, u32::MAX, |entry| entries.push((entry.id, entry.key.to_vec(), entry.twin_key.to_vec())));
    assert!(entries.len() > 100, "only {} entries are left", entries.len());
    assert_eq!(table.count(), entries.len() as u64);
    assert_eq!(table.owner_count(1), entries.len() as u32);
    let twins: HashSet<&Vec<u8>> = entries.iter().map(|(_, _, twin)| twin).collect();
    assert_eq!(twins.len(), entries.len());
    for n in 0u64..3000 {
        let is_there = twins.contains(&n.to_le_bytes().to_vec());
        assert_eq!(member.lookup_twin(&n.to_le_bytes()).is_some(), is_there);
    }
    for (id, key, twin) in &entries {
        assert_eq!((member.lookup(key), member.lookup_twin(twin)), (*id, *id));
        assert_eq!(member.remove_twin(twin), *id);
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
