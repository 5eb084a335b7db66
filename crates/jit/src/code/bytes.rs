//! Header fields in memory: network order, at any bit offset.

use crate::analysis::headers::FieldBits;
use crate::code::registers::{ValueRegs, low_bits_mask, steady_flags, trusted_flags};
use crate::code::stage::StageBuilder;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I16, I32, I64};

/// Bytes that can be read around a field: those of its header.
#[derive(Clone, Copy, Debug)]
pub struct ReadableSpan {
    /// Address of the header's first byte.
    pub base: cl::Value,
    /// Length in bytes, without the varbit.
    pub bytes: u32,
    /// Whether this stage never writes the header; its loads can then be moved or removed.
    pub steady: bool,
}

impl StageBuilder<'_, '_> {
    /// Loads a field.
    pub fn load_field(&mut self, header: ReadableSpan, field: FieldBits) -> ValueRegs {
        let count = entries::words_for(field.width) as u32;
        let end = field.bit + field.width;
        let mut regs = ValueRegs::new();
        for word in 0..count {
            let width = (field.width - word * 64).min(64);
            regs.push(self.load_bits(header, end - word * 64 - width, width));
        }
        regs
    }

    /// Loads up to 64 bits from bit `bit` of the header; bit 0 is the most significant of the first
    /// byte.
    fn load_bits(&mut self, header: ReadableSpan, bit: u32, width: u32) -> cl::Value {
        if width == 0 {
            return self.iconst_u64(0);
        }
        let (first, last) = (bit / 8, (bit + width - 1) / 8);
        let bytes = last - first + 1;
        if bytes > 8 {
            let high = self.load_bits(header, bit, width - 32);
            let low = self.load_bits(header, bit + width - 32, 32);
            let high = self.shl_imm(high, 32);
            return self.b.ins().bor(high, low);
        }
        let low_bits = 8 * (last + 1) - bit - width;
        // A single load of a power of two, if the header is long enough around the field.
        let size = bytes.next_power_of_two();
        if size != bytes && header.bytes >= size {
            let offset = first.min(header.bytes - size);
            let word = self.load_big_endian(header, offset, size);
            let bits_after = 8 * (offset + size - last - 1);
            let word = self.shr_imm(word, bits_after + low_bits);
            // No mask is necessary if the field is at the top of the loaded word.
            return if 8 * size - bits_after - low_bits == width { word } else { self.mask_to_width(word, width) };
        }
        let word = self.load_big_endian(header, first, bytes);
        let word = self.shr_imm(word, low_bits);
        if low_bits + width == bytes * 8 { word } else { self.mask_to_width(word, width) }
    }

    /// Loads a big-endian number of 1 to 8 bytes.
    /// Other sizes than a power of two are split.
    fn load_big_endian(&mut self, header: ReadableSpan, at: u32, bytes: u32) -> cl::Value {
        let (base, offset) = (header.base, at as i32);
        let flags = if header.steady { steady_flags() } else { trusted_flags() };
        match bytes {
            1 => self.load_small(1, flags, base, offset),
            2 => {
                let value = self.b.ins().load(I16, flags, base, offset);
                let value = self.b.ins().bswap(value);
                self.b.ins().uextend(I64, value)
            }
            4 => {
                let value = self.b.ins().load(I32, flags, base, offset);
                let value = self.b.ins().bswap(value);
                self.b.ins().uextend(I64, value)
            }
            8 => {
                let word = self.b.ins().load(I64, flags, base, offset);
                self.b.ins().bswap(word)
            }
            bytes => {
                let first = if bytes > 4 { 4 } else { 2 };
                let high = self.load_big_endian(header, at, first);
                let low = self.load_big_endian(header, at + first, bytes - first);
                let high = self.shl_imm(high, 8 * (bytes - first));
                self.b.ins().bor(high, low)
            }
        }
    }

    /// Stores a field.
    pub fn store_field(&mut self, base: cl::Value, field: FieldBits, regs: &[cl::Value]) {
        let end = field.bit + field.width;
        for (word, reg) in regs.iter().enumerate() {
            let word = word as u32 * 64;
            let width = field.width.saturating_sub(word).min(64);
            if width > 0 {
                self.store_bits(base, end - word - width, width, *reg);
            }
        }
    }

    /// Stores up to 64 bits from bit `bit` on.
    pub fn store_bits(&mut self, base: cl::Value, bit: u32, width: u32, value: cl::Value) {
        let (first, last) = (bit / 8, (bit + width - 1) / 8);
        let bytes = last - first + 1;
        if bytes > 8 {
            let high = self.shr_imm(value, 32);
            self.store_bits(base, bit, width - 32, high);
            let low = self.mask_to_width(value, 32);
            return self.store_bits(base, bit + width - 32, 32, low);
        }
        let below = 8 * (last + 1) - bit - width;
        let mut word = self.shl_imm(value, below);
        if bytes * 8 != width {
            let old = self.load_big_endian(ReadableSpan { base, bytes, steady: false }, first, bytes);
            let keep = self.iconst_u64(!(low_bits_mask(width) << below));
            let old = self.b.ins().band(old, keep);
            word = self.b.ins().bor(old, word);
        }
        self.store_big_endian(base, first, bytes, word);
    }

    /// Stores a big-endian number of 1 to 8 bytes.
    /// Higher bits of `value` are ignored.
    pub fn store_big_endian(&mut self, base: cl::Value, at: u32, bytes: u32, value: cl::Value) {
        let offset = at as i32;
        let value = self.strip_truncation(value, bytes * 8);
        match bytes {
            1 => drop(self.b.ins().istore8(trusted_flags(), value, base, offset)),
            2 | 4 => {
                let narrow = self.truncate_reg(value, bytes);
                let swapped = self.b.ins().bswap(narrow);
                self.b.ins().store(trusted_flags(), swapped, base, offset);
            }
            8 => {
                let swapped = self.b.ins().bswap(value);
                self.b.ins().store(trusted_flags(), swapped, base, offset);
            }
            bytes => {
                let first = if bytes > 4 { 4 } else { 2 };
                let high = self.shr_imm(value, 8 * (bytes - first));
                self.store_big_endian(base, at, first, high);
                self.store_big_endian(base, at + first, bytes - first, value);
            }
        }
    }
}
