//! Implementation of the trait that all engines share.

use crate::block_hook::BlockHook;
use crate::interp::Interp;
use crate::output::Outputs;
use crate::well_known::reads_segment_excess;
use packet::{Batch, BatchOutput, Engine, EngineReason, Packet, PacketRef, PacketVerdict, ReasonTable, Verdict};
use std::ops::Range;

impl Engine for Interp {
    fn name(&self) -> &str {
        "interp"
    }

    fn reasons(&self) -> &ReasonTable {
        Interp::reasons(self)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
        self.process_batch(None, batch, out);
    }

    fn takes_offloads(&self) -> bool {
        reads_segment_excess(self.pipeline())
    }

    fn tick(&mut self, now: u64, _out: &mut BatchOutput) {
        let idle = self.advance_time(now);
        self.notify(idle);
    }
}

impl Interp {
    /// Runs packets one after the other, their main control by `hook` if given. The first output
    /// of a packet overwrites the received packet.
    pub fn process_batch(
        &mut self,
        hook: Option<&mut (dyn BlockHook + 'static)>,
        batch: &mut Batch,
        out: &mut BatchOutput,
    ) {
        let all = 0..batch.len();
        self.process_range(hook, batch, all, out);
    }

    /// Runs the packets with these indices in the batch, like [`Interp::process_batch`].
    pub fn process_range(
        &mut self,
        mut hook: Option<&mut (dyn BlockHook + 'static)>,
        batch: &mut Batch,
        indices: Range<usize>,
        out: &mut BatchOutput,
    ) {
        let mut results = std::mem::take(&mut self.scratch);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate().take(indices.end).skip(indices.start) {
            self.counted_len_bytes = packet.metered_len_bytes;
            self.segment_excess = packet.offload.segment_excess;
            let (bytes, port, now) = (packet.bytes(), packet.ingress_port.0, packet.rx_time_ns);
            match hook.as_deref_mut() {
                Some(hook) => self.process_by(hook, bytes, port, now, &mut results),
                None => self.process_into(bytes, port, now, &mut results),
            }
            emit(&results, index as u16, packet, out);
        }
        self.counted_len_bytes = None;
        self.segment_excess = 0;
        self.scratch = results;
    }
}

/// Writes the verdicts on the packet at `index` of its batch to `out`. The first output overwrites
/// the received packet, further ones are generated packets.
pub fn emit(results: &Outputs, index: u16, packet: &mut Packet, out: &mut BatchOutput) {
    let input = PacketRef::Input(index);
    let mut is_input_used = false;
    for result in results.packets() {
        let (verdict, origin) = (result.verdict, result.origin);
        if matches!(verdict, Verdict::Drop(_)) {
            out.emit(PacketVerdict { packet: input, origin, verdict });
            continue;
        }
        // The packet that holds the output, or an error if the output is too long.
        let written = if is_input_used {
            match out.add_generated() {
                Some((reference, slot)) => {
                    slot.ingress_port = packet.ingress_port;
                    slot.rx_time_ns = packet.rx_time_ns;
                    slot.offload = packet.offload;
                    slot.set_bytes(&result.bytes).map(|()| reference)
                }
                None => {
                    let verdict = Verdict::Drop(EngineReason::ReplicationLimit.into());
                    out.emit(PacketVerdict { packet: input, origin, verdict });
                    continue;
                }
            }
        } else {
            is_input_used = true;
            packet.set_bytes(&result.bytes).map(|()| input)
        };
        let verdict = if written.is_ok() { verdict } else { Verdict::Drop(EngineReason::PacketTooLong.into()) };
        out.emit(PacketVerdict { packet: written.unwrap_or(input), origin, verdict });
    }
}
