//! [`OffloadFinisher`]: brings packets of a runner into the form that an engine, a port or the CPU
//! takes.

use crate::segment::{FinishedPacket, SegmentPool, TxOffloads};
use crate::tx_batch::TxItem;
use crate::{OffloadCounters, Port, TxBatch};
use packet::{Batch, DropCounters, Packet, PacketRef};
use std::collections::VecDeque;

/// Cuts super-frames and completes checksums where the receiver cannot take them.
#[derive(Default)]
pub(crate) struct OffloadFinisher {
    pool: SegmentPool,
    /// The form in which each packet of a queue leaves.
    forms: Vec<FinishedPacket>,
    /// Packets for an engine that have no place in the present batch.
    waiting: VecDeque<Packet>,
    /// Copy of a packet for the CPU.
    copy: Packet,
}

/// Reports whether a packet of the batch has an offload.
pub(crate) fn has_offloads(batch: &Batch) -> bool {
    batch.packets().iter().any(|packet| !packet.offload.is_none())
}

impl OffloadFinisher {
    /// Completes and cuts the packets of a batch for an engine that takes complete packets only. If
    /// packets were cut or lost, the batch is left empty, and [`OffloadFinisher::refill`] returns
    /// its packets. `lost` counts packets that cannot be cut.
    pub(crate) fn finish_for_engine(
        &mut self,
        batch: &mut Batch,
        counts: &mut OffloadCounters,
        lost: &mut DropCounters,
    ) {
        self.pool.clear();
        self.forms.clear();
        for packet in batch.packets_mut() {
            self.forms.push(self.pool.finish(packet, TxOffloads::default(), counts));
        }
        if self.forms.iter().all(|form| *form == FinishedPacket::Whole) {
            return;
        }
        for (packet, form) in batch.packets_mut().iter_mut().zip(&self.forms) {
            match form {
                FinishedPacket::Whole => self.waiting.push_back(std::mem::take(packet)),
                FinishedPacket::Segments(range) => {
                    self.waiting.extend(self.pool.packets_mut()[range.clone()].iter_mut().map(std::mem::take));
                }
                FinishedPacket::Lost(reason) => lost.count_drop(*reason, packet.len()),
            }
        }
        batch.clear();
    }

    /// Moves waiting packets to a batch. Returns whether it has packets now.
    pub(crate) fn refill(&mut self, batch: &mut Batch) -> bool {
        batch.clear();
        while batch.remaining_capacity() > 0 {
            let Some(mut packet) = self.waiting.pop_front() else { break };
            let _ = batch.push_swap(&mut packet);
        }
        !batch.is_empty()
    }

    /// Sends the packets of a queue on a port, each in a form that the port takes. The queue's
    /// entries refer to `batch` and to `extras`, the packets that the engine generated. `lost`
    /// counts packets for which there is no such form.
    pub(crate) fn send(
        &mut self,
        port: &mut dyn Port,
        (batch, extras): (&mut [Packet], &mut [Packet]),
        queue: &[TxItem],
        counts: &mut OffloadCounters,
        lost: &mut DropCounters,
    ) {
        let abilities = port.tx_offloads();
        self.pool.clear();
        self.forms.clear();
        for item in queue {
            let packet = match item.packet {
                PacketRef::Input(index) => batch.get_mut(usize::from(index)),
                PacketRef::Generated(index) => extras.get_mut(usize::from(index)),
            };
            let form = packet.map_or(FinishedPacket::Whole, |packet| self.pool.finish(packet, abilities, counts));
            self.forms.push(form);
        }
        if self.forms.iter().all(|form| *form == FinishedPacket::Whole) {
            port.send(&mut TxBatch::departures(batch, extras, queue));
            return;
        }
        // Segments are only borrowed, so the port copies all packets of this queue.
        let uncut = TxBatch::departures(batch, extras, queue);
        let mut packets: Vec<&Packet> = Vec::with_capacity(queue.len() + self.pool.packets().len());
        for (index, form) in self.forms.iter().enumerate() {
            match form {
                FinishedPacket::Whole => packets.push(uncut.get(index)),
                FinishedPacket::Segments(range) => packets.extend(&self.pool.packets()[range.clone()]),
                FinishedPacket::Lost(reason) => lost.count_drop(*reason, uncut.get(index).len()),
            }
        }
        port.send(&mut TxBatch::copies_of(&packets));
    }

    /// Passes a packet to the CPU in complete packets. Returns whether `accept` took each of them.
    pub(crate) fn pass_to_cpu(
        &mut self,
        packet: &Packet,
        counts: &mut OffloadCounters,
        mut accept: impl FnMut(&Packet) -> bool,
    ) -> bool {
        if packet.offload.is_none() {
            return accept(packet);
        }
        self.pool.clear();
        self.copy.copy_from(packet);
        self.copy.trace_id = packet.trace_id;
        // The segments count as one packet to the CPU.
        let mut copy_counts = OffloadCounters::default();
        let form = self.pool.finish(&mut self.copy, TxOffloads::default(), &mut copy_counts);
        counts.checksums += copy_counts.checksums;
        match form {
            FinishedPacket::Whole => accept(&self.copy),
            FinishedPacket::Segments(range) => {
                self.pool.packets()[range].iter().filter(|segment| !accept(segment)).count() == 0
            }
            FinishedPacket::Lost(_) => false,
        }
    }
}
