//! One's complement sums of 16-bit words: the Internet checksum (RFC 1071), of values and of memory.

use crate::code::call::{scalar, values};
use crate::code::stage::{StageCode, trusted};
use crate::code::value::mask;
use crate::plan::cells::Cell;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{InstBuilder, InstructionData, Opcode};
use ir::{Arg, Entity, ExternFn, ExternId, ExternKind, HeaderId, Value};

impl StageCode<'_, '_> {
    /// The sum of the 16-bit words of values packed without gaps, added to `sum`, which is at most `most`; folded.
    pub(super) fn add_words(&mut self, mut sum: cl::Value, mut most: u64, values: &[Value]) -> cl::Value {
        if most == 0
            && let Some(sum) = self.sum_as_in_memory(values)
        {
            return sum;
        }
        let mut bit = 0;
        let mut at = 0;
        while let Some(value) = values.get(at) {
            if let Some((header, first, bits, count)) = self.stretch(&values[at..], bit) {
                let part = self.sum_of_memory(header, first, bits / 8);
                sum = self.plus(sum, part);
                most += 0xffff;
                bit += bits;
                at += count;
                continue;
            }
            if let Some(part) = self.halves(&values[at..], bit) {
                let part = self.left(part, 8 * (1 - bit / 8 % 2));
                sum = self.plus(sum, part);
                most += 0xff00;
                bit += 8;
                at += 2;
                continue;
            }
            at += 1;
            let ty = self.value_type(*value);
            let width = ty.width();
            let regs = self.value(*value);
            let end = bit + width;
            for (index, reg) in regs.iter().enumerate() {
                let reg = self.as_number(ty, *reg);
                let own = width.saturating_sub(index as u32 * 64).min(64);
                // 2^16 counts as 1, so a number may stand at any multiple of 16 bits: only where it ends within its word matters.
                let end = end - index as u32 * 64;
                let shift = (16 - end % 16) % 16;
                let parts = match own {
                    0 => vec![],
                    1..=32 => vec![reg],
                    _ => vec![self.cut(reg, 32), self.right(reg, 32)],
                };
                for part in parts {
                    let part = self.left(part, shift);
                    sum = self.plus(sum, part);
                    most += (mask(own.min(32))) << shift;
                }
            }
            bit = end;
        }
        self.folded(sum, most)
    }

    /// The sum of values as they lie in packets, if each is whole bytes there: swapped once at the end instead of each value (RFC 1071, section 2 (B)). A store of
    /// the sum swaps it back, and neither is left. `None` if some value is not like that.
    fn sum_as_in_memory(&mut self, values: &[Value]) -> Option<cl::Value> {
        let (mut sum, mut most) = (self.number(0), 0u64);
        let (mut bit, mut at) = (0, 0);
        while let Some(value) = values.get(at) {
            let odd = bit / 8 % 2;
            if let Some((header, first, bits, count)) = self.stretch(&values[at..], bit) {
                let part = self.words_of_memory(header, first, bits / 8);
                sum = self.plus(sum, part);
                most = most.checked_add(u64::from(bits.div_ceil(32)) << 32)?;
                (bit, at) = (bit + bits, at + count);
                continue;
            }
            if let Some(part) = self.halves(&values[at..], bit) {
                let part = self.left(part, 8 * odd);
                sum = self.plus(sum, part);
                most += 0xff << (8 * odd);
                (bit, at) = (bit + 8, at + 2);
                continue;
            }
            let ty = self.value_type(*value);
            let width = ty.width();
            let regs = self.value(*value);
            let parts = match (width, bit % 16) {
                (8, 0 | 8) => vec![(self.left(regs[0], 8 * odd), 0xff << (8 * odd))],
                (16 | 32 | 48 | 64, 0) => {
                    let high = self.right(regs[0], 32);
                    let halves = [(regs[0], width.min(32)), (high, width.saturating_sub(32))];
                    let halves = halves.into_iter().filter(|(_, width)| *width > 0);
                    halves.map(|(half, width)| (self.swapped(half, width / 8), mask(width))).collect()
                }
                _ => return None,
            };
            for (part, greatest) in parts {
                sum = self.plus(sum, part);
                most = most.checked_add(greatest)?;
            }
            (bit, at) = (bit + width, at + 1);
        }
        let sum = self.folded(sum, most);
        Some(self.swapped(sum, 2))
    }

