//! [`Script`]: what was done on one way through a control, without its decisions, made ready to be done again.
//!
//! The way is straight: instructions that only compute stand one behind the other, and moves of neighbours are one. Each is still carried out by the interpreter's
//! own code.

use crate::frame::Frame;
use crate::machine::{Machine, compute};
use crate::program::{Code, Op, Pc};
use crate::walk::{Outcome, Walker};
use packet::EngineReason;

/// An instruction of a replay.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Play {
    /// Carry it out.
    Step(Pc),
    /// Carry out a decision: if it does not go on at `to`, the replay ends there.
    Check {
        /// Which.
        pc: Pc,
        /// Where it went on when it was recorded.
        to: Pc,
    },
    /// A table finds what it did; if it does not go on at `to`, as the member of a group may not, the replay ends there.
    Apply {
        /// Which.
        pc: Pc,
        /// The number of the question: who replays knows what is found.
        asked: u32,
        /// Where it went on when it was recorded.
        to: Pc,
    },
}

/// How a replay ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replayed {
    /// All of it was done.
    Done,
    /// The control has ended.
    End(Outcome),
    /// A decision went another way: the packet is there now.
    Left(Pc),
}

/// What is done next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// So many instructions of the script's own, none of which is more than a move or a computation.
    Compute(u32),
    /// An instruction of the program's.
    Step(Pc),
    Check {
        pc: Pc,
        to: Pc,
    },
    Apply {
        pc: Pc,
        index: u32,
        asked: u32,
        to: Pc,
    },
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Script {
    acts: Vec<Act>,
    ops: Vec<Op>,
}

impl Script {
    /// Of these instructions of a control.
    pub fn new(code: &Code, plays: &[Play]) -> Script {
        Script::with(code, plays, |_| None)
    }

    /// As [`Script::new`], with another instruction in the place of some.
    pub fn with(code: &Code, plays: &[Play], instead: impl Fn(Pc) -> Option<Op>) -> Script {
        let mut script = Script::default();
        for play in plays {
            match *play {
                Play::Step(pc) => match instead(pc).unwrap_or(code.ops[pc as usize]) {
                    op if computes(&op) => script.compute(op),
                    _ => script.acts.push(Act::Step(pc)),
                },
                Play::Check { pc, to } => script.acts.push(Act::Check { pc, to }),
                Play::Apply { pc, asked, to } => {
                    if let Op::Apply { index } = code.ops[pc as usize] {
                        script.acts.push(Act::Apply { pc, index, asked, to });
                    }
                }
            }
        }
        script
    }

    fn compute(&mut self, op: Op) {
        if let Some(Act::Compute(count)) = self.acts.last_mut() {
            if let Some(both) = self.ops.last().and_then(|last| together(last, &op)) {
                *self.ops.last_mut().expect("there is a last one") = both;
                return;
            }
            *count += 1;
        } else {
            self.acts.push(Act::Compute(1));
        }
        self.ops.push(op);
    }

    /// Bytes that it takes.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.acts) + size_of_val(&*self.ops)
    }
}

/// Whether an instruction only computes, moves, or asks for a header's validity.
fn computes(op: &Op) -> bool {
    match op {
        Op::Mov1 { .. } | Op::MovN { .. } | Op::Field1 { .. } | Op::FieldN { .. } | Op::IsValid { .. } => true,
        op => is_computation(op),
    }
}

/// See [`compute`].
fn is_computation(op: &Op) -> bool {
    matches!(
        op,
        Op::Add1 { .. }
            | Op::Sub1 { .. }
            | Op::Mul1 { .. }
            | Op::And1 { .. }
            | Op::Or1 { .. }
            | Op::Xor1 { .. }
            | Op::Not1 { .. }
            | Op::Neg1 { .. }
            | Op::Shl1 { .. }
            | Op::Shr1 { .. }
            | Op::Eq1 { .. }
            | Op::Ne1 { .. }
            | Op::Lt1 { .. }
            | Op::Le1 { .. }
            | Op::LtS1 { .. }
            | Op::LeS1 { .. }
            | Op::Mask1 { .. }
            | Op::Sext1 { .. }
            | Op::Slice1 { .. }
            | Op::Concat1 { .. }
            | Op::Select1 { .. }
            | Op::SelectN { .. }
    )
}

/// Two moves as one, if the second goes on where the first ends and does not read what the first has written.
fn together(first: &Op, second: &Op) -> Option<Op> {
    let span = |op: &Op| match *op {
        Op::Mov1 { d, a } => Some((d, a, 1)),
        Op::MovN { d, a, n } => Some((d, a, n)),
        _ => None,
    };
    let ((d, a, n), (d2, a2, n2)) = (span(first)?, span(second)?);
    let apart = a + n + n2 <= d || d + n + n2 <= a;
    (d2 == d + n && a2 == a + n && apart).then_some(Op::MovN { d, a, n: n + n2 })
}

/// Carries out an instruction that [`computes`].
#[inline(always)]
pub(crate) fn carry_out(slots: &mut [u64], valid: &[bool], op: &Op) {
    match *op {
        Op::Mov1 { d, a } => slots[d as usize] = slots[a as usize],
        Op::MovN { d, a, n } => slots.copy_within(a as usize..(a + n) as usize, d as usize),
        Op::Field1 { h, d, a } => {
            if valid[h as usize] {
                slots[d as usize] = slots[a as usize];
            }
        }
        Op::FieldN { h, d, a, n } => {
            if valid[h as usize] {
                slots.copy_within(a as usize..(a + n) as usize, d as usize);
            }
        }
        Op::IsValid { d, h } => slots[d as usize] = u64::from(valid[h as usize]),
        ref op => {
            compute(slots, op);
        }
    }
}

impl Walker<'_> {
    /// Does a script for the packet. `found` says which entry a question finds; that of an entry that is gone is a bug of the caller.
    pub fn replay(&mut self, script: &Script, found: impl Fn(u32) -> Option<u32>) -> Replayed {
        let (index, code) = (self.index(), self.code());
        let (machine, frame): (&mut Machine<'_, false>, &mut Frame) = self.parts();
        let mut ops = &script.ops[..];
        for act in &script.acts {
            match *act {
                Act::Compute(count) => {
                    let (now, later) = ops.split_at(count as usize);
                    ops = later;
                    let (slots, valid) = (&mut frame.slots[..], &frame.valid[..]);
                    now.iter().for_each(|op| carry_out(slots, valid, op));
                }
                Act::Step(pc) => {
                    if let Some(outcome) = machine.step(frame, index, code, &mut (pc as usize)) {
                        return Replayed::End(outcome);
                    }
                }
                Act::Check { pc, to } => {
                    let mut at = pc as usize;
                    if let Some(outcome) = machine.step(frame, index, code, &mut at) {
                        return Replayed::End(outcome);
                    }
                    if at != to as usize {
                        return Replayed::Left(at as Pc);
                    }
                }
                Act::Apply { pc, index, asked, to } => {
                    if !machine.burn() {
                        return Replayed::End(Outcome::Abort(EngineReason::StepLimit));
                    }
                    let site = &code.applies[index as usize];
                    let at = machine.apply_found(frame, site, found(asked), code.locs[pc as usize]);
                    if at != to {
                        return Replayed::Left(at);
                    }
                }
            }
        }
        Replayed::Done
    }
}
