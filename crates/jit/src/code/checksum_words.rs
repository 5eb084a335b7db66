//! Sum of the 16-bit words of values packed without gaps, in the byte order of packets. The sum of
//! swapped words is the swapped sum (RFC 1071, section 2 (B)), so a single swap at the end replaces
//! one for each value, and none is necessary if the sum is stored. Values that are contiguous in a
//! header in the same order are summed from memory, up to four bytes at once.

use crate::code::registers::trusted_flags;
use crate::code::stage::StageBuilder;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I16, I32, I64};
use ir::{Entity, HeaderId, Value};

/// Source of one byte of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChecksumByte {
    /// Computed from values.
    Made,
    /// A byte of a header. `alone`: it was stored separately from its neighbours, so that a load of
    /// both would stall on store forwarding.
    There { header: HeaderId, at: u32, alone: bool },
}

/// A term of the sum with its maximum.
struct ChecksumTerm {
    value: cl::Value,
    most: u64,
}

/// Values that together form a whole number of bytes.
struct PackedGroup {
    /// First bit in the data.
    bit: u32,
    width: u32,
    /// Bits that are constant.
    constant: u64,
    /// The other bits, if any.
    value: Option<cl::Value>,
}

impl StageBuilder<'_, '_> {
    /// Computes the unfolded sum of values that together are whole 16-bit words, as if loaded from
    /// a packet in little-endian order. Returns it with its maximum; `None` if the values are not
    /// whole words.
    pub(super) fn sum_in_packet_order(&mut self, values: &[Value]) -> Option<(cl::Value, u64)> {
        let widths: Vec<u32> = values.iter().map(|value| self.value_type(*value).width()).collect();
        let bits = widths.iter().try_fold(0u32, |bits, width| bits.checked_add(*width))?;
        if !bits.is_multiple_of(16) {
            return None;
        }
        let bytes = self.byte_sources(values, &widths, bits / 8);
        let mut terms = Vec::new();
        let mut constant_sum = 0;
        for group in self.group_values(values, &widths, &bytes)? {
            self.group_words(&group, &mut terms, &mut constant_sum);
        }
        self.header_words(&bytes, &mut terms);
        if constant_sum > 0 || terms.is_empty() {
            terms.push(ChecksumTerm { value: self.iconst_u64(constant_sum), most: constant_sum });
        }
        let max_sum = terms.iter().try_fold(0u64, |max_sum, part| max_sum.checked_add(part.most))?;
        let sum = terms.into_iter().map(|part| part.value).reduce(|sum, part| self.b.ins().iadd(sum, part))?;
        Some((sum, max_sum))
    }

    /// Returns the source of each byte of the packed values: a header, if the byte is an unchanged
    /// byte of a field that the header still contains, otherwise computed.
    fn byte_sources(&mut self, values: &[Value], widths: &[u32], count: u32) -> Vec<ChecksumByte> {
        let mut header_bits: Vec<Option<(HeaderId, u32)>> = Vec::new();
        for (value, width) in values.iter().zip(widths) {
            let is_constant = self.value(*value).first().is_some_and(|reg| self.constant_of(*reg).is_some());
            let field = self.field_of_value.get(value).filter(|_| !is_constant);
            let first_bit =
                field.map(|(header, index)| (*header, self.c.plan.headers.fields[header.index()][*index as usize].bit));
            header_bits.extend((0..*width).map(|bit| first_bit.map(|(header, first_bit)| (header, first_bit + bit))));
        }
        let byte = |byte: u32| {
            let bits = &header_bits[byte as usize * 8..][..8];
            let (header, first) = bits[0].filter(|(_, first)| first.is_multiple_of(8))?;
            let is_contiguous = bits.iter().zip(first..).all(|(source, bit)| *source == Some((header, bit)));
            let offset = first / 8;
            let alone = self.written_bytes.contains(&(header, offset));
            (is_contiguous && !self.has_pending_stores(header, first, 8)).then_some(ChecksumByte::There {
                header,
                at: offset,
                alone,
            })
        };
        let mut bytes: Vec<ChecksumByte> = (0..count).map(|index| byte(index).unwrap_or(ChecksumByte::Made)).collect();
        // A value of which one byte is computed is computed as a whole.
        while self.unify_value_sources(widths, &mut bytes) {}
        bytes
    }

    /// Makes all bytes of a value come from one source; a byte stored separately is computed if the
    /// value has several. Returns whether something changed.
    fn unify_value_sources(&self, widths: &[u32], bytes: &mut [ChecksumByte]) -> bool {
        let (mut bit, mut changed) = (0, false);
        for width in widths {
            let own = &mut bytes[(bit / 8) as usize..((bit + width).div_ceil(8)) as usize];
            bit += width;
            let several = own.len() > 1;
            let made = |byte: &ChecksumByte| match byte {
                ChecksumByte::Made => true,
                ChecksumByte::There { alone, .. } => *alone && several,
            };
            let other = |byte: &ChecksumByte| *byte != ChecksumByte::Made;
            if own.iter().any(made) && own.iter().any(other) {
                own.fill(ChecksumByte::Made);
                changed = true;
            }
        }
        changed
    }

