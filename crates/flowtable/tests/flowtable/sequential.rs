//! Random operations of two members in turn: each result is that of the sequential model.

use crate::random::Random;
use crate::reference::{Added, Reference};
use flowtable::{Addition, FlowTable, Member, NewEntry, RecordId, Refusal, Shape};
use std::sync::atomic::Ordering::Relaxed;

const PROFILES: u64 = 4;
const OWNERS: u32 = 3;

struct Run {
    table: FlowTable,
    members: [Member; 2],
    model: Reference,
    random: Random,
    now: u32,
    keys: u64,
}

impl Run {
    fn key(&self, n: u64) -> Vec<u8> {
        let len = self.table.shape().key_bytes;
        (0..len).map(|at| if at < 4 { (n >> (8 * at)) as u8 } else { 0xa5 }).collect()
    }

    fn any_key(&mut self) -> Vec<u8> {
        let n = self.random.below(self.keys);
        self.key(n)
    }

    fn value(&mut self) -> Vec<u8> {
        let byte = self.random.next() as u8;
        vec![byte; self.table.shape().value_bytes]
    }

    fn has_pairs(&self) -> bool {
        self.table.shape().has_pairs
    }

    /// Compares the leases that a member has released with those of the model.
    fn check_released(&mut self, m: usize, mut expected: Vec<u32>) {
        let mut released = self.members[m].take_released();
        released.sort();
        expected.sort();
        assert_eq!(released, expected);
    }

    /// Compares a found record with the model.
    fn check_entry(&self, member: usize, id: RecordId, key: &[u8]) {
        let (entry, expected) = (self.members[member].entry(id).expect("a live entry"), &self.model.entries[key]);
        assert_eq!((entry.key, entry.value), (key, &expected.value[..]));
        let twin = self.members[member].entry(entry.twin).map(|twin| (twin.key.to_vec(), twin.twin));
        assert_eq!(twin, expected.twin.clone().map(|key| (key, id)));
        assert_eq!(entry.lease, expected.lease);
        assert_eq!((entry.profile, entry.owner), (expected.profile, expected.owner));
        if let Some(state) = self.members[member].state(id) {
            assert_eq!(state.load(Relaxed), expected.state);
        }
    }

    fn add_pair(&mut self, m: usize) {
        let (key, twin_key, value) = (self.any_key(), self.any_key(), self.value());
        let (profile, owner) = (self.random.below(PROFILES) as u8, self.random.below(u64::from(OWNERS) + 1) as u32);
        let lease = self.random.next() as u32 | 1;
        let expected = self.model.add_pair([&key, &twin_key], &value, profile, (owner, lease), self.now);
        let new = [&key, &twin_key].map(|key| NewEntry::new(key, profile));
        let first = new[0].with_owner(owner).with_lease(lease);
        let got = self.members[m].add_pair([&first, &new[1]], |_, to| to.copy_from_slice(&value));
        assert_eq!(got.map(drop), expected);
        if let Ok([id, twin]) = got {
            self.check_entry(m, id, &key);
            self.check_entry(m, twin, &twin_key);
        }
        self.check_released(m, Vec::new());
    }

    fn add(&mut self, m: usize) {
        let (key, value) = (self.any_key(), self.value());
        let (profile, owner) = (self.random.below(PROFILES) as u8, self.random.below(u64::from(OWNERS) + 1) as u32);
        let expected = self.model.find_or_add(&key, &value, profile, owner, self.now);
        let got = self.members[m].find_or_add(&key, &value, profile, owner);
        match got {
            Addition::Added(id) => {
                assert_eq!(expected, Added::New);
                self.check_entry(m, id, &key);
            }
            Addition::Found(id) => {
                assert_eq!(expected, Added::Known);
                self.check_entry(m, id, &key);
            }
            Addition::Refused(reason) => assert_eq!(expected, Added::Refused(reason)),
        }
    }

    fn lookup(&mut self, m: usize) {
        let count = 1 + self.random.below(40) as usize;
        let keys: Vec<Vec<u8>> = (0..count).map(|_| self.any_key()).collect();
        let stride = keys[0].len() + 3;
        let mut bytes = Vec::new();
        keys.iter().for_each(|key| bytes.extend(key.iter().copied().chain([1, 2, 3])));
        let mut out = vec![RecordId(77); count];
        self.members[m].lookup_batch(&bytes, stride, &mut out);
        for (key, id) in keys.iter().zip(out) {
            let is_hit = self.model.lookup(key, self.now);
            assert_eq!(id.is_some(), is_hit);
            assert_eq!(self.members[m].lookup(key), id);
            if is_hit {
                self.check_entry(m, id, key);
                if let Some(state) = self.members[m].state(id) {
                    state.store(self.now, Relaxed);
                    self.model.entries.get_mut(key).unwrap().state = self.now;
                }
            }
        }
    }

