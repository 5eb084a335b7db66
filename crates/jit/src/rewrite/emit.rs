//! What hashing a key and applying a row have in common: reads of packet, row and constants.

use super::{Key, Words};
use crate::code::registers::{steady, trusted};
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I16, I32, I64, I64X2};
use cranelift_frontend::FunctionBuilder;

/// A function that is being made. Its parameters that are not used are anything.
pub struct Emit<'b> {
    pub b: FunctionBuilder<'b>,
    /// Addresses: a packet, a row, constants.
    pub packet: cl::Value,
    pub row: cl::Value,
    constants: cl::Value,
    /// The packet's length and port.
    pub length: cl::Value,
    pub port: cl::Value,
    /// What the constants are.
    pub table: Vec<u64>,
}

impl<'b> Emit<'b> {
    /// With these parameters: packet, its length and port, constants, row.
    pub fn new(b: FunctionBuilder<'b>, params: &[cl::Value]) -> Emit<'b> {
        let row = params.get(4).copied().unwrap_or(params[0]);
        Emit { b, packet: params[0], length: params[1], port: params[2], constants: params[3], row, table: Vec::new() }
    }

    pub fn number(&mut self, number: u64) -> cl::Value {
        self.b.ins().iconst(I64, number as i64)
    }

    /// A number, or one that is read where it would take ten bytes of code.
    pub fn constant(&mut self, number: u64) -> cl::Value {
        if i32::try_from(number as i64).is_ok() {
            return self.number(number);
        }
        let at = self.table.iter().position(|known| *known == number).unwrap_or_else(|| {
            self.table.push(number);
            self.table.len() - 1
        });
        self.b.ins().load(I64, steady(), self.constants, 8 * at as i32)
    }

    /// Eight bytes of the packet.
    pub fn word(&mut self, at: usize) -> cl::Value {
        self.b.ins().load(I64, trusted(), self.packet, at as i32)
    }

    /// Two words at an address, and behind it.
    pub fn two(&mut self, address: cl::Value, at: usize) -> cl::Value {
        self.b.ins().load(I64X2, trusted(), address, at as i32)
    }

    /// Two numbers.
    pub fn two_constants(&mut self, numbers: [u64; 2]) -> cl::Value {
        let at = self.table.windows(2).position(|two| two == numbers).unwrap_or_else(|| {
            self.table.extend(numbers);
            self.table.len() - 2
        });
        self.two(self.constants, 8 * at)
    }

    /// Two bytes of the packet, as they lie there.
    pub fn half(&mut self, at: usize) -> cl::Value {
        self.b.ins().uload16(I64, trusted(), self.packet, at as i32)
    }

    /// A word of the row.
    pub fn of_row(&mut self, word: usize) -> cl::Value {
        self.b.ins().load(I64, steady(), self.row, 8 * word as i32)
    }

    /// A number of 32 bits of the row.
    pub fn small(&mut self, smalls: usize, at: usize) -> cl::Value {
        self.b.ins().uload32(steady(), self.row, (8 * smalls + 4 * at) as i32)
    }

    pub fn masked(&mut self, value: cl::Value, mask: u64) -> cl::Value {
        if mask == u64::MAX {
            return value;
        }
        let mask = self.constant(mask);
        self.b.ins().band(value, mask)
    }

    /// The low 16 bits in the other order.
    pub fn swapped(&mut self, value: cl::Value) -> cl::Value {
        let narrow = self.b.ins().ireduce(I16, value);
        let swapped = self.b.ins().bswap(narrow);
        self.b.ins().uextend(I64, swapped)
    }

    /// How far the field there is from the packet's length, as it lies in a key.
    pub fn near(&mut self, at: usize) -> cl::Value {
        let field = self.half(at);
        let field = self.swapped(field);
        let distance = self.b.ins().isub(field, self.length);
        self.swapped(distance)
    }

    /// A key's first word.
    pub fn lead(&mut self, key: &Key) -> cl::Value {
        if !key.length {
            return self.port;
        }
        let length = self.b.ins().ishl_imm_u(self.length, 32);
        self.b.ins().bor(self.port, length)
    }

    /// A sum of 64 bits folded to 16: half upon half, each time with what falls off.
    fn folded(&mut self, sum: cl::Value) -> cl::Value {
        let other = self.b.ins().rotl_imm_u(sum, 32);
        let sum = self.b.ins().iadd(sum, other);
        let half = self.b.ins().ushr_imm_u(sum, 32);
        let half = self.b.ins().ireduce(I32, half);
        let other = self.b.ins().rotl_imm_u(half, 16);
        let sum = self.b.ins().iadd(half, other);
        let sum = self.b.ins().ushr_imm_u(sum, 16);
        self.b.ins().uextend(I64, sum)
    }

    /// The sum of the packet's words and a constant, folded, as it would lie in memory.
    pub fn sum(&mut self, words: &Words, constant: cl::Value) -> cl::Value {
        // The order of bytes makes no difference to a one's complement sum (RFC 1071, section 2 B).
        let mut sum = self.swapped(constant);
        for (at, mask) in &words.terms {
            let word = self.b.ins().uload32(trusted(), self.packet, *at as i32);
            let word = if *mask == u32::MAX { word } else { self.masked(word, u64::from(*mask)) };
            sum = self.b.ins().iadd(sum, word);
        }
        if words.lengths != 0 {
            let times = self.number(u64::from(words.lengths));
            let lengths = self.b.ins().imul(self.length, times);
            let lengths = self.folded(lengths);
            let lengths = self.swapped(lengths);
            sum = self.b.ins().iadd(sum, lengths);
        }
        self.folded(sum)
    }
}
