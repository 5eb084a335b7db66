//! The instruction loop.

use crate::bit_io::BitBuffer;
use crate::frame::Frame;
use crate::overseer::{InstDecision, Overseer};
use crate::persistent_state::PersistentState;
use crate::program::*;
use crate::trace::TraceEvent;
use crate::wide_int;
use entries::big_from_words;
use ir::{Pipeline, SourceLoc, UnaryOp};
use num_bigint::BigUint;
use packet::EngineReason;

/// Execution context: the engine's state that one pass of a packet borrows.
pub struct ExecContext<'a, O: Overseer> {
    /// The decoded program.
    pub program: &'a DecodedProgram,
    /// Pipeline of the program, for names.
    pub pipeline: &'a Pipeline,
    /// Configuration: ports and their roles.
    pub config: &'a crate::config::Config,
    /// State that outlives a packet.
    pub memory: &'a mut PersistentState,
    /// Observer and controller of each instruction.
    pub overseer: O,
    /// Remaining backward jumps and table applications of the packet.
    pub fuel: u64,
    /// Remaining parser states of this pass.
    pub parser_fuel: u64,
    /// Scratch buffer for hashes and checksums.
    pub bits: &'a mut BitBuffer,
}

/// Result of one instruction: continue or leave the block.
pub(crate) enum InstResult {
    Go,
    Stop(BlockExit),
}

impl<O: Overseer> ExecContext<'_, O> {
    /// Runs a programmable block.
    pub fn run(&mut self, frame: &mut Frame, code: usize) -> BlockExit {
        let program = self.program;
        let code_index = code;
        let code = &program.codes[code];
        if O::TRACES {
            let role = format!("{:?}", code.kind);
            self.record_event(TraceEvent::Enter { block: code.name.clone(), role }, SourceLoc::default());
        }
        reset_checksums(frame);
        let mut pc = 0usize;
        loop {
            if let Some(outcome) = self.step(frame, code_index, code, &mut pc) {
                return outcome;
            }
        }
    }

    /// Executes the instruction at `pc` and advances `pc`. Returns the block's exit if the block
    /// has ended.
    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        frame: &mut Frame,
        code_index: usize,
        code: &BlockCode,
        pc: &mut usize,
    ) -> Option<BlockExit> {
        let at = *pc;
        let Some(op) = code.ops.get(at) else { return Some(BlockExit::Abort(EngineReason::EngineBug)) };
        *pc += 1;
        match self.overseer.decide((code_index, at as InstIndex), op, frame) {
            InstDecision::Run => {}
            InstDecision::Skip => return None,
            InstDecision::Goto(to) => {
                *pc = to as usize;
                return None;
            }
            InstDecision::End(outcome) => return Some(outcome),
        }
        if compute(&mut frame.reg_words, op) {
            return None;
        }
        match op {
            Op::Mov1 { d, a } => self.set(frame, (*d, *a, 1), code.locs[at]),
            Op::MovN { d, a, n } => self.set(frame, (*d, *a, *n), code.locs[at]),
            Op::Field1 { h, d, a } if frame.valid[*h as usize] => self.set(frame, (*d, *a, 1), code.locs[at]),
            Op::FieldN { h, d, a, n } if frame.valid[*h as usize] => self.set(frame, (*d, *a, *n), code.locs[at]),
            Op::Field1 { .. } | Op::FieldN { .. } => {}
            Op::Wide { index } => wide(frame, &code.wide[*index as usize]),
            Op::IsValid { d, h } => frame.reg_words[*d as usize] = u64::from(frame.valid[*h as usize]),
            Op::Goto { pc: to } => *pc = *to as usize,
            Op::Back { pc: to } => {
                if !self.consume_fuel() {
                    return Some(BlockExit::Abort(EngineReason::InstructionLimit));
                }
                *pc = *to as usize;
            }
            Op::Branch { c, then, els } => *pc = if frame.reg_words[*c as usize] != 0 { *then } else { *els } as usize,
            Op::Switch { index } => *pc = switch(&frame.reg_words, &code.switches[*index as usize]) as usize,
            Op::Apply { index } => {
                match self.apply(frame, (code_index, at as InstIndex), &code.applies[*index as usize], code.locs[at]) {
                    Ok(next) => *pc = next as usize,
                    Err(outcome) => return Some(outcome),
                }
            }
            Op::Return => return Some(BlockExit::Return),
            Op::Exit => return Some(BlockExit::Exit),
            Op::Reject => return Some(BlockExit::Reject),
            Op::Call { index } => {
                self.call(frame, (code_index, *index), &code.calls[*index as usize], code.locs[at]);
                if frame.assert_failed {
                    return Some(BlockExit::Abort(EngineReason::AssertFailed));
                }
            }
            other => match self.packet_op(frame, code, other, code.locs[at]) {
                InstResult::Go => {}
                InstResult::Stop(outcome) => return Some(outcome),
            },
        }
        None
    }

    /// Copies `count` words to a variable.
    #[inline(always)]
    fn set(&mut self, frame: &mut Frame, (to, from, count): (WordIndex, WordIndex, u32), loc: SourceLoc) {
        if O::TRACES {
            self.record_assignment(frame, to, from, loc);
        }
        match count {
            1 => frame.reg_words[to as usize] = frame.reg_words[from as usize],
            _ => frame.reg_words.copy_within(from as usize..(from + count) as usize, to as usize),
        }
    }

    /// Consumes one unit of fuel; returns false if none is left.
    pub(crate) fn consume_fuel(&mut self) -> bool {
        let some = self.fuel > 0;
        self.fuel = self.fuel.saturating_sub(1);
        some
    }
}

