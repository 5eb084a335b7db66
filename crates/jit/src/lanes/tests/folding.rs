//! Tests of the builder: random operations, both listed unchanged and folded, evaluate to the same
//! results.

use super::random_inputs::{Chance, bytes};
use super::single_ops::ListedCode;
use super::world::{self, TestMemory};
use super::{listed, oracle};
use crate::lanes::balance::balance_masks;
use crate::lanes::build::VectorBuilder;
use crate::lanes::ir::{LaneCompare, OpId, VectorCode, VectorOp};

const CONDS: [LaneCompare; 6] = [
    LaneCompare::Equal,
    LaneCompare::NotEqual,
    LaneCompare::Less,
    LaneCompare::LessOrEqual,
    LaneCompare::SignedLess,
    LaneCompare::SignedLessOrEqual,
];

/// The same operations twice: unchanged, and by the builder.
struct BuiltTwice {
    written: ListedCode,
    builder: VectorBuilder,
    vectors: Vec<[OpId; 2]>,
    masks: Vec<[OpId; 2]>,
}

impl BuiltTwice {
    fn new() -> BuiltTwice {
        let mut twice = BuiltTwice {
            written: ListedCode::new(),
            builder: VectorBuilder::default(),
            vectors: Vec::new(),
            masks: Vec::new(),
        };
        for number in 0..world::COLUMNS {
            let column = VectorOp::Column(world::column(number));
            twice.vectors.push([twice.written.add(column.clone()), twice.builder.add_pure(column)]);
        }
        twice.masks.push([OpId(0), twice.builder.active_lanes()]);
        twice
    }

    /// Adds a constant of few bits, so that tested conditions hold sometimes.
    fn constant(&mut self, chance: &mut Chance) -> [OpId; 2] {
        let number = match chance.below(3) {
            0 => chance.value(),
            1 => chance.next() % 4,
            _ => 0xff << (8 * chance.below(8)),
        };
        [self.written.constant(number), self.builder.constant(number)]
    }

    fn vector(&mut self, chance: &mut Chance) {
        let [[a, x], [b, y]] = [chance.pick(&self.vectors), chance.pick(&self.vectors)];
        let [b, y] = if chance.one_in(3) { self.constant(chance) } else { [b, y] };
        let mask = chance.pick(&self.masks);
        let (by, pattern) = (chance.below(64) as u8, bytes(chance));
        let by = if chance.one_in(2) { by & !7 } else { by };
        let to = &mut self.builder;
        let (op, made) = match chance.below(10) {
            0 => (VectorOp::And(a, b), to.and(x, y)),
            1 => (VectorOp::Or(a, b), to.or(x, y)),
            2 => (VectorOp::Xor(a, b), to.xor(x, y)),
            3 => (VectorOp::Add(a, b), to.sum(x, y)),
            4 => (VectorOp::Sub(a, b), to.difference(x, y)),
            5 => (VectorOp::Mul(a, b), to.product(x, y)),
            6 => (VectorOp::Shl(a, by), to.shl(x, u32::from(by))),
            7 => (VectorOp::Shr(a, by), to.shr(x, u32::from(by))),
            8 => (VectorOp::Bytes(a, pattern), to.permute_bytes(x, pattern)),
            _ if chance.one_in(4) => (VectorOp::Number(mask[0]), to.mask_to_vector(mask[1])),
            _ => (VectorOp::Blend(mask[0], a, b), to.blend(mask[1], x, y)),
        };
        let op = self.written.add(op);
        self.vectors.push([op, made]);
    }

