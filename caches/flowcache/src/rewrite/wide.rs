//! Instructions on values of more than 64 bits: those that move bits are followed, of all others what they read is pinned.

use super::shadow::Shadow;
use super::sym::{CONST, FIXED, Sym, of_bits};
use interp::walk::{Pc, Reg, Slot, Step, Walker, WideOp};
use ir::BinaryOp;

impl Shadow {
    pub fn wide(&mut self, walker: &mut Walker<'_>, block: usize, pc: Pc, index: u32) -> Step {
        let made: Vec<(Slot, Sym)> = match walker.code().wide[index as usize] {
            WideOp::Cast { d, a } if !(d.varbit || a.varbit || a.signed && d.width > a.width) => {
                self.moved(d, |bit| (bit < a.width).then_some((a, bit)))
            }
            WideOp::Slice { d, a, lo } if !d.varbit && !a.varbit => {
                self.moved(d, |bit| (bit + lo < a.width).then_some((a, bit + lo)))
            }
            WideOp::Concat { d, high, low } if !d.varbit && !high.varbit && !low.varbit => {
                self.moved(d, |bit| match bit.checked_sub(low.width) {
                    None => Some((low, bit)),
                    Some(bit) => (bit < high.width).then_some((high, bit)),
                })
            }
            WideOp::Binary { op: op @ (BinaryOp::And | BinaryOp::Or | BinaryOp::Xor), d, a, b }
                if !d.varbit && !a.varbit && !b.varbit && a.words == d.words && b.words == d.words =>
            {
                (0..d.words).map(|word| (d.slot + word, self.word(walker, op, a.slot + word, b.slot + word))).collect()
            }
            _ => {
                self.opaque(block, pc);
                return walker.step(pc);
            }
        };
        let step = walker.step(pc);
        made.into_iter().for_each(|(slot, sym)| self.set(slot, sym));
        step
    }

    fn word(&mut self, walker: &Walker<'_>, op: BinaryOp, a: Slot, b: Slot) -> Sym {
        let (a, b) = (self.bitwise(walker, a), self.bitwise(walker, b));
        match op {
            BinaryOp::And => self.and(a, b),
            BinaryOp::Or => self.or(a, b, true),
            _ => self.or(a, b, false),
        }
    }

    /// Each bit of a result is a bit of a register, or 0.
    fn moved(&mut self, d: Reg, from: impl Fn(u32) -> Option<(Reg, u32)>) -> Vec<(Slot, Sym)> {
        let mut made = Vec::new();
        for word in 0..d.words {
            let mut bits = [FIXED; 64];
            let mut live = None;
            for (at, bit) in bits.iter_mut().enumerate() {
                let place = word * 64 + at as u32;
                let Some((reg, place)) = from(place).filter(|_| place < d.width) else { continue };
                match self.raw(reg.slot + place / 64) {
                    Sym::Const | Sym::Given(_) => *bit = CONST,
                    Sym::Fixed => {}
                    Sym::Bits(of) => *bit = of[(place % 64) as usize],
                    live_one @ Sym::Live(_) => live = Some(live_one),
                    other => {
                        self.pins.pin(&other, u64::MAX);
                        *bit = CONST;
                    }
                }
            }
            made.push((d.slot + word, live.unwrap_or_else(|| of_bits(bits))));
        }
        made
    }
}