/// Resets the checksum objects at the start of a programmable block.
pub(crate) fn reset_checksums(frame: &mut Frame) {
    frame.sums.fill(0);
    frame.checksums.iter_mut().filter(|sum| sum.bit_len() != 0).for_each(BitBuffer::clear);
}

/// Executes an instruction that only computes on words; returns false for all others.
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

fn switch(slots: &[u64], switch: &DecodedSwitch) -> InstIndex {
    let from = switch.value.first_word as usize;
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

/// Returns the number in a register; of a varbit its bits.
pub(crate) fn load_big(frame: &Frame, reg: Reg) -> BigUint {
    let words = frame.words(reg);
    big_from_words(if reg.is_varbit { &words[1..] } else { words })
}

fn wide(frame: &mut Frame, op: &WideOp) {
    match *op {
        WideOp::Binary { op, d, a, b } => wide_binary(frame, op, d, a, b),
        WideOp::Unary { op, d, a } => {
            let value = load_big(frame, a);
            let result = match op {
                UnaryOp::Neg => wide_int::binary_big(ir::BinaryOp::Sub, false, a.width, &BigUint::ZERO, &value),
                UnaryOp::Not => wide_int::truncate_to_width(BigUint::from(1u8) << a.width, a.width + 1) - 1u8 - value,
                UnaryOp::LogicalNot => BigUint::from(u8::from(value == BigUint::ZERO)),
            };
            wide_int::store_big(frame.words_mut(d), &result);
        }
        WideOp::Cast { d, a } => {
            let signed = a.is_signed && d.width > a.width;
            let value = load_big(frame, a);
            let value =
                if signed { wide_int::from_signed(&wide_int::to_signed(&value, a.width), d.width) } else { value };
            wide_int::store_big(frame.words_mut(d), &wide_int::truncate_to_width(value, d.width));
        }
        WideOp::Slice { d, a, lo } => {
            let value = wide_int::truncate_to_width(load_big(frame, a) >> lo, d.width);
            wide_int::store_big(frame.words_mut(d), &value);
        }
        WideOp::Concat { d, high, low } => {
            let value = (load_big(frame, high) << low.width) | load_big(frame, low);
            wide_int::store_big(frame.words_mut(d), &wide_int::truncate_to_width(value, d.width));
        }
    }
}

fn wide_binary(frame: &mut Frame, op: ir::BinaryOp, d: Reg, a: Reg, b: Reg) {
    use ir::BinaryOp::{Eq, Ne};
    if matches!(op, Eq | Ne) {
        // Words beyond the length of a varbit are 0, so that this also compares varbits with their
        // lengths.
        let equal = frame.words(a) == frame.words(b);
        frame.words_mut(d)[0] = u64::from(equal == (op == Eq));
        return;
    }
    let result = wide_int::binary_big(op, a.is_signed, a.width, &load_big(frame, a), &load_big(frame, b));
    wide_int::store_big(frame.words_mut(d), &result);
}
