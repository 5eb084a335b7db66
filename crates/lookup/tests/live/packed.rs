//! Both forms of an entry have the same effect: equal state, changes and errors.

#![allow(clippy::result_large_err)] // errors are returned by value

use crate::random::{self, Random};
use entries::*;
use ir::{ActionCall, ActionId, ExternId, KeyMatch, MatchKind, Pipeline};
use num_bigint::BigUint;
use std::sync::Arc;

/// Adds features that [`random::pipeline`] omits, because this test looks nothing up.
fn pipeline(random: &mut Random) -> Pipeline {
    let mut p = random::pipeline(random);
    for table in p.tables.values_mut() {
        table.idle_timeout = random.one_in(2);
        table.direct_counter = random.one_in(2).then_some(ExternId(0));
        table.direct_meter = random.one_in(2).then_some(ExternId(0));
        table.const_entries = random.one_in(10);
        if table.entries.is_empty() && random.one_in(3) {
            let at = random.below(table.actions.len() as u64) as usize;
            table.actions[at].default_only = true;
        }
    }
    p
}

/// Adds rare attributes, and often an error.
fn spoil(random: &mut Random, p: &Pipeline, entry: &mut TableEntry) {
    if random.one_in(6) {
        entry.provenance = Some("somewhere".into());
        entry.metadata = vec![1, 2, 3];
        entry.is_const = random.one_in(4);
    }
    let at = if entry.keys.is_empty() { 0 } else { random.below(entry.keys.len() as u64) as usize };
    let wide = BigUint::from(1u8) << random.below(200) as u32;
    match random.below(24) {
        0 => entry.priority = random.below(3) as i32 - 1,
        1 => entry.counter = Some(Counter { packets: random.next(), bytes: 1 }),
        2 => {
            let rate = random.below(3);
            entry.meter = Some(MeterConfig { cir: 1, cburst: 1, pir: rate, pburst: random.below(2) });
        }
        3 => entry.idle_timeout_ns = random.next(),
        4 => drop(entry.keys.pop()),
        5 => entry.keys.push(KeyMatch::Exact(wide)),
        6 | 7 if !entry.keys.is_empty() => entry.keys[at] = other_kind(random, wide),
        8..=11 if !entry.keys.is_empty() => match &mut entry.keys[at] {
            KeyMatch::Exact(value) | KeyMatch::Optional(Some(value)) => *value = wide,
            KeyMatch::Ternary { value, mask } => *random_of(random, value, mask) ^= wide,
            KeyMatch::Range { lo, hi } => *random_of(random, lo, hi) ^= wide,
            KeyMatch::Lpm { value, .. } if random.one_in(2) => *value ^= wide,
            KeyMatch::Lpm { prefix_len, .. } => *prefix_len = random.below(200) as u32,
            KeyMatch::Optional(None) => {}
        },
        12 => entry.action = ActionSpec::Call(ActionCall { action: ActionId(random.below(8) as u32), args: vec![] }),
        13 => entry.action = ActionSpec::Group(random.below(3) as u32),
        14 => entry.table = ir::TableId(p.tables.len() as u32),
        15..=18 => match &mut entry.action {
            ActionSpec::Call(call) if !call.args.is_empty() => {
                let at = random.below(call.args.len() as u64) as usize;
                call.args[at] = wide;
            }
            ActionSpec::Call(call) => call.args.push(wide),
            _ => {}
        },
        _ => {}
    }
}

fn random_of<'a, T>(random: &mut Random, one: &'a mut T, other: &'a mut T) -> &'a mut T {
    if random.one_in(2) { one } else { other }
}

fn other_kind(random: &mut Random, value: BigUint) -> KeyMatch {
    match random.below(5) {
        0 => KeyMatch::Exact(value),
        1 => KeyMatch::Ternary { value: value.clone(), mask: value },
        2 => KeyMatch::Lpm { value, prefix_len: 0 },
        3 => KeyMatch::Range { lo: BigUint::ZERO, hi: value },
        _ => KeyMatch::Optional(None),
    }
}

/// Encodes a number as bytes, with or without leading zeros.
fn bytes(random: &mut Random, value: &BigUint) -> Vec<u8> {
    let mut out = vec![0; random.below(3) as usize];
    out.extend(value.to_bytes_be());
    out
}

