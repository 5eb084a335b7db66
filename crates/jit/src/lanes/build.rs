//! Builder of vector code, with value numbering and constant folding.

use crate::lanes::bound::{permute_bytes, result_bits};
use crate::lanes::ir::{OpId, VectorCode, VectorOp, ZERO_BYTE};
use std::collections::HashMap;

/// Vector code under construction.
#[derive(Default)]
pub struct VectorBuilder {
    pub(super) code: VectorCode,
    numbers: HashMap<VectorOp, OpId>,
    /// For each vector, the bits that may be 1 in some lane.
    may: Vec<u64>,
}

/// Returns a mask of the bytes for which `bytes` is true.
fn byte_mask(bytes: impl Fn(usize) -> bool) -> u64 {
    (0..8).filter(|at| bytes(*at)).fold(0, |mask, at| mask | 0xff << (8 * at))
}

/// Returns whether each byte is all ones or 0.
fn is_byte_mask(mask: u64) -> bool {
    mask.to_le_bytes().iter().all(|byte| [0, 0xff].contains(byte))
}

impl VectorBuilder {
    /// Adds an operation; an identical earlier one is reused.
    pub(super) fn add_op(&mut self, op: VectorOp) -> OpId {
        if let Some(id) = self.numbers.get(&op) {
            return *id;
        }
        let id = OpId(self.code.ops.len() as u32);
        self.may.push(result_bits(&self.code.ops, &op, |id| self.possible_bits(id)));
        self.code.ops.push(op.clone());
        self.numbers.insert(op, id);
        id
    }

    /// Adds an operation with a vector of unknown lanes, or a mask, as result.
    pub fn add_pure(&mut self, op: VectorOp) -> OpId {
        self.add_op(op)
    }

    /// Adds an effect.
    pub fn add_effect(&mut self, op: VectorOp) {
        self.may.push(0);
        self.code.ops.push(op);
    }

    /// Returns the operation of an id.
    pub fn op(&self, id: OpId) -> &VectorOp {
        &self.code.ops[id.0 as usize]
    }

    /// Returns the operations added until now.
    pub fn ops(&self) -> &[VectorOp] {
        &self.code.ops
    }

    /// Returns whether the operation's result is a mask.
    pub fn is_mask(&self, id: OpId) -> bool {
        self.op(id).is_mask()
    }

