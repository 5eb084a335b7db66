//! Time of packets in the gateway: from the generator's timestamp just before it writes a packet to
//! its ring, to the gateway's just after it has written it to the return ring. It includes the time
//! that the packet waits in the ring, but not the return to the generator.

use super::WARM_UP;
use super::generator::STAMP;
use super::times::LatencyHistogram;
use crate::machine;
use io::{Port, PortError, PortFault, Readiness, TxBatch};
use packet::{Batch, PortCounters, PortId};
use parking_lot::Mutex;
use std::sync::Arc;

/// A port that records the latency of the packets that it sends.
pub(super) struct LatencyPort<P> {
    port: P,
    times: Arc<Mutex<LatencyHistogram>>,
    /// Send times of the packets of a burst.
    left: Vec<u64>,
    /// Packets sent before this time are ignored, because both processes touch their memory for the
    /// first time.
    from: Option<u64>,
}

impl<P: Port> LatencyPort<P> {
    /// Wraps the port. Returns it with the recorded times.
    pub fn new(port: P) -> (LatencyPort<P>, Arc<Mutex<LatencyHistogram>>) {
        let times = Arc::new(Mutex::new(LatencyHistogram::new()));
        (LatencyPort { port, times: times.clone(), left: Vec::new(), from: None }, times)
    }

    fn record_latencies(&mut self) {
        let now = machine::monotonic();
        let warm_up = WARM_UP.as_nanos() as u64;
        let Some(first) = self.left.first() else { return };
        let from = *self.from.get_or_insert(first.saturating_add(warm_up));
        let mut times = self.times.lock();
        for left in self.left.iter().filter(|left| **left >= from) {
            times.add(now.saturating_sub(*left));
        }
    }
}

impl<P: Port> Port for LatencyPort<P> {
    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        self.left.clear();
        let stamps = packets.iter().filter_map(|packet| packet.bytes().get(STAMP..)?.first_chunk::<8>());
        self.left.extend(stamps.map(|stamp| u64::from_be_bytes(*stamp)));
        let sent = self.port.send(packets);
        self.record_latencies();
        sent
    }

    fn name(&self) -> &str {
        self.port.name()
    }

    fn mtu(&self) -> usize {
        self.port.mtu()
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        self.port.receive(id, batch)
    }

    fn readiness(&self) -> Readiness<'_> {
        self.port.readiness()
    }

    fn counters(&mut self) -> &PortCounters {
        self.port.counters()
    }

    fn port_fault(&mut self) -> Option<PortFault> {
        self.port.port_fault()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Packet;

    #[test]
    fn packets_are_timed_from_their_stamp_to_their_leaving_but_not_while_memory_is_touched() {
        let (port, _other) = io::memory::pair("left", "right", 8).expect("a pair");
        let (mut port, times) = LatencyPort::new(port);
        let mut send = |left: u64| {
            let mut bytes = [0; 114];
            bytes[STAMP..STAMP + 8].copy_from_slice(&left.to_be_bytes());
            let packet = Packet::from_bytes(&bytes).expect("short enough");
            assert_eq!(port.send(&mut TxBatch::copies_of(&[&packet])), 1);
        };
        let now = machine::monotonic();
        let warm_up = WARM_UP.as_nanos() as u64;
        send(now - 2 * warm_up);
        send(now - 2 * warm_up + 1);
        send(now - warm_up / 2);
        let summary = times.lock().summary();
        assert_eq!(summary.samples, 1, "the first two belong to the warm-up");
        assert!(summary.longest >= warm_up as f64 / 2.0, "{summary:?}");
    }
}
