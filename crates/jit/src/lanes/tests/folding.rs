//! What the builder makes of operations is what they say: the same by chance, written down as it is and folded, put into rows of masks and carried out by the evaluator.

use super::chance::{Chance, bytes};
use super::each::Written;
use super::world::{self, World};
use super::{listed, oracle};
use crate::lanes::balance::balanced;
use crate::lanes::build::Builder;
use crate::lanes::ir::{Code, Cond, Id, Op};

const CONDS: [Cond; 6] =
    [Cond::Equal, Cond::NotEqual, Cond::Less, Cond::LessOrEqual, Cond::SignedLess, Cond::SignedLessOrEqual];

/// The same made twice: as it is written, and by the builder.
struct Twice {
    written: Written,
    builder: Builder,
    vectors: Vec<[Id; 2]>,
    masks: Vec<[Id; 2]>,
}

impl Twice {
    fn new() -> Twice {
        let mut twice =
            Twice { written: Written::new(), builder: Builder::default(), vectors: Vec::new(), masks: Vec::new() };
        for number in 0..world::COLUMNS {
            let column = Op::Column(world::column(number));
            twice.vectors.push([twice.written.add(column.clone()), twice.builder.plain(column)]);
        }
        twice.masks.push([Id(0), twice.builder.active()]);
        twice
    }

    /// A number of few bits, so that what is asked for is there now and then.
    fn constant(&mut self, chance: &mut Chance) -> [Id; 2] {
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
            0 => (Op::And(a, b), to.and(x, y)),
            1 => (Op::Or(a, b), to.or(x, y)),
            2 => (Op::Xor(a, b), to.xor(x, y)),
            3 => (Op::Add(a, b), to.sum(x, y)),
            4 => (Op::Sub(a, b), to.difference(x, y)),
            5 => (Op::Mul(a, b), to.product(x, y)),
            6 => (Op::Shl(a, by), to.shl(x, u32::from(by))),
            7 => (Op::Shr(a, by), to.shr(x, u32::from(by))),
            8 => (Op::Bytes(a, pattern), to.bytes(x, pattern)),
            _ if chance.one_in(4) => (Op::Number(mask[0]), to.number(mask[1])),
            _ => (Op::Blend(mask[0], a, b), to.blend(mask[1], x, y)),
        };
        let op = self.written.add(op);
        self.vectors.push([op, made]);
    }

    fn mask(&mut self, chance: &mut Chance) {
        let [[a, x], [b, y]] = [chance.pick(&self.masks), chance.pick(&self.masks)];
        let to = &mut self.builder;
        let (op, made) = match chance.below(9) {
            0 => (Op::Both(a, b), to.both(x, y)),
            1 => (Op::Either(a, b), to.either(x, y)),
            2 => (Op::OneOf(a, b), to.one_of(x, y)),
            3 => (Op::Without(a, b), to.without(x, y)),
            4 => (Op::Not(a), to.not(x)),
            5 => (Op::Either(a, b), to.any(&[x, y])),
            _ => {
                let cond = if chance.one_in(2) { Cond::Equal } else { chance.pick(&CONDS) };
                let [a, x] = chance.pick(&self.vectors);
                let [b, y] = if chance.one_in(8) { chance.pick(&self.vectors) } else { self.constant(chance) };
                (Op::Compare(cond, a, b), self.builder.compare(cond, x, y))
            }
        };
        let op = self.written.add(op);
        self.masks.push([op, made]);
    }

    /// Bits of one word, asked for one after the other.
    fn row(&mut self, chance: &mut Chance) {
        let [word, x] = chance.pick(&self.vectors);
        let [mut all, mut made] = chance.pick(&self.masks);
        for _ in 0..3 {
            let (at, wanted) = (chance.below(8), chance.next() % 2);
            let pattern = std::array::from_fn(|place| if place == 0 { at as u8 } else { crate::lanes::ir::ZERO_BYTE });
            let (byte, one) = (self.written.add(Op::Bytes(word, pattern)), self.written.constant(1));
            let bit = self.written.add(Op::And(byte, one));
            let number = self.written.constant(wanted);
            let holds = self.written.add(Op::Compare(Cond::Equal, bit, number));
            all = self.written.add(Op::Both(all, holds));
            let (byte, one) = (self.builder.bytes(x, pattern), self.builder.constant(1));
            let bit = self.builder.and(byte, one);
            let number = self.builder.constant(wanted);
            let holds = self.builder.compare(Cond::Equal, bit, number);
            made = self.builder.both(made, holds);
        }
        self.masks.push([all, made]);
    }

    /// Shows some of all that was made, in both.
    fn shown(mut self, chance: &mut Chance) -> [Code; 2] {
        let position = self.builder.plain(Op::Position);
        let active = self.builder.active();
        for place in 0..world::SHOWN {
            let [op, made] = match chance.one_in(2) {
                true => chance.pick(&self.vectors),
                false => {
                    let [op, made] = chance.pick(&self.masks);
                    [self.written.add(Op::Number(op)), self.builder.number(made)]
                }
            };
            self.written.show(op);
            let list = world::shown(place);
            self.builder.effect(Op::Scatter { list, index: position, mask: active, value: made });
        }
        [self.written.code, balanced(self.builder.finish())]
    }
}

#[test]
fn what_is_folded_is_the_same() {
    let first = std::env::var("LANES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1u64);
    println!("LANES_SEED={first}");
    let mut changed = 0;
    for seed in first..first + 600 {
        let mut chance = Chance(seed);
        let mut twice = Twice::new();
        for _ in 0..chance.below(120) + 10 {
            match chance.below(8) {
                0 => twice.row(&mut chance),
                1..=3 => twice.mask(&mut chance),
                _ => twice.vector(&mut chance),
            }
        }
        let [written, folded] = twice.shown(&mut chance);
        let world = World::new(&mut chance);
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