/// Builds a packed entry with the packer, keys and arguments in any order. Omits wildcard matches.
fn from_bytes(random: &mut Random, state: &ControlState, entry: &TableEntry) -> Result<PackedEntry, EntryError> {
    let mut packer = state.entry_packer(entry.table)?;
    let mut order: Vec<usize> = (0..entry.keys.len()).collect();
    order.sort_by_key(|_| random.next());
    for at in order {
        let kind = state.layout(entry.table).fields.get(at).map(|field| field.kind);
        let mut of = |value: &BigUint| bytes(random, value);
        match &entry.keys[at] {
            KeyMatch::Exact(value) => packer.exact(at, &of(value)[..])?,
            KeyMatch::Ternary { value, mask }
                if kind == Some(MatchKind::Ternary) && value.bits() + mask.bits() == 0 =>
            {
                &mut packer
            }
            KeyMatch::Ternary { value, mask } => packer.ternary(at, &of(value)[..], &of(mask)[..])?,
            KeyMatch::Lpm { value, prefix_len } => packer.lpm(at, &of(value)[..], *prefix_len)?,
            KeyMatch::Range { lo, hi } => packer.range(at, &of(lo)[..], &of(hi)[..])?,
            KeyMatch::Optional(Some(value)) => packer.optional(at, &of(value)[..])?,
            KeyMatch::Optional(None) if kind == Some(MatchKind::Optional) => &mut packer,
            KeyMatch::Optional(None) => packer.optional(at, 0)?,
        };
    }
    match &entry.action {
        ActionSpec::Member(id) => drop(packer.member(*id)),
        ActionSpec::Group(id) => drop(packer.group(*id)),
        ActionSpec::Call(call) => {
            packer.call(call.action)?;
            for (at, arg) in call.args.iter().enumerate().rev() {
                packer.arg(at, &bytes(random, arg)[..])?;
            }
        }
    }
    let mut packed = packer.finish()?.with_extras(entry.meter, entry.provenance.as_ref(), &entry.metadata);
    (packed.priority, packed.idle_timeout_ns) = (entry.priority, entry.idle_timeout_ns);
    (packed.counter, packed.is_const) = (entry.counter, entry.is_const);
    Ok(packed)
}

/// Returns all visible properties of a state's entries.
fn contents(state: &ControlState) -> Vec<(u32, StoredEntry)> {
    let tables = state.pipeline().tables.keys();
    let mut all: Vec<_> = tables.flat_map(|table| state.entries(table).map(move |e| (table.0, e.clone()))).collect();
    all.sort_by(|(a, x), (b, y)| (a, x.sequence()).cmp(&(b, y.sequence())));
    all
}

/// Returns the packed form of an update. If packing fails, the error must be the state's error for
/// the other form.
fn packed(random: &mut Random, state: &ControlState, update: &StateUpdate) -> StateUpdate {
    let StateUpdate::Entry(kind, entry) = update else { return update.clone() };
    let alone = |update: StateUpdate| state.check(&WriteBatch { updates: vec![update] }).map_err(|error| error.error);
    let refusal = alone(update.clone());
    let made = state.pack_entry(*kind, entry);
    if *kind != UpdateKind::Delete {
        let other = from_bytes(random, state, entry);
        match (&made, other) {
            (Ok(made), Ok(other)) => assert_eq!(*made, other),
            // The packer does not count omitted keys; of two errors either may be reported first.
            (Err(EntryError::KeyCount { .. } | EntryError::Arity { .. } | EntryError::NeedsMember { .. }), Err(_)) => {}
            (Err(EntryError::KeyCount { .. } | EntryError::NeedsMember { .. }), Ok(_)) => {}
            (_, Ok(other)) => assert_eq!(alone(StateUpdate::Packed(*kind, other)), refusal),
            (_, Err(error)) => assert_or_const(&refusal, error),
        }
    }
    match made {
        Ok(made) => {
            assert!(*kind == UpdateKind::Delete || made.to_table_entry(state.pipeline()).as_ref() == Some(entry));
            StateUpdate::Packed(*kind, made)
        }
        Err(error) => {
            assert_or_const(&refusal, error);
            update.clone()
        }
    }
}

