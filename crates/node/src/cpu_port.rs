//! [`CpuPort`]: the port between a worker and the controller.

use bytes::Bytes;
use io::memory::MemoryPort;
use io::{Outgoing, Port, PortError, Readiness};
use packet::{Batch, PortCounters, PortId, PortReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A packet for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Punted {
    /// Its bytes; what the program put in front for the controller is there.
    pub bytes: Bytes,
    /// The port on which it came in.
    pub ingress: u32,
    /// The program's reason; `None`: the program sent it to the CPU port.
    pub reason: Option<String>,
}

/// Takes packets for the controller, on a worker's thread: it must not wait. Whether it took the packet.
pub type PuntSink = Arc<dyn Fn(Punted) -> bool + Send + Sync>;

/// What a program sends here goes to the controller; what the controller sends comes in here, on the one worker that receives it.
pub(crate) struct CpuPort {
    punts: PuntSink,
    lost: Arc<AtomicU64>,
    inbound: Option<MemoryPort>,
    counters: PortCounters,
}

impl CpuPort {
    /// A port on which nothing comes in. `lost` counts packets that `punts` does not take.
    pub fn new(punts: PuntSink, lost: Arc<AtomicU64>) -> CpuPort {
        CpuPort { punts, lost, inbound: None, counters: PortCounters::default() }
    }

    /// The same with packets that come in by `inbound`.
    pub fn receiving(self, inbound: MemoryPort) -> CpuPort {
        CpuPort { inbound: Some(inbound), ..self }
    }
}

impl Port for CpuPort {
    fn name(&self) -> &str {
        "cpu"
    }

    fn mtu(&self) -> usize {
        packet::MAX_LEN
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let Some(inbound) = &mut self.inbound else { return Ok(0) };
        let count = inbound.receive(id, batch)?;
        self.counters.received = inbound.counters().received;
        Ok(count)
    }

    fn send(&mut self, packets: &mut Outgoing<'_>) -> usize {
        let mut sent = 0;
        for packet in packets.iter() {
            let bytes = Bytes::copy_from_slice(packet.bytes());
            if (self.punts)(Punted { bytes, ingress: packet.ingress_port.0, reason: None }) {
                self.counters.sent.add(packet.len());
                sent += 1;
            } else {
                self.lost.fetch_add(1, Ordering::Relaxed);
                self.counters.drops.add(PortReason::CpuQueueFull, packet.len());
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
