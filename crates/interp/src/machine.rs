//! The instruction loop.

use crate::frame::Frame;
use crate::memory::Memory;
use crate::overseer::{Decision, Overseer};
use crate::program::*;
use crate::trace::Event;
use crate::wire::BitBuffer;
use crate::words;
use entries::big_from_words;
use ir::{Loc, Pipeline, UnaryOp};
use num_bigint::BigUint;
use packet::EngineReason;

/// What the engine needs besides a packet, borrowed for a pass.
pub struct Machine<'a, O: Overseer> {
    /// The decoded program.
    pub program: &'a Program,
    /// What it was decoded from, for names.
    pub pipeline: &'a Pipeline,
    /// Which ports lead to hosts.
    pub config: &'a crate::config::Config,
    /// What outlives a packet.
    pub memory: &'a mut Memory,
    /// Sees each instruction.
    pub overseer: O,
    /// Backward jumps and table applications that the packet may still make.
    pub fuel: u64,
    /// Parser states that this pass may still enter.
    pub parser_fuel: u64,
    /// For hashes and checksums.
    pub bits: &'a mut BitBuffer,
}

/// What the instruction loop does next.
pub(crate) enum Next {
    Go,
    Stop(Outcome),
}

impl<O: Overseer> Machine<'_, O> {
    /// Runs a block of the architecture.
    pub fn run(&mut self, frame: &mut Frame, code: usize) -> Outcome {
        let program = self.program;
        let code_index = code;
        let code = &program.codes[code];
        if O::TRACES {
            let role = format!("{:?}", code.kind);
            self.note(Event::Enter { block: code.name.clone(), role }, Loc::default());
        }
        begin(frame);
        let mut pc = 0usize;
        loop {
            if let Some(outcome) = self.step(frame, code_index, code, &mut pc) {
                return outcome;
            }
        }
    }

    /// Carries out the instruction at `pc` and moves it on; how the block ended, if it did.
    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        frame: &mut Frame,
        code_index: usize,
        code: &Code,
        pc: &mut usize,
    ) -> Option<Outcome> {
        let at = *pc;
        let Some(op) = code.ops.get(at) else { return Some(Outcome::Abort(EngineReason::EngineFault)) };
        *pc += 1;
        match self.overseer.before((code_index, at as Pc), op, frame) {
            Decision::Run => {}
            Decision::Skip => return None,
            Decision::Goto(to) => {
                *pc = to as usize;
                return None;
            }
            Decision::End(outcome) => return Some(outcome),
        }
        if compute(&mut frame.slots, op) {
            return None;
        }
        match op {
            Op::Mov1 { d, a } => self.set(frame, (*d, *a, 1), code.locs[at]),
            Op::MovN { d, a, n } => self.set(frame, (*d, *a, *n), code.locs[at]),
            Op::Field1 { h, d, a } if frame.valid[*h as usize] => self.set(frame, (*d, *a, 1), code.locs[at]),
            Op::FieldN { h, d, a, n } if frame.valid[*h as usize] => self.set(frame, (*d, *a, *n), code.locs[at]),
            Op::Field1 { .. } | Op::FieldN { .. } => {}
            Op::Wide { index } => wide(frame, &code.wide[*index as usize]),
            Op::IsValid { d, h } => frame.slots[*d as usize] = u64::from(frame.valid[*h as usize]),
            Op::Goto { pc: to } => *pc = *to as usize,
            Op::Back { pc: to } => {
                if !self.burn() {
                    return Some(Outcome::Abort(EngineReason::StepLimit));
                }
                *pc = *to as usize;
            }
            Op::Branch { c, then, els } => *pc = if frame.slots[*c as usize] != 0 { *then } else { *els } as usize,
            Op::Switch { index } => *pc = switch(&frame.slots, &code.switches[*index as usize]) as usize,
            Op::Apply { index } => {
                match self.apply(frame, (code_index, at as Pc), &code.applies[*index as usize], code.locs[at]) {
                    Ok(next) => *pc = next as usize,
                    Err(outcome) => return Some(outcome),
                }
            }
            Op::Return => return Some(Outcome::Return),
            Op::Exit => return Some(Outcome::Exit),
            Op::Reject => return Some(Outcome::Reject),
            Op::Call { index } => {
                self.call(frame, (code_index, *index), &code.calls[*index as usize], code.locs[at]);
                if frame.assert_failed {
                    return Some(Outcome::Abort(EngineReason::AssertFailed));
                }
            }
            other => match self.packet_op(frame, code, other, code.locs[at]) {
                Next::Go => {}
                Next::Stop(outcome) => return Some(outcome),
            },
        }
        None
    }

    /// Sets so many slots of a variable to what is in others.
    #[inline(always)]
    fn set(&mut self, frame: &mut Frame, (to, from, count): (Slot, Slot, u32), loc: Loc) {
        if O::TRACES {
            self.note_set(frame, to, from, loc);
        }
        match count {
            1 => frame.slots[to as usize] = frame.slots[from as usize],
            _ => frame.slots.copy_within(from as usize..(from + count) as usize, to as usize),
        }
    }

    /// Uses up fuel; false if there is none.
    pub(crate) fn burn(&mut self) -> bool {
        let some = self.fuel > 0;
        self.fuel = self.fuel.saturating_sub(1);
        some
    }
}

/// A block of the architecture begins: so do its checksum objects.
pub(crate) fn begin(frame: &mut Frame) {
    frame.sums.fill(0);
    frame.checksums.iter_mut().filter(|sum| sum.bit_len() != 0).for_each(BitBuffer::clear);
}

