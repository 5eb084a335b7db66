//! Instruction selection: fuses operations that one instruction can do together, and omits dead
//! ones.

use super::bound::bounds;
use super::ir::{OpId, VectorCode, VectorOp};
use super::logic::{self, LogicTree};
use super::value_numbering;

/// Lanes that a vector instruction computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LaneMask {
    /// All lanes.
    All,
    /// Lanes of the mask; the others are 0.
    Zeroed(OpId),
    /// Lanes of the mask; the others are taken from the value.
    Over(OpId, OpId),
}

/// Vector instructions with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VectorBinary {
    /// Sum.
    Add,
    /// Difference.
    Sub,
    /// Product.
    Mul,
    /// Product of the lower 32 bits.
    MulLow,
    /// AND.
    And,
    /// AND with the complement of the first.
    AndNot,
    /// OR.
    Or,
    /// XOR.
    Xor,
    /// Left shift by the other's lanes.
    ShlBy,
    /// Right shift by the other's lanes.
    ShrBy,
}

/// Vector shifts by an immediate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VectorShift {
    /// Left shift.
    Shl,
    /// Logical right shift.
    Shr,
    /// Arithmetic right shift.
    Sar,
    /// Left rotation.
    Rotl64,
    /// Left rotation of 32 bits.
    Rotl32,
}

/// Mask instructions with two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MaskBinary {
    /// Intersection.
    Both,
    /// Union.
    Either,
    /// Symmetric difference.
    OneOf,
    /// Lanes of the first that are not in the second.
    Without,
}

/// Instruction that computes a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MaskCondition {
    /// Comparison: predicate number, whether it is signed, operands.
    Compare(u8, bool, OpId, OpId),
    /// Test for a common bit, or for none if the flag is set.
    Test(bool, OpId, OpId),
}

/// A machine operation: one instruction, or a few.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum MachineOp {
    /// Two vectors.
    Binary(VectorBinary, OpId, OpId, LaneMask),
    /// Three vectors, by a truth table.
    Ternary(u8, [OpId; 3], LaneMask),
    /// A shift of a vector.
    Shift(VectorShift, OpId, u8, LaneMask),
    /// Blend of two vectors: the first in lanes of the mask.
    Blend(OpId, OpId, OpId),
    /// A vector in lanes of the mask, 0 in others.
    Zeroed(OpId, OpId),
    /// Rows, of which these words are used.
    Rows([Option<OpId>; 8]),
    /// A condition, optionally under a mask.
    Condition(MaskCondition, Option<OpId>),
    /// Two masks.
    Masks(MaskBinary, OpId, OpId),
    /// The operation itself.
    Plain,
}

/// A selected instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SelectedInst {
    /// Operation that it computes.
    pub id: OpId,
    /// The machine operation.
    pub what: MachineOp,
}

/// Selected instructions with the operations that they refer to.
pub(super) struct SelectedCode {
    /// Operations, without duplicates.
    pub ops: Vec<VectorOp>,
    /// Instructions in order.
    pub steps: Vec<SelectedInst>,
    /// By operation: has no instruction, and is rematerialised at each use.
    pub rematerializable: Vec<bool>,
}

/// Returns the operands of an instruction, with repetitions.
pub(super) fn inst_operands(ops: &[VectorOp], step: &SelectedInst) -> Vec<OpId> {
    let with_lane_mask = |ids: &[OpId], lane_mask: &LaneMask| {
        let mask_operands = match lane_mask {
            LaneMask::All => vec![],
            LaneMask::Zeroed(mask) => vec![*mask],
            LaneMask::Over(mask, base) => vec![*mask, *base],
        };
        [ids, &mask_operands].concat()
    };
    match &step.what {
        MachineOp::Binary(_, a, b, lanes) => with_lane_mask(&[*a, *b], lanes),
        MachineOp::Ternary(_, leaves, lanes) => with_lane_mask(leaves, lanes),
        MachineOp::Shift(_, a, _, lanes) => with_lane_mask(&[*a], lanes),
        MachineOp::Blend(mask, a, b) => vec![*mask, *a, *b],
        MachineOp::Zeroed(mask, a) => vec![*mask, *a],
        MachineOp::Rows(_) => vec![],
        MachineOp::Condition(MaskCondition::Compare(_, _, a, b) | MaskCondition::Test(_, a, b), within) => {
            within.iter().copied().chain([*a, *b]).collect()
        }
        MachineOp::Masks(_, a, b) => vec![*a, *b],
        MachineOp::Plain => ops[step.id.0 as usize].operands(),
    }
}

