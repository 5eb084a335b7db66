//! Tests that any hit among the hot entries of a table is the hit of the whole table: random tables
//! of random programs, entries that are added, changed and removed, repeated choices of hot
//! entries, and keys close to the entries.

use entries::{ControlState, PackedEntry, StateChange, StateUpdate, StoredEntry, UpdateKind, WriteBatch};
use fastrand::Rng;
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use offload::hot_set::HotSet;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use testkit::differ::case::TestEvent;
use testkit::differ::config::Config;
use testkit::differ::plan;

const PROGRAMS: u64 = 400;

#[derive(Default, Debug)]
struct Tally {
    lookups: u64,
    found: u64,
    sent_away: u64,
    chosen: u64,
    kinds: BTreeMap<String, u64>,
}

/// Tables with all entries, and tables with the hot entries alone.
struct Pair {
    whole: ControlState,
    above: ControlState,
    hot: BTreeMap<TableId, HotSet>,
}

fn packed(kind: UpdateKind, table: TableId, entry: &StoredEntry) -> StateUpdate {
    StateUpdate::Packed(kind, PackedEntry::from_stored(kind, table, entry))
}

impl Pair {
    fn new(pipeline: &Arc<Pipeline>, room: u64) -> Pair {
        let mut without = (**pipeline).clone();
        let may = |table: &ir::Table| !table.const_entries && !table.idle_timeout && table.implementation.is_none();
        let hot = pipeline.tables.iter().filter(|(_, table)| may(table));
        let hot: BTreeMap<TableId, HotSet> = hot.map(|(id, _)| (id, HotSet::new(pipeline, id, room))).collect();
        hot.keys().for_each(|table| without.tables[*table].entries.clear());
        let state =
            |pipeline: &Arc<Pipeline>| ControlState::new(pipeline.clone()).expect("a program's own entries are good");
        Pair { whole: state(pipeline), above: state(&Arc::new(without)), hot }
    }

    fn write(&mut self, batch: &WriteBatch, tally: &mut Tally) {
        let Ok(changes) = self.whole.apply(batch) else { return };
        let mut updates = Vec::new();
        for change in &changes {
            match change {
                StateChange::Inserted(table, entry, _) => {
                    let Some(hot) = self.hot.get_mut(table) else { continue };
                    let away = hot.on_insert(entry);
                    tally.sent_away += away.len() as u64;
                    updates.extend(away.iter().map(|entry| packed(UpdateKind::Delete, *table, entry)));
                }
                StateChange::Modified(table, _, entry, _) => {
                    let is_hot = self.hot.get_mut(table).is_some_and(|hot| hot.on_modify(entry));
                    updates.extend(is_hot.then(|| packed(UpdateKind::Modify, *table, entry)));
                }
                StateChange::Deleted(table, entry) => {
                    let hot = self.hot.get_mut(table);
                    let is_hot = hot.is_some_and(|hot| hot.on_delete(entry.key(), entry.priority()));
                    updates.extend(is_hot.then(|| packed(UpdateKind::Delete, *table, entry)));
                }
                _ => {}
            }
        }
        self.above.apply(&WriteBatch { updates }).expect("what is hot is there");
    }

    fn choose(&mut self, seed: u64, tally: &mut Tally) {
        for (table, hot) in &mut self.hot {
            let hits = |entry: &StoredEntry| {
                let mut hasher = DefaultHasher::new();
                (seed, entry.key(), entry.priority()).hash(&mut hasher);
                hasher.finish() % 3
            };
            let moves = hot.reselect(&self.whole, hits);
            tally.chosen += moves.added.len() as u64;
            let out = moves.removed.iter().map(|entry| packed(UpdateKind::Delete, *table, entry));
            let new = moves.added.iter().map(|entry| packed(UpdateKind::Insert, *table, entry));
            self.above.apply(&out.chain(new).collect()).expect("there is room");
            assert!(hot.len() <= hot.capacity() && self.above.entry_count(*table) as u64 == hot.len());
        }
    }

    /// Returns a key that an entry matches, or nearly matches.
    fn near(&self, table: TableId, rng: &mut Rng) -> Option<Vec<BigUint>> {
        let count = self.whole.entry_count(table);
        let entry = self.whole.entries(table).nth((count > 0).then(|| rng.usize(..count))?)?;
        let layout = self.whole.layout(table);
        let one = |(field, given): (&entries::PackedKeyField, KeyMatch)| {
            let noise = BigUint::from(rng.u64(..)) % (BigUint::from(1u8) << field.width);
            match given {
                KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => value,
                KeyMatch::Ternary { value, mask } => (&noise ^ (&noise & &mask)) | value,
                KeyMatch::Lpm { value, prefix_len } => {
                    let host = field.width.saturating_sub(prefix_len);
                    value | (noise % (BigUint::from(1u8) << host))
                }
                KeyMatch::Range { lo, hi } => {
                    if rng.bool() {
                        lo
                    } else {
                        hi
                    }
                }
                KeyMatch::Optional(None) => noise,
            }
        };
        Some(layout.fields.iter().zip(layout.unpack(entry.key())).map(one).collect())
    }

    fn look(&self, rng: &mut Rng, seed: u64, tally: &mut Tally) {
        for table in self.hot.keys() {
            for _ in 0..40 {
                let Some(key) = self.near(*table, rng) else { break };
                tally.lookups += 1;
                let Some(found) = self.above.lookup(*table, &key) else { continue };
                tally.found += 1;
                let whole = self.whole.lookup(*table, &key);
                let same = whole.as_ref().is_some_and(|entry| {
                    (entry.key(), entry.priority(), entry.action()) == (found.key(), found.priority(), found.action())
                });
                assert!(same, "seed {seed}: {key:?} finds {found:?} among the hot entries, and {whole:?} among all");
            }
        }
    }
}

#[test]
fn what_is_found_among_hot_entries_is_found_in_the_whole_table() {
    let first: u64 = std::env::var("TERRACE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(5_000);
    eprintln!("seeds {first}..{}; TERRACE_SEED changes that", first + PROGRAMS);
    let mut tally = Tally::default();
    for seed in first..first + PROGRAMS {
        let case =
            plan::generate_case(seed, &Config { packets: 1, random: 0, ..Config::small() }).expect("it compiles");
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new(&case.pipeline, rng.u64(1..20));
        for table in pair.hot.keys() {
            for key in &case.pipeline.tables[*table].keys {
                *tally.kinds.entry(format!("{:?}", key.kind)).or_default() += 1;
            }
        }
        for (number, step) in case.steps.iter().enumerate() {
            if rng.u8(..3) == 0 {
                pair.choose(seed + number as u64, &mut tally);
            }
            if let TestEvent::Write(batch) = step {
                pair.write(batch, &mut tally);
            }
            pair.look(&mut rng, seed, &mut tally);
        }
    }
    eprintln!("{tally:?}");
    // The comparison must have covered enough to be meaningful.
    assert!(tally.found > 5_000 && tally.found * 10 < tally.lookups * 9, "{tally:?}");
    assert!(tally.chosen > 1_000 && tally.sent_away > 20 && tally.kinds.len() >= 5, "{tally:?}");
}