    /// Returns the value of a constant vector.
    pub fn constant_of(&self, id: OpId) -> Option<u64> {
        match self.op(id) {
            VectorOp::Const(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the bits that may be 1.
    pub fn possible_bits(&self, id: OpId) -> u64 {
        self.may[id.0 as usize]
    }

    /// Returns the code without dead operations.
    pub fn finish(self) -> VectorCode {
        let ops = self.code.ops;
        let mut needed = vec![false; ops.len()];
        for (at, op) in ops.iter().enumerate().rev() {
            if op.is_effect() || needed[at] {
                needed[at] = true;
                op.operands().iter().for_each(|id| needed[id.0 as usize] = true);
            }
        }
        let mut moved = vec![OpId(0); ops.len()];
        let mut code = VectorCode::default();
        for (at, mut op) in ops.into_iter().enumerate().filter(|(at, _)| needed[*at]) {
            op.rename(&|id| moved[id.0 as usize]);
            moved[at] = OpId(code.ops.len() as u32);
            code.ops.push(op);
        }
        code
    }

    // ---- vectors ----

    /// Returns a constant in all lanes.
    pub fn constant(&mut self, number: u64) -> OpId {
        self.add_op(VectorOp::Const(number))
    }

    /// Emits a bitwise AND. Folds a mask with known bits, and turns masks of whole bytes into byte
    /// permutations, because those combine with shifts.
    pub fn and(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = self.constant_last(a, b);
        if let Some(mask) = self.constant_of(b) {
            let possible_bits = self.possible_bits(a);
            if possible_bits & mask == 0 {
                return self.constant(0);
            }
            if possible_bits & !mask == 0 {
                return a;
            }
            match *self.op(a) {
                VectorOp::Const(number) => return self.constant(number & mask),
                VectorOp::And(inner, other) if self.constant_of(other).is_some() => {
                    let combined = self.constant(mask & self.constant_of(other).unwrap_or(0));
                    return self.and(inner, combined);
                }
                VectorOp::Bytes(inner, pattern) if is_byte_mask(mask) => {
                    let kept = mask.to_le_bytes();
                    let pattern = std::array::from_fn(|byte| if kept[byte] == 0 { ZERO_BYTE } else { pattern[byte] });
                    return self.permute_bytes(inner, pattern);
                }
                VectorOp::Shr(inner, by) if is_byte_mask(mask) && by % 8 == 0 => {
                    let kept = mask.to_le_bytes();
                    let pattern =
                        std::array::from_fn(|byte| if kept[byte] == 0 { ZERO_BYTE } else { byte as u8 + by / 8 });
                    return self.permute_bytes(inner, pattern);
                }
                _ => {}
            }
        }
        if a == b { a } else { self.add_op(VectorOp::And(a, b)) }
    }

    /// Emits a bitwise OR.
    pub fn or(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a | b),
            (None, Some(0)) => a,
            _ if a == b => a,
            _ => {
                // Merges constants.
                if let (VectorOp::Or(inner, one), Some(other)) = (self.op(a).clone(), self.constant_of(b))
                    && let Some(one) = self.constant_of(one)
                {
                    let both = self.constant(one | other);
                    return self.or(inner, both);
                }
                self.add_op(VectorOp::Or(a, b))
            }
        }
    }

    /// Emits a bitwise XOR.
    pub fn xor(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a ^ b),
            (None, Some(0)) => a,
            _ if a == b => self.constant(0),
            _ => self.add_op(VectorOp::Xor(a, b)),
        }
    }

    /// Emits a sum.
    pub fn sum(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a.wrapping_add(b)),
            (None, Some(0)) => a,
            (None, Some(more)) => {
                if let VectorOp::Add(inner, one) = *self.op(a)
                    && let Some(one) = self.constant_of(one)
                {
                    let both = self.constant(one.wrapping_add(more));
                    return self.sum(inner, both);
                }
                self.add_op(VectorOp::Add(a, b))
            }
            _ => self.add_op(VectorOp::Add(a, b)),
        }
    }

    /// Emits a difference.
    pub fn difference(&mut self, a: OpId, b: OpId) -> OpId {
        match (self.constant_of(a), self.constant_of(b)) {
            (_, Some(less)) => {
                let less = self.constant(less.wrapping_neg());
                self.sum(a, less)
            }
            _ if a == b => self.constant(0),
            _ => self.add_op(VectorOp::Sub(a, b)),
        }
    }

    /// Emits a product.
    pub fn product(&mut self, a: OpId, b: OpId) -> OpId {
        let (a, b) = self.constant_last(a, b);
        match (self.constant_of(a), self.constant_of(b)) {
            (Some(a), Some(b)) => self.constant(a.wrapping_mul(b)),
            (None, Some(0)) => self.constant(0),
            (None, Some(by)) if by.is_power_of_two() => self.shl(a, by.trailing_zeros()),
            _ => self.add_op(VectorOp::Mul(a, b)),
        }
    }

    pub(super) fn constant_last(&self, a: OpId, b: OpId) -> (OpId, OpId) {
        let first = self.constant_of(a).is_some() && self.constant_of(b).is_none();
        // Canonical operand order, so that value numbering finds equal operations.
        let turned = first || (self.constant_of(b).is_none() && b < a);
        if turned { (b, a) } else { (a, b) }
    }

    /// Emits a left shift by a constant, in bits. Shifts by whole bytes combine into permutations.
    pub fn shl(&mut self, a: OpId, by: u32) -> OpId {
        if by == 0 {
            return a;
        }
        if by >= 64 || self.possible_bits(a) << by == 0 {
            return self.constant(0);
        }
        match *self.op(a) {
            VectorOp::Const(number) => self.constant(number << by),
            VectorOp::Bytes(inner, pattern) if by.is_multiple_of(8) => {
                let shift_bytes = by as usize / 8;
                let shifted =
                    std::array::from_fn(
                        |byte| if byte < shift_bytes { ZERO_BYTE } else { pattern[byte - shift_bytes] },
                    );
                self.permute_bytes(inner, shifted)
            }
            VectorOp::Shl(inner, first) => self.shl(inner, by + u32::from(first)),
            VectorOp::Shr(inner, other) if by.is_multiple_of(8) && other % 8 == 0 => {
                let (up, down) = (by as usize / 8, other / 8);
                let source = |byte: usize| if byte < up { 8 } else { (byte - up) as u8 + down };
                self.permute_bytes(
                    inner,
                    std::array::from_fn(|byte| if source(byte) < 8 { source(byte) } else { ZERO_BYTE }),
                )
            }
            _ => self.add_op(VectorOp::Shl(a, by as u8)),
        }
    }

    /// Emits a logical right shift by a constant, in bits. Shifts by whole bytes combine into
    /// permutations.
    pub fn shr(&mut self, a: OpId, by: u32) -> OpId {
        if by == 0 {
            return a;
        }
        if by >= 64 || self.possible_bits(a) >> by == 0 {
            return self.constant(0);
        }
        match *self.op(a) {
            VectorOp::Const(number) => self.constant(number >> by),
            VectorOp::Bytes(inner, pattern) if by.is_multiple_of(8) => {
                let shift_bytes = by as usize / 8;
                let shifted = std::array::from_fn(|byte| pattern.get(byte + shift_bytes).copied().unwrap_or(ZERO_BYTE));
                self.permute_bytes(inner, shifted)
            }
            VectorOp::Shr(inner, first) => self.shr(inner, by + u32::from(first)),
            // A shift up and down again without loss of bits.
            VectorOp::Shl(inner, first) if self.possible_bits(inner) << first >> first == self.possible_bits(inner) => {
                match by.cmp(&u32::from(first)) {
                    std::cmp::Ordering::Less => self.shl(inner, u32::from(first) - by),
                    _ => self.shr(inner, by - u32::from(first)),
                }
            }
            _ => self.add_op(VectorOp::Shr(a, by as u8)),
        }
    }

    /// Emits a permutation of the bytes in each lane: [`VectorOp::Bytes`]. Combines it with a
    /// preceding permutation, shift or mask.
    pub fn permute_bytes(&mut self, a: OpId, pattern: [u8; 8]) -> OpId {
        let possible_bytes = self.possible_bits(a).to_le_bytes();
        let pattern = pattern.map(|from| {
            if possible_bytes.get(usize::from(from)).is_none_or(|byte| *byte == 0) { ZERO_BYTE } else { from }
        });
        let kept = byte_mask(|byte| pattern[byte] != ZERO_BYTE);
        if kept == 0 {
            return self.constant(0);
        }
        match *self.op(a) {
            VectorOp::Const(number) => return self.constant(permute_bytes(number, pattern)),
            VectorOp::Bytes(inner, first) => {
                let combined = pattern.map(|from| first.get(usize::from(from)).copied().unwrap_or(ZERO_BYTE));
                return self.permute_bytes(inner, combined);
            }
            VectorOp::Shr(inner, by) if by % 8 == 0 => {
                let combined = pattern.map(|from| if from == ZERO_BYTE { from } else { from + by / 8 });
                return self.permute_bytes(inner, combined);
            }
            VectorOp::Shl(inner, by) if by % 8 == 0 => {
                let combined =
                    pattern.map(|from| from.checked_sub(by / 8).filter(|from| *from < 8).unwrap_or(ZERO_BYTE));
                return self.permute_bytes(inner, combined);
            }
            // Bits that are dropped need not be masked before.
            VectorOp::And(inner, mask) if self.constant_of(mask).is_some() => {
                let mask = self.constant_of(mask).unwrap_or(0);
                if is_byte_mask(mask) {
                    let kept = mask.to_le_bytes();
                    let is_masked_out = |from: u8| kept.get(usize::from(from)).is_none_or(|byte| *byte == 0);
                    return self
                        .permute_bytes(inner, pattern.map(|from| if is_masked_out(from) { ZERO_BYTE } else { from }));
                }
            }
            _ => {}
        }
        self.simplest(a, pattern)
    }

    /// Emits a permutation of bytes, as a shift or mask if possible. A byte that is always 0 may
    /// come from anywhere.
    fn simplest(&mut self, a: OpId, pattern: [u8; 8]) -> OpId {
        let possible_bits = self.possible_bits(a);
        for by in 0..8u32 {
            let shifted_down: [u8; 8] =
                std::array::from_fn(|byte| if byte as u32 + by < 8 { byte as u8 + by as u8 } else { ZERO_BYTE });
            let shifted_up: [u8; 8] =
                std::array::from_fn(|byte| if byte as u32 >= by { byte as u8 - by as u8 } else { ZERO_BYTE });
            let is_zero = |from: u8| from == ZERO_BYTE || possible_bits >> (8 * u32::from(from)) & 0xff == 0;
            let is_equivalent = |theirs: [u8; 8]| {
                theirs
                    .iter()
                    .zip(pattern)
                    .all(|(theirs, ours)| *theirs == ours || is_zero(*theirs) && ours == ZERO_BYTE)
            };
            if is_equivalent(shifted_down) {
                return if by == 0 { a } else { self.add_op(VectorOp::Shr(a, by as u8 * 8)) };
            }
            if is_equivalent(shifted_up) {
                return self.add_op(VectorOp::Shl(a, by as u8 * 8));
            }
        }
        if (0..8).all(|byte| pattern[byte] == ZERO_BYTE || usize::from(pattern[byte]) == byte) {
            let mask = self.constant(byte_mask(|byte| pattern[byte] != ZERO_BYTE));
            return self.add_op(VectorOp::And(a, mask));
        }
        self.add_op(VectorOp::Bytes(a, pattern))
    }

    /// Emits a blend: `a` in lanes of the mask, `b` in others.
    pub fn blend(&mut self, mask: OpId, a: OpId, b: OpId) -> OpId {
        match self.op(mask) {
            VectorOp::Certain(true) => a,
            VectorOp::Certain(false) => b,
            _ if a == b => a,
            VectorOp::Not(other) => {
                let other = *other;
                self.blend(other, b, a)
            }
            _ => self.add_op(VectorOp::Blend(mask, a, b)),
        }
    }

    /// Emits 1 in lanes of the mask, 0 in others.
    pub fn mask_to_vector(&mut self, mask: OpId) -> OpId {
        match self.op(mask) {
            VectorOp::Certain(yes) => {
                let yes = u64::from(*yes);
                self.constant(yes)
            }
            _ => self.add_op(VectorOp::Number(mask)),
        }
    }

    /// Selects between two vectors or two masks: `a` in lanes of the mask, `b` in others.
    pub fn select_value(&mut self, mask: OpId, a: OpId, b: OpId) -> OpId {
        if !self.is_mask(a) {
            return self.blend(mask, a, b);
        }
        if a == b {
            return a;
        }
        let (yes, no) = (self.mask_and(mask, a), self.mask_and_not(b, mask));
        self.mask_or(yes, no)
    }
}
