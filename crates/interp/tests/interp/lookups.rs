//! Compares tables with a model that tries all entries, and with `entries::ControlState::lookup`.

use crate::build::*;
use entries::{StateUpdate, TableEntry, UpdateKind, WriteBatch};
use interp::Interp;
use ir::*;
use num_bigint::BigUint;
use proptest::prelude::*;

const KINDS: [MatchKind; 5] =
    [MatchKind::Exact, MatchKind::Lpm, MatchKind::Ternary, MatchKind::Range, MatchKind::Optional];

/// Keys of a table: match kind, width in bytes, signed.
type Shape = Vec<(MatchKind, u32, bool)>;

fn shape() -> impl Strategy<Value = Shape> {
    let any_key = (0..KINDS.len(), prop_oneof![1..=4u32, Just(8), Just(16), Just(17)], any::<bool>());
    let any_key = any_key.prop_map(|(kind, bytes, signed)| (KINDS[kind], bytes, signed));
    let exact = (prop_oneof![1..=5u32, Just(16)], any::<bool>()).prop_map(|(bytes, s)| (MatchKind::Exact, bytes, s));
    let lpm = prop_oneof![Just(4u32), Just(16), Just(3)].prop_map(|bytes| (MatchKind::Lpm, bytes, false));
    prop_oneof![
        proptest::collection::vec(exact.clone(), 1..6),
        (proptest::collection::vec(exact, 0..3), lpm).prop_map(|(mut keys, lpm)| {
            keys.insert(keys.len() / 2, lpm);
            keys
        }),
        proptest::collection::vec(any_key, 1..5).prop_map(|mut keys| {
            // At most one lpm key, because the verifier rejects more.
            for (kind, _, _) in keys.iter_mut().filter(|(kind, _, _)| *kind == MatchKind::Lpm).skip(1) {
                *kind = MatchKind::Ternary;
            }
            keys
        }),
    ]
}

/// Returns small numbers at both ends of a key, so that packets hit.
fn value(bytes: u32, seed: u64) -> BigUint {
    let low = BigUint::from(seed % 4);
    let high = BigUint::from((seed >> 8) % 4) << (bytes * 8 - 2);
    low | high
}

fn key_match(kind: MatchKind, bytes: u32, signed: bool, seed: u64) -> KeyMatch {
    let width = bytes * 8;
    let exact = value(bytes, seed);
    let ones = (BigUint::from(1u8) << width) - 1u8;
    match kind {
        MatchKind::Exact | MatchKind::Selector => KeyMatch::Exact(exact),
        MatchKind::Lpm => {
            let prefix_len = [0, 1, 2, 3, width - 2, width - 1, width][(seed >> 16) as usize % 7];
            let host = width - prefix_len;
            KeyMatch::Lpm { value: (exact >> host) << host, prefix_len }
        }
        MatchKind::Ternary => {
            let mask = match (seed >> 16) % 4 {
                0 => BigUint::ZERO,
                1 => BigUint::from(3u8),
                2 => ones ^ BigUint::from(1u8),
                _ => ones,
            };
            KeyMatch::Ternary { value: exact & &mask, mask }
        }
        MatchKind::Range => {
            let other = value(bytes, seed >> 24);
            let order = |v: &BigUint| if signed { v ^ (BigUint::from(1u8) << (width - 1)) } else { v.clone() };
            let (lo, hi) = if order(&exact) <= order(&other) { (exact, other) } else { (other, exact) };
            KeyMatch::Range { lo, hi }
        }
        MatchKind::Optional => KeyMatch::Optional((seed >> 16).is_multiple_of(2).then_some(exact)),
    }
}

fn matches(asked: &KeyMatch, width: u32, signed: bool, value: &BigUint) -> bool {
    let order = |v: &BigUint| if signed { v ^ (BigUint::from(1u8) << (width - 1)) } else { v.clone() };
    match asked {
        KeyMatch::Exact(v) => v == value,
        KeyMatch::Ternary { value: v, mask } => value & mask == *v,
        KeyMatch::Lpm { value: v, prefix_len } => value >> (width - prefix_len) == v >> (width - prefix_len),
        KeyMatch::Range { lo, hi } => order(lo) <= order(value) && order(value) <= order(hi),
        KeyMatch::Optional(v) => v.as_ref().is_none_or(|v| v == value),
    }
}

