//! Value sets match as in `crates/interp/src/parse.rs`, computed here with big integers.

use crate::pipeline::*;
use crate::random::{Random, key_match};
use entries::{StateUpdate, WriteBatch};
use ir::*;
use lookup::LiveTables;
use num_bigint::BigUint;
use std::sync::Arc;

fn matches(key: &MatchKey, want: &KeyMatch, value: &BigUint) -> bool {
    let width = key.ty.width();
    let order = |v: &BigUint| if key.ty.is_signed() { v ^ (big(1) << (width - 1)) } else { v.clone() };
    match want {
        KeyMatch::Exact(want) => value == want,
        KeyMatch::Ternary { value: want, mask } => &(value & mask) == want,
        KeyMatch::Lpm { value: want, prefix_len } => value >> (width - prefix_len) == want >> (width - prefix_len),
        KeyMatch::Range { lo, hi } => order(lo) <= order(value) && order(value) <= order(hi),
        KeyMatch::Optional(want) => want.as_ref().is_none_or(|want| value == want),
    }
}

#[test]
fn members_match_as_they_should() {
    use MatchKind::*;
    let kinds = [vec![Exact], vec![Exact, Exact], vec![Ternary], vec![Lpm, Range], vec![Optional, Selector, Range]];
    let (mut found, mut missed) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut p = Pipeline::new("sets", Arch::V1Model);
        let mut keys = Vec::new();
        for kind in random.of(&kinds) {
            let width = random.of(&[1, 9, 32, 64, 65, 130]);
            let ty = if random.one_in(2) { Type::Int(width) } else { Type::Bit(width) };
            keys.push(key(ty, kind));
        }
        let set = ValueSet { preamble: named("set"), size: 100, keys: keys.clone(), loc: SourceLoc::default() };
        let set = p.value_sets.push(set);
        let mut live = LiveTables::new(Arc::new(p), |_| false).unwrap();
        let mut member = || -> Vec<KeyMatch> {
            let matched = keys.iter().filter(|key| key.kind != Selector);
            matched.map(|key| key_match(&mut random, key)).collect()
        };
        let members: Vec<Vec<KeyMatch>> = (0..3 * (seed % 7)).map(|_| member()).collect();
        // A reversed range of a signed type is rejected, so the set stays empty.
        let written = live.write(&WriteBatch::from_iter([StateUpdate::ValueSet(set, members.clone())]));
        let members = if written.is_ok() { members } else { vec![] };
        let mut reader = live.reader();
        let lookups = reader.acquire();
        for _ in 0..20 {
            let values: Vec<BigUint> = keys.iter().map(|key| random.common(key.ty.width())).collect();
            let matched = |member: &Vec<KeyMatch>| {
                let keys = keys.iter().zip(&values).filter(|(key, _)| key.kind != Selector);
                keys.zip(member).all(|((key, value), want)| matches(key, want, value))
            };
            let want = members.iter().any(matched);
            let words: Vec<Vec<u64>> = keys.iter().zip(&values).map(|(key, value)| words(key, value)).collect();
            let words: Vec<&[u64]> = words.iter().map(Vec::as_slice).collect();
            assert_eq!(lookups.value_set_contains(set, &words), want, "seed {seed}, {values:x?} in {members:x?}");
            (found, missed) = (found + usize::from(want), missed + usize::from(!want));
        }
        assert!(members.is_empty() || !lookups.value_set_contains(set, &[]), "too few keys match nothing");
    }
    assert!(found > 500 && missed > 500, "{found} found, {missed} missed");
}

fn words(key: &MatchKey, value: &BigUint) -> Vec<u64> {
    let mut out = Vec::new();
    entries::push_words(value, entries::words_for(key.ty.width()), &mut out);
    out
}
