//! Evaluator of vector code: an independent definition of the operations, one operation and lane at
//! a time, over copies of the memory.

use crate::lanes::ir::{LANES, LaneCompare, OpId, VectorCode, VectorOp, WORDS, ZERO_BYTE};
use std::ops::Range;

/// Copies of memory ranges at their addresses. Any other access panics.
#[derive(Clone, Default)]
pub struct Space {
    regions: Vec<(u64, Vec<u8>)>,
}

impl Space {
    pub fn add(&mut self, start: u64, bytes: Vec<u8>) {
        self.regions.push((start, bytes));
    }

    pub fn regions(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.regions.iter().map(|(start, bytes)| (*start, bytes.as_slice()))
    }

    fn at(&mut self, address: u64, bytes: usize) -> &mut [u8] {
        for (start, region) in &mut self.regions {
            let from = address.wrapping_sub(*start);
            if from < region.len() as u64 && from as usize + bytes <= region.len() {
                return &mut region[from as usize..][..bytes];
            }
        }
        panic!("{bytes} bytes at {address:#x} are nobody's");
    }

    fn read(&mut self, address: u64, bytes: usize) -> u64 {
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(self.at(address, bytes));
        u64::from_le_bytes(word)
    }

    fn write(&mut self, address: u64, value: u64) {
        self.at(address, 8).copy_from_slice(&value.to_le_bytes());
    }
}

type Lanes = [u64; LANES];

/// Result of an operation.
enum OracleValue {
    Lanes(Lanes),
    Mask([bool; LANES]),
    Rows(Box<[[u8; 8 * WORDS]; LANES]>),
    Nothing,
}

/// Runs code over `count` packets.
pub fn run(code: &VectorCode, space: &mut Space, context: u64, count: u64) {
    for at in (0..count).step_by(LANES) {
        let mut turn = VectorIteration { space: &mut *space, context, at, count, values: Vec::new() };
        for op in &code.ops {
            let value = turn.carry_out(op);
            turn.values.push(value);
        }
    }
}

/// Returns the ranges with arbitrary contents: those after the last items of lists that code
/// appends to.
pub fn tails(code: &VectorCode, space: &Space, context: u64) -> Vec<Range<u64>> {
    let mut space = space.clone();
    let mut tails = Vec::new();
    for op in &code.ops {
        if let VectorOp::Append { count, columns, keys, .. } = op {
            let length = space.read(place(context, *count), 8);
            let lists = columns.iter().map(|(list, _)| (*list, 1));
            for (list, words) in lists.chain(keys.iter().map(|(list, words)| (*list, words.len() as u64))) {
                let end = place(context, list) + 8 * words * length;
                tails.push(end..end + 8 * words * LANES as u64);
            }
        }
    }
    tails
}

fn place(context: u64, offset: i32) -> u64 {
    context.wrapping_add_signed(i64::from(offset))
}

struct VectorIteration<'a> {
    space: &'a mut Space,
    context: u64,
    at: u64,
    count: u64,
    values: Vec<OracleValue>,
}

