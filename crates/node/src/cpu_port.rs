//! [`CpuPort`]: the port between a worker and the controller.

use bytes::Bytes;
use io::memory::MemoryPort;
use io::{Port, PortError, Readiness, TxBatch};
use packet::{Batch, PortCounters, PortId, PortReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A packet for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PuntedPacket {
    /// Bytes of the packet, including the packet-in header that the program added.
    pub bytes: Bytes,
    /// Ingress port of the packet.
    pub ingress: u32,
    /// The program's reason; `None` if the program sent the packet to the CPU port.
    pub reason: Option<String>,
}

/// Delivers a packet to the controller. Returns whether the packet was accepted. Runs on a worker's
/// thread and must not block.
pub type PuntSink = Arc<dyn Fn(PuntedPacket) -> bool + Send + Sync>;

/// Port that delivers the program's packets to the controller. On the one worker with `inbound`, it
/// also receives the controller's packets.
pub(crate) struct CpuPort {
    punts: PuntSink,
    lost: Arc<AtomicU64>,
    inbound: Option<MemoryPort>,
    counters: PortCounters,
}

impl CpuPort {
    /// Creates a port that only sends. `lost` counts packets that `punts` rejects.
    pub fn new(punts: PuntSink, lost: Arc<AtomicU64>) -> CpuPort {
        CpuPort { punts, lost, inbound: None, counters: PortCounters::default() }
    }

    /// Adds `inbound`, from which the port receives the controller's packets.
    pub fn with_inbound(self, inbound: MemoryPort) -> CpuPort {
        CpuPort { inbound: Some(inbound), ..self }
    }
}

impl Port for CpuPort {
    fn name(&self) -> &str {
        "cpu"
    }

    fn mtu(&self) -> usize {
        packet::MAX_WIRE_LEN
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let Some(inbound) = &mut self.inbound else { return Ok(0) };
        let count = inbound.receive(id, batch)?;
        self.counters.received = inbound.counters().received;
        Ok(count)
    }

    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        let mut sent = 0;
        for packet in packets.iter() {
            let bytes = Bytes::copy_from_slice(packet.bytes());
            if (self.punts)(PuntedPacket { bytes, ingress: packet.ingress_port.0, reason: None }) {
                self.counters.sent.count_packet(packet.len());
                sent += 1;
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.counters.drops.count_drop(PortReason::PacketInQueueFull, packet.len());
            }
        }
        sent
    }

    fn readiness(&self) -> Readiness<'_> {
        match &self.inbound {
            Some(inbound) => inbound.readiness(),
            None => Readiness::Ended,
        }
    }

    fn counters(&mut self) -> &PortCounters {
        &self.counters
    }
}
