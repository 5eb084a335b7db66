//! Generates random packets that go deep into a program's parser, and some that do not.

use super::case::PacketIn;
use super::tree::*;
use fastrand::Rng;

/// Maximum number of parser states that a packet is built for.
const MAX_STATES: usize = 40;
/// Maximum total size of the headers of a built packet, in bits.
const MAX_BITS: usize = 1 << 14;

/// Packet generator for one program.
pub struct PacketGenerator<'a> {
    rng: &'a mut Rng,
    program: &'a Program,
    /// Time of the last packet, in nanoseconds.
    pub now: u64,
    /// Factor of the times between packets.
    time_scale: u64,
}

/// Bits of a packet in order, with the positions of its fields.
#[derive(Default)]
struct PacketBits {
    bits: Vec<bool>,
    /// Last position of each field: name, first bit, width.
    fields: Vec<(String, usize, u32)>,
    /// Values to set at the end: first bit, width, value.
    forced: Vec<(usize, u32, u128)>,
}

impl PacketBits {
    fn push(&mut self, value: u128, width: u32) {
        for bit in (0..width).rev() {
            self.bits.push(bit < 128 && value >> bit & 1 == 1);
        }
    }

    fn force(&mut self, at: usize, width: u32, value: u128) {
        self.forced.push((at, width, value));
    }

    fn bytes(mut self) -> Vec<u8> {
        for (at, width, value) in std::mem::take(&mut self.forced) {
            let end = (at + width as usize).min(MAX_BITS * 2);
            if self.bits.len() < end {
                self.bits.resize(end, false);
            }
            for bit in 0..width {
                if let Some(place) = self.bits.get_mut(at + (width - 1 - bit) as usize) {
                    *place = bit < 128 && value >> bit & 1 == 1;
                }
            }
        }
        while !self.bits.len().is_multiple_of(8) {
            self.bits.push(false);
        }
        self.bits.chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | u8::from(*bit))).collect()
    }
}

impl<'a> PacketGenerator<'a> {
    /// Creates a generator of packets that arrive after `now`, with longer times between them by a
    /// factor.
    pub fn new(rng: &'a mut Rng, program: &'a Program, now: u64, time_scale: u64) -> PacketGenerator<'a> {
        PacketGenerator { rng, program, now, time_scale }
    }

    /// Advances the time by `gap` nanoseconds times the factor. Returns it.
    pub fn advance(&mut self, gap: u64) -> u64 {
        self.now += gap * self.time_scale;
        self.now
    }

    /// Generates the next packet.
    pub fn next_packet(&mut self) -> PacketIn {
        let gap = match self.rng.u8(..20) {
            0 => self.rng.u64(..30_000_000),
            1..4 => self.rng.u64(..100_000),
            4..12 => self.rng.u64(..2_000),
            _ => 0,
        };
        self.advance(gap);
        let mut bytes = self.build_packet();
        self.corrupt_packet(&mut bytes);
        PacketIn { port: self.rng.u32(..6), at: self.now, bytes }
    }

    /// Builds a packet along a random path of the parser, with fields from one row of the pool, and
    /// a random payload.
    fn build_packet(&mut self) -> Vec<u8> {
        let row = self.rng.usize(..8).min(self.rng.usize(..8));
        let mut bits = PacketBits::default();
        let program = self.program;
        let mut name = "start";
        for _ in 0..MAX_STATES {
            let Some(state) = program.states.iter().find(|state| state.name == name) else { break };
            if bits.bits.len() > MAX_BITS {
                break;
            }
            for op in &state.ops {
                self.append_op(op, row, &mut bits);
            }
            name = self.take_transition(&state.next, row, &mut bits);
        }
        let mut bytes = bits.bytes();
        let payload = match self.rng.u16(..1000) {
            0..300 => 0,
            300..900 => self.rng.usize(..64),
            900..990 => self.rng.usize(..1500),
            _ => self.rng.usize(..9216),
        };
        let first_byte = self.rng.u8(..);
        bytes.extend((0..payload).map(|i| first_byte.wrapping_add(i as u8)));
        bytes
    }

    /// Returns a field's value, mostly from this row of the pool.
    fn field_value(&mut self, row: usize) -> u128 {
        match self.rng.u8(..20) {
            0..12 => self.program.pool[row],
            12..14 => self.program.pool[self.rng.usize(..8)],
            14..16 => self.rng.u128(..8),
            16 => u128::MAX,
            _ => self.rng.u128(..),
        }
    }

    /// Appends the bits that a parser operation takes, and notes the position of each field for
    /// later selects.
    fn append_op(&mut self, op: &Op, row: usize, bits: &mut PacketBits) {
        match op {
            Op::Extract { place, header, .. } => {
                let read_place = place.replace(".next", ".last");
                for field in &self.program.headers[*header].fields {
                    let width = match field.varbit {
                        // The size of a varbit field is usually few bytes.
                        true => 8 * self.rng.u32(..=field.ty.width() / 8).min(self.rng.u32(..16)),
                        false => field.ty.width(),
                    };
                    bits.fields.push((format!("{read_place}.{}", field.name), bits.bits.len(), width));
                    let value = self.field_value(row) & ones(width);
                    bits.push(value, width);
                }
            }
            Op::Advance(distance) => {
                let skipped =
                    if let ExprKind::Lit(bits) = distance.kind { bits.min(64) as u32 } else { 8 * self.rng.u32(..4) };
                let value = self.rng.u128(..);
                bits.push(value, skipped);
            }
            Op::Other(_) => {}
        }
    }

    /// Chooses a case of a select, and sets the packet's bits so that the parser takes it. Returns
    /// the next state.
    fn take_transition<'p>(&mut self, next: &'p Transition, row: usize, bits: &mut PacketBits) -> &'p str {
        if next.cases.is_empty() {
            return "accept";
        }
        let (sets, target) = &next.cases[self.rng.usize(..next.cases.len())];
        for (key, set) in next.keys.iter().zip(sets) {
            let width = key.ty.width();
            let value = match set {
                Keyset::Value(value) => *value,
                Keyset::Mask(value, mask) => value & mask | self.rng.u128(..) & !mask,
                Keyset::Range(lo, hi) => [*lo, *hi, lo + (hi - lo) / 2][self.rng.usize(..3)],
                Keyset::Set(_) => self.program.pool[row],
                Keyset::Any => continue,
            } & ones(width);
            let ExprKind::Place(place) = &key.kind else { continue };
            if place.starts_with("packet.lookahead") {
                bits.force(bits.bits.len(), width, value);
            } else if let Some((_, position, _)) = bits.fields.iter().rev().find(|(name, ..)| name == place) {
                let position = *position;
                bits.force(position, width, value);
            }
        }
        target
    }

    fn corrupt_packet(&mut self, bytes: &mut Vec<u8>) {
        match self.rng.u8(..32) {
            0..3 => bytes.truncate(self.rng.usize(..=bytes.len())),
            3 => bytes.extend((0..self.rng.usize(..40)).map(|_| 0)),
            4..7 if !bytes.is_empty() => {
                for _ in 0..self.rng.usize(1..4) {
                    let at = self.rng.usize(..bytes.len().min(120));
                    bytes[at] = if self.rng.bool() { self.rng.u8(..) } else { bytes[at] ^ 1 << self.rng.u8(..8) };
                }
            }
            7 => {
                let length = self.rng.usize(..80);
                *bytes = (0..length).map(|_| self.rng.u8(..)).collect();
            }
            _ => {}
        }
        bytes.truncate(9216);
    }
}
