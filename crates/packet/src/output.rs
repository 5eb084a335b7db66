//! [`Output`]: what an engine says about a batch.

use crate::batch::Slots;
use crate::{Batch, CpuReason, DropReason, Emission, MAX_BATCH, Origin, Packet, PacketRef, PortId, Verdict};

/// The most packets that an engine can make out of one batch. Copies beyond are refused: a packet must not be able to
/// multiply without bound.
pub const MAX_EXTRAS: usize = 4096;

/// The most emissions for one batch.
pub const MAX_EMISSIONS: usize = 16 * 1024;

/// The verdicts on the packets of a batch, in the order in which the packets leave, and the packets that the engine made.
///
/// Emissions that name the same packet send the same bytes several times without copying them. A packet that leaves
/// with other bytes (a clone, a replica that went through egress processing) is added with [`Output::add`].
#[derive(Debug, Default)]
pub struct Output {
    emissions: Vec<Emission>,
    extras: Slots,
    overflow: u64,
}

impl Output {
    /// An empty output. Keep it and [`Output::clear`] it between batches: its buffers are reused.
    pub fn new() -> Output {
        Output::default()
    }

    /// Forgets all emissions and packets, keeps the buffers.
    pub fn clear(&mut self) {
        self.emissions.clear();
        self.extras.truncate(0);
        self.overflow = 0;
    }

    /// Adds an empty packet to be filled and emitted. `None` when there are [`MAX_EXTRAS`] already; drop what was to be
    /// copied with [`crate::EngineReason::ReplicationLimit`].
    pub fn add(&mut self) -> Option<(PacketRef, &mut Packet)> {
        let index = self.extras.as_slice().len();
        if index >= MAX_EXTRAS {
            return None;
        }
        Some((PacketRef::Extra(index as u16), self.extras.next()))
    }

    /// Adds a copy of `packet` (bytes, port, time). `None` as for [`Output::add`].
    pub fn add_copy(&mut self, packet: &Packet) -> Option<PacketRef> {
        let (reference, slot) = self.add()?;
        slot.copy_from(packet);
        Some(reference)
    }

    /// A packet added before, to be rewritten; `None` for inputs and for references from another batch.
    pub fn extra_mut(&mut self, reference: PacketRef) -> Option<&mut Packet> {
        match reference {
            PacketRef::Extra(index) => self.extras.as_mut_slice().get_mut(usize::from(index)),
            PacketRef::Input(_) => None,
        }
    }

    /// All packets added, to be rewritten or to be taken by a port that sends them.
    pub fn extras_mut(&mut self) -> &mut [Packet] {
        self.extras.as_mut_slice()
    }

    /// Adds an emission. Beyond [`MAX_EMISSIONS`] it is not added but counted in [`Output::overflow`].
    #[inline]
    pub fn emit(&mut self, emission: Emission) {
        if self.emissions.len() < MAX_EMISSIONS {
            self.emissions.push(emission);
        } else {
            self.overflow += 1;
        }
    }

    /// The received packet leaves on `port`.
    #[inline]
    pub fn forward(&mut self, packet: PacketRef, port: PortId) {
        self.emit(Emission { packet, origin: Origin::Received, verdict: Verdict::Forward { port } });
    }

    /// As many packets received one after the other leave, each on its port; the first is number `first` of its batch. The same as
    /// [`Output::forward`] for each.
    #[inline]
    pub fn forward_all(&mut self, first: u16, ports: impl ExactSizeIterator<Item = u32>) {
        let taken = ports.len().min(MAX_EMISSIONS.saturating_sub(self.emissions.len()));
        self.overflow += (ports.len() - taken) as u64;
        self.emissions.extend(ports.take(taken).zip(0u16..).map(|(port, at)| Emission {
            packet: PacketRef::Input(first.wrapping_add(at)),
            origin: Origin::Received,
            verdict: Verdict::Forward { port: PortId(port) },
        }));
    }

    /// The received packet goes to the control plane.
    pub fn to_cpu(&mut self, packet: PacketRef, reason: CpuReason) {
        self.emit(Emission { packet, origin: Origin::Received, verdict: Verdict::ToCpu { reason } });
    }

    /// The received packet is dropped.
    pub fn drop(&mut self, packet: PacketRef, reason: DropReason) {
        self.emit(Emission { packet, origin: Origin::Received, verdict: Verdict::Drop(reason) });
    }

    /// The emissions, in order.
    pub fn emissions(&self) -> &[Emission] {
        &self.emissions
    }

    /// How many emissions were refused because there were [`MAX_EMISSIONS`].
    /// [`crate::EngineCounters::record`] counts them as [`crate::EngineReason::ReplicationLimit`].
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The packet that `reference` names; `batch` must be the one that was processed. `None` for a reference from another batch.
    pub fn packet<'a>(&'a self, batch: &'a Batch, reference: PacketRef) -> Option<&'a Packet> {
        named(batch.packets(), self.extras.as_slice(), reference)
    }

    /// Every emission with its packet, in order. Emissions with a reference from another batch are left out.
    pub fn iter<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = (Emission, &'a Packet)> {
        let (inputs, extras) = (batch.packets(), self.extras.as_slice());
        self.emissions.iter().filter_map(move |emission| Some((*emission, named(inputs, extras, emission.packet)?)))
    }

    /// The indices of those inputs on which nothing was said: always a bug of the engine, as each packet needs a verdict.
    /// A packet whose emissions were refused for number is among them.
    pub fn unanswered(&self, batch: &Batch) -> impl Iterator<Item = usize> + use<> {
        let mut answered = [false; MAX_BATCH];
        for emission in &self.emissions {
            if let PacketRef::Input(index) = emission.packet
                && let Some(seen) = answered.get_mut(usize::from(index))
            {
                *seen = true;
            }
        }
        (0..batch.len()).filter(move |index| !answered[*index])
    }
}

/// The packet that a reference names.
#[inline(always)]
fn named<'a>(inputs: &'a [Packet], extras: &'a [Packet], reference: PacketRef) -> Option<&'a Packet> {
    match reference {
        PacketRef::Input(index) => inputs.get(usize::from(index)),
        PacketRef::Extra(index) => extras.get(usize::from(index)),
    }
}
