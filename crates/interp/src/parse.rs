//! Headers and packets: validity, extraction, lookahead, emission, value sets.

use crate::bit_io;
use crate::exec_context::{ExecContext, InstResult};
use crate::frame::Frame;
use crate::lookup::entry_matches;
use crate::overseer::Overseer;
use crate::program::*;
use crate::trace::TraceEvent;
use entries::PackedKeyField;
use ir::SourceLoc;
use packet::EngineReason;

impl<O: Overseer> ExecContext<'_, O> {
    /// Executes an instruction on headers or the packet. `loc` is the source location for the
    /// trace; `code` is the block, whose lists have the operands.
    pub(crate) fn packet_op(&mut self, frame: &mut Frame, code: &BlockCode, op: &Op, loc: SourceLoc) -> InstResult {
        let program = self.program;
        match op {
            Op::SetValid { h } => {
                if O::TRACES && !frame.valid[*h as usize] {
                    self.record_validity(*h, true, loc);
                }
                frame.validate(program, *h);
            }
            Op::SetInvalid { h } => {
                if O::TRACES && frame.valid[*h as usize] {
                    self.record_validity(*h, false, loc);
                }
                frame.invalidate(program, *h);
            }
            Op::Copy { dst, src } => self.copy_header(frame, *dst, *src, loc),
            Op::State { index } => {
                if O::TRACES {
                    let name = code.states.get(*index as usize).cloned().unwrap_or_default();
                    self.record_event(TraceEvent::State { name }, loc);
                }
                if self.parser_fuel == 0 {
                    frame.parser_error = program.errors.parser_timeout;
                    return InstResult::Stop(BlockExit::Abort(EngineReason::ParserTimeout));
                }
                self.parser_fuel -= 1;
            }
            Op::Extract { h } => return self.extract(frame, *h, loc),
            Op::ExtractVarbit { h, a } => {
                let bits = frame.reg_words[*a as usize];
                return self.extract_varbit(frame, *h, bits, loc);
            }
            Op::Advance { a } => {
                let bits = frame.reg_words[*a as usize];
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
                let range = reg.first_word as usize..(reg.first_word + reg.words) as usize;
                bit_io::read_words(&frame.data, frame.cursor, reg.width, &mut frame.reg_words[range]);
            }
            Op::Verify { c, e } => {
                if frame.reg_words[*c as usize] == 0 {
                    let error = frame.reg_words[*e as usize] as u32;
                    return self.parser_error(frame, error, loc);
                }
            }
            Op::PacketLength { d } => frame.reg_words[*d as usize] = frame.len as u64,
            Op::InValueSet { index } => {
                let (d, set, keys) = &code.value_sets[*index as usize];
                let (layout, members) = self.memory.value_set(*set);
                let words = |field: &PackedKeyField| frame.words(keys[field.position]);
                let is_member = members.iter().any(|member| entry_matches(layout, member, words));
                frame.reg_words[*d as usize] = u64::from(is_member);
                if O::TRACES {
                    let name = self.pipeline.value_sets.values().nth(*set).map(|s| s.preamble.name.clone());
                    let call = format!("value set {}", name.unwrap_or_default());
                    let arguments = keys.iter().map(|key| self.show_reg(frame, *key)).collect();
                    self.record_event(
                        TraceEvent::Extern { call, arguments, results: vec![is_member.to_string()] },
                        loc,
                    );
                }
            }
            Op::Emit { h } => self.emit(frame, *h, loc),
            _ => return InstResult::Stop(BlockExit::Abort(EngineReason::EngineBug)),
        }
        InstResult::Go
    }

    /// Sets the parser's error, which is an index of the program's errors, and rejects the packet.
    fn parser_error(&mut self, frame: &mut Frame, error: u32, loc: SourceLoc) -> InstResult {
        frame.parser_error = error;
        if O::TRACES {
            let error = self.pipeline.errors.get(error as usize).cloned().unwrap_or_else(|| error.to_string());
            self.record_event(TraceEvent::ParserError { error }, loc);
        }
        InstResult::Stop(BlockExit::Reject)
    }

    /// Copies a header, with its validity, to another one of the same type. In a header union, the
    /// destination's other members become invalid.
    fn copy_header(&mut self, frame: &mut Frame, dst: u32, src: u32, loc: SourceLoc) {
        let program = self.program;
        if O::TRACES {
            let name = |h: u32| program.headers[h as usize].name.clone();
            self.record_event(TraceEvent::CopyHeader { to: name(dst), from: name(src) }, loc);
        }
        if !frame.valid[src as usize] {
            return frame.invalidate(program, dst);
        }
        let ((to, count), (from, _)) =
            (program.headers[dst as usize].word_range, program.headers[src as usize].word_range);
        frame.reg_words.copy_within(from as usize..(from + count) as usize, to as usize);
        // Must follow the copy, because it invalidates `src` and clears its fields if both headers
        // are members of one union.
        frame.validate(program, dst);
    }

    /// Extracts a header at the parser's cursor. A varbit field is empty.
    fn extract(&mut self, frame: &mut Frame, header_index: u32, loc: SourceLoc) -> InstResult {
        let program = self.program;
        let header = &program.headers[header_index as usize];
        if header.varbit.is_some() {
            return self.extract_varbit(frame, header_index, 0, loc);
        }
        if header.fixed_bits as usize > frame.bits_left() {
            return self.parser_error(frame, program.errors.packet_too_short, loc);
        }
        for field in &header.fields {
            let range = field.reg.first_word as usize..(field.reg.first_word + field.reg.words) as usize;
            let bit_position = frame.cursor + field.position as usize;
            bit_io::read_words(&frame.data, bit_position, field.reg.width, &mut frame.reg_words[range]);
        }
        frame.cursor += header.fixed_bits as usize;
        self.extracted(frame, header_index, loc);
        InstResult::Go
    }

    /// Extracts a header whose varbit field has `bits` bits. The errors are those of P4-16, section
    /// 13.8.2.
    fn extract_varbit(&mut self, frame: &mut Frame, header_index: u32, bits: u64, loc: SourceLoc) -> InstResult {
        let program = self.program;
        let header = &program.headers[header_index as usize];
        let errors = &program.errors;
        let max_bits = header.varbit.map_or(0, |index| header.fields[index].reg.width);
        if bits > u64::from(max_bits) {
            return self.parser_error(frame, errors.header_too_short, loc);
        }
        let total_bits = header.fixed_bits as usize + bits as usize;
        if !total_bits.is_multiple_of(8) {
            return self.parser_error(frame, errors.parser_invalid_argument, loc);
        }
        if total_bits > frame.bits_left() {
            return self.parser_error(frame, errors.packet_too_short, loc);
        }
        for field in &header.fields {
            let mut range = field.reg.first_word as usize..(field.reg.first_word + field.reg.words) as usize;
            let width = if field.reg.is_varbit { bits as u32 } else { field.reg.width };
            if field.reg.is_varbit {
                frame.reg_words[range.start] = bits;
                range.start += 1;
            }
            bit_io::read_words(&frame.data, frame.cursor, width, &mut frame.reg_words[range]);
            frame.cursor += width as usize;
        }
        self.extracted(frame, header_index, loc);
        InstResult::Go
    }

    /// Makes an extracted header valid, and the other members of its union invalid. Records the
    /// event.
    fn extracted(&mut self, frame: &mut Frame, header_index: u32, loc: SourceLoc) {
        let header = &self.program.headers[header_index as usize];
        frame.valid[header_index as usize] = true;
        for sibling in &header.union_members {
            frame.invalidate(self.program, *sibling);
        }
        if O::TRACES {
            let fields =
                header.fields.iter().map(|field| self.named_variable(frame, field.var.0 as usize, &header.name));
            let event = TraceEvent::Extract { header: header.name.clone(), fields: fields.collect() };
            self.record_event(event, loc);
        }
    }

    /// Appends a header to the deparser's output if it is valid (P4-16, section 16.1).
    fn emit(&mut self, frame: &mut Frame, header_index: u32, loc: SourceLoc) {
        if !frame.valid[header_index as usize] {
            return;
        }
        let header = &self.program.headers[header_index as usize];
        if O::TRACES {
            self.record_event(TraceEvent::Emit { header: header.name.clone() }, loc);
        }
        let varbit_bits =
            header.varbit.map_or(0, |index| frame.reg_words[header.fields[index].reg.first_word as usize] as usize);
        let bits = header.fixed_bits as usize + varbit_bits;
        if frame.out.bit_len() + bits > packet::MAX_LEN * 8 {
            frame.is_too_long = true;
            return;
        }
        let (bytes, start) = frame.out.grow(bits);
        let mut bit_position = start;
        for field in &header.fields {
            let mut range = field.reg.first_word as usize..(field.reg.first_word + field.reg.words) as usize;
            let width = if field.reg.is_varbit { varbit_bits as u32 } else { field.reg.width };
            range.start += usize::from(field.reg.is_varbit);
            bit_io::write_words(bytes, bit_position, width, &frame.reg_words[range]);
            bit_position += width as usize;
        }
    }
}

impl Frame {
    /// Returns the number of bits that were not parsed.
    pub fn bits_left(&self) -> usize {
        (self.len * 8).saturating_sub(self.cursor)
    }
}
