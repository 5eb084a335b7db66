//! Lookups return the same as [`ControlState::lookup`] after any writes.

use crate::pipeline::{big, key, overlay, table};
use crate::random::{self, Random};
use crate::value;
use entries::{
    ActionSpec, ControlState, StateUpdate, StoredActionRef, StoredEntry, TableEntry, UpdateKind, WriteBatch,
};
use ir::{ActionId, KeyMatch, MatchKind, Pipeline, TableId, Type};
use lookup::{LeftRightReader, LiveTables, LookupLayout, LookupSet, ValueLayout};
use num_bigint::BigUint;
use std::sync::Arc;

/// Returns a packet's values as a lookup key, in the layout of [`LookupLayout`].
fn lookup_key(shape: &LookupLayout, values: &[(usize, BigUint)]) -> Vec<u64> {
    let mut whole = BigUint::ZERO;
    for place in &shape.keys {
        let (_, value) = values.iter().find(|(position, _)| *position == place.position).unwrap();
        whole |= value << place.bit_offset;
    }
    let mut words: Vec<u64> = whole.iter_u64_digits().collect();
    assert!(words.len() <= shape.words);
    words.resize(shape.words, 0);
    words
}

/// Returns the expected bytes of a value.
fn expected(p: &Pipeline, table: TableId, layout: &ValueLayout, action: &ActionSpec, number: u32) -> Vec<u8> {
    let number: &[u8] = if layout.entry_id { &number.to_le_bytes() } else { &[] };
    match action {
        ActionSpec::Member(id) => [&[ValueLayout::MEMBER], number, &id.to_le_bytes()].concat(),
        ActionSpec::Group(id) => [&[ValueLayout::GROUP], number, &id.to_le_bytes()].concat(),
        ActionSpec::Call(call) => {
            let arm = p.tables[table].actions.iter().position(|listed| listed.action == call.action).unwrap();
            let mut bytes = [&[arm as u8], number].concat();
            for (place, arg) in layout.arms[arm].iter().zip(&call.args) {
                assert_eq!(place.offset, bytes.len());
                let mut arg = arg.to_bytes_le();
                arg.resize(place.width.div_ceil(8) as usize, 0);
                bytes.extend(arg);
            }
            assert_eq!(bytes.len(), layout.arm_len_bytes[arm]);
            bytes
        }
    }
}

/// Resolves an action to a call; a group uses the member that the hash selects. `None` counts as a
/// miss.
fn resolved(state: &ControlState, table: TableId, action: StoredActionRef<'_>, hash: u64) -> Option<ActionSpec> {
    let p = state.pipeline();
    let profile = p.tables[table].implementation.and_then(|id| state.profile(id));
    let member = match action {
        StoredActionRef::Call(..) => return Some(action.to_spec(p)),
        StoredActionRef::Member(id) => id,
        StoredActionRef::Group(id) => {
            let places: Vec<u32> = profile?.groups.get(&id)?.weighted_members().collect();
            *places.get((hash % places.len().max(1) as u64) as usize)?
        }
    };
    Some(profile?.members.get(&member)?.action.to_spec(p))
}

/// Comparison of a batch with a reader's copy. Counts hits and lookups that resolve to a member.
struct Check<'a> {
    live: &'a LiveTables,
    lookups: &'a LookupSet,
    random: &'a mut Random,
    seed: u64,
    hits: usize,
    members: usize,
}

