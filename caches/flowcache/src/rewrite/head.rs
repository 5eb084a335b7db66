//! From the deparser's output to a header rewrite, and from constraints to a key mask.

use super::NotRewritable;
use super::form::{KeyMask, MAX_LENGTHS, MAX_SUMS, WINDOW};
use super::symbolic_executor::{DeparserOutput, SymbolicExecutor};
use super::symbolic_value::{FIXED, SymbolicValue, is_constant};
use super::template::{HeaderTemplate, RewriteTemplate};
use interp::block_hook::{BlockStepper, WordIndex};

impl SymbolicExecutor {
    /// Emits a header.
    pub fn execute_emit(&mut self, stepper: &BlockStepper<'_>, h: u32) {
        let header = &stepper.program().headers[h as usize];
        for field in &header.fields {
            let (mut first_slot, mut bits) = (field.reg.first_word, field.reg.width);
            if field.reg.is_varbit {
                self.constrain_value(first_slot);
                bits = stepper.reg_words()[first_slot as usize].min(u64::from(bits)) as u32;
                first_slot += 1;
            }
            if self.emitted.bits.len() > 1 << 16 {
                return self.constraints.fail(NotRewritable::TooDeep);
            }
            self.emit_field(stepper, first_slot, bits);
        }
    }

    /// Appends a field to the deparser's output. `first`: slot of its lowest word; `width`: width
    /// in bits. A length or a sum in whole bytes is emitted as such, any other value by the origins
    /// of its bits.
    fn emit_field(&mut self, stepper: &BlockStepper<'_>, first: WordIndex, width: u32) {
        let at = self.emitted.bits.len();
        // The number is in the low 16 bits.
        let number_offset = at + width.max(16) as usize - 16;
        let is_aligned = number_offset.is_multiple_of(8) && (16..=64).contains(&width);
        let sym = self.origin_of(first);
        // A field that was compared as a length is written as a length, so that it need not be in
        // the key.
        let is_end_relative = self
            .constraints
            .packet_field(&sym)
            .is_some_and(|field| self.constraints.end_relative_fields.contains(&field));
        let length = match is_end_relative && width == 16 {
            true => self.constraints.as_length(&sym, stepper.reg_words()[first as usize]),
            false => None,
        };
        let sym = length.map_or(sym, SymbolicValue::Length);
        match sym {
            SymbolicValue::Length(length) if is_aligned && self.constraints.is_short(length) => {
                self.constraints.constrain_within(length, 0xffff);
                self.emitted.lengths.push((number_offset, length));
                self.emitted.bits.extend((0..width).map(|_| FIXED));
            }
            SymbolicValue::Sum(sum, complement) if is_aligned => {
                self.emitted.sums.push((number_offset, *sum, complement));
                self.emitted.bits.extend((0..width).map(|_| FIXED));
            }
            _ => {
                for bit_index in (0..width).rev() {
                    let (bit, _) = self.bit_origin(stepper, first, bit_index);
                    self.emitted.bits.push(bit);
                }
            }
        }
    }

    /// Returns the template of the packet's path. `is_forwarded`: the packet is forwarded.
    pub fn into_template(mut self, is_forwarded: bool) -> Result<RewriteTemplate, NotRewritable> {
        self.constraints.failed.map_or(Ok(()), Err)?;
        let emitted = std::mem::take(&mut self.emitted);
        let header_lengths = if is_forwarded { Some(self.place_header(&emitted)?) } else { None };
        self.widen_key_fields();
        let header = match header_lengths {
            Some(header_lengths) => Some(Box::new(self.build_header(emitted, header_lengths)?)),
            None => None,
        };
        self.constraints.failed.map_or(Ok(()), Err)?;
        let constraints = &self.constraints;
        let key_mask = KeyMask {
            mask: constraints.mask,
            end_relative_fields: constraints.end_relative_fields.iter().copied().collect(),
            length: constraints.is_exact_length,
        };
        self.checks.dedup();
        let (bounds, checks, counter_updates) = (constraints.bounds.clone(), self.checks, self.counter_updates);
        Ok(RewriteTemplate { key_mask, bounds, checks, header, counter_updates })
    }

