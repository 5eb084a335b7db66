//! Parser, deparser, and the way from one pass into the next.

use super::bits;
use super::bits::Bits;
use super::frame::Frame;
use super::machine::{Machine, Outcome, Run};
use ir::{Entity, HeaderId, Inst, InstData};
use packet::EngineReason;

impl Machine<'_> {
    /// An instruction on headers or the packet.
    pub(super) fn packet_inst(&mut self, frame: &mut Frame, run: &Run<'_>, data: &InstData) -> Result<(), Outcome> {
        let program = self.program;
        let (pipeline, layout, errors) = (&*program.pipeline, &program.layout, program.errors);
        let result = data.results.first().map(|result| run.reg(*result));
        let clock_of = |header: HeaderId| layout.header_clock + header.index();
        match (&data.inst, result) {
            (Inst::IsValid(header), Some(d)) => {
                frame.words_mut(d)[0] = u64::from(frame.valid[header.index()]);
                frame.clocks[d.clock as usize] = frame.clocks[clock_of(*header)];
            }
            (Inst::SetValid(header), _) => {
                frame.validate(pipeline, layout, *header);
                frame.clocks[clock_of(*header)] = run.made;
            }
            (Inst::SetInvalid(header), _) => {
                frame.invalidate(pipeline, layout, *header);
                frame.clocks[clock_of(*header)] = run.made;
            }
            (Inst::CopyHeader { dst, src }, _) => copy_header(program, frame, *dst, *src, run.made),
            (Inst::Extract(header), _) => return self.extract(frame, *header, 0),
            (Inst::ExtractVarbit(header, length), _) => {
                let bits = frame.words(run.reg(*length))[0];
                return self.extract(frame, *header, bits);
            }
            (Inst::Advance(by), _) => {
                let bits = frame.words(run.reg(*by))[0];
                if !bits.is_multiple_of(8) {
                    return parser_error(frame, errors.invalid_argument);
                }
                if bits > frame.bits_left() as u64 {
                    return parser_error(frame, errors.packet_too_short);
                }
                frame.cursor += bits as usize;
            }
            (Inst::Lookahead(_), Some(d)) => {
                if d.width() as usize > frame.bits_left() {
                    return parser_error(frame, errors.packet_too_short);
                }
                bits::read(&frame.data, frame.cursor, d.width(), &mut frame.slots[d.range()]);
            }
            (Inst::Verify(cond, error), _) => {
                if frame.words(run.reg(*cond))[0] == 0 {
                    let error = frame.words(run.reg(*error))[0] as u32;
                    return parser_error(frame, error);
                }
            }
            (Inst::PacketLength, Some(d)) => frame.words_mut(d)[0] = frame.data.len() as u64,
            (Inst::InValueSet(set, keys), Some(d)) => {
                let words: Vec<u64> = keys.iter().flat_map(|key| frame.words(run.reg(*key)).iter().copied()).collect();
                frame.words_mut(d)[0] = u64::from(self.host.in_value_set(*set, &words));
            }
            (Inst::Emit(header), _) => self.emit(frame, *header),
            _ => return Err(Outcome::Abort(EngineReason::EngineFault)),
        }
        Ok(())
    }

    fn extract(&mut self, frame: &mut Frame, header: HeaderId, varbit_bits: u64) -> Result<(), Outcome> {
        let program = self.program;
        let errors = program.errors;
        let fields: Vec<_> =
            program.pipeline.headers[header].fields.iter().map(|var| program.layout.var(*var)).collect();
        let varbit = fields.iter().find(|reg| reg.varbit());
        if varbit_bits > u64::from(varbit.map_or(0, |reg| reg.width())) {
            return parser_error(frame, errors.header_too_short);
        }
        let fixed: usize = fields.iter().filter(|reg| !reg.varbit()).map(|reg| reg.width() as usize).sum();
        let total = fixed + varbit_bits as usize;
        if varbit.is_some() && !total.is_multiple_of(8) {
            return parser_error(frame, errors.invalid_argument);
        }
        if total > frame.bits_left() {
            return parser_error(frame, errors.packet_too_short);
        }
        for reg in &fields {
            let mut place = reg.range();
            let mut width = reg.width();
            if reg.varbit() {
                frame.slots[place.start] = varbit_bits;
                place.start += 1;
                width = varbit_bits as u32;
            }
            bits::read(&frame.data, frame.cursor, width, &mut frame.slots[place]);
            frame.cursor += width as usize;
        }
        frame.validate(&program.pipeline, &program.layout, header);
        Ok(())
    }

    fn emit(&mut self, frame: &mut Frame, header: HeaderId) {
        if !frame.valid[header.index()] {
            return;
        }
        let program = self.program;
        let fields: Vec<_> =
            program.pipeline.headers[header].fields.iter().map(|var| program.layout.var(*var)).collect();
        let width = |reg: &super::layout::Reg| {
            if reg.varbit() { frame.slots[reg.slot as usize] as usize } else { reg.width() as usize }
        };
        let total: usize = fields.iter().map(width).sum();
        if frame.out.len() + total > packet::MAX_LEN * 8 {
            frame.too_long = true;
            return;
        }
        for reg in fields {
            let words = &frame.slots[reg.range()];
            match reg.varbit() {
                true => frame.out.push(words[0] as u32, &words[1..]),
                false => frame.out.push(reg.width(), words),
            }
        }
    }

    /// The packet goes from its pass into the next one: all that is left of it are bytes.
    pub(super) fn cross(&mut self, frame: &mut Frame) -> Result<(), EngineReason> {
        let bridge = self.program.bridges.get(frame.pass as usize).ok_or(EngineReason::EngineFault)?;
        let mut head = Bits::default();
        bridge.write(frame, &mut head);
        let mut bytes = head.bytes().to_vec();
        bytes.extend_from_slice(frame.payload());
        let crossing = &mut self.counts.crossings[frame.pass as usize];
        crossing.packets += 1;
        crossing.bits += u64::from(bridge.bits);
        frame.forget();
        frame.original = None;
        frame.pipe = None;
        frame.missed.clear();
        frame.pass += 1;
        self.counts.passes[frame.pass as usize].add(bytes.len());
        frame.cursor = bridge.read(&bytes, frame) * 8;
        frame.data = bytes;
        Ok(())
    }
}

fn parser_error(frame: &mut Frame, error: u32) -> Result<(), Outcome> {
    frame.parser_error = error;
    Err(Outcome::Reject)
}

fn copy_header(program: &super::program::Program, frame: &mut Frame, dst: HeaderId, src: HeaderId, made: u16) {
    let (pipeline, layout) = (&*program.pipeline, &program.layout);
    let clock_of = |header: HeaderId| layout.header_clock + header.index();
    // A temporary header is another name only, and what is the same already needs no stage.
    let made = if pipeline.headers[dst].local { 0 } else { made };
    if frame.valid[dst.index()] != frame.valid[src.index()] {
        frame.clocks[clock_of(dst)] = frame.clocks[clock_of(src)].max(made);
    }
    if !frame.valid[src.index()] {
        return frame.invalidate(pipeline, layout, dst);
    }
    for (to, from) in pipeline.headers[dst].fields.iter().zip(&pipeline.headers[src].fields) {
        let (to, from) = (layout.var(*to), layout.var(*from));
        if frame.words(to) != frame.words(from) {
            frame.slots.copy_within(from.range(), to.slot as usize);
            frame.clocks[to.clock as usize] = frame.clocks[from.clock as usize].max(made);
        }
    }
    // Only now: if both are members of one union, this makes the source invalid and its fields 0.
    frame.validate(pipeline, layout, dst);
}