impl Check<'_> {
    fn table(&mut self, table: TableId) {
        let (state, lookups) = (self.live.state(), self.lookups);
        let p = state.pipeline().clone();
        let shape = lookups.layout(table);
        let packets: Vec<Vec<(usize, BigUint)>> = (0..self.random.below(40)).map(|_| self.packet(table)).collect();
        let keys: Vec<u64> = packets.iter().flat_map(|values| lookup_key(shape, values)).collect();
        let mut out = vec![std::ptr::dangling(); packets.len()];
        lookups.lookup_batch(table, &keys, &mut out);
        for (values, got) in packets.iter().zip(out) {
            let values: Vec<BigUint> = values.iter().map(|(_, value)| value.clone()).collect();
            // A keyless table is never hit, although the state accepts an entry without keys.
            let entry = if values.is_empty() { None } else { state.lookup(table, &values) };
            let (action, number) = match &entry {
                Some(entry) => (entry.action(), self.live.entry_id(table, entry)),
                None => (state.default_action(table).packed(), Some(0)),
            };
            assert_eq!(entry.is_none(), got.is_null(), "seed {}, {table}, {values:x?}: {entry:?}", self.seed);
            self.hits += usize::from(entry.is_some());
            let value = if entry.is_some() { got } else { lookups.default_value(table) };
            let number = number.unwrap_or(0);
            let want = expected(&p, table, &shape.value, &action.to_spec(&p), number);
            let got = value::bytes(lookups, value, want.len());
            assert_eq!(got.as_ref(), Some(&want), "seed {}, {table}, {values:x?}: {entry:?}", self.seed);
            if entry.is_some() && shape.value.entry_id {
                assert!(number < lookups.entry_id_bound(table), "seed {}", self.seed);
            }
            let hash = self.random.next();
            let want = resolved(state, table, action, hash);
            let number = if matches!(action, StoredActionRef::Call(..)) { number } else { 0 };
            let want = want.map(|spec| expected(&p, table, &shape.value, &spec, number));
            self.members += usize::from(want.is_some() && !matches!(action, StoredActionRef::Call(..)));
            let got = value::resolve(lookups, table, value, hash);
            let got = value::bytes(lookups, got, want.as_ref().map_or(0, Vec::len));
            assert_eq!(got, want, "seed {}, {table}: {action:?}", self.seed);
        }
    }

    /// Returns values for the match keys, often those of an entry.
    fn packet(&mut self, table: TableId) -> Vec<(usize, BigUint)> {
        let state = self.live.state();
        let entries: Vec<&StoredEntry> = state.entries(table).collect();
        let near = (!entries.is_empty() && !self.random.one_in(4)).then(|| self.random.of(&entries));
        let near = near.map(|entry| state.layout(table).unpack(entry.key()));
        let keys = &state.pipeline().tables[table].keys;
        let matched = keys.iter().enumerate().filter(|(_, key)| key.kind != MatchKind::Selector);
        let mut values = Vec::new();
        for (index, (position, key)) in matched.enumerate() {
            let width = key.ty.width();
            let value = match near.as_ref().map(|keys| &keys[index]) {
                Some(_) if self.random.one_in(12) => self.random.common(width),
                Some(KeyMatch::Exact(value) | KeyMatch::Optional(Some(value))) => value.clone(),
                Some(KeyMatch::Lpm { value, prefix_len }) => value | self.random.bits(width - prefix_len),
                Some(KeyMatch::Ternary { value, mask }) => {
                    let all = (big(1) << width) - big(1);
                    value | (self.random.bits(width) & (all ^ mask))
                }
                Some(KeyMatch::Range { lo, hi }) => self.random.of(&[lo.clone(), hi.clone()]),
                Some(KeyMatch::Optional(None)) | None => self.random.common(width),
            };
            values.push((position, value));
        }
        values
    }
}

fn everything(live: &LiveTables, reader: &mut LeftRightReader, random: &mut Random, seed: u64) -> (usize, usize) {
    let lookups = reader.acquire().clone();
    assert_eq!(lookups.version(), live.state().version());
    let mut check = Check { live, lookups: &lookups, random, seed, hits: 0, members: 0 };
    for table in live.state().pipeline().tables.keys() {
        check.table(table);
    }
    assert_eq!(lookups.multicast_groups(), live.state().multicast_groups());
    let counts = (check.hits, check.members);
    reader.release();
    counts
}

/// Returns all entries in a canonical order.
fn contents(state: &ControlState) -> Vec<(TableId, StoredEntry)> {
    let tables = state.pipeline().tables.keys();
    let mut all: Vec<_> = tables.flat_map(|table| state.entries(table).map(move |e| (table, e.clone()))).collect();
    all.sort_by(|(a, x), (b, y)| (a, x.key(), x.priority()).cmp(&(b, y.key(), y.priority())));
    all
}

fn one_seed(seed: u64, batches: usize) -> (usize, usize, usize, usize) {
    let mut random = Random(seed);
    let p = Arc::new(random::pipeline(&mut random));
    let numbered = random.next();
    let mut live = LiveTables::new(p, |table| numbered >> table.0 & 1 == 1).unwrap();
    let mut reader = live.reader();
    let (mut hits, mut members) = everything(&live, &mut reader, &mut random, seed);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..batches {
        let mut one = || {
            let updates = 1 + {
                let most = 1 + random.below(5);
                random.below(most)
            };
            // Updates are generated from the state before, so later updates of a batch are often
            // invalid.
            (0..updates).map(|_| random::update(&mut random, live.state())).collect::<WriteBatch>()
        };
        let batches: Vec<WriteBatch> = (0..3).map(|_| one()).collect();
        let (before, entries) = (live.state().version(), contents(live.state()));
        let results = match random.below(3) {
            0 => live.write_batches(&batches),
            1 => vec![live.write_deferred(&batches[0])],
            _ => vec![live.write(&batches[0])],
        };
        let taken = results.iter().filter(|result| result.is_ok()).count();
        // Port states on which nothing depends do not change the version.
        let is_quiet = |(batch, _): &(&WriteBatch, _)| batch.updates.iter().all(|u| matches!(u, StateUpdate::Ports(_)));
        let quiet = batches.iter().zip(&results).filter(|(_, result)| result.is_ok()).filter(is_quiet).count();
        let versions = before + (taken - quiet) as u64..=before + taken as u64;
        assert!(versions.contains(&live.state().version()), "seed {seed}: {versions:?}");
        if taken == 0 {
            assert_eq!(contents(live.state()), entries, "seed {seed}: refused batches changed something");
        }
        (accepted, refused) = (accepted + taken, refused + results.len() - taken);
        match random.below(10) {
            0 | 1 => assert!(live.sync_standby()),
            2 => while live.maintain(1) {},
            _ => {}
        }
        let counts = everything(&live, &mut reader, &mut random, seed);
        (hits, members) = (hits + counts.0, members + counts.1);
    }
    (hits, members, accepted, refused)
}

