//! Shared code of key hashing and row application: loads of packet, row and constants.

use super::{ChecksumTerms, FlowKeySpec};
use crate::code::registers::{steady_flags, trusted_flags};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I16, I32, I64, I64X2};
use cranelift_frontend::FunctionBuilder;

/// Builder of a function. Unused parameters have arbitrary values.
pub struct FlowCodeBuilder<'b> {
    pub b: FunctionBuilder<'b>,
    /// Addresses of packet, row and constants.
    pub packet: cl::Value,
    pub row: cl::Value,
    constants: cl::Value,
    /// Length and ingress port of the packet.
    pub length: cl::Value,
    pub port: cl::Value,
    /// The constants.
    pub table: Vec<u64>,
}

impl<'b> FlowCodeBuilder<'b> {
    /// Starts a function with these parameters: packet, its length and port, constants, row.
    pub fn new(b: FunctionBuilder<'b>, params: &[cl::Value]) -> FlowCodeBuilder<'b> {
        let row = params.get(4).copied().unwrap_or(params[0]);
        FlowCodeBuilder {
            b,
            packet: params[0],
            length: params[1],
            port: params[2],
            constants: params[3],
            row,
            table: Vec::new(),
        }
    }

    pub fn iconst(&mut self, number: u64) -> cl::Value {
        self.b.ins().iconst(I64, number as i64)
    }

    /// Emits a number; loads it if an immediate would take ten bytes of code.
    pub fn load_constant(&mut self, number: u64) -> cl::Value {
        if i32::try_from(number as i64).is_ok() {
            return self.iconst(number);
        }
        let at = self.table.iter().position(|known| *known == number).unwrap_or_else(|| {
            self.table.push(number);
            self.table.len() - 1
        });
        self.b.ins().load(I64, steady_flags(), self.constants, 8 * at as i32)
    }

    /// Loads eight bytes of the packet.
    pub fn load_packet_word(&mut self, at: usize) -> cl::Value {
        self.b.ins().load(I64, trusted_flags(), self.packet, at as i32)
    }

    /// Loads two words at an offset from an address.
    pub fn load_two_words(&mut self, address: cl::Value, at: usize) -> cl::Value {
        self.b.ins().load(I64X2, trusted_flags(), address, at as i32)
    }

    /// Loads two constants.
    pub fn load_two_constants(&mut self, numbers: [u64; 2]) -> cl::Value {
        let at = self.table.windows(2).position(|two| two == numbers).unwrap_or_else(|| {
            self.table.extend(numbers);
            self.table.len() - 2
        });
        self.load_two_words(self.constants, 8 * at)
    }

    /// Loads two bytes of the packet in memory order.
    pub fn load_packet_half(&mut self, at: usize) -> cl::Value {
        self.b.ins().uload16(I64, trusted_flags(), self.packet, at as i32)
    }

    /// Loads a word of the row.
    pub fn load_row_word(&mut self, word: usize) -> cl::Value {
        self.b.ins().load(I64, steady_flags(), self.row, 8 * word as i32)
    }

    /// Loads a 32-bit number of the row.
    pub fn load_row_number(&mut self, smalls: usize, at: usize) -> cl::Value {
        self.b.ins().uload32(steady_flags(), self.row, (8 * smalls + 4 * at) as i32)
    }

    pub fn apply_mask(&mut self, value: cl::Value, mask: u64) -> cl::Value {
        if mask == u64::MAX {
            return value;
        }
        let mask = self.load_constant(mask);
        self.b.ins().band(value, mask)
    }

    /// Swaps the low two bytes.
    pub fn swap_bytes(&mut self, value: cl::Value) -> cl::Value {
        let narrow = self.b.ins().ireduce(I16, value);
        let swapped = self.b.ins().bswap(narrow);
        self.b.ins().uextend(I64, swapped)
    }

    /// Returns the difference of the field to the packet's length, in the byte order of a key.
    pub fn distance_to_length(&mut self, at: usize) -> cl::Value {
        let field = self.load_packet_half(at);
        let field = self.swap_bytes(field);
        let distance = self.b.ins().isub(field, self.length);
        self.swap_bytes(distance)
    }

    /// Returns a key's first word.
    pub fn first_key_word(&mut self, key: &FlowKeySpec) -> cl::Value {
        if !key.length {
            return self.port;
        }
        let length = self.b.ins().ishl_imm_u(self.length, 32);
        self.b.ins().bor(self.port, length)
    }

    /// Folds a sum of 64 bits to 16 with end-around carry.
    fn fold_sum(&mut self, sum: cl::Value) -> cl::Value {
        let other = self.b.ins().rotl_imm_u(sum, 32);
        let sum = self.b.ins().iadd(sum, other);
        let half = self.b.ins().ushr_imm_u(sum, 32);
        let half = self.b.ins().ireduce(I32, half);
        let other = self.b.ins().rotl_imm_u(half, 16);
        let sum = self.b.ins().iadd(half, other);
        let sum = self.b.ins().ushr_imm_u(sum, 16);
        self.b.ins().uextend(I64, sum)
    }

    /// Sums the packet's words and a constant, folded, in memory order.
    pub fn emit_sum(&mut self, words: &ChecksumTerms, constant: cl::Value) -> cl::Value {
        // A one's complement sum does not depend on byte order (RFC 1071, section 2 (B)).
        let mut sum = self.swap_bytes(constant);
        for (at, mask) in &words.terms {
            let word = self.b.ins().uload32(trusted_flags(), self.packet, *at as i32);
            let word = if *mask == u32::MAX { word } else { self.apply_mask(word, u64::from(*mask)) };
            sum = self.b.ins().iadd(sum, word);
        }
        if words.lengths != 0 {
            let times = self.iconst(u64::from(words.lengths));
            let lengths = self.b.ins().imul(self.length, times);
            let lengths = self.fold_sum(lengths);
            let lengths = self.swap_bytes(lengths);
            sum = self.b.ins().iadd(sum, lengths);
        }
        self.fold_sum(sum)
    }
}
