//! What operations mean, written down a second time: plain code, an operation at a time and a lane at a time, over copies of the memory.

use crate::lanes::ir::{Code, Cond, Id, LANES, Op, WORDS, ZERO_BYTE};
use std::ops::Range;

/// Copies of stretches of memory, at their addresses. Touching anything else is a panic.
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

/// What an operation gave.
enum Value {
    Lanes(Lanes),
    Mask([bool; LANES]),
    Rows(Box<[[u8; 8 * WORDS]; LANES]>),
    Nothing,
}

/// Runs code over so many packets.
pub fn run(code: &Code, space: &mut Space, context: u64, count: u64) {
    for at in (0..count).step_by(LANES) {
        let mut turn = Turn { space: &mut *space, context, at, count, values: Vec::new() };
        for op in &code.ops {
            let value = turn.carry_out(op);
            turn.values.push(value);
        }
    }
}

/// What lies behind the last elements of lists that code appends to, and may be anything.
pub fn tails(code: &Code, space: &Space, context: u64) -> Vec<Range<u64>> {
    let mut space = space.clone();
    let mut tails = Vec::new();
    for op in &code.ops {
        if let Op::Append { count, columns, keys, .. } = op {
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

struct Turn<'a> {
    space: &'a mut Space,
    context: u64,
    at: u64,
    count: u64,
    values: Vec<Value>,
}

impl Turn<'_> {
    fn lanes(&self, id: Id) -> Lanes {
        match &self.values[id.0 as usize] {
            Value::Lanes(lanes) => *lanes,
            _ => panic!("{id:?} is no vector"),
        }
    }

    fn mask(&self, id: Id) -> [bool; LANES] {
        match &self.values[id.0 as usize] {
            Value::Mask(mask) => *mask,
            _ => panic!("{id:?} is no mask"),
        }
    }

    fn two(&self, a: Id, b: Id, f: impl Fn(u64, u64) -> u64) -> Value {
        let (a, b) = (self.lanes(a), self.lanes(b));
        Value::Lanes(std::array::from_fn(|lane| f(a[lane], b[lane])))
    }

    fn one(&self, a: Id, f: impl Fn(u64) -> u64) -> Value {
        Value::Lanes(self.lanes(a).map(f))
    }

    fn masks(&self, a: Id, b: Id, f: impl Fn(bool, bool) -> bool) -> Value {
        let (a, b) = (self.mask(a), self.mask(b));
        Value::Mask(std::array::from_fn(|lane| f(a[lane], b[lane])))
    }

    fn column(&mut self, list: i32) -> Lanes {
        let first = place(self.context, list) + 8 * self.at;
        std::array::from_fn(|lane| self.space.read(first + 8 * lane as u64, 8))
    }

    fn carry_out(&mut self, op: &Op) -> Value {
        match *op {
            Op::Const(value) => Value::Lanes([value; LANES]),
            Op::Position => Value::Lanes(std::array::from_fn(|lane| self.at + lane as u64)),
            Op::Column(list) => Value::Lanes(self.column(list)),
            Op::Add(a, b) => self.two(a, b, u64::wrapping_add),
            Op::Sub(a, b) => self.two(a, b, u64::wrapping_sub),
            Op::Mul(a, b) => self.two(a, b, u64::wrapping_mul),
            Op::Quotient(a, b) => self.two(a, b, |a, b| a.checked_div(b).unwrap_or(0)),
            Op::Carryless(a, by, higher) => self.one(a, |a| {
                let product = (0..64).filter(|bit| by >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(a) << bit);
                (if higher { product >> 64 } else { product }) as u64
            }),
            Op::And(a, b) => self.two(a, b, |a, b| a & b),
            Op::Or(a, b) => self.two(a, b, |a, b| a | b),
            Op::Xor(a, b) => self.two(a, b, |a, b| a ^ b),
            Op::Shl(a, by) => self.one(a, |a| a << by),
            Op::Shr(a, by) => self.one(a, |a| a >> by),
            Op::Sar(a, by) => self.one(a, |a| (a as i64 >> by) as u64),
            Op::ShlBy(a, b) => self.two(a, b, |a, b| if b < 64 { a << b } else { 0 }),
            Op::ShrBy(a, b) => self.two(a, b, |a, b| if b < 64 { a >> b } else { 0 }),
            Op::Rotl64(a, by) => self.one(a, |a| a.rotate_left(u32::from(by))),
            Op::Rotl32(a, by) => self.one(a, |a| {
                let lower = u32::try_from(a).expect("32 bits");
                u64::from(lower.rotate_left(u32::from(by)))
            }),
            Op::Bytes(a, from) => self.one(a, |a| {
                let byte = |from: u8| if from == ZERO_BYTE { 0 } else { a.to_le_bytes()[usize::from(from)] };
                u64::from_le_bytes(from.map(byte))
            }),
            Op::Blend(mask, a, b) => {
                let (mask, a, b) = (self.mask(mask), self.lanes(a), self.lanes(b));
                Value::Lanes(std::array::from_fn(|lane| if mask[lane] { a[lane] } else { b[lane] }))
            }
            Op::Number(mask) => Value::Lanes(self.mask(mask).map(u64::from)),
            Op::Compare(cond, a, b) => self.compare(cond, a, b),
            Op::Active => Value::Mask(std::array::from_fn(|lane| self.at + (lane as u64) < self.count)),
            Op::Certain(all) => Value::Mask([all; LANES]),
            Op::Both(a, b) => self.masks(a, b, |a, b| a & b),
            Op::Either(a, b) => self.masks(a, b, |a, b| a | b),
            Op::OneOf(a, b) => self.masks(a, b, |a, b| a ^ b),
            Op::Without(a, b) => self.masks(a, b, |a, b| a & !b),
            Op::Not(a) => Value::Mask(self.mask(a).map(|lane| !lane)),
            _ => self.touch(op),
        }
    }

    fn compare(&self, cond: Cond, a: Id, b: Id) -> Value {
        let (a, b) = (self.lanes(a), self.lanes(b));
        let holds = |a: u64, b: u64| match cond {
            Cond::Equal => a == b,
            Cond::NotEqual => a != b,
            Cond::Less => a < b,
            Cond::LessOrEqual => a <= b,
            Cond::SignedLess => (a as i64) < b as i64,
            Cond::SignedLessOrEqual => a as i64 <= b as i64,
        };
        Value::Mask(std::array::from_fn(|lane| holds(a[lane], b[lane])))
    }

    /// Operations that read memory besides lists, or write any.
    fn touch(&mut self, op: &Op) -> Value {
        match op {
            Op::Gather { base, offset, bytes, mask } => {
                let (base, mask) = (self.lanes(*base), self.mask(*mask));
                Value::Lanes(std::array::from_fn(|lane| match mask[lane] {
                    true => self.space.read(place(base[lane], *offset), usize::from(*bytes)),
                    false => 0,
                }))
            }
            Op::ContextWord(at) => Value::Lanes([self.space.read(place(self.context, *at), 8); LANES]),
            Op::Pointed { pointer, offset, bytes } => {
                let address = self.space.read(place(self.context, *pointer), 8);
                Value::Lanes([self.space.read(place(address, *offset), usize::from(*bytes)); LANES])
            }
            Op::Rows { pointers, offset, bytes } => {
                let bytes = usize::from(*bytes);
                let rows = self.column(*pointers).map(|pointer| {
                    let mut row = [0; 8 * WORDS];
                    row[..bytes].copy_from_slice(self.space.at(place(pointer, *offset), bytes));
                    row
                });
                Value::Rows(Box::new(rows))
            }
            Op::Word(rows, word) => match &self.values[rows.0 as usize] {
                Value::Rows(rows) => Value::Lanes(rows.map(|row| {
                    let bytes: [u8; 8] = std::array::from_fn(|byte| row[8 * usize::from(*word) + byte]);
                    u64::from_le_bytes(bytes)
                })),
                _ => panic!("{rows:?} are no rows"),
            },
            effect => {
                self.effect(effect);
                Value::Nothing
            }
        }
    }

    fn effect(&mut self, op: &Op) {
        match op {
            Op::Append { count, mask, columns, keys } => {
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
            Op::Accumulate { at, mask, value } => {
                let (mask, value) = (self.mask(*mask), self.lanes(*value));
                for lane in (0..LANES).filter(|lane| mask[*lane]) {
                    let address = place(self.context, *at) + 8 * lane as u64;
                    let sum = self.space.read(address, 8).wrapping_add(value[lane]);
                    self.space.write(address, sum);
                }
            }
            Op::Scatter { list, index, mask, value } => {
                let (index, mask, value) = (self.lanes(*index), self.mask(*mask), self.lanes(*value));
                for lane in (0..LANES).filter(|lane| mask[*lane]) {
                    self.space.write(place(self.context, *list) + 8 * index[lane], value[lane]);
                }
            }
            Op::Ahead { .. } => {}
            Op::Write { pointers, offset, bytes, words } => {
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
