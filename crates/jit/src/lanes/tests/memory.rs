//! Tests of single memory operations in all their forms.

use super::native::{ExecutableCode, Fenced};
use super::oracle::{self, Space};
use super::random_inputs::{Chance, named};
use super::single_ops::ListedCode;
use super::unsupported;
use super::world::{self, KEY_WORDS};
use crate::lanes::emit::emit;
use crate::lanes::ir::{LANES, OpId, VectorOp};

#[test]
fn gathers() {
    if unsupported() {
        return;
    }
    for bytes in [4, 8] {
        for offset in [0, 8, -64, 40] {
            let mut written = ListedCode::new();
            let (x, within) = (written.column(0), written.constant(0xf80));
            let within = written.add(VectorOp::And(x, within));
            let table = written.add(VectorOp::ContextWord(world::TABLE_AT));
            let start = written.constant(64);
            let table = written.add(VectorOp::Add(table, start));
            let good = written.add(VectorOp::Add(table, within));
            let mask = written.random_mask(1);
            let wild = written.column(2);
            let base = written.add(VectorOp::Blend(mask, good, wild));
            written.try_vector(VectorOp::Gather { base, offset, bytes, mask });
            written.show(base);
            written.try_mask(VectorOp::Not(mask));
            written.check(offset as u64, 1_000);
        }
    }
}

#[test]
fn rows() {
    if unsupported() {
        return;
    }
    for bytes in 1..=64 {
        let mut chance = Chance(u64::from(bytes));
        let mut written = ListedCode::new();
        for _ in 0..6 {
            let (pointers, offset) = (world::pointers(chance.below(2)), chance.below(90) as i32 - 32);
            let rows = written.add(VectorOp::Rows { pointers, offset, bytes });
            let words = chance.next() | 1 << chance.below(8);
            for word in (0..8).filter(|word| words >> word & 1 != 0) {
                written.try_vector(VectorOp::Word(rows, word));
            }
        }
        written.check(u64::from(bytes), 1_000);
    }
}

#[test]
fn writes() {
    if unsupported() {
        return;
    }
    for seed in 0..120 {
        let mut chance = Chance(seed);
        let mut written = ListedCode::new();
        let pointers = written.add(VectorOp::Column(world::pointers(0)));
        let more = written.constant(3);
        let moved = written.add(VectorOp::Add(pointers, more));
        let vectors: Vec<OpId> = (0..5).map(|number| written.column(number)).collect();
        for place in [pointers, moved] {
            let bytes = named(&mut chance);
            let words = (0..8).map(|_| chance.pick(&vectors)).collect();
            written.add(VectorOp::Write { pointers: place, offset: chance.below(60) as i32 - 20, bytes, words });
        }
        written.check(seed, 50);
    }
}

#[test]
fn what_was_written_is_read() {
    if unsupported() {
        return;
    }
    let list = world::pointers(1);
    let mut written = ListedCode::new();
    let pointers = written.add(VectorOp::Column(list));
    let rows = VectorOp::Rows { pointers: list, offset: 0, bytes: 64 };
    let before = written.add(rows.clone());
    let value = written.column(0);
    written.add(VectorOp::Write { pointers, offset: 3, bytes: 0x0ff0_1234_ff00_0ff1, words: vec![value; 8] });
    let after = written.add(rows);
    for word in 0..8 {
        written.try_vector(VectorOp::Word(before, word));
        written.try_vector(VectorOp::Word(after, word));
    }
    written.check(9, 5_000);
}

#[test]
fn appends() {
    if unsupported() {
        return;
    }
    for words in 1..=KEY_WORDS {
        for columns in 0..=world::SET_LISTS {
            let mut written = ListedCode::new();
            let mask = written.random_mask(0);
            let masks =
                [mask, OpId(0), written.add(VectorOp::Certain(false)), written.add(VectorOp::Both(mask, OpId(0)))];
            let values: Vec<OpId> = (0..4).map(|number| written.column(number)).collect();
            let number = written.constant(0x77);
            let sum = written.add(VectorOp::Add(values[0], values[1]));
            let values = [values, vec![number, sum]].concat();
            for (set, mask) in masks.into_iter().enumerate() {
                let columns = (0..columns).map(|list| (world::set_list(set, list), values[(set + list) % 6]));
                let key = (0..words).map(|word| values[(word + set) % 6]).collect();
                let keys = vec![(world::set_keys(set, 0), key), (world::set_keys(set, 1), vec![sum])];
                written.add(VectorOp::Append { count: world::set_count(set), mask, columns: columns.collect(), keys });
            }
            written.check(words as u64, 2_000);
        }
    }
}

