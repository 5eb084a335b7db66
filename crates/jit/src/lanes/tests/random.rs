//! Random programs: some hundred operations, with more live values and masks than registers.

use super::random_inputs::{Chance, bytes, named};
use super::world::{self, COLUMNS, KEY_WORDS, OFFSETS, POINTERS, SCATTERED, SETS, SHARED, SHOWN, SUMS};
use super::{Compared, check, unsupported};
use crate::lanes::ir::{LaneCompare, OpId, VectorCode, VectorOp};

/// Number of programs.
const PROGRAMS: u64 = 400;
/// Minimum number of bytes that they must change in total.
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

/// A program under construction.
struct ProgramBuilder<'a> {
    chance: &'a mut Chance,
    ops: Vec<VectorOp>,
    vectors: Vec<OpId>,
    masks: Vec<OpId>,
    /// Layouts of the sets that are appended to, once they are chosen.
    shapes: [Option<(usize, Vec<usize>)>; SETS],
    /// Number of appends to each set, because the lists have a fixed capacity.
    appended: [usize; SETS],
}

fn program(chance: &mut Chance) -> VectorCode {
    let length = 50 + chance.below(350);
    // Some programs use old values, which keeps many values live.
    let far = chance.one_in(2);
    let mut maker = ProgramBuilder {
        chance,
        ops: Vec::new(),
        vectors: Vec::new(),
        masks: Vec::new(),
        shapes: Default::default(),
        appended: [0; SETS],
    };
    let active = maker.add(VectorOp::Active);
    maker.masks.push(active);
    for number in 0..3 {
        let id = maker.add(VectorOp::Column(world::column(number)));
        maker.vectors.push(id);
    }
    while maker.ops.len() < length {
        maker.add_random_op(far);
    }
    maker.show(active);
    VectorCode { ops: maker.ops }
}

