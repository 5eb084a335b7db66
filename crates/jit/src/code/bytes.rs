//! Header fields in memory: network order, at any bit.

use crate::analysis::headers::FieldPlace;
use crate::code::registers::{Regs, mask, steady, trusted};
use crate::code::stage::StageCode;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I16, I32, I64};

/// Bytes of memory that may be read around a field: of its header.
#[derive(Clone, Copy, Debug)]
pub struct Around {
    /// Address of the header's first byte.
    pub base: cl::Value,
    /// Its length in bytes, without the varbit.
    pub bytes: u32,
    /// Whether nothing writes to it in this stage: then a read may move to where its value is needed, or away.
    pub steady: bool,
}

impl StageCode<'_, '_> {
    /// Reads a field.
    pub fn load_field(&mut self, header: Around, field: FieldPlace) -> Regs {
        let count = entries::words_for(field.width) as u32;
        let end = field.bit + field.width;
        let mut regs = Regs::new();
        for word in 0..count {
            let width = (field.width - word * 64).min(64);
            regs.push(self.load_bits(header, end - word * 64 - width, width));
        }
        regs
    }

    /// Reads up to 64 bits that begin at bit `bit` of the header.
    fn load_bits(&mut self, header: Around, bit: u32, width: u32) -> cl::Value {
        if width == 0 {
            return self.number(0);
        }
        let (first, last) = (bit / 8, (bit + width - 1) / 8);
        let bytes = last - first + 1;
        if bytes > 8 {
            let high = self.load_bits(header, bit, width - 32);
            let low = self.load_bits(header, bit + width - 32, 32);
            let high = self.left(high, 32);
            return self.b.ins().bor(high, low);
        }
        let below = 8 * (last + 1) - bit - width;
        // One load of a power of two, if the header is long enough around the field.
        let size = bytes.next_power_of_two();
        if size != bytes && header.bytes >= size {
            let at = first.min(header.bytes - size);
            let word = self.load_be(header, at, size);
            let behind = 8 * (at + size - last - 1);
            let word = self.right(word, behind + below);
            // What is above the field is away already if the field was the first of what was read.
            return if 8 * size - behind - below == width { word } else { self.cut(word, width) };
        }
        let word = self.load_be(header, first, bytes);
        let word = self.right(word, below);
        if below + width == bytes * 8 { word } else { self.cut(word, width) }
    }

    /// Reads a number of 1 to 8 bytes, most significant first.
    fn load_be(&mut self, header: Around, at: u32, bytes: u32) -> cl::Value {
        let (base, offset) = (header.base, at as i32);
        let flags = if header.steady { steady() } else { trusted() };
        match bytes {
            1 => self.load_small(1, flags, base, offset),
            2 => {
                let half = self.b.ins().load(I16, flags, base, offset);
                let half = self.b.ins().bswap(half);
                self.b.ins().uextend(I64, half)
            }
            4 => {
                let half = self.b.ins().load(I32, flags, base, offset);
                let half = self.b.ins().bswap(half);
                self.b.ins().uextend(I64, half)
            }
            8 => {
                let word = self.b.ins().load(I64, flags, base, offset);
                self.b.ins().bswap(word)
            }
            more => {
                let first = if more > 4 { 4 } else { 2 };
                let high = self.load_be(header, at, first);
                let low = self.load_be(header, at + first, more - first);
                let high = self.left(high, 8 * (more - first));
                self.b.ins().bor(high, low)
            }
        }
    }

    /// Writes a field.
    pub fn store_field(&mut self, base: cl::Value, field: FieldPlace, regs: &[cl::Value]) {
        let end = field.bit + field.width;
        for (word, reg) in regs.iter().enumerate() {
            let word = word as u32 * 64;
            let width = field.width.saturating_sub(word).min(64);
            if width > 0 {
                self.store_bits(base, end - word - width, width, *reg);
            }
        }
    }

    /// Writes up to 64 bits that begin at bit `bit`.
    pub fn store_bits(&mut self, base: cl::Value, bit: u32, width: u32, value: cl::Value) {
        let (first, last) = (bit / 8, (bit + width - 1) / 8);
        let bytes = last - first + 1;
        if bytes > 8 {
            let high = self.right(value, 32);
            self.store_bits(base, bit, width - 32, high);
            let low = self.cut(value, 32);
            return self.store_bits(base, bit + width - 32, 32, low);
        }
        let below = 8 * (last + 1) - bit - width;
        let mut word = self.left(value, below);
        if bytes * 8 != width {
            let old = self.load_be(Around { base, bytes, steady: false }, first, bytes);
            let keep = self.number(!(mask(width) << below));
            let old = self.b.ins().band(old, keep);
            word = self.b.ins().bor(old, word);
        }
        self.store_be(base, first, bytes, word);
    }

    /// Writes a number of 1 to 8 bytes, most significant first.
    pub fn store_be(&mut self, base: cl::Value, at: u32, bytes: u32, value: cl::Value) {
        let offset = at as i32;
        let value = self.uncut(value, bytes * 8);
        match bytes {
            1 => drop(self.b.ins().istore8(trusted(), value, base, offset)),
            2 | 4 => {
                let narrow = self.narrowed(value, bytes);
                let swapped = self.b.ins().bswap(narrow);
                self.b.ins().store(trusted(), swapped, base, offset);
            }
            8 => {
                let swapped = self.b.ins().bswap(value);
                self.b.ins().store(trusted(), swapped, base, offset);
            }
            more => {
                let first = if more > 4 { 4 } else { 2 };
                let high = self.right(value, 8 * (more - first));
                self.store_be(base, at, first, high);
                self.store_be(base, at + first, more - first, value);
            }
        }
    }
}