/// Returns the lowest value that the match accepts.
fn lowest(asked: &KeyMatch) -> BigUint {
    match asked {
        KeyMatch::Exact(v) | KeyMatch::Ternary { value: v, .. } | KeyMatch::Lpm { value: v, .. } => v.clone(),
        KeyMatch::Range { lo, .. } => lo.clone(),
        KeyMatch::Optional(v) => v.clone().unwrap_or_default(),
    }
}

struct Model {
    shape: Shape,
    /// Entries in order of insertion.
    entries: Vec<(Vec<KeyMatch>, i32, u32)>,
}

impl Model {
    fn lookup(&self, values: &[BigUint]) -> Option<u32> {
        let hits = self.entries.iter().filter(|(keys, _, _)| {
            keys.iter()
                .zip(&self.shape)
                .zip(values)
                .all(|((k, (_, bytes, signed)), v)| matches(k, bytes * 8, *signed, v))
        });
        let strength = |(keys, priority, _): &(Vec<KeyMatch>, i32, u32)| {
            let prefix = |k: &KeyMatch| if let KeyMatch::Lpm { prefix_len, .. } = k { *prefix_len } else { 0 };
            (*priority, keys.iter().map(prefix).sum::<u32>())
        };
        let mut best: Option<&(Vec<KeyMatch>, i32, u32)> = None;
        for hit in hits {
            if best.is_none_or(|b| strength(hit) > strength(b)) {
                best = Some(hit);
            }
        }
        best.map(|(_, _, result)| *result)
    }
}

/// Builds a table over header fields. The action's argument is the result.
fn table_under_test(shape: &Shape) -> (Interp, TableId, ActionId) {
    let mut t = Build::v1model();
    let names: Vec<String> = (0..shape.len()).map(|n| format!("f{n}")).collect();
    let fields: Vec<(&str, Type)> =
        names.iter().zip(shape).map(|(name, (_, bytes, _))| (name.as_str(), Type::Bit(bytes * 8))).collect();
    let input = t.header("input", &fields);
    let output = t.header("output", &[("result", Type::Bit(32))]);
    t.parser(ControlKind::Parser, &[input]);
    let miss = t.action("miss", &[]);
    let give = t.action("give", &[32]);
    let ty = |bytes: u32, signed: bool| if signed { Type::Int(bytes * 8) } else { Type::Bit(bytes * 8) };
    let keys: Vec<(Type, MatchKind)> = shape.iter().map(|(kind, bytes, signed)| (ty(*bytes, *signed), *kind)).collect();
    let table = t.table("t", &keys, &[miss, give]);
    let mut b = BodyBuilder::new();
    b.set_valid(output);
    let values = (0..shape.len()).map(|n| {
        let value = b.load(&t.p, t.field(input, n));
        b.cast(keys[n].0, value)
    });
    let values = values.collect();
    let arms = b.apply_table(&t.p, table, values);
    b.switch_to(arms[0].block);
    b.ret();
    b.switch_to(arms[1].block);
    b.store(t.field(output, 0), arms[1].params[0]);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[output]);
    (t.load(), table, give)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn tables_against_a_model(
        shape in shape(),
        changes in proptest::collection::vec((proptest::collection::vec(any::<u64>(), 5), 1..4i32, 0..8u8), 1..60),
        packets in proptest::collection::vec(proptest::collection::vec(any::<u64>(), 5), 40),
    ) {
        let (mut interp, table, give) = table_under_test(&shape);
        let has_priority = interp.pipeline().tables[table].has_priority();
        let mut model = Model { shape: shape.clone(), entries: Vec::new() };
        let mut batch = WriteBatch::new();
        for (n, (seeds, priority, kind)) in changes.iter().enumerate() {
            let keys: Vec<KeyMatch> =
                shape.iter().zip(seeds).map(|((k, bytes, signed), seed)| key_match(*k, *bytes, *signed, *seed)).collect();
            let priority = if has_priority { *priority } else { 0 };
            let given: TableEntry = entry(table, keys.clone(), give, &[n as u128 + 1]).with_priority(priority);
            let there = model.entries.iter().position(|(k, p, _)| *k == keys && *p == priority);
            match (there, kind) {
                (None, _) => {
                    model.entries.push((keys, priority, n as u32 + 1));
                    batch.insert(given);
                }
                (Some(at), 0..4) => {
                    model.entries.remove(at);
                    batch.delete(given);
                }
                (Some(at), _) => {
                    model.entries[at].2 = n as u32 + 1;
                    batch.modify(given);
                }
            }
            if n % 7 == 3 {
                interp.write(&std::mem::take(&mut batch)).unwrap();
            }
        }
        interp.write(&batch).unwrap();
        for (n, seeds) in packets.iter().enumerate() {
            // Every other packet matches some entry.
            let wanted = model.entries.get(seeds[0] as usize % model.entries.len().max(1)).filter(|_| n % 2 == 0);
            let values: Vec<BigUint> = match wanted {
                Some((keys, _, _)) => keys.iter().map(lowest).collect(),
                None => shape.iter().zip(seeds).map(|((_, bytes, _), seed)| value(*bytes, *seed)).collect(),
            };
            let mut packet = Vec::new();
            for ((_, bytes, _), value) in shape.iter().zip(&values) {
                let digits = value.to_bytes_be();
                packet.extend(std::iter::repeat_n(0, *bytes as usize - digits.len()));
                packet.extend(digits);
            }
            let expected = model.lookup(&values);
            prop_assert!(expected.is_some() || wanted.is_none());
            let got = sent(&interp.process(&packet, 0, 0));
            prop_assert_eq!(&got, &vec![(0u32, expected.unwrap_or(0).to_be_bytes().to_vec())], "values {:?}", values);
            let plain = interp.state().lookup(table, &values);
            let plain = plain.map(|e| match e.action() {
                entries::StoredActionRef::Call(_, args) => args[0] as u32,
                _ => 0,
            });
            prop_assert_eq!(plain, expected);
        }
    }
}

