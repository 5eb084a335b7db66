//! The engine behind the trait that all engines share.

use crate::herd::MOST;
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
    /// One packet after the other, their main control run by a detour, if there is one: then those of one time take turns where that cannot be seen. The first
    /// packet that leaves takes the place of the one that came.
    pub fn process_batch(&mut self, detour: Option<&mut (dyn Detour + 'static)>, batch: &mut Batch, out: &mut Output) {
        let all = 0..batch.len();
        self.process_some(detour, batch, all, out);
    }

    /// The same for those of these numbers.
    pub fn process_some(
        &mut self,
        mut detour: Option<&mut (dyn Detour + 'static)>,
        batch: &mut Batch,
        numbers: Range<usize>,
        out: &mut Output,
    ) {
        let mut results = std::mem::take(&mut self.scratch);
        let packets = batch.packets_mut();
        let (mut first, end) = (numbers.start, numbers.end.min(packets.len()));
        while first < end {
            let (together, most) = (packets[first].received_at, MOST.min(end - first));
            let same = packets[first..first + most].iter().take_while(|packet| packet.received_at == together).count();
            let count = if self.takes_turns && detour.is_some() { same } else { 1 };
            match detour.as_deref_mut() {
                Some(detour) if count > 1 => {
                    self.process_herd(
                        detour,
                        &mut packets[first..first + count],
                        &mut results,
                        |number, packet, results| emit(results, (first + number) as u16, packet, out),
                    );
                }
                detour => {
                    let packet = &mut packets[first];
                    self.counted_length = packet.came_with;
                    let (bytes, port, now) = (packet.bytes(), packet.ingress_port.0, packet.received_at);
                    match detour {
                        Some(detour) => self.process_by(detour, bytes, port, now, &mut results),
                        None => self.process_into(bytes, port, now, &mut results),
                    }
                    emit(&results, first as u16, packet, out);
                }
            }
            first += count;
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
