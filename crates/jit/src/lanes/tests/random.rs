//! Programs by chance: some hundred operations, with more values and masks alive than there are registers.

use super::chance::{Chance, bytes, named};
use super::world::{self, COLUMNS, KEY_WORDS, OFFSETS, POINTERS, SCATTERED, SETS, SHARED, SHOWN, SUMS};
use super::{Compared, check, unsupported};
use crate::lanes::ir::{Code, Cond, Id, Op};

/// How many programs.
const PROGRAMS: u64 = 400;
/// What of memory they have to change together at least, in bytes.
const LEAST: usize = 5_000_000;

#[test]
fn programs_by_chance() {
    if unsupported() {
        return;
    }
    let first = std::env::var("LANES_SEED").ok().and_then(|seed| seed.parse().ok());
    let programs = std::env::var("LANES_PROGRAMS").ok().and_then(|programs| programs.parse().ok());
    let first = first.unwrap_or(1);
    let mut compared = Compared::default();
    for seed in first..first + programs.unwrap_or(PROGRAMS) {
        let mut chance = Chance(seed.wrapping_mul(0x1234_5678_9abc_def1));
        let code = program(&mut chance);
        for _ in 0..3 {
            let count = 1 + chance.next() % 40;
            compared.changed += check(&code, seed, count).changed;
        }
    }
    eprintln!("seeds from {first} on: {} bytes changed and compared", compared.changed);
    assert!(compared.changed >= LEAST || programs.is_some(), "too little was compared: {compared:?}");
}

/// A program under way.
struct Maker<'a> {
    chance: &'a mut Chance,
    ops: Vec<Op>,
    vectors: Vec<Id>,
    masks: Vec<Id>,
    /// Shapes of the sets that are appended to, once they are settled.
    shapes: [Option<(usize, Vec<usize>)>; SETS],
    /// How often each was appended to: its lists are only so long.
    appended: [usize; SETS],
}

fn program(chance: &mut Chance) -> Code {
    let length = 50 + chance.below(350);
    // Some look far back, so that much stays alive.
    let far = chance.one_in(2);
    let mut maker = Maker {
        chance,
        ops: Vec::new(),
        vectors: Vec::new(),
        masks: Vec::new(),
        shapes: Default::default(),
        appended: [0; SETS],
    };
    let active = maker.add(Op::Active);
    maker.masks.push(active);
    for number in 0..3 {
        let id = maker.add(Op::Column(world::column(number)));
        maker.vectors.push(id);
    }
    while maker.ops.len() < length {
        maker.some(far);
    }
    maker.show(active);
    Code { ops: maker.ops }
}

