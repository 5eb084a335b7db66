//! [`PassBridge`]: the state that a packet carries through the chip from one pass to the next, as
//! bytes before the packet.
//!
//! A pass is one trip of a packet through a pipe of the chip. A packet that leaves a pass is deparsed
//! to the bridge header, the complete headers with fields that a later pass reads, and the payload.
//! The next pass parses it again from these bytes alone.

use super::attached::{LENGTH_BITS, carried_bits};
use crate::live::LiveSet;
use fixedbitset::FixedBitSet;
use interp::block_hook::{DecodedProgram, Reg};
use interp::overseer::{BitBuffer, Frame, read_words};
use ir::{ControlId, Entity, HeaderId, Pipeline};

/// Layout of the bytes between two passes: bridge header, then complete headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassBridge {
    /// Actions that table applications chose and a later pass still needs: for each the index in
    /// [`Frame::attached`], and its width in bits.
    pub chosen_actions: Vec<(usize, u32)>,
    /// Headers with a validity bit in the bridge header, by number.
    pub validities: Vec<usize>,
    /// Fields, metadata and values in the bridge header.
    pub scalars: Vec<Reg>,
    /// Complete headers, which follow the bridge header if they are valid: for each field its
    /// register, and whether a later pass reads it. Fields that no later pass reads are sent as 0.
    pub complete_headers: Vec<(usize, Vec<(Reg, bool)>)>,
    /// Length of the bridge header in bits, rounded up to bytes; without the complete headers.
    pub bits: u32,
}

impl PassBridge {
    /// Creates the layout for the state that is live where the passes meet. `control` is the control
    /// that is split there, `None` between two controls. For a block that ends in a table
    /// application, `action_slot` returns where the chosen action is stored: the index in
    /// [`Frame::attached`], and its width in bits.
    pub fn new(
        pipeline: &Pipeline,
        decoded: &DecodedProgram,
        (live, control): (&LiveSet, Option<ControlId>),
        action_slot: impl Fn(ControlId, usize) -> (usize, u32),
    ) -> PassBridge {
        let mut scalars: Vec<Reg> = Vec::new();
        let mut complete_headers = Vec::new();
        let mut in_complete_header = FixedBitSet::default();
        for (id, header) in pipeline.headers.iter() {
            let is_live = |var: &ir::VarId| live.vars.contains(var.index());
            if live.headers.contains(id.index()) && header.fields.iter().any(is_live) && !header.local {
                complete_headers.push((
                    id.index(),
                    header.fields.iter().map(|var| (decoded.var_regs[var.index()], is_live(var))).collect::<Vec<_>>(),
                ));
                header.fields.iter().for_each(|var| in_complete_header.grow_and_insert(var.index()));
            }
        }
        scalars
            .extend(live.vars.ones().filter(|var| !in_complete_header.contains(*var)).map(|var| decoded.var_regs[var]));
        let mut chosen_actions = Vec::new();
        if let Some(control) = control {
            chosen_actions.extend(live.arms.ones().map(|block| action_slot(control, block)));
            scalars.extend(live.values.ones().filter_map(|value| decoded.codes[control.index()].values[value]));
        }
        let validities: Vec<usize> = live.headers.ones().collect();
        // Lengths of varbit fields in complete headers, because the next pass does not evaluate the
        // expressions that gave these lengths.
        let lengths = complete_headers.iter().flat_map(|(_, fields)| fields).filter(|(reg, _)| reg.is_varbit).count()
            as u32
            * LENGTH_BITS;
        let content: u32 =
            scalars.iter().map(|reg| carried_bits(*reg)).sum::<u32>() + validities.len() as u32 + lengths;
        let content = content + chosen_actions.iter().map(|(_, width)| width).sum::<u32>();
        PassBridge { chosen_actions, validities, scalars, complete_headers, bits: content.next_multiple_of(8) }
    }