    /// A number of 2 or 4 bytes in the other order.
    fn swapped(&mut self, value: cl::Value, bytes: u32) -> cl::Value {
        let narrow = self.narrowed(value, bytes);
        let swapped = self.b.ins().bswap(narrow);
        self.b.ins().uextend(I64, swapped)
    }

    /// The complement of a folded sum; of one that is swapped, the other way round, so that a store need not swap it again.
    fn complement(&mut self, sum: cl::Value) -> cl::Value {
        let swapped = match self.made_by(sum) {
            Some(InstructionData::Unary { opcode: Opcode::Uextend, arg }) => match self.made_by(arg) {
                Some(InstructionData::Unary { opcode: Opcode::Bswap, arg }) => Some(arg),
                _ => None,
            },
            _ => None,
        };
        match swapped {
            Some(half) => {
                let half = self.b.ins().bnot(half);
                let half = self.b.ins().bswap(half);
                self.b.ins().uextend(I64, half)
            }
            None => self.b.ins().bxor_imm_u(sum, 0xffff),
        }
    }

    /// The byte that the first two values of a list are, if they are fields of a header that lie in one byte, as in the list, and that is in memory as they are.
    fn halves(&mut self, values: &[Value], bit: u32) -> Option<cl::Value> {
        let fresh = |at: usize| self.fresh.get(values.get(at)?).copied();
        let ((header, high), (of, low)) = (fresh(0)?, fresh(1)?);
        let fields = &self.c.plan.headers.fields[header.index()];
        let [high, low] = [fields[high as usize], fields[low as usize]];
        let one_byte = high.width + low.width == 8 && high.bit + high.width == low.bit;
        if header != of || !one_byte || !(bit.is_multiple_of(8) && high.bit.is_multiple_of(8)) {
            return None;
        }
        if self.waits(header, high.bit, 8) {
            return None;
        }
        let base = self.address(header);
        Some(self.load_small(1, trusted(), base, (high.bit / 8) as i32))
    }

    fn plus(&mut self, sum: cl::Value, part: cl::Value) -> cl::Value {
        match self.constant_of(sum) {
            Some(0) => part,
            _ => self.b.ins().iadd(sum, part),
        }
    }

    /// Values at the beginning of a list that are what fields of one header hold, one behind the other in whole 16-bit words of
    /// header and list: header, first bit, how many bits and values.
    fn stretch(&self, values: &[Value], bit: u32) -> Option<(HeaderId, u32, u32, usize)> {
        let (header, first) = *self.fresh.get(values.first()?)?;
        // Wide loads of what was just stored in parts would wait for the stores.
        if self.written.contains(&header) {
            return None;
        }
        let fields = &self.c.plan.headers.fields[header.index()];
        let start = fields[first as usize].bit;
        if !bit.is_multiple_of(16) || !start.is_multiple_of(16) {
            return None;
        }
        let (mut bits, mut found) = (0, None);
        for (count, value) in values.iter().enumerate() {
            match self.fresh.get(value) {
                Some((of, index)) if *of == header && *index == first + count as u32 => {
                    bits += fields[*index as usize].width;
                    if bits.is_multiple_of(16) && bits >= 64 {
                        found = Some((header, start, bits, count + 1));
                    }
                }
                _ => break,
            }
        }
        found
    }

    /// The sum of 16-bit words of a header. A sum of swapped words is the swapped sum (RFC 1071, section 2 (B)).
    fn sum_of_memory(&mut self, header: HeaderId, bit: u32, bytes: u32) -> cl::Value {
        let sum = self.words_of_memory(header, bit, bytes);
        let sum = self.folded(sum, u64::from(bytes) << 32);
        self.swapped(sum, 2)
    }

