//! Packets that no rewrite was found for, on their way through native code.

use super::Unrewritable;
use super::flows::Ready;
use super::maker::Made;
use super::noted::Noted;
use packet::{Batch, EngineReason, Output, Packet, Verdict};

/// Packets on their way through native code, and what was noted of each.
#[derive(Default)]
pub(super) struct Misses {
    pub batch: Batch,
    pub out: Output,
    pub noted: Vec<Noted>,
    /// Which packets of the batch they are.
    pub of: Vec<usize>,
    /// Those of them that are kept, in order.
    pub learned: Vec<usize>,
    pub made: Vec<Result<Made, Unrewritable>>,
    pub rows: Vec<Ready>,
}

impl Misses {
    pub fn clear(&mut self) {
        self.batch.clear();
        self.out.clear();
        self.of.clear();
        self.learned.clear();
    }

    /// Packets come back from native code; each gets its verdict, if there is room for any.
    pub fn give_back(&mut self, packets: &mut [Packet], verdicts: &mut [Option<Verdict>]) {
        if !verdicts.is_empty() {
            for (emission, at) in self.out.emissions().iter().zip(&self.of) {
                verdicts[*at] = Some(emission.verdict);
            }
            // Native code answers each packet.
            let fault = Verdict::Drop(EngineReason::EngineFault.into());
            self.of.iter().for_each(|at| _ = verdicts[*at].get_or_insert(fault));
        }
        let mut learned = self.learned.iter().peekable();
        for (number, (ran, at)) in self.batch.packets_mut().iter_mut().zip(&self.of).enumerate() {
            std::mem::swap(ran, &mut packets[*at]);
            // A copy has no mark.
            if learned.next_if_eq(&&number).is_some() {
                packets[*at].mark = ran.mark;
            }
        }
    }
}