impl VectorIteration<'_> {
    fn lanes(&self, id: OpId) -> Lanes {
        match &self.values[id.0 as usize] {
            OracleValue::Lanes(lanes) => *lanes,
            _ => panic!("{id:?} is no vector"),
        }
    }

    fn mask(&self, id: OpId) -> [bool; LANES] {
        match &self.values[id.0 as usize] {
            OracleValue::Mask(mask) => *mask,
            _ => panic!("{id:?} is no mask"),
        }
    }

    fn two(&self, a: OpId, b: OpId, f: impl Fn(u64, u64) -> u64) -> OracleValue {
        let (a, b) = (self.lanes(a), self.lanes(b));
        OracleValue::Lanes(std::array::from_fn(|lane| f(a[lane], b[lane])))
    }

    fn one(&self, a: OpId, f: impl Fn(u64) -> u64) -> OracleValue {
        OracleValue::Lanes(self.lanes(a).map(f))
    }

    fn masks(&self, a: OpId, b: OpId, f: impl Fn(bool, bool) -> bool) -> OracleValue {
        let (a, b) = (self.mask(a), self.mask(b));
        OracleValue::Mask(std::array::from_fn(|lane| f(a[lane], b[lane])))
    }

    fn column(&mut self, list: i32) -> Lanes {
        let first = place(self.context, list) + 8 * self.at;
        std::array::from_fn(|lane| self.space.read(first + 8 * lane as u64, 8))
    }

    fn carry_out(&mut self, op: &VectorOp) -> OracleValue {
        match *op {
            VectorOp::Const(value) => OracleValue::Lanes([value; LANES]),
            VectorOp::Position => OracleValue::Lanes(std::array::from_fn(|lane| self.at + lane as u64)),
            VectorOp::Column(list) => OracleValue::Lanes(self.column(list)),
            VectorOp::Add(a, b) => self.two(a, b, u64::wrapping_add),
            VectorOp::Sub(a, b) => self.two(a, b, u64::wrapping_sub),
            VectorOp::Mul(a, b) => self.two(a, b, u64::wrapping_mul),
            VectorOp::Quotient(a, b) => self.two(a, b, |a, b| a.checked_div(b).unwrap_or(0)),
            VectorOp::Carryless(a, by, higher) => self.one(a, |a| {
                let product = (0..64).filter(|bit| by >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(a) << bit);
                (if higher { product >> 64 } else { product }) as u64
            }),
            VectorOp::And(a, b) => self.two(a, b, |a, b| a & b),
            VectorOp::Or(a, b) => self.two(a, b, |a, b| a | b),
            VectorOp::Xor(a, b) => self.two(a, b, |a, b| a ^ b),
            VectorOp::Shl(a, by) => self.one(a, |a| a << by),
            VectorOp::Shr(a, by) => self.one(a, |a| a >> by),
            VectorOp::Sar(a, by) => self.one(a, |a| (a as i64 >> by) as u64),
            VectorOp::ShlBy(a, b) => self.two(a, b, |a, b| if b < 64 { a << b } else { 0 }),
            VectorOp::ShrBy(a, b) => self.two(a, b, |a, b| if b < 64 { a >> b } else { 0 }),
            VectorOp::Rotl64(a, by) => self.one(a, |a| a.rotate_left(u32::from(by))),
            VectorOp::Rotl32(a, by) => self.one(a, |a| {
                let lower = u32::try_from(a).expect("32 bits");
                u64::from(lower.rotate_left(u32::from(by)))
            }),
            VectorOp::Bytes(a, from) => self.one(a, |a| {
                let byte = |from: u8| if from == ZERO_BYTE { 0 } else { a.to_le_bytes()[usize::from(from)] };
                u64::from_le_bytes(from.map(byte))
            }),
            VectorOp::Blend(mask, a, b) => {
                let (mask, a, b) = (self.mask(mask), self.lanes(a), self.lanes(b));
                OracleValue::Lanes(std::array::from_fn(|lane| if mask[lane] { a[lane] } else { b[lane] }))
            }
            VectorOp::Number(mask) => OracleValue::Lanes(self.mask(mask).map(u64::from)),
            VectorOp::Compare(cond, a, b) => self.compare(cond, a, b),
            VectorOp::Active => OracleValue::Mask(std::array::from_fn(|lane| self.at + (lane as u64) < self.count)),
            VectorOp::Certain(all) => OracleValue::Mask([all; LANES]),
            VectorOp::Both(a, b) => self.masks(a, b, |a, b| a & b),
            VectorOp::Either(a, b) => self.masks(a, b, |a, b| a | b),
            VectorOp::OneOf(a, b) => self.masks(a, b, |a, b| a ^ b),
            VectorOp::Without(a, b) => self.masks(a, b, |a, b| a & !b),
            VectorOp::Not(a) => OracleValue::Mask(self.mask(a).map(|lane| !lane)),
            _ => self.touch(op),
        }
    }

    fn compare(&self, cond: LaneCompare, a: OpId, b: OpId) -> OracleValue {
        let (a, b) = (self.lanes(a), self.lanes(b));
        let holds = |a: u64, b: u64| match cond {
            LaneCompare::Equal => a == b,
            LaneCompare::NotEqual => a != b,
            LaneCompare::Less => a < b,
            LaneCompare::LessOrEqual => a <= b,
            LaneCompare::SignedLess => (a as i64) < b as i64,
            LaneCompare::SignedLessOrEqual => a as i64 <= b as i64,
        };
        OracleValue::Mask(std::array::from_fn(|lane| holds(a[lane], b[lane])))
    }

    /// Evaluates operations that access memory other than lists.
    fn touch(&mut self, op: &VectorOp) -> OracleValue {
        match op {
            VectorOp::Gather { base, offset, bytes, mask } => {
                let (base, mask) = (self.lanes(*base), self.mask(*mask));
                OracleValue::Lanes(std::array::from_fn(|lane| match mask[lane] {
                    true => self.space.read(place(base[lane], *offset), usize::from(*bytes)),
                    false => 0,
                }))
            }
            VectorOp::ContextWord(at) => OracleValue::Lanes([self.space.read(place(self.context, *at), 8); LANES]),
            VectorOp::Pointed { pointer, offset, bytes } => {
                let address = self.space.read(place(self.context, *pointer), 8);
                OracleValue::Lanes([self.space.read(place(address, *offset), usize::from(*bytes)); LANES])
            }
            VectorOp::Rows { pointers, offset, bytes } => {
                let bytes = usize::from(*bytes);
                let rows = self.column(*pointers).map(|pointer| {
                    let mut row = [0; 8 * WORDS];
                    row[..bytes].copy_from_slice(self.space.at(place(pointer, *offset), bytes));
                    row
                });
                OracleValue::Rows(Box::new(rows))
            }
            VectorOp::Word(rows, word) => match &self.values[rows.0 as usize] {
                OracleValue::Rows(rows) => OracleValue::Lanes(rows.map(|row| {
                    let bytes: [u8; 8] = std::array::from_fn(|byte| row[8 * usize::from(*word) + byte]);
                    u64::from_le_bytes(bytes)
                })),
                _ => panic!("{rows:?} are no rows"),
            },
            effect => {
                self.effect(effect);
                OracleValue::Nothing
            }
        }
    }

    fn effect(&mut self, op: &VectorOp) {
        match op {
            VectorOp::Append { count, mask, columns, keys } => {
                let mask = self.mask(*mask);
                for lane in (0..LANES).filter(|lane| mask[*lane]) {
                    let length = self.space.read(place(self.context, *count), 8);
                    for (list, value) in columns {
                        let value = self.lanes(*value)[lane];
                        self.space.write(place(self.context, *list) + 8 * length, value);
                    }
                    for (list, words) in keys {
                        let first = place(self.context, *list) + 8 * length * words.len() as u64;
                        for (word, value) in words.iter().enumerate() {
                            let value = self.lanes(*value)[lane];
                            self.space.write(first + 8 * word as u64, value);
                        }
                    }
                    self.space.write(place(self.context, *count), length + 1);
                }
            }
            VectorOp::Accumulate { at, mask, value } => {
                let (mask, value) = (self.mask(*mask), self.lanes(*value));
                for lane in (0..LANES).filter(|lane| mask[*lane]) {
                    let address = place(self.context, *at) + 8 * lane as u64;
                    let sum = self.space.read(address, 8).wrapping_add(value[lane]);
                    self.space.write(address, sum);
                }
            }
            VectorOp::Scatter { list, index, mask, value } => {
                let (index, mask, value) = (self.lanes(*index), self.mask(*mask), self.lanes(*value));
                for lane in (0..LANES).filter(|lane| mask[*lane]) {
                    self.space.write(place(self.context, *list) + 8 * index[lane], value[lane]);
                }
            }
            VectorOp::Ahead { .. } => {}
            VectorOp::Write { pointers, offset, bytes, words } => {
                let pointers = self.lanes(*pointers);
                for (lane, pointer) in pointers.into_iter().enumerate() {
                    for byte in (0..8 * WORDS).filter(|byte| bytes >> byte & 1 != 0) {
                        let value = self.lanes(words[byte / 8])[lane].to_le_bytes()[byte % 8];
                        self.space.at(place(pointer, *offset) + byte as u64, 1)[0] = value;
                    }
                }
            }
            other => panic!("{other:?} is no effect"),
        }
    }
}
