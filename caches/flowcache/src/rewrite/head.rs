//! From what the deparser emitted to the new beginning of a packet; and from what was looked at to a key.

use super::Unrewritable;
use super::form::{MAX_LENGTHS, MAX_SUMS, Shape, WINDOW};
use super::shadow::{Emitted, Shadow};
use super::sym::{FIXED, Sym, is_constant};
use super::template::{NewHead, Template};
use interp::walk::{Slot, Walker};

impl Shadow {
    /// A header is emitted.
    pub fn emit(&mut self, walker: &Walker<'_>, h: u32) {
        let header = &walker.program().headers[h as usize];
        for field in &header.fields {
            let (mut first, mut width) = (field.reg.slot, field.reg.width);
            if field.reg.varbit {
                self.depends_on(first);
                width = walker.slots()[first as usize].min(u64::from(width)) as u32;
                first += 1;
            }
            if self.emitted.bits.len() > 1 << 16 {
                return self.pins.fail(Unrewritable::TooDeep);
            }
            self.emit_field(walker, first, width);
        }
    }

    fn emit_field(&mut self, walker: &Walker<'_>, first: Slot, width: u32) {
        let at = self.emitted.bits.len();
        // The low 16 bits are the number.
        let low = at + width.max(16) as usize - 16;
        let placed = low.is_multiple_of(8) && (16..=64).contains(&width);
        let sym = self.sym(first);
        // A length that was compared as one is written as one: wherever it goes, it need not be part of the key.
        let near = self.pins.field(&sym).is_some_and(|at| self.pins.near.contains(&at));
        let length = match near && width == 16 {
            true => self.pins.as_length(&sym, walker.slots()[first as usize]),
            false => None,
        };
        let sym = length.map_or(sym, Sym::Length);
        match sym {
            Sym::Length(length) if placed && self.pins.is_short(length) => {
                self.pins.within(length, 0xffff);
                self.emitted.lengths.push((low, length));
                self.emitted.bits.extend((0..width).map(|_| FIXED));
            }
            Sym::Sum(words, complement) if placed => {
                self.emitted.sums.push((low, *words, complement));
                self.emitted.bits.extend((0..width).map(|_| FIXED));
            }
            _ => {
                for place in (0..width).rev() {
                    let (bit, _) = self.bit(walker, first, place);
                    self.emitted.bits.push(bit);
                }
            }
        }
    }

    /// What was found of the packet's way, if it can be said; the packet leaves, or is dropped.
    pub fn finish(mut self, leaves: bool) -> Result<Template, Unrewritable> {
        self.pins.failed.map_or(Ok(()), Err)?;
        let emitted = std::mem::take(&mut self.emitted);
        let placed = if leaves { Some(self.place(&emitted)?) } else { None };
        self.whole_fields();
        let head = match placed {
            Some(placed) => Some(Box::new(self.head(emitted, placed)?)),
            None => None,
        };
        self.pins.failed.map_or(Ok(()), Err)?;
        let pins = &self.pins;
        let shape = Shape { mask: pins.mask, near: pins.near.iter().copied().collect(), length: pins.whole_length };
        self.checks.dedup();
        let (bounds, checks, credits) = (pins.bounds.clone(), self.checks, self.credits);
        Ok(Template { shape, bounds, checks, head, credits })
    }

    /// How many bytes the new beginning has and how many it takes the place of. Bits that stay in their place behind it are payload.
    fn place(&mut self, emitted: &Emitted) -> Result<(usize, usize), Unrewritable> {
        let (mut head, mut taken) = (emitted.bits.len().div_ceil(8), self.parsed.div_ceil(8).min(self.pins.length));
        let shift = head as i64 * 8 - taken as i64 * 8;
        // A packet must not be longer than it can be.
        self.pins.bound(0, packet::MAX_LEN as i64 - (head as i64 - taken as i64));
        let special = emitted.lengths.iter().map(|(at, _)| *at).chain(emitted.sums.iter().map(|(at, ..)| *at));
        let special = special.map(|at| at / 8 + 2).max().unwrap_or(0);
        let stays = |byte: usize| {
            let bits = emitted.bits.get(byte * 8..byte * 8 + 8);
            bits.is_some_and(|bits| {
                let place = |at: usize| (byte * 8 + at) as i64 - shift;
                bits.iter().enumerate().all(|(at, bit)| !is_constant(*bit) && i64::from(*bit) == place(at))
            })
        };
        while head > special && taken > 0 && head > 0 && stays(head - 1) {
            (head, taken) = (head - 1, taken - 1);
        }
        if head > WINDOW || taken > WINDOW {
            return Err(Unrewritable::TooDeep);
        }
        for (at, bit) in emitted.bits.iter().enumerate().take(head * 8) {
            if i64::from(*bit) != at as i64 - shift {
                self.pins.pin_bit(*bit);
            }
        }
        self.pins.bound(taken as i64, i64::MAX);
        self.pins.failed.map_or(Ok((head, taken)), Err)
    }

    /// Keys ask for whole fields, so that there are few different sets of bits; of what was only looked ahead at, for whole bytes.
    fn whole_fields(&mut self) {
        for (first, width) in std::mem::take(&mut self.fields) {
            let bits = first..(first + width).min(WINDOW as u32 * 8);
            if bits.clone().any(|bit| self.pins.is_pinned(bit as u16)) {
                bits.for_each(|bit| self.pins.pin_bit(bit as u16));
            }
        }
        for byte in &mut self.pins.mask {
            *byte = if *byte == 0 { 0 } else { 0xff };
        }
        // Of a field that is known, and whose distance from the length is, the length is known.
        let mask = self.pins.mask;
        let looked = |at: &u16| mask[*at as usize] != 0 || mask[*at as usize + 1] != 0;
        let known: Vec<u16> = self.pins.near.iter().copied().filter(|at| looked(at)).collect();
        for at in known {
            self.pins.near.remove(&at);
            self.pins.whole_length = true;
            (self.pins.mask[at as usize], self.pins.mask[at as usize + 1]) = (0xff, 0xff);
        }
    }

    fn head(&mut self, emitted: Emitted, (len, taken): (usize, usize)) -> Result<NewHead, Unrewritable> {
        let grow = len as i64 - taken as i64;
        let mut keep = [0; WINDOW];
        for (at, bit) in emitted.bits.iter().enumerate().take(len * 8) {
            let one = 0x80 >> (at % 8);
            if i64::from(*bit) == at as i64 - grow * 8 && !is_constant(*bit) {
                keep[at / 8] |= one;
            }
        }
        if emitted.lengths.len() > MAX_LENGTHS || emitted.sums.len() > MAX_SUMS {
            return Err(Unrewritable::TooMuch);
        }
        let lengths = emitted.lengths.into_iter().map(|(at, length)| ((at / 8) as u16, length)).collect();
        let sums =
            emitted.sums.into_iter().map(|(at, words, complement)| ((at / 8) as u16, words, complement)).collect();
        Ok(NewHead { grow: grow as i16, len: len as u16, keep, lengths, sums })
    }
}
