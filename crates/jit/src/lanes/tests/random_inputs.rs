//! Random inputs of the tests.

use crate::lanes::ir::ZERO_BYTE;

/// Pseudo-random numbers (splitmix64).
#[derive(Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns a small number, a large one, or one with few bits, so that comparisons hold
    /// sometimes.
    pub fn value(&mut self) -> u64 {
        let random = self.next();
        match self.below(7) {
            0 => random % 4,
            1 => random & 0xffff_ffff,
            2 => 1 << (random % 64),
            3 => u64::MAX << (random % 64),
            4 => u64::MAX - random % 3,
            _ => random,
        }
    }
}

/// Returns a byte pattern: random, or one that a simpler instruction can compute.
pub fn bytes(chance: &mut Chance) -> [u8; 8] {
    let by = chance.below(8) as u8;
    let kind = chance.below(5);
    std::array::from_fn(|place| {
        let place = place as u8;
        match kind {
            0 => place.checked_sub(by).unwrap_or(ZERO_BYTE),
            1 if place + by < 8 => place + by,
            1 => ZERO_BYTE,
            2 if chance.one_in(2) => place,
            2 => ZERO_BYTE,
            3 => 7 - place,
            _ if chance.one_in(4) => ZERO_BYTE,
            _ => chance.below(8) as u8,
        }
    })
}

/// Returns the mask of written bytes of 64: all, some, or a few in one word, quarter or half.
pub fn named(chance: &mut Chance) -> u64 {
    let random = chance.next();
    let run = u64::MAX >> chance.below(64);
    let word = 8 * chance.below(8);
    match chance.below(9) {
        0 => u64::MAX,
        1 => random,
        2 => run << chance.below(64),
        3 => 0xff << word,
        4 => (random & 0xff) << word,
        5 => 0xffff_u64 << (16 * chance.below(4)),
        6 => (random & 0xffff) << (16 * chance.below(4)),
        7 => 0xffff_ffff_u64 << (32 * chance.below(2)),
        _ => (random & 0xffff_ffff) << (32 * chance.below(2)),
    }
}
