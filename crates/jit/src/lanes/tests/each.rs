//! Operations on their own, in all their forms.

use super::chance::{Chance, bytes};
use super::{Compared, check, unsupported, world};
use crate::lanes::assemble::EmitError;
use crate::lanes::emit::emit;
use crate::lanes::ir::{Code, Cond, Id, Op};

/// Code that is written down op by op.
#[derive(Default)]
pub struct Written {
    pub code: Code,
    shown: usize,
}

impl Written {
    pub fn new() -> Written {
        let mut written = Written::default();
        written.add(Op::Active);
        written
    }

    pub fn add(&mut self, op: Op) -> Id {
        self.code.ops.push(op);
        Id(self.code.ops.len() as u32 - 1)
    }

    /// One of the lists with all kinds of numbers.
    pub fn column(&mut self, number: usize) -> Id {
        self.add(Op::Column(world::column(number)))
    }

    pub fn constant(&mut self, value: u64) -> Id {
        self.add(Op::Const(value))
    }

    /// A mask without a rule.
    pub fn some(&mut self, number: usize) -> Id {
        let (a, b) = (self.column(number), self.constant(u64::MAX / 2));
        self.add(Op::Compare(Cond::Less, a, b))
    }

    /// Puts a vector where it is compared.
    pub fn show(&mut self, value: Id) {
        let index = self.add(Op::Position);
        let list = world::shown(self.shown);
        self.shown += 1;
        self.add(Op::Scatter { list, index, mask: Id(0), value });
    }

    /// Adds an operation and shows what it gives.
    pub fn try_vector(&mut self, op: Op) {
        let value = self.add(op);
        self.show(value);
    }

    pub fn try_mask(&mut self, op: Op) {
        let mask = self.add(op);
        self.try_vector(Op::Number(mask));
    }

    /// Compares, for some numbers of packets; so many bytes have to change.
    pub fn check(&self, seed: u64, least: usize) {
        let mut compared = Compared::default();
        for count in [1, 7, 8, 9, 33, 40] {
            compared.changed += check(&self.code, seed + count, count).changed;
        }
        assert!(compared.changed >= least, "too little was compared: {compared:?}");
    }
}

/// Two vectors, one of them perhaps a number: each kind of operand.
fn pairs(written: &mut Written, seed: u64) -> Vec<(Id, Id)> {
    let (a, b) = (written.column(0), written.column(1));
    let shared = written.add(Op::ContextWord(world::shared(seed as usize % world::SHARED)));
    let number = written.constant(Chance(seed).value());
    vec![(a, b), (b, a), (a, number), (number, b), (a, shared), (shared, a), (number, shared), (a, a)]
}

#[test]
fn arithmetic() {
    if unsupported() {
        return;
    }
    for op in [Op::Add, Op::Sub, Op::Mul, Op::And, Op::Or, Op::Xor, Op::ShlBy, Op::ShrBy] {
        for seed in 0..4 {
            let mut written = Written::new();
            for (a, b) in pairs(&mut written, seed) {
                written.try_vector(op(a, b));
                let few = written.constant(70);
                let small = written.add(Op::And(b, few));
                written.try_vector(op(a, small));
                let lower = written.add(Op::Shr(a, 32));
                written.try_vector(op(lower, small));
            }
            written.check(seed, 10_000);
        }
    }
}

#[test]
fn quotients_and_products_without_carries() {
    if unsupported() {
        return;
    }
    for seed in 0..20 {
        let mut written = Written::new();
        for (a, b) in pairs(&mut written, seed) {
            for by in [0, 1, u64::MAX, 0x1_db71_0641, 0x9e37_79b9_7f4a_7c15] {
                written.try_vector(Op::Carryless(a, by, false));
                written.try_vector(Op::Carryless(b, by, true));
            }
            let one = written.constant(1);
            for (a_shift, b_shift) in [(32, 32), (32, 60), (50, 33), (33, 63), (40, 40)] {
                let (a, b) = (written.add(Op::Shr(a, a_shift)), written.add(Op::Shr(b, b_shift)));
                let b = written.add(Op::Or(b, one));
                written.try_vector(Op::Quotient(a, b));
            }
        }
        written.check(seed, 10_000);
    }
}

#[test]
fn shifts() {
    if unsupported() {
        return;
    }
    for by in 0..64 {
        let mut written = Written::new();
        let (a, shared) = (written.column(0), written.add(Op::ContextWord(world::shared(1))));
        let mask = written.some(1);
        for op in [Op::Shl, Op::Shr, Op::Sar, Op::Rotl64] {
            written.try_vector(op(a, by));
            written.try_vector(op(shared, by));
            let shifted = written.add(op(a, by));
            let other = written.column(2);
            written.try_vector(Op::Blend(mask, shifted, other));
        }
        let lower = written.add(Op::Shr(a, 32));
        written.try_vector(Op::Rotl32(lower, by % 32));
        written.check(u64::from(by), 3_000);
    }
}

#[test]
fn bytes_and_words() {
    if unsupported() {
        return;
    }
    for seed in 0..20 {
        let mut chance = Chance(seed);
        let mut written = Written::new();
        for number in 0..5 {
            let a = written.column(number);
            for _ in 0..8 {
                written.try_vector(Op::Bytes(a, bytes(&mut chance)));
            }
        }
        written.check(seed, 10_000);
    }
}