    fn remove(&mut self, m: usize) {
        let key = self.any_key();
        let released = self.model.remove(&key);
        assert_eq!(self.members[m].remove(&key).is_some(), released.is_some());
        self.check_released(m, released.unwrap_or_default());
    }

    fn change(&mut self, m: usize) {
        let (key, value, profile) = (self.any_key(), self.value(), self.random.below(PROFILES) as u8);
        match self.random.below(3) {
            0 => {
                let profile = (self.random.below(2) == 0).then_some(profile);
                let id = self.members[m].modify(&key, &value, profile).unwrap();
                assert_eq!(id.is_some(), self.model.modify(&key, &value, profile, self.now));
            }
            kind => {
                let id = self.members[m].lookup(&key);
                self.model.lookup(&key, self.now);
                let done = match kind {
                    1 => self.members[m].restart_timer(id),
                    _ => self.members[m].set_profile(id, profile),
                };
                let expected = match kind {
                    1 => self.model.restart(&key, self.now),
                    _ => self.model.set_profile(&key, self.now, profile),
                };
                assert_eq!(done, expected);
            }
        }
    }

    fn begin_batches(&mut self) {
        self.now += [0, 1, 3, 8, 40][self.random.below(5) as usize];
        self.members.iter_mut().for_each(|member| member.begin_batch(self.now));
    }

    /// Sweeps. With `is_all`, no entry remains whose idle time is over.
    fn sweep(&mut self, m: usize, is_all: bool) {
        let notify = self.table.shape().notify;
        if is_all {
            self.members[m].examine_all();
        }
        for _ in 0..if is_all { 20 } else { 1 } {
            let mut ended = Vec::new();
            let budget = if is_all { u32::MAX } else { 64 };
            let report = self.members[m].sweep(budget, |entry| ended.push(entry.key.to_vec()));
            assert_eq!(ended.len() as u32, report.removed + report.notified);
            let mut released = Vec::new();
            for key in &ended {
                if !self.model.entries.contains_key(key) {
                    // The model has removed the twin already.
                    assert!(!notify && self.has_pairs());
                    continue;
                }
                let now = self.now;
                assert!(notify && self.has_pairs() || self.model.may_end(key, now), "{key:?} has ended early at {now}");
                if notify {
                    self.model.entries.get_mut(key).unwrap().due = now;
                } else {
                    released.extend(self.model.remove(key).unwrap());
                }
            }
            self.check_released(m, released);
            if is_all {
                self.members.iter_mut().for_each(|member| member.begin_batch(self.now));
            }
        }
        if is_all && !notify {
            let unit_begin = self.now & !3;
            let late = self.model.entries.keys().find(|key| self.model.may_end(key, unit_begin));
            assert!(late.is_none(), "{late:?} has not ended at {}", self.now);
        }
    }

    fn change_settings(&mut self) {
        let (profile, ticks) = (1 + self.random.below(PROFILES - 1) as u8, 1 + self.random.below(60) as u32);
        self.table.set_idle_ticks(profile, ticks).unwrap();
        self.model.idle[usize::from(profile)] = ticks;
        let (owner, limit) = (1 + self.random.below(2) as u32, self.random.below(self.keys / 3) as u32);
        self.table.set_owner_limit(owner, limit);
        self.model.limits.insert(owner, limit);
    }

    fn read_and_delete(&mut self, m: usize) {
        let mut seen = Vec::new();
        let mut cursor = Some(1);
        while let Some(from) = cursor {
            cursor = self.members[m].read(from, 100, |entry| seen.push((entry.key.to_vec(), entry.value.to_vec())));
        }
        seen.sort();
        let expected = self.model.entries.iter().map(|(key, entry)| (key.clone(), entry.value.clone()));
        assert_eq!(seen, expected.collect::<Vec<_>>());
        let owner = self.random.below(8) as u32;
        let (mut cursor, mut removed) = (Some(1), 0);
        while let Some(from) = cursor {
            let (next, count) = self.members[m].delete_where(from, 100, |entry| entry.owner == owner && owner != 0);
            (cursor, removed) = (next, removed + count as usize);
        }
        let keys = self.model.entries.iter().filter(|(_, entry)| entry.owner == owner && owner != 0);
        let keys: Vec<Vec<u8>> = keys.map(|(key, _)| key.clone()).collect();
        let released: Vec<Vec<u32>> = keys.iter().filter_map(|key| self.model.remove(key)).collect();
        assert_eq!(removed, released.len());
        self.check_released(m, released.concat());
    }

