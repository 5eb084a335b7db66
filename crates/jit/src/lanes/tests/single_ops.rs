//! Tests of single operations in all their forms.

use super::random_inputs::{Chance, bytes};
use super::{Compared, check, unsupported, world};
use crate::lanes::assemble::VectorEmitError;
use crate::lanes::emit::emit;
use crate::lanes::ir::{LaneCompare, OpId, VectorCode, VectorOp};

/// Code that is listed operation by operation.
#[derive(Default)]
pub struct ListedCode {
    pub code: VectorCode,
    shown: usize,
}

impl ListedCode {
    pub fn new() -> ListedCode {
        let mut written = ListedCode::default();
        written.add(VectorOp::Active);
        written
    }

    pub fn add(&mut self, op: VectorOp) -> OpId {
        self.code.ops.push(op);
        OpId(self.code.ops.len() as u32 - 1)
    }

    /// Adds a load from one of the lists with numbers of all sizes.
    pub fn column(&mut self, number: usize) -> OpId {
        self.add(VectorOp::Column(world::column(number)))
    }

    pub fn constant(&mut self, value: u64) -> OpId {
        self.add(VectorOp::Const(value))
    }

    /// Adds a random mask.
    pub fn random_mask(&mut self, number: usize) -> OpId {
        let (a, b) = (self.column(number), self.constant(u64::MAX / 2));
        self.add(VectorOp::Compare(LaneCompare::Less, a, b))
    }

    /// Stores a vector where it is compared.
    pub fn show(&mut self, value: OpId) {
        let index = self.add(VectorOp::Position);
        let list = world::shown(self.shown);
        self.shown += 1;
        self.add(VectorOp::Scatter { list, index, mask: OpId(0), value });
    }

    /// Adds an operation and shows its result.
    pub fn try_vector(&mut self, op: VectorOp) {
        let value = self.add(op);
        self.show(value);
    }

    pub fn try_mask(&mut self, op: VectorOp) {
        let mask = self.add(op);
        self.try_vector(VectorOp::Number(mask));
    }

    /// Compares for several numbers of packets; at least `least` bytes must change.
    pub fn check(&self, seed: u64, least: usize) {
        let mut compared = Compared::default();
        for count in [1, 7, 8, 9, 33, 40] {
            compared.changed += check(&self.code, seed + count, count).changed;
        }
        assert!(compared.changed >= least, "too little was compared: {compared:?}");
    }
}

/// Returns pairs of vectors, some of them constants, for each kind of operand.
fn pairs(written: &mut ListedCode, seed: u64) -> Vec<(OpId, OpId)> {
    let (a, b) = (written.column(0), written.column(1));
    let shared = written.add(VectorOp::ContextWord(world::shared(seed as usize % world::SHARED)));
    let number = written.constant(Chance(seed).value());
    vec![(a, b), (b, a), (a, number), (number, b), (a, shared), (shared, a), (number, shared), (a, a)]
}