/// A table with const entries reports that error first.
fn assert_or_const(refusal: &Result<(), UpdateError>, error: EntryError) {
    if !matches!(refusal, Err(UpdateError::Entry(e)) if matches!(**e, EntryError::ConstTable { .. })) {
        assert_eq!(*refusal, Err(error.into()));
    }
}

#[test]
fn both_forms_agree() {
    let (mut taken, mut refused, mut bulk) = (0, 0, 0);
    for seed in 0..200 {
        let mut random = Random(seed);
        let p = Arc::new(pipeline(&mut random));
        let (mut numbers, mut words) = (ControlState::new(p.clone()).unwrap(), ControlState::new(p.clone()).unwrap());
        for _ in 0..60 {
            let count = if random.one_in(2) { 1 } else { 1 + random.below(4) };
            let mut batch: WriteBatch = (0..count).map(|_| random::update(&mut random, &numbers)).collect();
            for update in &mut batch.updates {
                if let StateUpdate::Entry(_, entry) = update {
                    spoil(&mut random, &p, entry);
                }
            }
            let other: WriteBatch = batch.updates.iter().map(|update| packed(&mut random, &numbers, update)).collect();
            bulk += other.updates.iter().filter(|update| matches!(update, StateUpdate::Packed(..))).count();
            let result = numbers.apply(&batch);
            if result.is_ok() {
                taken += 1
            } else {
                refused += 1
            }
            assert_eq!(words.apply(&other), result, "seed {seed}: {other:?}");
            assert_eq!(contents(&words), contents(&numbers), "seed {seed}");
            assert_eq!(words.version(), numbers.version());
        }
    }
    assert!(taken > 1500 && refused > 2000 && bulk > 8000, "too little was tried: {taken} {refused} {bulk}");
}

/// Any words, valid or invalid, are interpreted as the numbers that they encode.
#[test]
fn words_are_looked_at() {
    let mut refused = 0;
    for seed in 0..3000 {
        let mut random = Random(seed);
        let p = Arc::new(pipeline(&mut random));
        let state = ControlState::new(p.clone()).unwrap();
        let StateUpdate::Entry(_, entry) = random::update(&mut random, &state) else { continue };
        let Ok(made) = state.pack_entry(UpdateKind::Insert, &entry) else { continue };
        let alone =
            |update: StateUpdate| state.check(&WriteBatch { updates: vec![update] }).map_err(|error| error.error);
        if alone(StateUpdate::Packed(UpdateKind::Insert, made.clone())).is_err() {
            continue;
        }
        let (mut key, action) = (made.key().to_vec(), made.action().to_action());
        let StoredAction::Call(action, mut args) = action else { continue };
        let flipped = 1u64 << random.below(64);
        match random.one_in(2) {
            true if !key.is_empty() => *random.of_mut(&mut key) ^= flipped,
            false if !args.is_empty() => *random.of_mut(&mut args) ^= flipped,
            _ => {}
        }
        let made =
            PackedEntry::new(made.table, &key, StoredActionRef::Call(action, &args)).with_priority(made.priority);
        let numbers = made.to_table_entry(&p).expect("the lengths are right");
        let (got, wanted) = (
            alone(StateUpdate::Packed(UpdateKind::Insert, made.clone())),
            alone(StateUpdate::Entry(UpdateKind::Insert, numbers)),
        );
        refused += usize::from(got.is_err());
        let own = |error: &EntryError| match error {
            EntryError::Presence { .. } => true,
            EntryError::PrefixTooLong { prefix_len, .. } => *prefix_len == u32::MAX,
            _ => false,
        };
        if !matches!(&got, Err(UpdateError::Entry(error)) if own(error)) {
            assert_eq!(got, wanted, "seed {seed}: {made:x?}");
        }
        for wrong in [&key[..key.len().saturating_sub(1)], &[&key[..], &[0]].concat()] {
            if wrong.len() != key.len() {
                let made = PackedEntry::new(made.table, wrong, made.action()).with_priority(made.priority);
                let told = alone(StateUpdate::Packed(UpdateKind::Delete, made)).unwrap_err().to_string();
                assert!(told.contains("packed key has") || told.contains("const"), "{told}");
            }
        }
    }
    assert!(refused > 300, "{refused}");
}