#[test]
fn sources() {
    if unsupported() {
        return;
    }
    let mut written = Written::new();
    for value in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        written.try_vector(Op::Const(value));
    }
    written.try_vector(Op::Position);
    written.try_vector(Op::Column(world::column(3)));
    written.try_vector(Op::ContextWord(world::shared(3)));
    for bytes in [1, 2, 4, 8] {
        for offset in [0, 1, 77, 4000] {
            written.try_vector(Op::Pointed { pointer: world::TABLE_AT, offset, bytes });
        }
    }
    written.check(1, 10_000);
}

#[test]
fn blends() {
    if unsupported() {
        return;
    }
    for seed in 0..4 {
        let mut written = Written::new();
        let mask = written.some(2);
        let zero = written.constant(0);
        for (a, b) in pairs(&mut written, seed) {
            for (one, other) in [(a, b), (a, zero), (zero, b)] {
                written.try_vector(Op::Blend(mask, one, other));
                let sum = written.add(Op::Add(a, b));
                written.try_vector(Op::Blend(mask, sum, other));
                let either = written.add(Op::Or(a, one));
                let three = written.add(Op::Xor(either, other));
                written.try_vector(Op::Blend(mask, three, other));
            }
        }
        written.check(seed, 10_000);
    }
}

#[test]
fn conditions() {
    if unsupported() {
        return;
    }
    let conds = [Cond::Equal, Cond::NotEqual, Cond::Less, Cond::LessOrEqual, Cond::SignedLess, Cond::SignedLessOrEqual];
    for cond in conds {
        for seed in 0..6 {
            let mut written = Written::new();
            let mask = written.some(4);
            let numbers = [0, 1 << (9 * seed)].map(|number| written.constant(number));
            let mut all = pairs(&mut written, seed);
            let (a, _) = all[0];
            let bit = written.add(Op::And(a, numbers[1]));
            all.extend([(a, numbers[0]), (numbers[0], a), (bit, numbers[0]), (bit, numbers[1])]);
            for (a, b) in all {
                written.try_mask(Op::Compare(cond, a, b));
                let holds = written.add(Op::Compare(cond, a, b));
                written.try_mask(Op::Both(mask, holds));
                let holds = written.add(Op::Compare(cond, a, b));
                written.try_mask(Op::Without(mask, holds));
                let masked = written.add(Op::And(a, numbers[1]));
                let holds = written.add(Op::Compare(cond, masked, numbers[0]));
                written.try_mask(Op::Not(holds));
                let common = written.add(Op::And(a, b));
                let zero = written.constant(0);
                let holds = written.add(Op::Compare(Cond::NotEqual, common, zero));
                let not = written.add(Op::Not(holds));
                written.try_mask(Op::Both(not, mask));
            }
            written.check(seed, 10_000);
        }
    }
}

#[test]
fn masks() {
    if unsupported() {
        return;
    }
    let mut written = Written::new();
    let (a, b) = (written.some(0), written.some(1));
    for op in [Op::Both, Op::Either, Op::OneOf, Op::Without] {
        written.try_mask(op(a, b));
        written.try_mask(op(b, a));
    }
    written.try_mask(Op::Not(a));
    written.try_mask(Op::Certain(true));
    written.try_mask(Op::Certain(false));
    written.try_mask(Op::Active);
    written.check(5, 5_000);
}

#[test]
fn trees_of_bits() {
    if unsupported() {
        return;
    }
    // Each tree of three operations over four leaves, which may be the same.
    let ops = [Op::And, Op::Or, Op::Xor];
    for kind in 0..27 {
        let [first, second, root] = [kind % 3, kind / 3 % 3, kind / 9].map(|op| ops[op]);
        let mut written = Written::new();
        let (x, y, w) = (written.column(0), written.column(1), written.column(2));
        let c = written.constant(0x00ff_1234_ffff_0f0f);
        let not_c = written.constant(!0x00ff_1234_ffff_0f0f);
        let (zero, ones) = (written.constant(0), written.constant(u64::MAX));
        let leaves = [[x, c, y, not_c], [x, not_c, y, c], [x, y, x, w], [x, ones, y, w], [x, ones, y, ones]];
        for [a, b, d, e] in [leaves.as_slice(), &[[x, zero, y, w], [c, x, x, y], [x, y, c, y]]].concat() {
            let (left, right) = (written.add(first(a, b)), written.add(second(d, e)));
            written.try_vector(root(left, right));
            let (left, right) = (written.add(first(a, b)), written.add(second(d, e)));
            written.try_vector(root(right, left));
        }
        written.check(kind as u64, 5_000);
    }
}

#[test]
fn what_is_not_well_formed_is_refused() {
    let cases: Vec<Vec<Op>> = vec![
        vec![Op::Position, Op::Shl(Id(0), 64)],
        vec![Op::Add(Id(0), Id(0))],
        vec![Op::Active, Op::Add(Id(0), Id(0))],
        vec![Op::Position, Op::Not(Id(0))],
        vec![Op::Position, Op::Word(Id(0), 0)],
        vec![Op::Rows { pointers: 0, offset: 0, bytes: 65 }],
        vec![Op::Position, Op::Write { pointers: Id(0), offset: 0, bytes: 0x100, words: vec![Id(0)] }],
    ];
    for ops in cases {
        let last = Id(ops.len() as u32 - 1);
        assert!(matches!(emit(&Code { ops }), Err(EmitError::Form(id)) if id == last));
    }
}