/// Hoists loop-invariant instructions: returns those before the loop and those in it. Only
/// computations, and loads of words that are equal for all packets, are hoisted.
pub(super) fn hoist_invariants(
    ops: &[VectorOp],
    steps: Vec<SelectedInst>,
    rematerializable: &[bool],
) -> (Vec<SelectedInst>, Vec<SelectedInst>) {
    let mut is_invariant: Vec<bool> = ops
        .iter()
        .zip(rematerializable)
        .map(|(op, rematerializable)| {
            matches!(op, VectorOp::Const(_)) || *rematerializable && matches!(op, VectorOp::ContextWord(_))
        })
        .collect();
    let (mut hoisted, mut in_loop) = (Vec::new(), Vec::new());
    for step in steps {
        let has_invariant_operands = inst_operands(ops, &step).iter().all(|id| is_invariant[id.0 as usize]);
        let is_computation = match &step.what {
            MachineOp::Binary(.., LaneMask::All)
            | MachineOp::Ternary(.., LaneMask::All)
            | MachineOp::Shift(.., LaneMask::All) => true,
            MachineOp::Plain => matches!(ops[step.id.0 as usize], VectorOp::Bytes(..) | VectorOp::Pointed { .. }),
            _ => false,
        };
        if has_invariant_operands && is_computation {
            is_invariant[step.id.0 as usize] = true;
            hoisted.push(step);
        } else {
            in_loop.push(step);
        }
    }
    (hoisted, in_loop)
}

/// Selects the instructions, from the last operation to the first, so that an operation is seen
/// after its uses: it can be fused with its only use, and is omitted if it has none.
pub(super) fn select_insts(code: &VectorCode) -> SelectedCode {
    let ops = value_numbering::number_values(code);
    let bounds = bounds(&ops);
    let rematerializable: Vec<bool> = value_numbering::rematerializable(&ops);
    let mut selector = InstSelector {
        uses: value_numbering::count_uses(&ops),
        gone: vec![false; ops.len()],
        ops,
        bounds,
        steps: Vec::new(),
    };
    for index in (0..selector.ops.len()).rev() {
        let is_needed = selector.uses[index] > 0 || selector.ops[index].is_effect();
        if is_needed && !rematerializable[index] && !selector.gone[index] {
            selector.select_inst(OpId(index as u32));
        }
    }
    let steps = selector.steps.into_iter().rev().map(|(_, step)| step).collect();
    SelectedCode { ops: selector.ops, steps, rematerializable }
}

/// Instruction selector. Works backwards, because a fused operation precedes its user.
pub(super) struct InstSelector {
    ops: Vec<VectorOp>,
    bounds: Vec<u64>,
    /// By operation: number of uses.
    uses: Vec<u32>,
    /// By operation: computed by the instruction of another one.
    gone: Vec<bool>,
    /// Instructions with their positions in the code, the last first.
    steps: Vec<(usize, SelectedInst)>,
}

impl InstSelector {
    pub(super) fn op(&self, id: OpId) -> &VectorOp {
        &self.ops[id.0 as usize]
    }

    pub(super) fn has_single_use(&self, id: OpId) -> bool {
        self.uses[id.0 as usize] == 1
    }

    pub(super) fn mark_fused(&mut self, id: OpId) {
        self.gone[id.0 as usize] = true;
    }