#[test]
fn lookups_agree_with_the_state() {
    let mut totals = [0; 4];
    for seed in 0..250 {
        let (hits, members, accepted, refused) = one_seed(seed, 30);
        for (total, count) in totals.iter_mut().zip([hits, members, accepted, refused]) {
            *total += count;
        }
    }
    let [hits, members, accepted, refused] = totals;
    assert!(hits > 50_000 && members > 5_000, "too little was compared: {totals:?}");
    assert!(accepted > 2_000 && refused > 2_000, "too little was written or refused: {totals:?}");
}

/// Batches of thousands of changes reserve space, prefetch, and reorganise classifiers at the end.
#[test]
fn large_batches_agree_as_well() {
    let mut random = Random(1);
    let mut o = overlay();
    let ternary = vec![key(Type::Bit(32), MatchKind::Ternary), key(Type::Bit(16), MatchKind::Range)];
    let actions: Vec<ActionId> = o.pipeline.tables[o.hosts].actions.iter().map(|a| a.action).collect();
    let acl = table(&mut o.pipeline, ternary, &actions);
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |table| table == o.hosts).unwrap();
    let mut reader = live.reader();
    let entry = |random: &mut Random, n: u64| match n % 3 {
        0 => o.host(n % 5, n, n),
        1 => o.route(n % 5, (n & 0xffff) << 8, 24, n),
        _ => {
            let keys = random::matches(random, &o.pipeline.tables[acl]);
            TableEntry::new(acl, keys, o.host(0, 0, n).action).with_priority(n as i32 + 1)
        }
    };
    let all: Vec<TableEntry> = (0..6000).map(|n| entry(&mut random, n)).collect();
    let batch = |kind, entries: &[TableEntry]| -> WriteBatch {
        entries.iter().map(|entry| StateUpdate::Entry(kind, entry.clone())).collect()
    };
    let mut hits = 0;
    for (kind, entries) in [
        (UpdateKind::Insert, &all[..]),
        (UpdateKind::Modify, &all[..2000]),
        (UpdateKind::Delete, &all[1000..]),
        (UpdateKind::Insert, &all[3000..]),
    ] {
        live.write(&batch(kind, entries)).unwrap();
        for _ in 0..20 {
            hits += everything(&live, &mut reader, &mut random, 1).0;
        }
        assert!(live.sync_standby());
    }
    assert!(hits > 2000, "{hits}");
}

/// Maintenance of an idle writer reorganises both copies incrementally without changing lookup
/// results.
#[test]
fn what_is_due_is_done_when_nobody_writes() {
    let mut random = Random(2);
    let mut o = overlay();
    let ternary = vec![key(Type::Bit(32), MatchKind::Ternary), key(Type::Bit(16), MatchKind::Range)];
    let actions: Vec<ActionId> = o.pipeline.tables[o.hosts].actions.iter().map(|a| a.action).collect();
    let acl = table(&mut o.pipeline, ternary, &actions);
    let mut live = LiveTables::new(Arc::new(o.pipeline.clone()), |_| false).unwrap();
    let mut reader = live.reader();
    let (mut hits, mut steps) = (0, 0);
    for n in 0..1200 {
        let keys = random::matches(&mut random, &o.pipeline.tables[acl]);
        let entry = TableEntry::new(acl, keys, o.host(0, 0, n).action).with_priority(n as i32 + 1);
        live.write(&WriteBatch::from_iter([StateUpdate::Entry(UpdateKind::Insert, entry)])).unwrap();
        if n % 300 == 299 {
            while live.maintain(1) {
                steps += 1;
                assert!(steps < 10_000, "it never ends");
                hits += everything(&live, &mut reader, &mut random, 2).0;
            }
            assert!(!live.maintain(1), "nothing is due any more");
            assert!(reader.acquire().is_maintained());
            reader.release();
            let version = live.state().version();
            live.write(&WriteBatch::new()).unwrap();
            hits += everything(&live, &mut reader, &mut random, 2).0;
            let other = reader.acquire();
            assert!(other.version() == version + 1 && other.is_maintained(), "neither copy");
            reader.release();
        }
    }
    assert!(steps > 30 && hits > 300, "too little was due: {steps} steps, {hits} hits");
}
