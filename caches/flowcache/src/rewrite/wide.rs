//! Symbolic execution of instructions on values of more than 64 bits. Instructions that move bits
//! are tracked. All others constrain their operands.

use super::symbolic_executor::SymbolicExecutor;
use super::symbolic_value::{CONST, FIXED, SymbolicValue, symbolic_from_bits};
use interp::block_hook::{BlockStepper, InstIndex, Reg, StepResult, WideOp, WordIndex};
use ir::BinaryOp;

impl SymbolicExecutor {
    /// Executes an instruction on values of more than 64 bits. Moves and bitwise operations track
    /// each bit. Other instructions constrain their operands.
    pub fn execute_wide(
        &mut self,
        stepper: &mut BlockStepper<'_>,
        block: usize,
        pc: InstIndex,
        index: u32,
    ) -> StepResult {
        let results: Vec<(WordIndex, SymbolicValue)> = match stepper.code().wide[index as usize] {
            WideOp::Cast { d, a } if !(d.is_varbit || a.is_varbit || a.is_signed && d.width > a.width) => {
                self.move_bits(d, |bit| (bit < a.width).then_some((a, bit)))
            }
            WideOp::Slice { d, a, lo } if !d.is_varbit && !a.is_varbit => {
                self.move_bits(d, |bit| (bit + lo < a.width).then_some((a, bit + lo)))
            }
            WideOp::Concat { d, high, low } if !d.is_varbit && !high.is_varbit && !low.is_varbit => {
                self.move_bits(d, |bit| match bit.checked_sub(low.width) {
                    None => Some((low, bit)),
                    Some(bit) => (bit < high.width).then_some((high, bit)),
                })
            }
            WideOp::Binary { op: op @ (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor), d, a, b }
                if !d.is_varbit && !a.is_varbit && !b.is_varbit && a.words == d.words && b.words == d.words =>
            {
                (0..d.words)
                    .map(|word| {
                        (
                            d.first_word + word,
                            self.execute_wide_word(stepper, op, a.first_word + word, b.first_word + word),
                        )
                    })
                    .collect()
            }
            _ => {
                self.execute_opaque(block, pc);
                return stepper.step(pc);
            }
        };
        let step = stepper.step(pc);
        results.into_iter().for_each(|(slot, origin)| self.set_origin(slot, origin));
        step
    }

    /// Returns the origin of one word of a bitwise operation on the slots `a` and `b`.
    fn execute_wide_word(
        &mut self,
        stepper: &BlockStepper<'_>,
        op: BinaryOp,
        a: WordIndex,
        b: WordIndex,
    ) -> SymbolicValue {
        let (a, b) = (self.bitwise_operand(stepper, a), self.bitwise_operand(stepper, b));
        match op {
            BinaryOp::And => self.execute_and(a, b),
            BinaryOp::Or => self.execute_or(a, b, true),
            _ => self.execute_or(a, b, false),
        }
    }

    /// Returns the origins of the slots of `d`, for an instruction that copies a register bit or 0
    /// to each result bit. `from` returns register and bit that a result bit copies; `None`: 0.
    fn move_bits(&mut self, d: Reg, from: impl Fn(u32) -> Option<(Reg, u32)>) -> Vec<(WordIndex, SymbolicValue)> {
        let mut origins = Vec::new();
        for word in 0..d.words {
            let mut bits = [FIXED; 64];
            let mut live = None;
            for (at, bit) in bits.iter_mut().enumerate() {
                let result_bit = word * 64 + at as u32;
                let Some((reg, source_bit)) = from(result_bit).filter(|_| result_bit < d.width) else { continue };
                match self.raw_origin(reg.first_word + source_bit / 64) {
                    SymbolicValue::Const | SymbolicValue::ActionData(_) => *bit = CONST,
                    SymbolicValue::Fixed => {}
                    SymbolicValue::Bits(source) => *bit = source[(source_bit % 64) as usize],
                    live_one @ SymbolicValue::Live(_) => live = Some(live_one),
                    other => {
                        self.constraints.constrain_slot_bits(&other, u64::MAX);
                        *bit = CONST;
                    }
                }
            }
            origins.push((d.first_word + word, live.unwrap_or_else(|| symbolic_from_bits(bits))));
        }
        origins
    }
}