    fn step(&mut self) {
        let m = self.random.below(2) as usize;
        match self.random.below(100) {
            0..30 if self.has_pairs() => self.add_pair(m),
            0..45 => self.add(m),
            45..60 => self.lookup(m),
            60..75 => self.remove(m),
            75..88 => self.change(m),
            88..95 => self.begin_batches(),
            95..97 => self.sweep(m, false),
            97 => self.sweep(m, true),
            98 => self.change_settings(),
            _ if self.random.below(20) == 0 => self.read_and_delete(m),
            _ => {}
        }
        assert_eq!(self.table.count(), self.model.entries.len() as u64);
        for owner in 1..=OWNERS {
            assert_eq!(self.table.owner_count(owner), self.model.counts.get(&owner).copied().unwrap_or(0));
            assert_eq!(self.table.owner_high_water(owner), self.model.high_water.get(&owner).copied().unwrap_or(0));
        }
    }
}

fn run(shape: Shape, keys: u64, steps: u64) {
    for seed in 0..4 {
        let table = FlowTable::new(shape.clone(), seed).unwrap();
        let members = [table.join().unwrap(), table.join().unwrap()];
        let (model, random) = (Reference::new(&shape), Random(seed));
        let mut run = Run { table, members, model, random, now: 1000, keys };
        run.begin_batches();
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..steps).for_each(|_| run.step());
        }));
        assert!(result.is_ok(), "seed {seed} of {shape:?}");
        // Everything is given back.
        for key in run.model.entries.keys() {
            assert!(run.members[0].remove(key).is_some() || run.has_pairs());
        }
        assert_eq!(run.table.count(), 0);
        assert!((1..=OWNERS).all(|owner| run.table.owner_count(owner) == 0));
    }
}

fn shape(key_bytes: usize, size: u32) -> Shape {
    Shape { owners: OWNERS, idle_ticks: vec![0, 4, 20, 40], members: 3, ..Shape::new(key_bytes, 9, size) }
}

#[test]
fn small_tables_do_as_the_model() {
    for key_bytes in [4, 5, 8, 13, 16, 20, 37] {
        run(shape(key_bytes, 20), 30, 3000);
    }
}

#[test]
fn tables_that_grow_do_as_the_model() {
    run(Shape { is_dense: Some(true), ..shape(20, 3000) }, 5000, 20_000);
}

#[test]
fn tables_with_states_do_as_the_model() {
    run(Shape { has_state: true, has_counters: true, ..shape(7, 200) }, 300, 10_000);
}

#[test]
fn tables_whose_hits_restart_nothing_do_as_the_model() {
    run(Shape { hits_restart: false, ..shape(20, 200) }, 300, 10_000);
}

#[test]
fn tables_that_notify_do_as_the_model() {
    run(Shape { notify: true, ..shape(20, 200) }, 300, 10_000);
}

#[test]
fn pairs_do_as_the_model() {
    let pairs = Shape { has_pairs: true, has_leases: true, ..shape(20, 2000) };
    run(Shape { has_state: true, ..pairs.clone() }, 3000, 20_000);
    run(Shape { size: 50, ..pairs.clone() }, 60, 5000);
    run(Shape { size: 200, hits_restart: false, ..pairs.clone() }, 300, 10_000);
    run(Shape { size: 200, notify: true, ..pairs }, 300, 10_000);
}

