//! The output of an engine for one batch.

use crate::batch::PacketPool;
use crate::{Batch, CpuReason, DropReason, MAX_BATCH, Packet, PacketOrigin, PacketRef, PacketVerdict, PortId, Verdict};

/// Maximum number of packets that an engine can generate from one batch. Further copies are
/// refused, because a packet must not be able to multiply without bound.
pub const MAX_GENERATED: usize = 4096;

/// Maximum number of verdicts for one batch.
pub const MAX_VERDICTS: usize = 16 * 1024;

/// The verdicts on the packets of a batch, in the order in which the packets leave, and the packets
/// that the engine generated.
///
/// Verdicts that name the same packet send the same bytes several times without copying them. A
/// packet that leaves with other bytes (a clone, a replica that went through egress processing) is
/// added with [`BatchOutput::add_generated`].
#[derive(Debug, Default)]
pub struct BatchOutput {
    verdicts: Vec<PacketVerdict>,
    generated: PacketPool,
    overflow: u64,
}

impl BatchOutput {
    /// Creates an empty output. Reuse one output and [`BatchOutput::clear`] it between batches,
    /// because clearing keeps its buffers.
    pub fn new() -> BatchOutput {
        BatchOutput::default()
    }

    /// Removes all verdicts and packets and keeps the buffers.
    pub fn clear(&mut self) {
        self.verdicts.clear();
        self.generated.truncate(0);
        self.overflow = 0;
    }

    /// Adds an empty packet for the caller to fill and emit. `None` if there are [`MAX_GENERATED`]
    /// already; drop the copy with [`crate::EngineReason::ReplicationLimit`] in that case.
    pub fn add_generated(&mut self) -> Option<(PacketRef, &mut Packet)> {
        let index = self.generated.as_slice().len();
        if index >= MAX_GENERATED {
            return None;
        }
        Some((PacketRef::Generated(index as u16), self.generated.push_empty()))
    }

    /// Adds a copy of `packet` (bytes, port, time). `None` as for [`BatchOutput::add_generated`].
    pub fn add_copy(&mut self, packet: &Packet) -> Option<PacketRef> {
        let (reference, slot) = self.add_generated()?;
        slot.copy_from(packet);
        Some(reference)
    }

    /// Returns a generated packet for rewriting; `None` for inputs and for references from another
    /// batch.
    pub fn generated_mut(&mut self, reference: PacketRef) -> Option<&mut Packet> {
        match reference {
            PacketRef::Generated(index) => self.generated.as_mut_slice().get_mut(usize::from(index)),
            PacketRef::Input(_) => None,
        }
    }

    /// Returns all generated packets, for rewriting or for a port that takes their buffers to send
    /// them.
    pub fn all_generated_mut(&mut self) -> &mut [Packet] {
        self.generated.as_mut_slice()
    }

    /// Adds a verdict. Beyond [`MAX_VERDICTS`] it is only counted, in
    /// [`BatchOutput::overflow_count`].
    #[inline]
    pub fn emit(&mut self, emission: PacketVerdict) {
        if self.verdicts.len() < MAX_VERDICTS {
            self.verdicts.push(emission);
        } else {
            self.overflow += 1;
        }
    }

    /// Adds the verdict that the received packet leaves on `port`.
    #[inline]
    pub fn forward(&mut self, packet: PacketRef, port: PortId) {
        self.emit(PacketVerdict { packet, origin: PacketOrigin::Received, verdict: Verdict::Forward { port } });
    }

    /// Forwards consecutive received packets, each on its port, as [`BatchOutput::forward`] does
    /// for one. `first` is the index of the first packet in the batch.
    #[inline]
    pub fn forward_consecutive(&mut self, first: u16, ports: impl ExactSizeIterator<Item = u32>) {
        let taken = ports.len().min(MAX_VERDICTS.saturating_sub(self.verdicts.len()));
        self.overflow += (ports.len() - taken) as u64;
        self.verdicts.extend(ports.take(taken).zip(0u16..).map(|(port, at)| PacketVerdict {
            packet: PacketRef::Input(first.wrapping_add(at)),
            origin: PacketOrigin::Received,
            verdict: Verdict::Forward { port: PortId(port) },
        }));
    }

    /// Adds the verdict that the received packet goes to the control plane.
    pub fn to_cpu(&mut self, packet: PacketRef, reason: CpuReason) {
        self.emit(PacketVerdict { packet, origin: PacketOrigin::Received, verdict: Verdict::ToCpu { reason } });
    }

    /// Adds the verdict that the received packet is dropped.
    pub fn drop(&mut self, packet: PacketRef, reason: DropReason) {
        self.emit(PacketVerdict { packet, origin: PacketOrigin::Received, verdict: Verdict::Drop(reason) });
    }

    /// Returns the verdicts, in order.
    pub fn verdicts(&self) -> &[PacketVerdict] {
        &self.verdicts
    }

    /// Returns the number of verdicts that were refused because there were [`MAX_VERDICTS`].
    /// [`crate::EngineCounters::count_batch`] counts them as
    /// [`crate::EngineReason::ReplicationLimit`].
    pub fn overflow_count(&self) -> u64 {
        self.overflow
    }

    /// Returns the packet that `reference` names; `None` for a reference from another batch.
    /// `batch` must be the processed batch.
    pub fn packet<'a>(&'a self, batch: &'a Batch, reference: PacketRef) -> Option<&'a Packet> {
        resolve_packet(batch.packets(), self.generated.as_slice(), reference)
    }

    /// Iterates over the verdicts with their packets, in order. Verdicts with a reference from
    /// another batch are skipped.
    pub fn iter<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = (PacketVerdict, &'a Packet)> {
        let (inputs, generated) = (batch.packets(), self.generated.as_slice());
        self.verdicts
            .iter()
            .filter_map(move |emission| Some((*emission, resolve_packet(inputs, generated, emission.packet)?)))
    }

    /// Returns the indices of the inputs without a verdict. An engine that leaves any has a bug,
    /// because each packet needs a verdict. The indices include packets with refused verdicts (see
    /// [`BatchOutput::overflow_count`]).
    pub fn inputs_without_verdict(&self, batch: &Batch) -> impl Iterator<Item = usize> + use<> {
        let mut has_verdict = [false; MAX_BATCH];
        for emission in &self.verdicts {
            if let PacketRef::Input(index) = emission.packet
                && let Some(seen) = has_verdict.get_mut(usize::from(index))
            {
                *seen = true;
            }
        }
        (0..batch.len()).filter(move |index| !has_verdict[*index])
    }
}

/// Returns the packet that a reference names.
#[inline(always)]
fn resolve_packet<'a>(inputs: &'a [Packet], generated: &'a [Packet], reference: PacketRef) -> Option<&'a Packet> {
    match reference {
        PacketRef::Input(index) => inputs.get(usize::from(index)),
        PacketRef::Generated(index) => generated.get(usize::from(index)),
    }
}