impl Maker<'_> {
    fn add(&mut self, op: Op) -> Id {
        self.ops.push(op);
        Id(self.ops.len() as u32 - 1)
    }

    fn vector(&mut self, far: bool) -> Id {
        recent(self.chance, &self.vectors, far)
    }

    fn mask(&mut self, far: bool) -> Id {
        recent(self.chance, &self.masks, far)
    }

    fn some(&mut self, far: bool) {
        match self.chance.below(20) {
            0..=9 => {
                let op = self.arithmetic(far);
                let id = self.add(op);
                self.vectors.push(id);
            }
            10..=13 => {
                let op = self.of_masks(far);
                let id = self.add(op);
                self.masks.push(id);
            }
            14 => {
                let op = self.source();
                let id = self.add(op);
                self.vectors.push(id);
            }
            15 => self.logic(far),
            16 => self.gather(far),
            17 => self.rows(),
            18 => self.merge(far),
            _ => self.effect(far),
        }
    }

    fn arithmetic(&mut self, far: bool) -> Op {
        let (a, mut b) = (self.vector(far), self.vector(far));
        if self.chance.one_in(3) {
            b = self.constant();
        }
        let (a, b) = if self.chance.one_in(4) { (b, a) } else { (a, b) };
        let by = self.chance.below(64) as u8;
        match self.chance.below(15) {
            0 => Op::Add(a, b),
            1 => Op::Sub(a, b),
            2 => Op::Mul(a, b),
            3 => Op::And(a, b),
            4 => Op::Or(a, b),
            5 => Op::Xor(a, b),
            6 => Op::Shl(a, by),
            7 => Op::Shr(a, by),
            8 => Op::Sar(a, by),
            9 => Op::ShlBy(a, b),
            10 => Op::ShrBy(a, b),
            11 => Op::Rotl64(a, by),
            12 => Op::Rotl32(self.add(Op::Shr(a, 32)), by % 32),
            13 => Op::Bytes(a, bytes(self.chance)),
            _ => Op::Number(self.mask(far)),
        }
    }

    fn constant(&mut self) -> Id {
        let value = self.chance.value();
        self.add(Op::Const(value))
    }

    fn source(&mut self) -> Op {
        match self.chance.below(7) {
            0 => Op::Const(self.chance.value()),
            1 => Op::Position,
            2 => Op::Column(world::column(self.chance.below(COLUMNS))),
            3 => Op::Column(world::scattered(self.chance.below(SCATTERED))),
            4 => Op::ContextWord(world::shared(self.chance.below(SHARED))),
            5 => match self.chance.one_in(2) {
                true => Op::ContextWord(world::set_count(self.chance.below(SETS))),
                false => Op::ContextWord(world::sums(self.chance.below(SUMS)) + 8 * self.chance.below(8) as i32),
            },
            _ => Op::Pointed {
                pointer: world::TABLE_AT,
                offset: self.chance.below(4000) as i32,
                bytes: self.chance.pick(&[1, 2, 4, 8]),
            },
        }
    }

    fn of_masks(&mut self, far: bool) -> Op {
        let (a, b) = (self.mask(far), self.mask(far));
        match self.chance.below(14) {
            0 => Op::Both(a, b),
            1 => Op::Either(a, b),
            2 => Op::OneOf(a, b),
            3 => Op::Without(a, b),
            4 => Op::Not(a),
            5 => match self.chance.one_in(4) {
                true => Op::Certain(self.chance.one_in(2)),
                false => Op::Active,
            },
            6 => {
                let condition = self.condition(far);
                Op::Both(a, condition)
            }
            7 => {
                let condition = self.condition(far);
                Op::Both(condition, a)
            }
            8 => {
                let condition = self.condition(far);
                Op::Without(a, condition)
            }
            9 => {
                let condition = self.condition(far);
                let not = self.add(Op::Not(condition));
                Op::Both(not, a)
            }
            10 => {
                let not = self.add(Op::Not(a));
                Op::Both(b, not)
            }
            _ => {
                let condition = self.condition(far);
                Op::Not(condition)
            }
        }
    }

    /// A comparison. It is used by another operation only, except now and then.
    fn condition(&mut self, far: bool) -> Id {
        let conds =
            [Cond::Equal, Cond::NotEqual, Cond::Less, Cond::LessOrEqual, Cond::SignedLess, Cond::SignedLessOrEqual];
        let (mut a, mut b) = (self.vector(far), self.vector(far));
        let cond = self.chance.pick(&conds);
        match self.chance.below(6) {
            0 => b = self.constant(),
            1 => a = self.constant(),
            2 => b = self.add(Op::Const(0)),
            3 => {
                let bits = 1u64 << self.chance.below(64);
                let number = self.add(Op::Const(bits));
                a = self.add(Op::And(a, number));
                let wanted = if self.chance.one_in(2) { 0 } else { bits };
                b = self.add(Op::Const(wanted));
            }
            _ => {}
        }
        let id = self.add(Op::Compare(cond, a, b));
        if self.chance.one_in(3) {
            self.masks.push(id);
        }
        id
    }

    /// A tree of bits' operations, of which only the root is used again.
    fn logic(&mut self, far: bool) {
        let number = self.chance.value();
        let mut nodes: Vec<Id> = (0..2 + self.chance.below(4)).map(|_| self.vector(far)).collect();
        for _ in 0..self.chance.below(3) {
            let value = self.chance.pick(&[number, !number, 0, u64::MAX]);
            let id = self.add(Op::Const(value));
            nodes.push(id);
        }
        while nodes.len() > 1 {
            let a = nodes.swap_remove(self.chance.below(nodes.len()));
            let b = nodes.swap_remove(self.chance.below(nodes.len()));
            let op = match self.chance.below(3) {
                0 => Op::And(a, b),
                1 => Op::Or(a, b),
                _ => Op::Xor(a, b),
            };
            let id = self.add(op);
            nodes.push(id);
        }
        self.vectors.extend(nodes);
    }

    fn gather(&mut self, far: bool) {
        let (random, mask) = (self.vector(far), self.mask(far));
        let within = self.add(Op::Const(0xffc));
        let within = self.add(Op::And(random, within));
        let table = self.add(Op::ContextWord(world::TABLE_AT));
        let address = self.add(Op::Add(table, within));
        let (wild, extra) = (self.vector(far), self.chance.below(48) as i32);
        let base = self.add(Op::Blend(mask, address, wild));
        let bytes = self.chance.pick(&[4, 8]);
        let id = self.add(Op::Gather { base, offset: extra, bytes, mask });
        self.vectors.push(id);
    }

    fn rows(&mut self) {
        let pointers = world::pointers(self.chance.below(POINTERS));
        let bytes = 1 + self.chance.below(64) as u8;
        let bytes = if self.chance.one_in(2) { 64 } else { bytes };
        let offset = offset(self.chance);
        let rows = self.add(Op::Rows { pointers, offset, bytes });
        if self.chance.one_in(3) {
            self.effect(false);
        }
        for _ in 0..1 + self.chance.below(9) {
            let word = self.chance.below(8) as u8;
            let word = self.add(Op::Word(rows, word));
            self.vectors.push(word);
        }
    }

    fn merge(&mut self, far: bool) {
        let (mask, mut b) = (self.mask(far), self.vector(far));
        let mut a = self.vector(far);
        if self.chance.one_in(3) {
            b = self.add(Op::Const(0));
        }
        if self.chance.one_in(5) {
            a = self.constant();
        }
        if self.chance.one_in(2) {
            let op = self.arithmetic(far);
            a = self.add(op);
            if self.chance.one_in(3) {
                a = self.add(Op::Or(a, b));
            }
        }
        let id = self.add(Op::Blend(mask, a, b));
        self.vectors.push(id);
    }

    fn effect(&mut self, far: bool) {
        let mask = self.mask(far);
        let value = self.vector(far);
        let active = Id(0);
        match self.chance.below(8) {
            0 => {
                let value = if self.chance.one_in(2) { self.constant() } else { value };
                let at = world::sums(self.chance.below(SUMS));
                self.add(Op::Accumulate { at, mask, value });
            }
            1 => {
                let places = self.add(Op::Const(world::SCATTERED_PLACES as u64 - 1));
                let random = self.vector(far);
                let index = self.add(Op::And(random, places));
                let list = world::scattered(self.chance.below(SCATTERED));
                self.add(Op::Scatter { list, index, mask, value });
            }
            2 => {
                let index = self.add(Op::Position);
                let list = world::scattered(self.chance.below(SCATTERED));
                let mask = self.add(Op::Both(mask, active));
                self.add(Op::Scatter { list, index, mask, value });
            }
            3 | 4 => self.write(far),
            _ => self.append(far),
        }
    }

    fn write(&mut self, far: bool) {
        let list = world::pointers(self.chance.below(POINTERS));
        let mut pointers = self.add(Op::Column(list));
        if self.chance.one_in(2) {
            let more = self.chance.below(16) as u64;
            let more = self.add(Op::Const(more));
            pointers = self.add(Op::Add(pointers, more));
        }
        let bytes = named(self.chance);
        let words = (0..8).map(|_| self.vector(far)).collect();
        let offset = offset(self.chance);
        self.add(Op::Write { pointers, offset, bytes, words });
    }

    fn append(&mut self, far: bool) {
        let set = self.chance.below(SETS);
        if self.appended[set] == 2 {
            return;
        }
        self.appended[set] += 1;
        let mask = self.mask(far);
        let chance = &mut *self.chance;
        let (columns, keys) = self.shapes[set]
            .get_or_insert_with(|| {
                let keys = (0..chance.below(world::SET_LISTS + 1)).map(|_| match chance.one_in(3) {
                    true => 1 + chance.below(KEY_WORDS),
                    false => 1 + chance.below(2),
                });
                let keys = keys.collect();
                (chance.below(world::SET_LISTS + 1), keys)
            })
            .clone();
        let columns = (0..columns).map(|list| (world::set_list(set, list), self.vector(far))).collect();
        let keys = keys.into_iter().enumerate().map(|(list, words)| {
            let words = (0..words).map(|_| self.vector(far)).collect();
            (world::set_keys(set, list), words)
        });
        let keys = keys.collect();
        self.add(Op::Append { count: world::set_count(set), mask, columns, keys });
    }

    /// Puts values and masks from all over the program where they are compared.
    fn show(&mut self, active: Id) {
        let index = self.add(Op::Position);
        let shown = 20 + self.chance.below(SHOWN - 20);
        for place in 0..shown {
            let value = match self.chance.one_in(4) {
                true => {
                    let mask = self.mask(true);
                    self.add(Op::Number(mask))
                }
                false => self.vector(true),
            };
            let mask = if self.chance.one_in(2) { active } else { self.mask(true) };
            self.add(Op::Scatter { list: world::shown(place), index, mask, value });
        }
    }
}

/// One of the last, or any.
fn recent(chance: &mut Chance, from: &[Id], far: bool) -> Id {
    let last = if far || chance.one_in(6) { from.len() } else { from.len().min(8) };
    from[from.len() - 1 - chance.below(last)]
}

fn offset(chance: &mut Chance) -> i32 {
    OFFSETS.start + chance.below(OFFSETS.len()) as i32
}