#[test]
fn arithmetic() {
    if unsupported() {
        return;
    }
    for op in [
        VectorOp::Add,
        VectorOp::Sub,
        VectorOp::Mul,
        VectorOp::And,
        VectorOp::Or,
        VectorOp::Xor,
        VectorOp::ShlBy,
        VectorOp::ShrBy,
    ] {
        for seed in 0..4 {
            let mut written = ListedCode::new();
            for (a, b) in pairs(&mut written, seed) {
                written.try_vector(op(a, b));
                let few = written.constant(70);
                let small = written.add(VectorOp::And(b, few));
                written.try_vector(op(a, small));
                let lower = written.add(VectorOp::Shr(a, 32));
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
        let mut written = ListedCode::new();
        for (a, b) in pairs(&mut written, seed) {
            for by in [0, 1, u64::MAX, 0x1_db71_0641, 0x9e37_79b9_7f4a_7c15] {
                written.try_vector(VectorOp::Carryless(a, by, false));
                written.try_vector(VectorOp::Carryless(b, by, true));
            }
            let one = written.constant(1);
            for (a_shift, b_shift) in [(32, 32), (32, 60), (50, 33), (33, 63), (40, 40)] {
                let (a, b) = (written.add(VectorOp::Shr(a, a_shift)), written.add(VectorOp::Shr(b, b_shift)));
                let b = written.add(VectorOp::Or(b, one));
                written.try_vector(VectorOp::Quotient(a, b));
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
        let mut written = ListedCode::new();
        let (a, shared) = (written.column(0), written.add(VectorOp::ContextWord(world::shared(1))));
        let mask = written.random_mask(1);
        for op in [VectorOp::Shl, VectorOp::Shr, VectorOp::Sar, VectorOp::Rotl64] {
            written.try_vector(op(a, by));
            written.try_vector(op(shared, by));
            let shifted = written.add(op(a, by));
            let other = written.column(2);
            written.try_vector(VectorOp::Blend(mask, shifted, other));
        }
        let lower = written.add(VectorOp::Shr(a, 32));
        written.try_vector(VectorOp::Rotl32(lower, by % 32));
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
        let mut written = ListedCode::new();
        for number in 0..5 {
            let a = written.column(number);
            for _ in 0..8 {
                written.try_vector(VectorOp::Bytes(a, bytes(&mut chance)));
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
    let mut written = ListedCode::new();
    for value in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
        written.try_vector(VectorOp::Const(value));
    }
    written.try_vector(VectorOp::Position);
    written.try_vector(VectorOp::Column(world::column(3)));
    written.try_vector(VectorOp::ContextWord(world::shared(3)));
    for bytes in [1, 2, 4, 8] {
        for offset in [0, 1, 77, 4000] {
            written.try_vector(VectorOp::Pointed { pointer: world::TABLE_AT, offset, bytes });
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
        let mut written = ListedCode::new();
        let mask = written.random_mask(2);
        let zero = written.constant(0);
        for (a, b) in pairs(&mut written, seed) {
            for (one, other) in [(a, b), (a, zero), (zero, b)] {
                written.try_vector(VectorOp::Blend(mask, one, other));
                let sum = written.add(VectorOp::Add(a, b));
                written.try_vector(VectorOp::Blend(mask, sum, other));
                let either = written.add(VectorOp::Or(a, one));
                let three = written.add(VectorOp::Xor(either, other));
                written.try_vector(VectorOp::Blend(mask, three, other));
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
    let conds = [
        LaneCompare::Equal,
        LaneCompare::NotEqual,
        LaneCompare::Less,
        LaneCompare::LessOrEqual,
        LaneCompare::SignedLess,
        LaneCompare::SignedLessOrEqual,
    ];
    for cond in conds {
        for seed in 0..6 {
            let mut written = ListedCode::new();
            let mask = written.random_mask(4);
            let numbers = [0, 1 << (9 * seed)].map(|number| written.constant(number));
            let mut all = pairs(&mut written, seed);
            let (a, _) = all[0];
            let bit = written.add(VectorOp::And(a, numbers[1]));
            all.extend([(a, numbers[0]), (numbers[0], a), (bit, numbers[0]), (bit, numbers[1])]);
            for (a, b) in all {
                written.try_mask(VectorOp::Compare(cond, a, b));
                let holds = written.add(VectorOp::Compare(cond, a, b));
                written.try_mask(VectorOp::Both(mask, holds));
                let holds = written.add(VectorOp::Compare(cond, a, b));
                written.try_mask(VectorOp::Without(mask, holds));
                let masked = written.add(VectorOp::And(a, numbers[1]));
                let holds = written.add(VectorOp::Compare(cond, masked, numbers[0]));
                written.try_mask(VectorOp::Not(holds));
                let common = written.add(VectorOp::And(a, b));
                let zero = written.constant(0);
                let holds = written.add(VectorOp::Compare(LaneCompare::NotEqual, common, zero));
                let not = written.add(VectorOp::Not(holds));
                written.try_mask(VectorOp::Both(not, mask));
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
    let mut written = ListedCode::new();
    let (a, b) = (written.random_mask(0), written.random_mask(1));
    for op in [VectorOp::Both, VectorOp::Either, VectorOp::OneOf, VectorOp::Without] {
        written.try_mask(op(a, b));
        written.try_mask(op(b, a));
    }
    written.try_mask(VectorOp::Not(a));
    written.try_mask(VectorOp::Certain(true));
    written.try_mask(VectorOp::Certain(false));
    written.try_mask(VectorOp::Active);
    written.check(5, 5_000);
}

#[test]
fn trees_of_bits() {
    if unsupported() {
        return;
    }
    // Each tree of three operations over four leaves, which may be equal.
    let ops = [VectorOp::And, VectorOp::Or, VectorOp::Xor];
    for kind in 0..27 {
        let [first, second, root] = [kind % 3, kind / 3 % 3, kind / 9].map(|op| ops[op]);
        let mut written = ListedCode::new();
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
    let cases: Vec<Vec<VectorOp>> = vec![
        vec![VectorOp::Position, VectorOp::Shl(OpId(0), 64)],
        vec![VectorOp::Add(OpId(0), OpId(0))],
        vec![VectorOp::Active, VectorOp::Add(OpId(0), OpId(0))],
        vec![VectorOp::Position, VectorOp::Not(OpId(0))],
        vec![VectorOp::Position, VectorOp::Word(OpId(0), 0)],
        vec![VectorOp::Rows { pointers: 0, offset: 0, bytes: 65 }],
        vec![VectorOp::Position, VectorOp::Write { pointers: OpId(0), offset: 0, bytes: 0x100, words: vec![OpId(0)] }],
    ];
    for ops in cases {
        let last = OpId(ops.len() as u32 - 1);
        assert!(matches!(emit(&VectorCode { ops }), Err(VectorEmitError::Form(id)) if id == last));
    }
}