    /// Returns the length of the new header, and of the bytes that it replaces. Excludes unmoved
    /// bits at the end, which are handled as payload.
    fn place_header(&mut self, emitted: &DeparserOutput) -> Result<(usize, usize), NotRewritable> {
        let (mut header_bytes, mut replaced_bytes) =
            (emitted.bits.len().div_ceil(8), self.parsed.div_ceil(8).min(self.constraints.length));
        // Number of bits by which bytes after the header move.
        let shift = header_bytes as i64 * 8 - replaced_bytes as i64 * 8;
        // The resulting packet must not exceed the maximum length.
        self.constraints.bound_length(0, packet::MAX_LEN as i64 - (header_bytes as i64 - replaced_bytes as i64));
        let written = emitted.lengths.iter().map(|(at, _)| *at).chain(emitted.sums.iter().map(|(at, ..)| *at));
        // End of the last written length or sum, in bytes.
        let written_end = written.map(|at| at / 8 + 2).max().unwrap_or(0);
        let is_unmoved = |byte: usize| {
            let bits = emitted.bits.get(byte * 8..byte * 8 + 8);
            bits.is_some_and(|bits| {
                let source_bit = |at: usize| (byte * 8 + at) as i64 - shift;
                bits.iter().enumerate().all(|(at, bit)| !is_constant(*bit) && i64::from(*bit) == source_bit(at))
            })
        };
        while header_bytes > written_end && replaced_bytes > 0 && header_bytes > 0 && is_unmoved(header_bytes - 1) {
            (header_bytes, replaced_bytes) = (header_bytes - 1, replaced_bytes - 1);
        }
        if header_bytes > WINDOW || replaced_bytes > WINDOW {
            return Err(NotRewritable::TooDeep);
        }
        for (at, bit) in emitted.bits.iter().enumerate().take(header_bytes * 8) {
            if i64::from(*bit) != at as i64 - shift {
                // A bit from another position is written as a constant of the flow.
                self.constraints.constrain_bit(*bit);
            }
        }
        self.constraints.bound_length(replaced_bytes as i64, i64::MAX);
        self.constraints.failed.map_or(Ok((header_bytes, replaced_bytes)), Err)
    }

    /// Extends the key mask to whole fields (of lookahead data: whole bytes), so that few different
    /// masks exist.
    fn widen_key_fields(&mut self) {
        for (first, width) in std::mem::take(&mut self.fields) {
            let bits = first..(first + width).min(WINDOW as u32 * 8);
            if bits.clone().any(|bit| self.constraints.is_constrained(bit as u16)) {
                bits.for_each(|bit| self.constraints.constrain_bit(bit as u16));
            }
        }
        for byte in &mut self.constraints.mask {
            *byte = if *byte == 0 { 0 } else { 0xff };
        }
        // A field that is both a constant and end-relative makes the length a constant.
        let mask = self.constraints.mask;
        let is_in_key = |at: &u16| mask[*at as usize] != 0 || mask[*at as usize + 1] != 0;
        let fixed_fields: Vec<u16> =
            self.constraints.end_relative_fields.iter().copied().filter(|at| is_in_key(at)).collect();
        for at in fixed_fields {
            self.constraints.end_relative_fields.remove(&at);
            self.constraints.is_exact_length = true;
            (self.constraints.mask[at as usize], self.constraints.mask[at as usize + 1]) = (0xff, 0xff);
        }
    }

    /// Builds the header rewrite: the bits that are kept from the packet, and the fields with
    /// lengths and sums. `len`: bytes of the new header; `replaced_bytes`: bytes of the packet that
    /// it replaces.
    fn build_header(
        &mut self,
        emitted: DeparserOutput,
        (len, replaced_bytes): (usize, usize),
    ) -> Result<HeaderTemplate, NotRewritable> {
        let len_delta = len as i64 - replaced_bytes as i64;
        let mut keep = [0; WINDOW];
        for (at, bit) in emitted.bits.iter().enumerate().take(len * 8) {
            let bit_mask = 0x80 >> (at % 8);
            if i64::from(*bit) == at as i64 - len_delta * 8 && !is_constant(*bit) {
                keep[at / 8] |= bit_mask;
            }
        }
        if emitted.lengths.len() > MAX_LENGTHS || emitted.sums.len() > MAX_SUMS {
            return Err(NotRewritable::TooMuch);
        }
        let lengths = emitted.lengths.into_iter().map(|(at, length)| ((at / 8) as u16, length)).collect();
        let sums = emitted.sums.into_iter().map(|(at, sum, complement)| ((at / 8) as u16, sum, complement)).collect();
        Ok(HeaderTemplate { len_delta: len_delta as i16, len: len as u16, keep, lengths, sums })
    }
}