#[test]
fn lists_are_made_shorter_in_place() {
    if unsupported() {
        return;
    }
    // The list is read and then written.
    let mut written = ListedCode::new();
    let list = world::set_list(0, 0);
    let value = written.add(VectorOp::Column(list));
    let mask = written.random_mask(0);
    let mask = written.add(VectorOp::Both(mask, OpId(0)));
    let columns = vec![(list, value)];
    written.add(VectorOp::Append { count: world::shared(0), mask, columns, keys: Vec::new() });
    written.show(value);
    let mut chance = Chance(4);
    for count in [8, 30, 40] {
        let code = &written.code;
        let native = ExecutableCode::new(&emit(code).expect("code"));
        let mut world = world::TestMemory::new(&mut chance);
        world.set(world::shared(0), 0);
        let before = world.snapshot();
        let mut expected = before.clone();
        oracle::run(code, &mut expected, world.context(), count);
        native.run(world.context(), count);
        let compared = super::compare(code, &world, [&before, &expected, &world.snapshot()], "in place");
        assert!(compared.changed > 60, "too little was compared: {compared:?}");
    }
}

#[test]
fn sums_and_places() {
    if unsupported() {
        return;
    }
    for seed in 0..10 {
        let mut written = ListedCode::new();
        let (a, b, mask) = (written.column(0), written.column(1), written.random_mask(2));
        let number = written.constant(3);
        let places = written.constant(world::SCATTERED_PLACES as u64 - 1);
        let (index, position) = (written.add(VectorOp::And(a, places)), written.add(VectorOp::Position));
        written.add(VectorOp::Accumulate { at: world::sums(0), mask, value: a });
        written.add(VectorOp::Accumulate { at: world::sums(1), mask: OpId(0), value: number });
        written.add(VectorOp::Accumulate { at: world::sums(0), mask: OpId(0), value: b });
        written.add(VectorOp::Scatter { list: world::scattered(0), index, mask, value: b });
        written.add(VectorOp::Scatter { list: world::scattered(1), index, mask: OpId(0), value: number });
        written.add(VectorOp::Scatter { list: world::scattered(2), index: position, mask, value: a });
        written.try_vector(VectorOp::ContextWord(world::sums(0)));
        written.try_vector(VectorOp::Column(world::scattered(0)));
        written.check(seed, 1_000);
    }
}

#[test]
fn nothing_but_what_is_named_is_touched() {
    if unsupported() {
        return;
    }
    // Rows that end at a page that must not be accessed, and rows that start after one.
    let page = Fenced::new(&std::array::from_fn(|byte| byte as u8));
    for bytes in 1..=64u8 {
        for at_end in [true, false] {
            let mut written = ListedCode::new();
            let rows = written.add(VectorOp::Rows { pointers: world::column(0), offset: 0, bytes });
            for word in 0..8 {
                written.try_vector(VectorOp::Word(rows, word));
            }
            let (pointers, value) = (written.add(VectorOp::Column(world::column(0))), written.column(1));
            let named = u64::MAX >> (64 - bytes);
            written.add(VectorOp::Write { pointers, offset: 0, bytes: named, words: vec![value; 8] });
            let mut world = world::TestMemory::new(&mut Chance(u64::from(bytes)));
            let pointer = page.first() + if at_end { 4096 - u64::from(bytes) } else { 0 };
            for lane in 0..LANES as i32 {
                world.set(world::column(0) + 8 * lane, pointer);
            }
            let snapshot = |world: &world::TestMemory| {
                let mut space: Space = world.snapshot();
                space.add(page.first(), page.bytes());
                space
            };
            let before = snapshot(&world);
            let mut expected = before.clone();
            oracle::run(&written.code, &mut expected, world.context(), 8);
            ExecutableCode::new(&emit(&written.code).expect("code")).run(world.context(), 8);
            let what = format!("{bytes} bytes");
            super::compare(&written.code, &world, [&before, &expected, &snapshot(&world)], &what);
        }
    }
}