/// Carries out an instruction that only computes on slots; false for all others.
#[inline(always)]
fn compute(s: &mut [u64], op: &Op) -> bool {
    macro_rules! at {
        ($slot:expr) => {
            s[*$slot as usize]
        };
    }
    match op {
        Op::Add1 { d, a, b, mask } => at!(d) = at!(a).wrapping_add(at!(b)) & mask,
        Op::Sub1 { d, a, b, mask } => at!(d) = at!(a).wrapping_sub(at!(b)) & mask,
        Op::Mul1 { d, a, b, mask } => at!(d) = at!(a).wrapping_mul(at!(b)) & mask,
        Op::And1 { d, a, b } => at!(d) = at!(a) & at!(b),
        Op::Or1 { d, a, b } => at!(d) = at!(a) | at!(b),
        Op::Xor1 { d, a, b } => at!(d) = at!(a) ^ at!(b),
        Op::Not1 { d, a, mask } => at!(d) = !at!(a) & mask,
        Op::Neg1 { d, a, mask } => at!(d) = at!(a).wrapping_neg() & mask,
        Op::Shl1 { d, a, b, mask } => at!(d) = if at!(b) < 64 { (at!(a) << at!(b)) & mask } else { 0 },
        Op::Shr1 { d, a, b } => at!(d) = if at!(b) < 64 { at!(a) >> at!(b) } else { 0 },
        Op::Eq1 { d, a, b } => at!(d) = u64::from(at!(a) == at!(b)),
        Op::Ne1 { d, a, b } => at!(d) = u64::from(at!(a) != at!(b)),
        Op::Lt1 { d, a, b } => at!(d) = u64::from(at!(a) < at!(b)),
        Op::Le1 { d, a, b } => at!(d) = u64::from(at!(a) <= at!(b)),
        Op::LtS1 { d, a, b, shift } => {
            at!(d) = u64::from(((at!(a) << shift) as i64) < ((at!(b) << shift) as i64));
        }
        Op::LeS1 { d, a, b, shift } => {
            at!(d) = u64::from(((at!(a) << shift) as i64) <= ((at!(b) << shift) as i64));
        }
        Op::Mask1 { d, a, mask } => at!(d) = at!(a) & mask,
        Op::Sext1 { d, a, shift, mask } => at!(d) = (((at!(a) << shift) as i64) >> shift) as u64 & mask,
        Op::Slice1 { d, a, lo, mask } => at!(d) = (at!(a) >> lo) & mask,
        Op::Concat1 { d, a, b, shift } => at!(d) = at!(a) << shift | at!(b),
        Op::Select1 { d, c, a, b } => at!(d) = if at!(c) != 0 { at!(a) } else { at!(b) },
        Op::SelectN { d, c, a, b, n } => {
            let from = if at!(c) != 0 { *a } else { *b };
            s.copy_within(from as usize..(from + n) as usize, *d as usize);
        }
        _ => return false,
    }
    true
}

fn switch(slots: &[u64], switch: &Switch) -> Pc {
    let from = switch.value.slot as usize;
    if switch.wide.is_empty() {
        let value = slots[from];
        return match switch.narrow.binary_search_by_key(&value, |(word, _)| *word) {
            Ok(found) => switch.narrow[found].1,
            Err(_) => switch.default,
        };
    }
    let value = &slots[from..from + switch.value.words as usize];
    switch.wide.iter().find(|(words, _)| **words == *value).map_or(switch.default, |(_, pc)| *pc)
}

/// The number in a register; of a varbit its bits.
pub(crate) fn big(frame: &Frame, reg: Reg) -> BigUint {
    let words = frame.words(reg);
    big_from_words(if reg.varbit { &words[1..] } else { words })
}

fn wide(frame: &mut Frame, op: &WideOp) {
    match *op {
        WideOp::Binary { op, d, a, b } => wide_binary(frame, op, d, a, b),
        WideOp::Unary { op, d, a } => {
            let value = big(frame, a);
            let result = match op {
                UnaryOp::Neg => words::binary_big(ir::BinaryOp::Sub, false, a.width, &BigUint::ZERO, &value),
                UnaryOp::Not => words::cut(BigUint::from(1u8) << a.width, a.width + 1) - 1u8 - value,
                UnaryOp::LogicalNot => BigUint::from(u8::from(value == BigUint::ZERO)),
            };
            words::store_big(frame.words_mut(d), &result);
        }
        WideOp::Cast { d, a } => {
            let signed = a.signed && d.width > a.width;
            let value = big(frame, a);
            let value = if signed { words::from_signed(&words::to_signed(&value, a.width), d.width) } else { value };
            words::store_big(frame.words_mut(d), &words::cut(value, d.width));
        }
        WideOp::Slice { d, a, lo } => {
            let value = words::cut(big(frame, a) >> lo, d.width);
            words::store_big(frame.words_mut(d), &value);
        }
        WideOp::Concat { d, high, low } => {
            let value = (big(frame, high) << low.width) | big(frame, low);
            words::store_big(frame.words_mut(d), &words::cut(value, d.width));
        }
    }
}

fn wide_binary(frame: &mut Frame, op: ir::BinaryOp, d: Reg, a: Reg, b: Reg) {
    use ir::BinaryOp::{Eq, Ne};
    if matches!(op, Eq | Ne) {
        // Also varbits, whose length counts: words that are not used are 0.
        let equal = frame.words(a) == frame.words(b);
        frame.words_mut(d)[0] = u64::from(equal == (op == Eq));
        return;
    }
    let result = words::binary_big(op, a.signed, a.width, &big(frame, a), &big(frame, b));
    words::store_big(frame.words_mut(d), &result);
}
