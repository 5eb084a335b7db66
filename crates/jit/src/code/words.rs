//! The sum of 16-bit words of values packed without gaps, in the order of bytes in which they lie in packets: a sum of swapped words is the swapped sum (RFC 1071, section
//! 2 (B)), so one swap at the end stands for one of each value, and if the sum is stored there is none. What lies in a header as it does in the list is summed
//! from there, up to four bytes at once.

use crate::code::registers::trusted;
use crate::code::stage::StageCode;
use cranelift_codegen::ir as cl;
use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{I16, I32, I64};
use ir::{Entity, HeaderId, Value};

/// What one byte of a list is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Byte {
    /// A part of values.
    Made,
    /// A byte of a header; `alone` if what stands beside it was written by itself, so that a read of both would have to wait.
    There { header: HeaderId, at: u32, alone: bool },
}

/// A part of a sum, and the greatest that it can be.
struct Part {
    value: cl::Value,
    most: u64,
}

/// Values of which a whole number of bytes is made.
struct Group {
    /// The first bit's place in the list.
    bit: u32,
    width: u32,
    /// The bits that are known when the code is made.
    constant: u64,
    /// The others, if there are.
    value: Option<cl::Value>,
}

impl StageCode<'_, '_> {
    /// The sum, not folded, of values that are whole 16-bit words together: as if read from a packet by a machine whose least significant byte comes first. And the
    /// greatest that it can be. `None` if they are not.
    pub(super) fn words_as_in_packets(&mut self, values: &[Value]) -> Option<(cl::Value, u64)> {
        let widths: Vec<u32> = values.iter().map(|value| self.value_type(*value).width()).collect();
        let bits = widths.iter().try_fold(0u32, |bits, width| bits.checked_add(*width))?;
        if !bits.is_multiple_of(16) {
            return None;
        }
        let bytes = self.bytes_of(values, &widths, bits / 8);
        let mut parts = Vec::new();
        let mut known = 0;
        for group in self.groups(values, &widths, &bytes)? {
            self.group_words(&group, &mut parts, &mut known);
        }
        self.header_words(&bytes, &mut parts);
        if known > 0 || parts.is_empty() {
            parts.push(Part { value: self.number(known), most: known });
        }
        let most = parts.iter().try_fold(0u64, |most, part| most.checked_add(part.most))?;
        let sum = parts.into_iter().map(|part| part.value).reduce(|sum, part| self.b.ins().iadd(sum, part))?;
        Some((sum, most))
    }

    /// What each byte of a list is.
    fn bytes_of(&mut self, values: &[Value], widths: &[u32], count: u32) -> Vec<Byte> {
        let mut places: Vec<Option<(HeaderId, u32)>> = Vec::new();
        for (value, width) in values.iter().zip(widths) {
            let known = self.value(*value).first().is_some_and(|reg| self.constant_of(*reg).is_some());
            let field = self.fresh.get(value).filter(|_| !known);
            let first =
                field.map(|(header, index)| (*header, self.c.plan.headers.fields[header.index()][*index as usize].bit));
            places.extend((0..*width).map(|bit| first.map(|(header, first)| (header, first + bit))));
        }
        let byte = |byte: u32| {
            let bits = &places[byte as usize * 8..][..8];
            let (header, first) = bits[0].filter(|(_, first)| first.is_multiple_of(8))?;
            let follows = bits.iter().zip(first..).all(|(place, bit)| *place == Some((header, bit)));
            let at = first / 8;
            let alone = self.written.contains(&(header, at));
            (follows && !self.waits(header, first, 8)).then_some(Byte::There { header, at, alone })
        };
        let mut bytes: Vec<Byte> = (0..count).map(|number| byte(number).unwrap_or(Byte::Made)).collect();
        while self.settle(widths, &mut bytes) {}
        bytes
    }

    /// A value is taken from one side or the other, and one of several bytes that were written is at hand. Whether that changed something.
    fn settle(&self, widths: &[u32], bytes: &mut [Byte]) -> bool {
        let (mut bit, mut changed) = (0, false);
        for width in widths {
            let own = &mut bytes[(bit / 8) as usize..((bit + width).div_ceil(8)) as usize];
            bit += width;
            let several = own.len() > 1;
            let made = |byte: &Byte| match byte {
                Byte::Made => true,
                Byte::There { alone, .. } => *alone && several,
            };
            let other = |byte: &Byte| *byte != Byte::Made;
            if own.iter().any(made) && own.iter().any(other) {
                own.fill(Byte::Made);
                changed = true;
            }
        }
        changed
    }