/// A rejected batch leaves the tables unchanged.
#[test]
fn refused_batch() {
    let (mut interp, table, give) = table_under_test(&vec![(MatchKind::Exact, 1, false)]);
    insert(&mut interp, entry(table, vec![exact(1)], give, &[7]));
    let mut batch = WriteBatch::new();
    batch.delete(entry(table, vec![exact(1)], give, &[]));
    batch.insert(entry(table, vec![exact(2)], give, &[8]));
    batch.insert(entry(table, vec![exact(2)], give, &[9]));
    let error = interp.write(&batch).unwrap_err();
    assert_eq!(error.index, 2);
    assert_eq!(error.to_string(), "update 2: table t: there is already an entry (k0=2); modify it, or delete it first");
    assert_eq!(sent(&interp.process(&[1], 0, 0)), [(0, vec![0, 0, 0, 7])]);
    assert_eq!(sent(&interp.process(&[2], 0, 0)), [(0, vec![0, 0, 0, 0])]);
    assert_eq!(interp.state().version(), 1);
}

#[test]
fn default_action() {
    let (mut interp, table, give) = table_under_test(&vec![(MatchKind::Exact, 1, false)]);
    write(&mut interp, [StateUpdate::DefaultAction(table, Some(call(give, &[5])))]);
    assert_eq!(sent(&interp.process(&[1], 0, 0)), [(0, vec![0, 0, 0, 5])]);
    write(&mut interp, [StateUpdate::DefaultAction(table, None)]);
    assert_eq!(sent(&interp.process(&[1], 0, 0)), [(0, vec![0, 0, 0, 0])]);
    let absent = StateUpdate::Entry(UpdateKind::Delete, entry(table, vec![exact(1)], give, &[]));
    let error = interp.write(&[absent].into_iter().collect()).unwrap_err();
    assert_eq!(error.to_string(), "update 0: table t: there is no entry (k0=1); insert it first");
}
