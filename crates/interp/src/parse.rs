//! Headers and packets: validity, extraction, lookahead, emission, value sets.

use crate::frame::Frame;
use crate::lookup::entry_matches;
use crate::machine::{Machine, Next};
use crate::overseer::Overseer;
use crate::program::*;
use crate::trace::Event;
use crate::wire;
use entries::KeyField;
use ir::Loc;
use packet::EngineReason;

impl<O: Overseer> Machine<'_, O> {
    /// An instruction on headers or the packet.
    pub(crate) fn packet_op(&mut self, frame: &mut Frame, code: &Code, op: &Op, loc: Loc) -> Next {
        let program = self.program;
        match op {
            Op::SetValid { h } => {
                if O::TRACES && !frame.valid[*h as usize] {
                    self.note_valid(*h, true, loc);
                }
                frame.validate(program, *h);
            }
            Op::SetInvalid { h } => {
                if O::TRACES && frame.valid[*h as usize] {
                    self.note_valid(*h, false, loc);
                }
                frame.invalidate(program, *h);
            }
            Op::Copy { dst, src } => self.copy_header(frame, *dst, *src, loc),
            Op::State { index } => {
                if O::TRACES {
                    let name = code.states.get(*index as usize).cloned().unwrap_or_default();
                    self.note(Event::State { name }, loc);
                }
                if self.parser_fuel == 0 {
                    frame.parser_error = program.errors.parser_timeout;
                    return Next::Stop(Outcome::Abort(EngineReason::ParserTimeout));
                }
                self.parser_fuel -= 1;
            }
            Op::Extract { h } => return self.extract(frame, *h, loc),
            Op::ExtractVarbit { h, a } => {
                let bits = frame.slots[*a as usize];
                return self.extract_varbit(frame, *h, bits, loc);
            }
            Op::Advance { a } => {
                let bits = frame.slots[*a as usize];
                if !bits.is_multiple_of(8) {
                    return self.parser_error(frame, program.errors.parser_invalid_argument, loc);
                }
                if bits > frame.bits_left() as u64 {
                    return self.parser_error(frame, program.errors.packet_too_short, loc);
                }
                frame.cursor += bits as usize;
            }
            Op::Lookahead { index } => {
                let reg = code.lookaheads[*index as usize];
                if reg.width as usize > frame.bits_left() {
                    return self.parser_error(frame, program.errors.packet_too_short, loc);
                }
                let range = reg.slot as usize..(reg.slot + reg.words) as usize;
                wire::read_words(&frame.data, frame.cursor, reg.width, &mut frame.slots[range]);
            }
            Op::Verify { c, e } => {
                if frame.slots[*c as usize] == 0 {
                    let error = frame.slots[*e as usize] as u32;
                    return self.parser_error(frame, error, loc);
                }
            }
            Op::PacketLength { d } => frame.slots[*d as usize] = frame.len as u64,
            Op::InValueSet { index } => {
                let (d, set, keys) = &code.value_sets[*index as usize];
                let (layout, members) = self.memory.value_set(*set);
                let words = |field: &KeyField| frame.words(keys[field.position]);
                let found = members.iter().any(|member| entry_matches(layout, member, words));
                frame.slots[*d as usize] = u64::from(found);
                if O::TRACES {
                    let name = self.pipeline.value_sets.values().nth(*set).map(|s| s.preamble.name.clone());
                    let call = format!("value set {}", name.unwrap_or_default());
                    let arguments = keys.iter().map(|key| self.show_reg(frame, *key)).collect();
                    self.note(Event::Extern { call, arguments, results: vec![found.to_string()] }, loc);
                }
            }
            Op::Emit { h } => self.emit(frame, *h, loc),
            _ => return Next::Stop(Outcome::Abort(EngineReason::EngineFault)),
        }
        Next::Go
    }

    fn parser_error(&mut self, frame: &mut Frame, error: u32, loc: Loc) -> Next {
        frame.parser_error = error;
        if O::TRACES {
            let error = self.pipeline.errors.get(error as usize).cloned().unwrap_or_else(|| error.to_string());
            self.note(Event::ParserError { error }, loc);
        }
        Next::Stop(Outcome::Reject)
    }

    fn copy_header(&mut self, frame: &mut Frame, dst: u32, src: u32, loc: Loc) {
        let program = self.program;
        if O::TRACES {
            let name = |h: u32| program.headers[h as usize].name.clone();
            self.note(Event::CopyHeader { to: name(dst), from: name(src) }, loc);
        }
        if !frame.valid[src as usize] {
            return frame.invalidate(program, dst);
        }
        let ((to, count), (from, _)) = (program.headers[dst as usize].slots, program.headers[src as usize].slots);
        frame.slots.copy_within(from as usize..(from + count) as usize, to as usize);
        // Only now: if both are members of one union, this makes `src` invalid and its fields 0.
        frame.validate(program, dst);
    }

    fn extract(&mut self, frame: &mut Frame, h: u32, loc: Loc) -> Next {
        let program = self.program;
        let header = &program.headers[h as usize];
        if header.varbit.is_some() {
            return self.extract_varbit(frame, h, 0, loc);
        }
        if header.bits as usize > frame.bits_left() {
            return self.parser_error(frame, program.errors.packet_too_short, loc);
        }
        for field in &header.fields {
            let range = field.reg.slot as usize..(field.reg.slot + field.reg.words) as usize;
            let at = frame.cursor + field.position as usize;
            wire::read_words(&frame.data, at, field.reg.width, &mut frame.slots[range]);
        }
        frame.cursor += header.bits as usize;
        self.extracted(frame, h, loc);
        Next::Go
    }

    fn extract_varbit(&mut self, frame: &mut Frame, h: u32, bits: u64, loc: Loc) -> Next {
        let program = self.program;
        let header = &program.headers[h as usize];
        let errors = &program.errors;
        let most = header.varbit.map_or(0, |index| header.fields[index].reg.width);
        if bits > u64::from(most) {
            return self.parser_error(frame, errors.header_too_short, loc);
        }
        let total = header.bits as usize + bits as usize;
        if !total.is_multiple_of(8) {
            return self.parser_error(frame, errors.parser_invalid_argument, loc);
        }
        if total > frame.bits_left() {
            return self.parser_error(frame, errors.packet_too_short, loc);
        }
        for field in &header.fields {
            let mut range = field.reg.slot as usize..(field.reg.slot + field.reg.words) as usize;
            let width = if field.reg.varbit { bits as u32 } else { field.reg.width };
            if field.reg.varbit {
                frame.slots[range.start] = bits;
                range.start += 1;
            }
            wire::read_words(&frame.data, frame.cursor, width, &mut frame.slots[range]);
            frame.cursor += width as usize;
        }
        self.extracted(frame, h, loc);
        Next::Go
    }

    fn extracted(&mut self, frame: &mut Frame, h: u32, loc: Loc) {
        let header = &self.program.headers[h as usize];
        frame.valid[h as usize] = true;
        for sibling in &header.siblings {
            frame.invalidate(self.program, *sibling);
        }
        if O::TRACES {
            let fields = header.fields.iter().map(|field| self.named_var(frame, field.var.0 as usize, &header.name));
            let event = Event::Extract { header: header.name.clone(), fields: fields.collect() };
            self.note(event, loc);
        }
    }

    fn emit(&mut self, frame: &mut Frame, h: u32, loc: Loc) {
        if !frame.valid[h as usize] {
            return;
        }
        let header = &self.program.headers[h as usize];
        if O::TRACES {
            self.note(Event::Emit { header: header.name.clone() }, loc);
        }
        let varbit = header.varbit.map_or(0, |index| frame.slots[header.fields[index].reg.slot as usize] as usize);
        let bits = header.bits as usize + varbit;
        if frame.out.bit_len() + bits > packet::MAX_LEN * 8 {
            frame.too_long = true;
            return;
        }
        let (bytes, start) = frame.out.grow(bits);
        let mut at = start;
        for field in &header.fields {
            let mut range = field.reg.slot as usize..(field.reg.slot + field.reg.words) as usize;
            let width = if field.reg.varbit { varbit as u32 } else { field.reg.width };
            range.start += usize::from(field.reg.varbit);
            wire::write_words(bytes, at, width, &frame.slots[range]);
            at += width as usize;
        }
    }
}

impl Frame {
    /// Bits of the packet that are not parsed.
    pub fn bits_left(&self) -> usize {
        (self.len * 8).saturating_sub(self.cursor)
    }
}
