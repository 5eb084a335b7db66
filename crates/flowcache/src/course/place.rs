//! From values to instructions: what holds a value, and how it gets there.

use super::{Builder, Does, Group, MAX_ROOM, Step, Sym, Value};
use crate::record::Record;
use interp::walk::{CallArg, Op, Pc, Reg, Slot, WideOp, rewired};

impl Builder<'_> {
    /// See [`Course::moves`]. Of calls that are made once on the way.
    pub(super) fn moves(&self, record: &Record) -> Vec<(Pc, Op)> {
        let once = |pc: Pc| record.steps.iter().filter(|done| done.pc == pc).count() == 1;
        let moved = self.groups.iter().filter_map(|group| match (group.does, group.placed) {
            (Does::Call(index), Some(a)) if once(group.pc) => match self.on.code.calls[index as usize].results[..] {
                [Reg { slot: d, words: n, .. }] => Some((group.pc, Op::MovN { d, a, n })),
                _ => None,
            },
            _ => None,
        });
        moved.collect()
    }

    fn room(&mut self, words: u32) -> Option<Slot> {
        let first = self.next;
        self.next += words;
        (self.next <= self.on.known.slots.end + MAX_ROOM).then_some(first)
    }

    fn push_op(&mut self, op: Op) {
        match self.steps.last_mut() {
            Some(Step::Ops(ops)) => ops.push(op),
            _ => self.steps.push(Step::Ops(vec![op])),
        }
    }

    /// The slot that holds it; instructions that bring it there are added.
    pub(super) fn slot(&mut self, sym: Sym) -> Option<Slot> {
        match sym {
            Sym::Start(slot) => Some(slot),
            Sym::Live => None,
            Sym::Const(value) => match self.number(Value::Const(value)) {
                Sym::Value(number) => self.place(number),
                _ => None,
            },
            Sym::Value(number) => self.place(number),
        }
    }

    fn place(&mut self, number: u32) -> Option<Slot> {
        let (value, placed) = self.values[number as usize].clone();
        if placed.is_some() {
            return placed;
        }
        let slot = match value {
            Value::Part(group, word) => self.place_group(group)? + word,
            Value::Op(op, syms) => {
                let mut operands = Vec::new();
                let mut count = 0;
                rewired(&op, 0, |_| {
                    count += 1;
                    0
                });
                for sym in &syms[..count] {
                    operands.push(self.slot(*sym)?);
                }
                let d = self.room(1)?;
                let mut operands = operands.into_iter();
                let op = rewired(&op, d, |_| operands.next().unwrap_or(0))?;
                self.push_op(op);
                d
            }
            Value::Const(value) => {
                let d = self.room(1)?;
                self.steps.push(Step::Set { d, value });
                d
            }
            Value::Valid(h) => {
                let d = self.room(1)?;
                self.push_op(Op::IsValid { d, h });
                d
            }
            Value::Argument { application, table, word } => {
                let d = self.room(1)?;
                self.steps.push(Step::Argument { d, application, table, word });
                d
            }
        };
        self.values[number as usize].1 = Some(slot);
        Some(slot)
    }

    /// A register of that form that holds these words.
    pub(super) fn reg(&mut self, reg: Reg, syms: &[Sym]) -> Option<Reg> {
        let slots: Option<Vec<Slot>> = syms.iter().map(|sym| self.slot(*sym)).collect();
        let slots = slots?;
        let Some(first) = slots.first().copied() else { return Some(reg) };
        if slots.iter().enumerate().all(|(at, slot)| *slot == first + at as u32) {
            return Some(Reg { slot: first, ..reg });
        }
        let d = self.room(reg.words)?;
        for (at, a) in slots.iter().enumerate() {
            self.push_op(Op::Mov1 { d: d + at as u32, a: *a });
        }
        Some(Reg { slot: d, ..reg })
    }

    fn place_group(&mut self, number: u32) -> Option<Slot> {
        let Group { does, inputs, words, placed, .. } = self.groups[number as usize].clone();
        if placed.is_some() {
            return placed;
        }
        let code = self.on.code;
        let mut inputs = inputs.iter();
        let mut input = |builder: &mut Self, reg: Reg| builder.reg(reg, inputs.next()?);
        let (step, first) = match does {
            Does::Wide(index) => {
                let mut op = code.wide[index as usize].clone();
                match &mut op {
                    WideOp::Binary { a, b, .. } => (*a, *b) = (input(self, *a)?, input(self, *b)?),
                    WideOp::Unary { a, .. } | WideOp::Cast { a, .. } | WideOp::Slice { a, .. } => *a = input(self, *a)?,
                    WideOp::Concat { high, low, .. } => (*high, *low) = (input(self, *high)?, input(self, *low)?),
                }
                let first = self.room(words)?;
                match &mut op {
                    WideOp::Binary { d, .. }
                    | WideOp::Unary { d, .. }
                    | WideOp::Cast { d, .. }
                    | WideOp::Slice { d, .. }
                    | WideOp::Concat { d, .. } => d.slot = first,
                }
                (Step::Wide(Box::new(op)), first)
            }
            Does::Call(index) => {
                let mut call = code.calls[index as usize].clone();
                for arg in &mut call.args {
                    match arg {
                        CallArg::Value(reg) => *reg = input(self, *reg)?,
                        CallArg::Values(regs) => {
                            for reg in regs {
                                *reg = input(self, *reg)?;
                            }
                        }
                        CallArg::Str(_) | CallArg::Vars(_) | CallArg::Table(_) | CallArg::Action(_) => {}
                    }
                }
                let first = self.room(words)?;
                let mut next = first;
                for reg in &mut call.results {
                    reg.slot = next;
                    next += reg.words;
                }
                (Step::Call(Box::new(call)), first)
            }
        };
        self.steps.push(step);
        self.groups[number as usize].placed = Some(first);
        Some(first)
    }
}
