//! Bridge headers: what a packet takes along from one pass into the next, as bytes in front of it.
//!
//! Where a packet leaves a pass, it is deparsed: the bridge header, the headers that are still needed as a whole, the payload. On the other side nothing is
//! left of it but these bytes, from which it is parsed again.

use super::attached::{LENGTH_BITS, carried_bits};
use crate::live::Live;
use fixedbitset::FixedBitSet;
use interp::overseer::{BitBuffer, Frame, read_words};
use interp::walk::{Program, Reg};
use ir::{ControlId, Entity, HeaderId, Pipeline};

/// What is carried over one crossing, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bridge {
    /// Which action each of these table applications has led to: word of [`Frame::attached`], and width in bits.
    pub arms: Vec<(usize, u32)>,
    /// Headers whose validity is carried, in the order of their numbers: one bit each.
    pub validities: Vec<usize>,
    /// Fields, metadata and values that are carried in the bridge header.
    pub scalars: Vec<Reg>,
    /// Headers that follow the bridge header, if they are valid: their fields, and whether those are still needed. What nobody needs is 0.
    pub whole: Vec<(usize, Vec<(Reg, bool)>)>,
    /// Length of the bridge header in bits, filled up to whole bytes.
    pub bits: u32,
}

impl Bridge {
    /// The bridge for what is live, in a control (none: between controls). `arm` gives the place and the width of what a block's table led to.
    pub fn new(
        pipeline: &Pipeline,
        decoded: &Program,
        (live, control): (&Live, Option<ControlId>),
        arm: impl Fn(ControlId, usize) -> (usize, u32),
    ) -> Bridge {
        let mut scalars: Vec<Reg> = Vec::new();
        let mut whole = Vec::new();
        let mut in_whole = FixedBitSet::default();
        for (id, header) in pipeline.headers.iter() {
            let needed = |var: &ir::VarId| live.vars.contains(var.index());
            if live.headers.contains(id.index()) && header.fields.iter().any(needed) && !header.local {
                whole.push((
                    id.index(),
                    header.fields.iter().map(|var| (decoded.var_regs[var.index()], needed(var))).collect::<Vec<_>>(),
                ));
                header.fields.iter().for_each(|var| in_whole.grow_and_insert(var.index()));
            }
        }
        scalars.extend(live.vars.ones().filter(|var| !in_whole.contains(*var)).map(|var| decoded.var_regs[var]));
        let mut arms = Vec::new();
        if let Some(control) = control {
            arms.extend(live.arms.ones().map(|block| arm(control, block)));
            scalars.extend(live.values.ones().filter_map(|value| decoded.codes[control.index()].values[value]));
        }
        let validities: Vec<usize> = live.headers.ones().collect();
        // The lengths of varbits in whole headers: nobody else says where those end.
        let lengths =
            whole.iter().flat_map(|(_, fields)| fields).filter(|(reg, _)| reg.varbit).count() as u32 * LENGTH_BITS;
        let content: u32 =
            scalars.iter().map(|reg| carried_bits(*reg)).sum::<u32>() + validities.len() as u32 + lengths;
        let content = content + arms.iter().map(|(_, width)| width).sum::<u32>();
        Bridge { arms, validities, scalars, whole, bits: content.next_multiple_of(8) }
    }

    /// Writes a packet's bridge header and headers; the payload comes behind.
    pub fn write(&self, frame: &Frame, out: &mut BitBuffer) {
        for (place, width) in &self.arms {
            out.push_words(*width, &[u64::from(frame.attached[*place])]);
        }
        for header in &self.validities {
            out.push_words(1, &[u64::from(frame.valid[*header])]);
        }
        for (_, fields) in &self.whole {
            for (reg, needed) in fields.iter().filter(|(reg, _)| reg.varbit) {
                out.push_words(LENGTH_BITS, if *needed { frame.words(*reg) } else { &[] });
            }
        }
        for reg in &self.scalars {
            write_scalar(frame, *reg, out);
        }
        pad(out);
        for (_, fields) in self.whole.iter().filter(|(header, _)| frame.valid[*header]) {
            for (reg, needed) in fields {
                let words = if *needed { frame.words(*reg) } else { &[] };
                match (reg.varbit, words) {
                    (true, [length, bits @ ..]) => out.push_words(*length as u32, bits),
                    (true, []) => {}
                    (false, words) => out.push_words(reg.width, words),
                }
            }
        }
        pad(out);
    }

    /// Reads both back into a packet that is empty otherwise; where the payload begins, in bytes.
    pub fn read(&self, bytes: &[u8], frame: &mut Frame) -> usize {
        let mut at = 0;
        for (place, width) in &self.arms {
            let mut arm = [0];
            take(bytes, &mut at, *width, &mut arm);
            frame.attached[*place] = arm[0] as u16;
        }
        for header in &self.validities {
            let mut one = [0];
            take(bytes, &mut at, 1, &mut one);
            frame.valid[*header] = one[0] != 0;
        }
        for reg in self.whole.iter().flat_map(|(_, fields)| fields).map(|(reg, _)| reg).filter(|reg| reg.varbit) {
            take(bytes, &mut at, LENGTH_BITS, &mut frame.words_mut(*reg)[..1]);
        }
        for reg in &self.scalars {
            let mut place = range(*reg);
            if reg.varbit {
                take(bytes, &mut at, LENGTH_BITS, &mut frame.slots[place.start..place.start + 1]);
                place.start += 1;
            }
            take(bytes, &mut at, reg.width, &mut frame.slots[place]);
        }
        at = at.next_multiple_of(8);
        for (header, fields) in &self.whole {
            if !frame.valid[*header] {
                // Its varbits have no bits: the lengths were those of an empty header.
                continue;
            }
            for (reg, _) in fields {
                let mut place = range(*reg);
                let width = if reg.varbit { frame.slots[place.start] as u32 } else { reg.width };
                place.start += usize::from(reg.varbit);
                take(bytes, &mut at, width, &mut frame.slots[place]);
            }
        }
        at.div_ceil(8)
    }

    /// Names of what is carried in the bridge header, with widths in bits; for reports.
    pub fn names(&self, pipeline: &Pipeline, decoded: &Program) -> Vec<(String, u32)> {
        let mut names: Vec<(String, u32)> = self.arms.iter().map(|(_, width)| ("action".to_owned(), *width)).collect();
        for header in &self.validities {
            names.push((format!("{}.$valid", pipeline.headers[HeaderId::from_index(*header)].name), 1));
        }
        for reg in &self.scalars {
            let var = decoded.var_regs.iter().position(|var| var == reg);
            let name =
                var.map_or_else(|| "value".to_owned(), |var| pipeline.vars[ir::VarId::from_index(var)].name.clone());
            names.push((name, carried_bits(*reg)));
        }
        names
    }
}

fn range(reg: Reg) -> std::ops::Range<usize> {
    reg.slot as usize..(reg.slot + reg.words) as usize
}

fn write_scalar(frame: &Frame, reg: Reg, out: &mut BitBuffer) {
    let words = frame.words(reg);
    if reg.varbit {
        out.push_words(LENGTH_BITS, words);
    }
    out.push_words(reg.width, &words[usize::from(reg.varbit)..]);
}

fn take(bytes: &[u8], at: &mut usize, width: u32, out: &mut [u64]) {
    read_words(bytes, *at, width, out);
    *at += width as usize;
}

fn pad(out: &mut BitBuffer) {
    let missing = out.bit_len().next_multiple_of(8) - out.bit_len();
    out.push_words(missing as u32, &[0]);
}