    /// Groups the computed values that share bytes. Returns `None` if a group is not a whole number
    /// of bytes, or too wide.
    fn group_values(&mut self, values: &[Value], widths: &[u32], bytes: &[ChecksumByte]) -> Option<Vec<PackedGroup>> {
        let mut groups: Vec<PackedGroup> = Vec::new();
        let (mut bit, mut is_incomplete) = (0, false);
        for (value, width) in values.iter().zip(widths) {
            let start = bit;
            bit += width;
            let is_computed = |byte: u32| bytes.get(byte as usize) == Some(&ChecksumByte::Made);
            if *width == 0 || !(is_computed(start / 8) || is_computed((bit - 1) / 8)) {
                if is_incomplete {
                    return None;
                }
                continue;
            }
            let ty = self.value_type(*value);
            let regs = self.value(*value);
            let regs: Vec<cl::Value> = regs.into_iter().map(|reg| self.as_number(ty, reg)).collect();
            if regs.len() > 1 {
                // A value of several words must start and end at a byte, with no open group before
                // it.
                if is_incomplete || !(start.is_multiple_of(8) && width.is_multiple_of(8)) {
                    return None;
                }
                for (word, reg) in (0..).zip(&regs) {
                    let part_bits = (width - word * 64).min(64);
                    let bit = bit - word * 64 - part_bits;
                    groups.push(PackedGroup { bit, width: part_bits, constant: 0, value: Some(*reg) });
                }
                continue;
            }
            if !is_incomplete {
                groups.push(PackedGroup { bit: start, width: 0, constant: 0, value: None });
            }
            let group = groups.last_mut()?;
            group.width += width;
            if group.width > 64 || !group.bit.is_multiple_of(8) {
                return None;
            }
            self.append_to_group(groups.last_mut()?, *width, regs[0]);
            is_incomplete = !bit.is_multiple_of(8);
        }
        (!is_incomplete).then_some(groups)
    }

    /// Appends a value to a group.
    fn append_to_group(&mut self, group: &mut PackedGroup, width: u32, value: cl::Value) {
        if width < 64 {
            group.constant <<= width;
            group.value = group.value.map(|before| self.shl_imm(before, width));
        }
        match self.constant_of(value) {
            Some(constant) => group.constant |= constant,
            None => {
                group.value = Some(match group.value {
                    Some(before) => self.b.ins().bor(before, value),
                    None => value,
                });
            }
        }
    }

    /// Adds the words of a group, which starts and ends at a byte boundary, to `terms`. The
    /// constant bits are added to `constant_sum`, the sum of all constants.
    fn group_words(&mut self, group: &PackedGroup, terms: &mut Vec<ChecksumTerm>, constant_sum: &mut u64) {
        let starts_odd = group.bit / 8 % 2;
        let ends_odd = (group.bit + group.width) / 8 % 2;
        // The constant bits as bytes, padded with a byte of 0 before or after to whole words.
        let padded = u128::from(group.constant) << (8 * ends_odd);
        let count = (group.width / 8 + starts_odd + ends_odd) as usize;
        let bytes = &padded.to_be_bytes()[16 - count..];
        *constant_sum += bytes.chunks(2).map(|word| u64::from(u16::from_le_bytes([word[0], word[1]]))).sum::<u64>();
        let Some(value) = group.value else { return };
        if group.width == 8 {
            let value = self.shl_imm(value, 8 * starts_odd);
            return terms.push(ChecksumTerm { value, most: 0xff << (8 * starts_odd) });
        }
        // Pieces of four bytes from the end, each of which starts at a word boundary.
        let (mut bits_left, mut value, mut shift) = (group.width, value, ends_odd * 8);
        while bits_left > 0 {
            let piece_bits = bits_left.min(32 - shift);
            let piece = self.shl_imm(value, shift);
            let ty = if piece_bits + shift <= 16 { I16 } else { I32 };
            let narrow = self.b.ins().ireduce(ty, piece);
            let swapped = self.b.ins().bswap(narrow);
            let term = self.b.ins().uextend(I64, swapped);
            terms.push(ChecksumTerm { value: term, most: if ty == I16 { 0xffff } else { 0xffff_ffff } });
            value = self.shr_imm(value, piece_bits);
            (bits_left, shift) = (bits_left - piece_bits, 0);
        }
    }

    /// Adds the words of bytes that are loaded from headers: 4 or 2 bytes at once where they are
    /// contiguous and start a word.
    fn header_words(&mut self, bytes: &[ChecksumByte], terms: &mut Vec<ChecksumTerm>) {
        let mut index = 0;
        while let Some(byte) = bytes.get(index) {
            let ChecksumByte::There { header, at, alone } = *byte else {
                index += 1;
                continue;
            };
            let is_odd = index % 2 == 1;
            let contiguous = (0..4u32).take_while(|distance| {
                let next = bytes.get(index + *distance as usize);
                next == Some(&ChecksumByte::There { header, at: at + distance, alone: false })
            });
            let size = match contiguous.count() {
                4 if !is_odd => 4,
                2.. if !is_odd => 2,
                _ => 1,
            };
            debug_assert!(!alone || size == 1);
            let (base, offset) = (self.address(header), at as i32);
            let mut value = match size {
                4 => self.b.ins().uload32(trusted_flags(), base, offset),
                2 => self.b.ins().uload16(I64, trusted_flags(), base, offset),
                _ => self.b.ins().uload8(I64, trusted_flags(), base, offset),
            };
            let mut max = (1u64 << (8 * size)) - 1;
            if is_odd {
                (value, max) = (self.shl_imm(value, 8), max << 8);
            }
            terms.push(ChecksumTerm { value, most: max });
            index += size;
        }
    }
}