    fn mask(&mut self, chance: &mut Chance) {
        let [[a, x], [b, y]] = [chance.pick(&self.masks), chance.pick(&self.masks)];
        let to = &mut self.builder;
        let (op, made) = match chance.below(9) {
            0 => (VectorOp::Both(a, b), to.mask_and(x, y)),
            1 => (VectorOp::Either(a, b), to.mask_or(x, y)),
            2 => (VectorOp::OneOf(a, b), to.mask_xor(x, y)),
            3 => (VectorOp::Without(a, b), to.mask_and_not(x, y)),
            4 => (VectorOp::Not(a), to.mask_not(x)),
            5 => (VectorOp::Either(a, b), to.mask_union(&[x, y])),
            _ => {
                let cond = if chance.one_in(2) { LaneCompare::Equal } else { chance.pick(&CONDS) };
                let [a, x] = chance.pick(&self.vectors);
                let [b, y] = if chance.one_in(8) { chance.pick(&self.vectors) } else { self.constant(chance) };
                (VectorOp::Compare(cond, a, b), self.builder.compare(cond, x, y))
            }
        };
        let op = self.written.add(op);
        self.masks.push([op, made]);
    }

    /// Adds tests of bits of one word, one after the other.
    fn row(&mut self, chance: &mut Chance) {
        let [word, x] = chance.pick(&self.vectors);
        let [mut all, mut made] = chance.pick(&self.masks);
        for _ in 0..3 {
            let (at, wanted) = (chance.below(8), chance.next() % 2);
            let pattern = std::array::from_fn(|place| if place == 0 { at as u8 } else { crate::lanes::ir::ZERO_BYTE });
            let (byte, one) = (self.written.add(VectorOp::Bytes(word, pattern)), self.written.constant(1));
            let bit = self.written.add(VectorOp::And(byte, one));
            let number = self.written.constant(wanted);
            let holds = self.written.add(VectorOp::Compare(LaneCompare::Equal, bit, number));
            all = self.written.add(VectorOp::Both(all, holds));
            let (byte, one) = (self.builder.permute_bytes(x, pattern), self.builder.constant(1));
            let bit = self.builder.and(byte, one);
            let number = self.builder.constant(wanted);
            let holds = self.builder.compare(LaneCompare::Equal, bit, number);
            made = self.builder.mask_and(made, holds);
        }
        self.masks.push([all, made]);
    }

    /// Shows some of all results, in both.
    fn shown(mut self, chance: &mut Chance) -> [VectorCode; 2] {
        let position = self.builder.add_pure(VectorOp::Position);
        let active = self.builder.active_lanes();
        for place in 0..world::SHOWN {
            let [op, made] = match chance.one_in(2) {
                true => chance.pick(&self.vectors),
                false => {
                    let [op, made] = chance.pick(&self.masks);
                    [self.written.add(VectorOp::Number(op)), self.builder.mask_to_vector(made)]
                }
            };
            self.written.show(op);
            let list = world::shown(place);
            self.builder.add_effect(VectorOp::Scatter { list, index: position, mask: active, value: made });
        }
        [self.written.code, balance_masks(self.builder.finish())]
    }
}

#[test]
fn what_is_folded_is_the_same() {
    let first = std::env::var("LANES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1u64);
    println!("LANES_SEED={first}");
    let mut changed = 0;
    for seed in first..first + 600 {
        let mut chance = Chance(seed);
        let mut twice = BuiltTwice::new();
        for _ in 0..chance.below(120) + 10 {
            match chance.below(8) {
                0 => twice.row(&mut chance),
                1..=3 => twice.mask(&mut chance),
                _ => twice.vector(&mut chance),
            }
        }
        let [written, folded] = twice.shown(&mut chance);
        let world = TestMemory::new(&mut chance);
        let before = world.snapshot();
        let [mut expected, mut found] = [before.clone(), before.clone()];
        oracle::run(&written, &mut expected, world.context(), 40);
        oracle::run(&folded, &mut found, world.context(), 40);
        for (((_, old), (_, expected)), (_, found)) in before.regions().zip(expected.regions()).zip(found.regions()) {
            changed += old.iter().zip(expected).filter(|(old, new)| old != new).count();
            let same = expected == found;
            assert!(same, "LANES_SEED={seed}\nwritten\n{}folded\n{}", listed(&written), listed(&folded));
        }
    }
    assert!(changed > 1_000_000, "only {changed} bytes were changed");
}
