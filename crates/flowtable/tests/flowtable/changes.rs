//! The stream of changes: a copy that a reader keeps equals the table, however slow the reader is
//! and however often it stops.

use crate::random::Random;
use flowtable::{Change, ChangeReader, FlowTable, Member, Shape, SubscribeError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::*};

type Content = (Vec<u8>, Vec<u8>, u8, Option<u32>);

/// A copy of a table, by record.
#[derive(Default)]
struct Copy {
    entries: BTreeMap<u32, (u32, Content)>,
}

impl Copy {
    fn apply(&mut self, change: Change<'_>) {
        let known = self.entries.get(&change.record.0).map(|(generation, _)| *generation);
        match change.entry {
            Some(entry) => {
                assert!(known.is_none_or(|known| known <= change.generation), "{change:?} after {known:?}");
                let content = (entry.key.to_vec(), entry.value.to_vec(), entry.profile, change.state);
                self.entries.insert(change.record.0, (change.generation, content));
            }
            None if known.is_some_and(|known| known <= change.generation) => {
                self.entries.remove(&change.record.0);
            }
            None => {}
        }
    }

    fn contents(&self) -> Vec<Content> {
        let mut contents: Vec<Content> = self.entries.values().map(|(_, content)| content.clone()).collect();
        contents.sort();
        contents
    }
}

fn contents(member: &mut Member) -> Vec<Content> {
    let mut ids = Vec::new();
    member.read(1, u32::MAX, |entry| ids.push(entry.id));
    let content = |id| {
        let entry = member.entry(id).unwrap();
        let state = member.state(id).map(|state| state.load(Relaxed));
        (entry.key.to_vec(), entry.value.to_vec(), entry.profile, state)
    };
    let mut contents: Vec<Content> = ids.into_iter().map(content).collect();
    contents.sort();
    contents
}

fn change_entry(member: &mut Member, random: &mut Random, keys: u64) {
    let key = random.below(keys).to_le_bytes();
    let value = [random.next() as u8; 3];
    match random.below(10) {
        0..4 => drop(member.find_or_add(&key, &value, 0, 0)),
        4..6 => drop(member.remove(&key)),
        6 => drop(member.modify(&key, &value, Some(1))),
        7 => {
            let id = member.lookup(&key);
            member.set_profile(id, value[0] % 2);
        }
        _ => {
            let id = member.lookup(&key);
            if id.is_some() {
                member.state(id).unwrap().fetch_add(1, Relaxed);
                member.report_update(id);
            }
        }
    }
}

fn shape() -> Shape {
    Shape { has_state: true, idle_ticks: vec![40, 80], members: 6, ..Shape::new(8, 3, 2000) }
}

/// Polls until all changes were reported.
fn catch_up(reader: &mut ChangeReader, copy: &mut Copy, members: &mut [Member], now: u32) {
    for _ in 0..10_000 {
        members.iter_mut().for_each(|member| member.begin_batch(now));
        if reader.poll(now, 1000, |change| copy.apply(change)).is_current {
            return;
        }
    }
    panic!("the reader has not caught up");
}

/// The reader stops at random: it goes on later, or is dropped and subscribes again.
#[test]
fn a_copy_equals_the_table_after_random_stops() {
    let table = FlowTable::new(shape(), 5).unwrap();
    let mut members = [table.join().unwrap(), table.join().unwrap()];
    let (mut random, mut now) = (Random(6), 100);
    let (mut reader, mut copy) = (table.subscribe(64).unwrap(), Copy::default());
    assert_eq!(table.subscribe(64).err(), Some(SubscribeError::HasReader));
    let mut coalesced = 0;
    for stop in 0..1000 {
        for _ in 0..1 + random.below(8) {
            now += u32::from(random.below(8) == 0);
            for member in &mut members {
                member.begin_batch(now);
                // Up to twice as many changes as a ring has room for.
                (0..random.below(32)).for_each(|_| change_entry(member, &mut random, 3000));
            }
            members[0].sweep(u32::MAX, |_| {});
            if random.below(3) != 0 {
                coalesced = reader.poll(now, random.below(200) as u32, |change| copy.apply(change)).coalesced;
            }
        }
        match random.below(4) {
            0 => {
                drop(reader);
                (reader, copy) = (table.subscribe(64).unwrap(), Copy::default());
            }
            1 => {
                catch_up(&mut reader, &mut copy, &mut members, now);
                assert_eq!(copy.contents(), contents(&mut members[0]), "stop {stop}");
            }
            _ => {}
        }
    }
    assert!(coalesced > 100, "only {coalesced} changes were coalesced: the rings were never full");
    assert!(copy.entries.len() > 200);
}

#[test]
fn a_copy_equals_the_table_with_threads() {
    let table = FlowTable::new(shape(), 5).unwrap();
    let (mut reader, mut copy) = (table.subscribe(256).unwrap(), Copy::default());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|id| {
                let mut member = table.join().unwrap();
                scope.spawn(move || {
                    let mut random = Random(id);
                    for step in 0..60_000 {
                        if step % 16 == 0 {
                            member.begin_batch(100);
                        }
                        change_entry(&mut member, &mut random, 3000);
                    }
                })
            })
            .collect();
        let reading = scope.spawn(|| {
            while !is_over.load(SeqCst) {
                reader.poll(100, 500, |change| copy.apply(change));
            }
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        is_over.store(true, SeqCst);
        reading.join().unwrap();
    });
    let mut members = [table.join().unwrap()];
    // While a worker has lost its core, the others may remove nearly all entries.
    members[0].begin_batch(100);
    for n in 0..300u64 {
        members[0].find_or_add(&n.to_le_bytes(), &[1; 3], 0, 0);
    }
    catch_up(&mut reader, &mut copy, &mut members, 100);
    assert_eq!(copy.contents(), contents(&mut members[0]));
    assert!(copy.entries.len() > 200);
}