    /// The values of the bytes that are made, each with those that it shares bytes with. `None` if they take no whole number of bytes, or too many.
    fn groups(&mut self, values: &[Value], widths: &[u32], bytes: &[Byte]) -> Option<Vec<Group>> {
        let mut groups: Vec<Group> = Vec::new();
        let (mut bit, mut open) = (0, false);
        for (value, width) in values.iter().zip(widths) {
            let from = bit;
            bit += width;
            let made = |byte: u32| bytes.get(byte as usize) == Some(&Byte::Made);
            if *width == 0 || !(made(from / 8) || made((bit - 1) / 8)) {
                if open {
                    return None;
                }
                continue;
            }
            let ty = self.value_type(*value);
            let regs = self.value(*value);
            let regs: Vec<cl::Value> = regs.into_iter().map(|reg| self.as_number(ty, reg)).collect();
            if regs.len() > 1 {
                if open || !(from.is_multiple_of(8) && width.is_multiple_of(8)) {
                    return None;
                }
                for (word, reg) in (0..).zip(&regs) {
                    let own = (width - word * 64).min(64);
                    let bit = bit - word * 64 - own;
                    groups.push(Group { bit, width: own, constant: 0, value: Some(*reg) });
                }
                continue;
            }
            if !open {
                groups.push(Group { bit: from, width: 0, constant: 0, value: None });
            }
            let group = groups.last_mut()?;
            group.width += width;
            if group.width > 64 || !group.bit.is_multiple_of(8) {
                return None;
            }
            self.join(groups.last_mut()?, *width, regs[0]);
            open = !bit.is_multiple_of(8);
        }
        (!open).then_some(groups)
    }

    /// Adds a value to those in front of it.
    fn join(&mut self, group: &mut Group, width: u32, value: cl::Value) {
        if width < 64 {
            group.constant <<= width;
            group.value = group.value.map(|before| self.left(before, width));
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

    /// The words of a group that begins and ends with a byte.
    fn group_words(&mut self, group: &Group, parts: &mut Vec<Part>, known: &mut u64) {
        let odd = group.bit / 8 % 2;
        let end = (group.bit + group.width) / 8 % 2;
        // The constant bits as bytes, with a byte of 0 in front or behind so that they are whole words.
        let wide = u128::from(group.constant) << (8 * end);
        let count = (group.width / 8 + odd + end) as usize;
        let bytes = &wide.to_be_bytes()[16 - count..];
        *known += bytes.chunks(2).map(|word| u64::from(u16::from_le_bytes([word[0], word[1]]))).sum::<u64>();
        let Some(value) = group.value else { return };
        if group.width == 8 {
            let value = self.left(value, 8 * odd);
            return parts.push(Part { value, most: 0xff << (8 * odd) });
        }
        // In pieces of four bytes from the end, each of which begins with a word.
        let (mut left, mut value, mut behind) = (group.width, value, end * 8);
        while left > 0 {
            let own = left.min(32 - behind);
            let piece = self.left(value, behind);
            let ty = if own + behind <= 16 { I16 } else { I32 };
            let narrow = self.b.ins().ireduce(ty, piece);
            let swapped = self.b.ins().bswap(narrow);
            let value_of = self.b.ins().uextend(I64, swapped);
            parts.push(Part { value: value_of, most: if ty == I16 { 0xffff } else { 0xffff_ffff } });
            value = self.right(value, own);
            (left, behind) = (left - own, 0);
        }
    }

    /// The words of bytes that lie in headers.
    fn header_words(&mut self, bytes: &[Byte], parts: &mut Vec<Part>) {
        let mut number = 0;
        while let Some(byte) = bytes.get(number) {
            let Byte::There { header, at, alone } = *byte else {
                number += 1;
                continue;
            };
            let odd = number % 2 == 1;
            let follows = (0..4u32).take_while(|more| {
                let next = bytes.get(number + *more as usize);
                next == Some(&Byte::There { header, at: at + more, alone: false })
            });
            let size = match follows.count() {
                4 if !odd => 4,
                2.. if !odd => 2,
                _ => 1,
            };
            debug_assert!(!alone || size == 1);
            let (base, place) = (self.address(header), at as i32);
            let mut value = match size {
                4 => self.b.ins().uload32(trusted(), base, place),
                2 => self.b.ins().uload16(I64, trusted(), base, place),
                _ => self.b.ins().uload8(I64, trusted(), base, place),
            };
            let mut most = (1u64 << (8 * size)) - 1;
            if odd {
                (value, most) = (self.left(value, 8), most << 8);
            }
            parts.push(Part { value, most });
            number += size;
        }
    }
}