impl ProgramBuilder<'_> {
    fn add(&mut self, op: VectorOp) -> OpId {
        self.ops.push(op);
        OpId(self.ops.len() as u32 - 1)
    }

    fn vector(&mut self, far: bool) -> OpId {
        recent(self.chance, &self.vectors, far)
    }

    fn mask(&mut self, far: bool) -> OpId {
        recent(self.chance, &self.masks, far)
    }

    fn add_random_op(&mut self, far: bool) {
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

    fn arithmetic(&mut self, far: bool) -> VectorOp {
        let (a, mut b) = (self.vector(far), self.vector(far));
        if self.chance.one_in(3) {
            b = self.constant();
        }
        let (a, b) = if self.chance.one_in(4) { (b, a) } else { (a, b) };
        let by = self.chance.below(64) as u8;
        match self.chance.below(15) {
            0 => VectorOp::Add(a, b),
            1 => VectorOp::Sub(a, b),
            2 => VectorOp::Mul(a, b),
            3 => VectorOp::And(a, b),
            4 => VectorOp::Or(a, b),
            5 => VectorOp::Xor(a, b),
            6 => VectorOp::Shl(a, by),
            7 => VectorOp::Shr(a, by),
            8 => VectorOp::Sar(a, by),
            9 => VectorOp::ShlBy(a, b),
            10 => VectorOp::ShrBy(a, b),
            11 => VectorOp::Rotl64(a, by),
            12 => VectorOp::Rotl32(self.add(VectorOp::Shr(a, 32)), by % 32),
            13 => VectorOp::Bytes(a, bytes(self.chance)),
            _ => VectorOp::Number(self.mask(far)),
        }
    }

    fn constant(&mut self) -> OpId {
        let value = self.chance.value();
        self.add(VectorOp::Const(value))
    }

    fn source(&mut self) -> VectorOp {
        match self.chance.below(7) {
            0 => VectorOp::Const(self.chance.value()),
            1 => VectorOp::Position,
            2 => VectorOp::Column(world::column(self.chance.below(COLUMNS))),
            3 => VectorOp::Column(world::scattered(self.chance.below(SCATTERED))),
            4 => VectorOp::ContextWord(world::shared(self.chance.below(SHARED))),
            5 => match self.chance.one_in(2) {
                true => VectorOp::ContextWord(world::set_count(self.chance.below(SETS))),
                false => VectorOp::ContextWord(world::sums(self.chance.below(SUMS)) + 8 * self.chance.below(8) as i32),
            },
            _ => VectorOp::Pointed {
                pointer: world::TABLE_AT,
                offset: self.chance.below(4000) as i32,
                bytes: self.chance.pick(&[1, 2, 4, 8]),
            },
        }
    }

    fn of_masks(&mut self, far: bool) -> VectorOp {
        let (a, b) = (self.mask(far), self.mask(far));
        match self.chance.below(14) {
            0 => VectorOp::Both(a, b),
            1 => VectorOp::Either(a, b),
            2 => VectorOp::OneOf(a, b),
            3 => VectorOp::Without(a, b),
            4 => VectorOp::Not(a),
            5 => match self.chance.one_in(4) {
                true => VectorOp::Certain(self.chance.one_in(2)),
                false => VectorOp::Active,
            },
            6 => {
                let condition = self.condition(far);
                VectorOp::Both(a, condition)
            }
            7 => {
                let condition = self.condition(far);
                VectorOp::Both(condition, a)
            }
            8 => {
                let condition = self.condition(far);
                VectorOp::Without(a, condition)
            }
            9 => {
                let condition = self.condition(far);
                let not = self.add(VectorOp::Not(condition));
                VectorOp::Both(not, a)
            }
            10 => {
                let not = self.add(VectorOp::Not(a));
                VectorOp::Both(b, not)
            }
            _ => {
                let condition = self.condition(far);
                VectorOp::Not(condition)
            }
        }
    }

    /// Adds a comparison. Mostly it has a single use.
    fn condition(&mut self, far: bool) -> OpId {
        let conds = [
            LaneCompare::Equal,
            LaneCompare::NotEqual,
            LaneCompare::Less,
            LaneCompare::LessOrEqual,
            LaneCompare::SignedLess,
            LaneCompare::SignedLessOrEqual,
        ];
        let (mut a, mut b) = (self.vector(far), self.vector(far));
        let cond = self.chance.pick(&conds);
        match self.chance.below(6) {
            0 => b = self.constant(),
            1 => a = self.constant(),
            2 => b = self.add(VectorOp::Const(0)),
            3 => {
                let bits = 1u64 << self.chance.below(64);
                let number = self.add(VectorOp::Const(bits));
                a = self.add(VectorOp::And(a, number));
                let wanted = if self.chance.one_in(2) { 0 } else { bits };
                b = self.add(VectorOp::Const(wanted));
            }
            _ => {}
        }
        let id = self.add(VectorOp::Compare(cond, a, b));
        if self.chance.one_in(3) {
            self.masks.push(id);
        }
        id
    }

    /// Adds a tree of bitwise operations, of which only the root is used again.
    fn logic(&mut self, far: bool) {
        let number = self.chance.value();
        let mut nodes: Vec<OpId> = (0..2 + self.chance.below(4)).map(|_| self.vector(far)).collect();
        for _ in 0..self.chance.below(3) {
            let value = self.chance.pick(&[number, !number, 0, u64::MAX]);
            let id = self.add(VectorOp::Const(value));
            nodes.push(id);
        }
        while nodes.len() > 1 {
            let a = nodes.swap_remove(self.chance.below(nodes.len()));
            let b = nodes.swap_remove(self.chance.below(nodes.len()));
            let op = match self.chance.below(3) {
                0 => VectorOp::And(a, b),
                1 => VectorOp::Or(a, b),
                _ => VectorOp::Xor(a, b),
            };
            let id = self.add(op);
            nodes.push(id);
        }
        self.vectors.extend(nodes);
    }

    fn gather(&mut self, far: bool) {
        let (random, mask) = (self.vector(far), self.mask(far));
        let within = self.add(VectorOp::Const(0xffc));
        let within = self.add(VectorOp::And(random, within));
        let table = self.add(VectorOp::ContextWord(world::TABLE_AT));
        let address = self.add(VectorOp::Add(table, within));
        let (wild, extra) = (self.vector(far), self.chance.below(48) as i32);
        let base = self.add(VectorOp::Blend(mask, address, wild));
        let bytes = self.chance.pick(&[4, 8]);
        let id = self.add(VectorOp::Gather { base, offset: extra, bytes, mask });
        self.vectors.push(id);
    }

    fn rows(&mut self) {
        let pointers = world::pointers(self.chance.below(POINTERS));
        let bytes = 1 + self.chance.below(64) as u8;
        let bytes = if self.chance.one_in(2) { 64 } else { bytes };
        let offset = offset(self.chance);
        let rows = self.add(VectorOp::Rows { pointers, offset, bytes });
        if self.chance.one_in(3) {
            self.effect(false);
        }
        for _ in 0..1 + self.chance.below(9) {
            let word = self.chance.below(8) as u8;
            let word = self.add(VectorOp::Word(rows, word));
            self.vectors.push(word);
        }
    }

    fn merge(&mut self, far: bool) {
        let (mask, mut b) = (self.mask(far), self.vector(far));
        let mut a = self.vector(far);
        if self.chance.one_in(3) {
            b = self.add(VectorOp::Const(0));
        }
        if self.chance.one_in(5) {
            a = self.constant();
        }
        if self.chance.one_in(2) {
            let op = self.arithmetic(far);
            a = self.add(op);
            if self.chance.one_in(3) {
                a = self.add(VectorOp::Or(a, b));
            }
        }
        let id = self.add(VectorOp::Blend(mask, a, b));
        self.vectors.push(id);
    }

    fn effect(&mut self, far: bool) {
        let mask = self.mask(far);
        let value = self.vector(far);
        let active = OpId(0);
        match self.chance.below(8) {
            0 => {
                let value = if self.chance.one_in(2) { self.constant() } else { value };
                let at = world::sums(self.chance.below(SUMS));
                self.add(VectorOp::Accumulate { at, mask, value });
            }
            1 => {
                let places = self.add(VectorOp::Const(world::SCATTERED_PLACES as u64 - 1));
                let random = self.vector(far);
                let index = self.add(VectorOp::And(random, places));
                let list = world::scattered(self.chance.below(SCATTERED));
                self.add(VectorOp::Scatter { list, index, mask, value });
            }
            2 => {
                let index = self.add(VectorOp::Position);
                let list = world::scattered(self.chance.below(SCATTERED));
                let mask = self.add(VectorOp::Both(mask, active));
                self.add(VectorOp::Scatter { list, index, mask, value });
            }
            3 | 4 => self.write(far),
            _ => self.append(far),
        }
    }

    fn write(&mut self, far: bool) {
        let list = world::pointers(self.chance.below(POINTERS));
        let mut pointers = self.add(VectorOp::Column(list));
        if self.chance.one_in(2) {
            let more = self.chance.below(16) as u64;
            let more = self.add(VectorOp::Const(more));
            pointers = self.add(VectorOp::Add(pointers, more));
        }
        let bytes = named(self.chance);
        let words = (0..8).map(|_| self.vector(far)).collect();
        let offset = offset(self.chance);
        self.add(VectorOp::Write { pointers, offset, bytes, words });
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
        self.add(VectorOp::Append { count: world::set_count(set), mask, columns, keys });
    }

    /// Stores values and masks from the whole program where they are compared.
    fn show(&mut self, active: OpId) {
        let index = self.add(VectorOp::Position);
        let shown = 20 + self.chance.below(SHOWN - 20);
        for place in 0..shown {
            let value = match self.chance.one_in(4) {
                true => {
                    let mask = self.mask(true);
                    self.add(VectorOp::Number(mask))
                }
                false => self.vector(true),
            };
            let mask = if self.chance.one_in(2) { active } else { self.mask(true) };
            self.add(VectorOp::Scatter { list: world::shown(place), index, mask, value });
        }
    }
}

/// Returns one of the last ids, or any.
fn recent(chance: &mut Chance, from: &[OpId], far: bool) -> OpId {
    let last = if far || chance.one_in(6) { from.len() } else { from.len().min(8) };
    from[from.len() - 1 - chance.below(last)]
}

fn offset(chance: &mut Chance) -> i32 {
    OFFSETS.start + chance.below(OFFSETS.len()) as i32
}
