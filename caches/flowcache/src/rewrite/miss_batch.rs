//! Batch of misses on the slow path.

use super::NotRewritable;
use super::builder::BuiltRewrite;
use super::flows::PreparedFlow;
use super::path_record::PathRecord;
use packet::{Batch, BatchOutput, EngineReason, Packet, PacketOrigin, PacketRef, Verdict};

/// Misses that native code runs together, and the record of each.
#[derive(Default)]
pub(super) struct MissBatch {
    pub batch: Batch,
    pub out: BatchOutput,
    pub path_record: Vec<PathRecord>,
    /// Index of each packet in the received batch.
    pub received_indices: Vec<usize>,
    /// Indices of the packets to insert, in order.
    pub learned: Vec<usize>,
    pub built: Vec<Result<BuiltRewrite, NotRewritable>>,
    pub rows: Vec<PreparedFlow>,
    /// Verdicts of packets that the engine made of received ones and that are in their buffers, in
    /// order: index of the received packet, origin, verdict. A packet that is dropped and
    /// recirculated has one. [`MissBatch::clear`] keeps them, because one group of packets can be
    /// several batches of misses.
    pub generated: Vec<(usize, PacketOrigin, Verdict)>,
}

impl MissBatch {
    pub fn clear(&mut self) {
        self.batch.clear();
        self.out.clear();
        self.received_indices.clear();
        self.learned.clear();
    }

    /// Returns the packets to the received batch. If `verdicts` is not empty, sets their verdicts
    /// and adds those of packets made of them to [`MissBatch::generated`].
    pub fn return_packets(&mut self, packets: &mut [Packet], verdicts: &mut [Option<Verdict>]) {
        if !verdicts.is_empty() {
            for emission in self.out.verdicts() {
                // Native code emits only packets in buffers of received ones.
                let PacketRef::Input(number) = emission.packet else { continue };
                match (self.received_indices.get(usize::from(number)), emission.origin) {
                    (Some(at), PacketOrigin::Received) => verdicts[*at] = Some(emission.verdict),
                    (Some(at), origin) => self.generated.push((*at, origin, emission.verdict)),
                    (None, _) => {}
                }
            }
            // Native code sets a verdict for each packet, so this drop indicates a bug.
            let bug = Verdict::Drop(EngineReason::EngineBug.into());
            self.received_indices.iter().for_each(|at| _ = verdicts[*at].get_or_insert(bug));
        }
        let mut learned = self.learned.iter().peekable();
        for (number, (processed, at)) in self.batch.packets_mut().iter_mut().zip(&self.received_indices).enumerate() {
            std::mem::swap(processed, &mut packets[*at]);
            // The copy has no trace id.
            if learned.next_if_eq(&&number).is_some() {
                packets[*at].trace_id = processed.trace_id;
            }
        }
    }
}
