//! The engine behind the trait that all engines share.

use crate::interp::Interp;
use crate::output::Outputs;
use crate::walk::Detour;
use packet::{Batch, Emission, Engine, EngineReason, Output, Packet, PacketRef, ReasonTable, Verdict};
use std::ops::Range;

impl Engine for Interp {
    fn name(&self) -> &str {
        "interp"
    }

    fn reasons(&self) -> &ReasonTable {
        Interp::reasons(self)
    }

    fn process(&mut self, batch: &mut Batch, out: &mut Output) {
        self.process_batch(None, batch, out);
    }

    fn tick(&mut self, now: u64, _out: &mut Output) {
        let idle = self.advance_time(now);
        self.notify(idle);
    }
}

impl Interp {
    /// Runs packets one after the other, their main control by a detour if there is one. The first
    /// packet that leaves takes the place of the one that came.
    pub fn process_batch(&mut self, detour: Option<&mut (dyn Detour + 'static)>, batch: &mut Batch, out: &mut Output) {
        let all = 0..batch.len();
        self.process_range(detour, batch, all, out);
    }

    /// As [`Interp::process_batch`], those of these numbers.
    pub fn process_range(
        &mut self,
        mut detour: Option<&mut (dyn Detour + 'static)>,
        batch: &mut Batch,
        numbers: Range<usize>,
        out: &mut Output,
    ) {
        let mut results = std::mem::take(&mut self.scratch);
        for (index, packet) in batch.packets_mut().iter_mut().enumerate().take(numbers.end).skip(numbers.start) {
            self.counted_length = packet.came_with;
            let (bytes, port, now) = (packet.bytes(), packet.ingress_port.0, packet.received_at);
            match detour.as_deref_mut() {
                Some(detour) => self.process_by(detour, bytes, port, now, &mut results),
                None => self.process_into(bytes, port, now, &mut results),
            }
            emit(&results, index as u16, packet, out);
        }
        self.counted_length = None;
        self.scratch = results;
    }
}

/// Answers with the verdicts on the packet of that number in its batch. The first one that leaves takes the packet's place.
pub fn emit(results: &Outputs, index: u16, packet: &mut Packet, out: &mut Output) {
    let input = PacketRef::Input(index);
    let mut replaced = false;
    for result in results.packets() {
        let (verdict, origin) = (result.verdict, result.origin);
        if matches!(verdict, Verdict::Drop(_)) {
            out.emit(Emission { packet: input, origin, verdict });
            continue;
        }
        let place = if replaced {
            match out.add() {
                Some((reference, slot)) => {
                    slot.ingress_port = packet.ingress_port;
                    slot.received_at = packet.received_at;
                    slot.set_bytes(&result.bytes).map(|()| reference)
                }
                None => {
                    let verdict = Verdict::Drop(EngineReason::ReplicationLimit.into());
                    out.emit(Emission { packet: input, origin, verdict });
                    continue;
                }
            }
        } else {
            replaced = true;
            packet.set_bytes(&result.bytes).map(|()| input)
        };
        let verdict = if place.is_ok() { verdict } else { Verdict::Drop(EngineReason::PacketTooLong.into()) };
        out.emit(Emission { packet: place.unwrap_or(input), origin, verdict });
    }
}