    pub(super) fn constant(&self, id: OpId) -> Option<u64> {
        match self.op(id) {
            VectorOp::Const(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns whether another operation's instruction computes it.
    pub(super) fn is_fused(&self, id: OpId) -> bool {
        self.gone[id.0 as usize]
    }

    /// Selects the instruction of an operation, possibly fused with operands that have no other
    /// use. Words are loaded with their rows.
    fn select_inst(&mut self, id: OpId) {
        let what = match self.op(id).clone() {
            VectorOp::Word(..) => return,
            VectorOp::Rows { .. } => return self.select_rows(id),
            VectorOp::Blend(mask, a, b) => self.select_blend(mask, a, b),
            VectorOp::Compare(..) => {
                let condition = self.condition(id, false);
                condition.map_or(MachineOp::Plain, |condition| MachineOp::Condition(condition, None))
            }
            VectorOp::Not(a) if self.has_single_use(a) => match self.condition(a, true) {
                Some(condition) => {
                    self.mark_fused(a);
                    MachineOp::Condition(condition, None)
                }
                None => MachineOp::Plain,
            },
            VectorOp::Both(a, b) => self.select_mask_and(a, b),
            VectorOp::Without(a, b) => match self.fuse_condition(b, true) {
                Some(condition) => MachineOp::Condition(condition, Some(a)),
                None => MachineOp::Masks(MaskBinary::Without, a, b),
            },
            VectorOp::Either(a, b) => MachineOp::Masks(MaskBinary::Either, a, b),
            VectorOp::OneOf(a, b) => MachineOp::Masks(MaskBinary::OneOf, a, b),
            _ => self.select_vector(id, LaneMask::All).unwrap_or(MachineOp::Plain),
        };
        self.steps.push((id.0 as usize, SelectedInst { id, what }));
    }

    /// Splits rows at the first use of a word, unless an effect comes before it.
    fn select_rows(&mut self, id: OpId) {
        let mut words = [None; 8];
        let mut first = self.ops.len();
        for (index, op) in self.ops.iter().enumerate() {
            if let VectorOp::Word(rows, word) = op
                && *rows == id
                && self.uses[index] > 0
            {
                words[usize::from(*word)] = Some(OpId(index as u32));
                first = first.min(index);
            }
        }
        let between = self.ops.get(id.0 as usize..first).unwrap_or_default();
        let place = if between.iter().any(VectorOp::is_effect) { id.0 as usize } else { first };
        let at = self.steps.iter().position(|(other, _)| *other < place).unwrap_or(self.steps.len());
        self.steps.insert(at, (place, SelectedInst { id, what: MachineOp::Rows(words) }));
    }

    /// Returns the instruction that computes a vector in some lanes, if there is one.
    fn select_vector(&mut self, id: OpId, lane_mask: LaneMask) -> Option<MachineOp> {
        let binary = |kind, a, b| Some(MachineOp::Binary(kind, a, b, lane_mask));
        let shift = |kind, a, by| Some(MachineOp::Shift(kind, a, by, lane_mask));
        match *self.op(id) {
            VectorOp::Add(a, b) => binary(VectorBinary::Add, a, b),
            VectorOp::Sub(a, b) => binary(VectorBinary::Sub, a, b),
            VectorOp::Mul(a, b) => {
                let fits_32_bits = [a, b].iter().all(|id| self.bounds[id.0 as usize] <= u64::from(u32::MAX));
                binary(if fits_32_bits { VectorBinary::MulLow } else { VectorBinary::Mul }, a, b)
            }
            VectorOp::And(..) | VectorOp::Or(..) | VectorOp::Xor(..) => self.select_logic(id, lane_mask),
            VectorOp::Shl(a, by) => shift(VectorShift::Shl, a, by),
            VectorOp::Shr(a, by) => shift(VectorShift::Shr, a, by),
            VectorOp::Sar(a, by) => shift(VectorShift::Sar, a, by),
            VectorOp::Rotl64(a, by) => shift(VectorShift::Rotl64, a, by),
            // Its lanes are of 32 bits, and so would be the mask's.
            VectorOp::Rotl32(a, by) if lane_mask == LaneMask::All => shift(VectorShift::Rotl32, a, by),
            VectorOp::ShlBy(a, b) => binary(VectorBinary::ShlBy, a, b),
            VectorOp::ShrBy(a, b) => binary(VectorBinary::ShrBy, a, b),
            _ => None,
        }
    }

    /// Selects a bitwise operation: a tree of them with at most three operands becomes one ternary
    /// instruction. `None` if the lanes in `lane_mask` rule that out.
    fn select_logic(&mut self, id: OpId, lane_mask: LaneMask) -> Option<MachineOp> {
        let single = match *self.op(id) {
            VectorOp::And(a, b) => MachineOp::Binary(VectorBinary::And, a, b, lane_mask),
            VectorOp::Or(a, b) => MachineOp::Binary(VectorBinary::Or, a, b, lane_mask),
            VectorOp::Xor(a, b) => MachineOp::Binary(VectorBinary::Xor, a, b, lane_mask),
            _ => return None,
        };
        let gone = &self.gone;
        let is_fusible = |id: OpId| self.uses[id.0 as usize] == 1 && !gone[id.0 as usize];
        let Some(LogicTree { leaves, table, inner }) = logic::largest_tree(&self.ops, id, is_fusible) else {
            return Some(single);
        };
        let what = match (leaves.as_slice(), table) {
            _ if inner.is_empty() => return Some(single),
            (&[a, b], NOT_FIRST) => MachineOp::Binary(VectorBinary::AndNot, a, b, lane_mask),
            (&[a, b], NOT_SECOND) => MachineOp::Binary(VectorBinary::AndNot, b, a, lane_mask),
            (&[a, b], table) => MachineOp::Ternary(table, [a, b, b], lane_mask),
            (&[a, b, c], table) => MachineOp::Ternary(table, [a, b, c], lane_mask),
            _ => return Some(single),
        };
        // Lanes outside the mask keep the first operand, which therefore must be the base.
        if let (MachineOp::Ternary(_, leaves, _), LaneMask::Over(_, base)) = (&what, lane_mask)
            && !leaves.contains(&base)
        {
            return None;
        }
        for id in inner {
            self.mark_fused(id);
        }
        Some(what)
    }

    fn select_blend(&mut self, mask: OpId, a: OpId, b: OpId) -> MachineOp {
        let zero = self.constant(b) == Some(0);
        let under = if zero { LaneMask::Zeroed(mask) } else { LaneMask::Over(mask, b) };
        if self.has_single_use(a)
            && let Some(what) = self.select_vector(a, under)
        {
            self.mark_fused(a);
            return what;
        }
        if zero { MachineOp::Zeroed(mask, a) } else { MachineOp::Blend(mask, a, b) }
    }
}

/// Truth tables of two operands: the second without the first, and vice versa.
const NOT_FIRST: u8 = !logic::PATTERNS[0] & logic::PATTERNS[1];
const NOT_SECOND: u8 = logic::PATTERNS[0] & !logic::PATTERNS[1];