/// A refused addition leaves nothing behind, at whatever step it is refused.
#[test]
fn refusals_are_named_and_counted() {
    let table = FlowTable::new(shape(20, 2), 1).unwrap();
    let mut member = table.join().unwrap();
    member.begin_batch(1);
    table.set_owner_limit(1, 0);
    let refuse = |_: &mut [u8]| Err(Refusal::Value);
    assert_eq!(member.find_or_add_with(&NewEntry::new(&[1; 20], 0), refuse), Addition::Refused(Refusal::Value));
    assert_eq!(member.find_or_add(&[1; 20], &[0; 9], 0, 1), Addition::Refused(Refusal::OwnerLimit));
    assert_eq!(member.find_or_add(&[1; 20], &[0; 8], 0, 0), Addition::Refused(Refusal::Malformed));
    assert_eq!(member.find_or_add(&[1; 19], &[0; 9], 0, 0), Addition::Refused(Refusal::Malformed));
    assert_eq!(member.find_or_add(&[1; 20], &[0; 9], 0, OWNERS + 1), Addition::Refused(Refusal::Malformed));
    assert_eq!((table.count(), member.lookup(&[1; 20])), (0, RecordId::NONE));
    for n in 1..=3 {
        let is_added = matches!(member.find_or_add(&[n; 20], &[0; 9], 0, 0), Addition::Added(_));
        assert_eq!(is_added, n < 3);
    }
    let statistics = table.statistics();
    let counts = [Refusal::Value, Refusal::OwnerLimit, Refusal::Malformed, Refusal::Full];
    assert_eq!(counts.map(|reason| statistics.refused(reason)), [1, 1, 3, 1]);
    assert_eq!((table.owner_refused(1), table.owner_count(1)), (1, 0));
}

/// Packets that hit an entry all the time do not keep it in a table whose hits restart nothing.
#[test]
fn an_entry_that_is_hit_all_the_time_ends_if_hits_do_not_restart() {
    let shape = Shape { hits_restart: false, ..shape(20, 10) };
    let table = FlowTable::new(shape, 1).unwrap();
    let mut member = table.join().unwrap();
    member.begin_batch(100);
    member.find_or_add(&[1; 20], &[0; 9], 1, 0);
    let mut removed = 0;
    for batch in 0..20 {
        member.begin_batch(200 + batch);
        removed += member.sweep(1000, |_| {}).removed;
        assert_eq!(member.lookup(&[1; 20]).is_some(), removed == 0);
    }
    assert_eq!((removed, table.statistics().forced), (1, 1));
}

/// A member that neither begins a batch nor parks holds back removed records, and is named.
#[test]
fn a_member_that_sleeps_without_parking_is_named() {
    let table = FlowTable::new(Shape { members: 2, ..Shape::new(4, 1, 10) }, 1).unwrap();
    let (mut sleeper, mut member) = (table.join().unwrap(), table.join().unwrap());
    sleeper.begin_batch(1);
    let mut refusal = None;
    for n in 0..20_000u32 {
        member.begin_batch(1);
        match member.find_or_add(&n.to_le_bytes(), &[0], 0, 0) {
            Addition::Added(_) => assert!(member.remove(&n.to_le_bytes()).is_some()),
            Addition::Refused(reason) => refusal = Some(reason),
            Addition::Found(_) => panic!("a new key"),
        }
    }
    assert_eq!(refusal, Some(Refusal::Grace));
    assert_eq!(table.slowest_member().map(|(number, _)| number), Some(sleeper.number()));
    sleeper.park();
    for _ in 0..64 {
        member.begin_batch(1);
    }
    assert!(matches!(member.find_or_add(&[9; 4], &[0], 0, 0), Addition::Added(_)));
}

/// What a packet under way counts for a replaced record is not lost.
#[test]
fn counters_follow_an_entry_to_its_new_record() {
    let table = FlowTable::new(Shape { has_counters: true, ..shape(20, 10) }, 1).unwrap();
    let (mut worker, mut controller) = (table.join().unwrap(), table.join().unwrap());
    worker.begin_batch(1);
    controller.begin_batch(1);
    let Addition::Added(old) = worker.find_or_add(&[1; 20], &[0; 9], 0, 0) else { panic!("a new key") };
    let count = |member: &Member, id, bytes| {
        let [packets, of_bytes] = member.counters(id).unwrap();
        packets.fetch_add(1, Relaxed);
        of_bytes.fetch_add(bytes, Relaxed);
    };
    count(&worker, old, 100);
    let new = controller.modify(&[1; 20], &[1; 9], None).unwrap();
    count(&worker, old, 1000);
    count(&controller, new, 10);
    for _ in 0..64 {
        worker.begin_batch(1);
        controller.begin_batch(1);
    }
    assert_eq!(worker.counters(new).unwrap().map(|counter| counter.load(Relaxed)), [3, 1110]);
    // The record is used again, and begins at 0.
    assert_ne!(old, new);
    assert!(worker.remove(&[1; 20]).is_some());
    let Addition::Added(id) = worker.find_or_add(&[2; 20], &[0; 9], 0, 0) else { panic!("a new key") };
    assert_eq!(worker.counters(id).unwrap().map(|counter| counter.load(Relaxed)), [0, 0]);
}