    /// A header's words of four bytes, as they lie there, and perhaps one of two, added up: at most 2^32 for each.
    fn words_of_memory(&mut self, header: HeaderId, bit: u32, bytes: u32) -> cl::Value {
        let base = self.address(header);
        let mut sum = self.number(0);
        let mut at = 0;
        while at < bytes {
            let place = (bit / 8 + at) as i32;
            // By loads that extend: all of them are needed here, so none need move.
            let part = match bytes - at {
                2 | 3 => self.b.ins().uload16(I64, trusted(), base, place),
                _ => self.b.ins().uload32(trusted(), base, place),
            };
            at += if bytes - at < 4 { 2 } else { 4 };
            sum = self.plus(sum, part);
        }
        sum
    }

    /// Folds a sum of at most `most` to 16 bits with end-around carry: a number plus itself with its halves exchanged has, in the upper half, the sum of
    /// both with the carry out of the lower one.
    fn folded(&mut self, mut sum: cl::Value, most: u64) -> cl::Value {
        if most <= 0xffff {
            return sum;
        }
        if most > u64::from(u32::MAX) {
            let exchanged = self.b.ins().rotl_imm_u(sum, 32);
            let both = self.b.ins().iadd(sum, exchanged);
            sum = self.right(both, 32);
        }
        let sum = self.b.ins().ireduce(I32, sum);
        let exchanged = self.b.ins().rotl_imm_u(sum, 16);
        let both = self.b.ins().iadd(sum, exchanged);
        let upper = self.b.ins().ushr_imm_u(both, 16);
        self.b.ins().uextend(I64, upper)
    }

    /// At the entry of a body all sums are 0.
    pub fn clear_sums(&mut self) {
        let zero = self.number(0);
        for (id, object) in self.c.pipeline.externs.iter() {
            if matches!(object.kind, ExternKind::InternetChecksum) {
                self.set_cell(Cell::Sum(id), zero);
            }
        }
        if self.c.keeps_packet_state {
            let (context, frame) = (self.context, self.frame);
            self.call_helper(self.c.helpers.begin_block, &[context, frame], false);
        }
    }

    /// The greatest that a sum can be before the instruction: nothing, if it is certainly 0 before the block and no instruction of it has changed it.
    fn most_sum(&self, object: ExternId) -> u64 {
        let index = self.c.plan.cells.of(Cell::Sum(object));
        let fresh = self.c.plan.constants.before(self.node, index) == Some(0) && !self.summed.contains(&object);
        if fresh { 0 } else { 0xffff }
    }

    pub(super) fn internet_checksum(
        &mut self,
        object: Option<ExternId>,
        func: ExternFn,
        args: &[Arg],
        results: &[Value],
    ) {
        use ExternFn::*;
        let Some(object) = object else { return };
        let cell = Cell::Sum(object);
        let zero = self.number(0);
        let most = self.most_sum(object);
        if !matches!(func, InternetChecksumGet | InternetChecksumGetState) {
            self.summed.insert(object);
        }
        match func {
            InternetChecksumClear => self.set_cell(cell, zero),
            InternetChecksumSetState => {
                let state = self.low(scalar(args, 0));
                let state = self.cut(state, 16);
                self.set_cell(cell, state);
            }
            InternetChecksumAdd => {
                let sum = self.cell(cell);
                let sum = self.add_words(sum, most, &values(args, 0));
                self.set_cell(cell, sum);
            }
            InternetChecksumSubtract => {
                let other = self.add_words(zero, 0, &values(args, 0));
                let other = self.b.ins().bxor_imm_u(other, 0xffff);
                let sum = self.cell(cell);
                let sum = self.b.ins().iadd(sum, other);
                let sum = self.folded(sum, 0x1_fffe);
                self.set_cell(cell, sum);
            }
            _ => {
                let mut sum = self.cell(cell);
                if func == InternetChecksumGet {
                    sum = self.complement(sum);
                }
                self.give(results, sum);
            }
        }
    }
}
