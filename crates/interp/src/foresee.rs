//! What a packet would decide, computed beside it: in slots behind those of the program, so that the packet stays as it is.
//!
//! Whoever foresees a packet's way brings the instructions, with their results in that room; each is still carried out by the interpreter's own code. A table is
//! asked, but not applied: nothing is counted, and no entry becomes younger.

use crate::frame::Frame;
use crate::lookup::Target;
use crate::machine::{Machine, compute, switch, wide};
use crate::memory::Object;
use crate::program::{Call, Op, Pc, Reg, Slot, Switch, WideOp};
use crate::replay::carry_out;
use crate::walk::Walker;
use ir::Loc;

/// An instruction that only computes, with other operands and another result; `None` if it is none, or if it has more than a word.
pub fn rewired(op: &Op, d: Slot, mut operand: impl FnMut(Slot) -> Slot) -> Option<Op> {
    let mut op = *op;
    match &mut op {
        Op::Add1 { d: to, a, b, .. }
        | Op::Sub1 { d: to, a, b, .. }
        | Op::Mul1 { d: to, a, b, .. }
        | Op::And1 { d: to, a, b }
        | Op::Or1 { d: to, a, b }
        | Op::Xor1 { d: to, a, b }
        | Op::Shl1 { d: to, a, b, .. }
        | Op::Shr1 { d: to, a, b }
        | Op::Eq1 { d: to, a, b }
        | Op::Ne1 { d: to, a, b }
        | Op::Lt1 { d: to, a, b }
        | Op::Le1 { d: to, a, b }
        | Op::LtS1 { d: to, a, b, .. }
        | Op::LeS1 { d: to, a, b, .. }
        | Op::Concat1 { d: to, a, b, .. } => {
            (*a, *b) = (operand(*a), operand(*b));
            *to = d;
        }
        Op::Not1 { d: to, a, .. }
        | Op::Neg1 { d: to, a, .. }
        | Op::Mask1 { d: to, a, .. }
        | Op::Sext1 { d: to, a, .. }
        | Op::Slice1 { d: to, a, .. } => {
            *a = operand(*a);
            *to = d;
        }
        Op::Select1 { d: to, c, a, b } => {
            (*c, *a, *b) = (operand(*c), operand(*a), operand(*b));
            *to = d;
        }
        _ => return None,
    }
    Some(op)
}

/// What an instruction that [`rewired`] takes gives for operands in the order in which that asks for them.
pub fn value(op: &Op, operands: &[u64]) -> Option<u64> {
    let mut slots = [0; 4];
    slots[..operands.len().min(3)].copy_from_slice(operands.get(..3).unwrap_or(operands));
    let mut next = 0;
    let op = rewired(op, 3, |_| {
        next += 1;
        next - 1
    })?;
    compute(&mut slots, &op).then_some(slots[3])
}

/// A packet, and room beside it.
pub struct Beside<'b, 'm> {
    machine: &'b mut Machine<'m, false>,
    frame: &'b mut Frame,
    code: usize,
}

impl<'b, 'm> Beside<'b, 'm> {
    /// A packet that is at the block of that number, with so many slots in all: those behind the program's are the room.
    pub(crate) fn new(machine: &'b mut Machine<'m, false>, frame: &'b mut Frame, code: usize, slots: usize) -> Self {
        if frame.slots.len() < slots {
            frame.slots.resize(slots, 0);
        }
        Beside { machine, frame, code }
    }

    /// The packet's slots, and the room.
    #[inline]
    pub fn slots(&self) -> &[u64] {
        &self.frame.slots
    }

    /// Carries out instructions that only compute, move or ask for a header's validity, and whose results lie in the room. Others do nothing.
    #[inline]
    pub fn compute(&mut self, ops: &[Op]) {
        let (slots, valid) = (&mut self.frame.slots[..], &self.frame.valid[..]);
        ops.iter().for_each(|op| carry_out(slots, valid, op));
    }

    /// The same for wide values.
    pub fn compute_wide(&mut self, op: &WideOp) {
        wide(self.frame, op);
    }

    /// Calls a function whose results depend on its arguments alone.
    pub fn call_function(&mut self, call: &Call) {
        self.machine.call(self.frame, (self.code, 0), call, Loc::default());
    }

    /// Sets a slot in the room.
    #[inline]
    pub fn set(&mut self, slot: Slot, value: u64) {
        self.frame.slots[slot as usize] = value;
    }

    /// Where a switch goes on.
    pub fn switch(&self, of: &Switch) -> Pc {
        switch(&self.frame.slots, of)
    }

    /// What a table finds that is asked for these keys: the number of the entry. Nothing is applied.
    pub fn ask(&mut self, table: usize, keys: &[Reg]) -> Option<u32> {
        self.machine.memory.lookup(table, &self.frame.slots, keys)
    }

    /// The position of the action of what a table finds; `None` if a profile's member acts.
    #[inline]
    pub fn arm_of(&self, table: usize, found: Option<u32>) -> Option<u32> {
        let table = &self.machine.memory.tables[table];
        match found.map_or(table.default, |number| table.slots[number as usize].target) {
            Target::Arm(arm) => Some(arm),
            Target::Member(_) | Target::Group(_) => None,
        }
    }

    /// A word of the arguments of what a table finds.
    #[inline]
    pub fn argument(&self, table: usize, found: Option<u32>, word: usize) -> u64 {
        let table = &self.machine.memory.tables[table];
        let args = found.map_or(&*table.default_args, |number| table.args(number));
        args.get(word).copied().unwrap_or(0)
    }

    /// Asks for an element of a counter that is going to be counted in, so that it is near when that happens.
    #[inline]
    pub fn counter_soon(&self, object: usize, index: u64) {
        if let Some(Object::Counter(array)) = self.machine.memory.objects.get(object) {
            array.soon(index);
        }
    }
}

impl<'w> Walker<'w> {
    /// The packet, with so many slots in all: those behind the program's are room.
    pub fn beside(&mut self, slots: usize) -> Beside<'_, 'w> {
        let code = self.index();
        let (machine, frame) = self.parts();
        Beside::new(machine, frame, code, slots)
    }
}