    /// Writes a packet's bridge header and headers. The payload follows them.
    pub fn write_headers(&self, frame: &Frame, out: &mut BitBuffer) {
        for (word, width) in &self.chosen_actions {
            out.push_words(*width, &[u64::from(frame.attached[*word])]);
        }
        for header in &self.validities {
            out.push_words(1, &[u64::from(frame.valid[*header])]);
        }
        for (_, fields) in &self.complete_headers {
            for (reg, is_needed) in fields.iter().filter(|(reg, _)| reg.is_varbit) {
                out.push_words(LENGTH_BITS, if *is_needed { frame.words(*reg) } else { &[] });
            }
        }
        for reg in &self.scalars {
            write_scalar(frame, *reg, out);
        }
        pad_to_byte(out);
        for (_, fields) in self.complete_headers.iter().filter(|(header, _)| frame.valid[*header]) {
            for (reg, is_needed) in fields {
                let words = if *is_needed { frame.words(*reg) } else { &[] };
                match (reg.is_varbit, words) {
                    (true, [length, bits @ ..]) => out.push_words(*length as u32, bits),
                    (true, []) => {}
                    (false, words) => out.push_words(reg.width, words),
                }
            }
        }
        pad_to_byte(out);
    }

    /// Reads bridge header and headers into an otherwise empty packet. Returns the offset of the
    /// payload in bytes.
    pub fn read_headers(&self, bytes: &[u8], frame: &mut Frame) -> usize {
        let mut bit_offset = 0;
        for (words, width) in &self.chosen_actions {
            let mut arm = [0];
            read_field(bytes, &mut bit_offset, *width, &mut arm);
            frame.attached[*words] = arm[0] as u16;
        }
        for header in &self.validities {
            let mut validity = [0];
            read_field(bytes, &mut bit_offset, 1, &mut validity);
            frame.valid[*header] = validity[0] != 0;
        }
        for reg in
            self.complete_headers.iter().flat_map(|(_, fields)| fields).map(|(reg, _)| reg).filter(|reg| reg.is_varbit)
        {
            read_field(bytes, &mut bit_offset, LENGTH_BITS, &mut frame.words_mut(*reg)[..1]);
        }
        for reg in &self.scalars {
            let mut words = slot_range(*reg);
            if reg.is_varbit {
                read_field(bytes, &mut bit_offset, LENGTH_BITS, &mut frame.reg_words[words.start..words.start + 1]);
                words.start += 1;
            }
            read_field(bytes, &mut bit_offset, reg.width, &mut frame.reg_words[words]);
        }
        bit_offset = bit_offset.next_multiple_of(8);
        for (header, fields) in &self.complete_headers {
            if !frame.valid[*header] {
                // The varbits of an invalid header have length 0.
                continue;
            }
            for (reg, _) in fields {
                let mut words = slot_range(*reg);
                let width = if reg.is_varbit { frame.reg_words[words.start] as u32 } else { reg.width };
                words.start += usize::from(reg.is_varbit);
                read_field(bytes, &mut bit_offset, width, &mut frame.reg_words[words]);
            }
        }
        bit_offset.div_ceil(8)
    }

    /// Returns the names of the bridge header's fields with their widths in bits, for reports.
    pub fn field_names(&self, pipeline: &Pipeline, decoded: &DecodedProgram) -> Vec<(String, u32)> {
        let mut names: Vec<(String, u32)> =
            self.chosen_actions.iter().map(|(_, width)| ("action".to_owned(), *width)).collect();
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

fn slot_range(reg: Reg) -> std::ops::Range<usize> {
    reg.first_word as usize..(reg.first_word + reg.words) as usize
}

fn write_scalar(frame: &Frame, reg: Reg, out: &mut BitBuffer) {
    let words = frame.words(reg);
    if reg.is_varbit {
        out.push_words(LENGTH_BITS, words);
    }
    out.push_words(reg.width, &words[usize::from(reg.is_varbit)..]);
}

fn read_field(bytes: &[u8], at: &mut usize, width: u32, out: &mut [u64]) {
    read_words(bytes, *at, width, out);
    *at += width as usize;
}

fn pad_to_byte(out: &mut BitBuffer) {
    let missing = out.bit_len().next_multiple_of(8) - out.bit_len();
    out.push_words(missing as u32, &[0]);
}
