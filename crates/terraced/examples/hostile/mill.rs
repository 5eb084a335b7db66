//! [`Mill`]: a port that always has packets and accepts all, so that a worker forwards at its
//! maximum rate.

use io::{Port, PortError, Readiness, TxBatch};
use packet::{Batch, PortCounters, PortId};

/// Packets per receive.
const AT_ONCE: usize = 64;

/// Port that always has packets.
pub struct Mill {
    frame: Vec<u8>,
    counters: PortCounters,
}

impl Mill {
    /// Creates a port on which copies of this frame arrive.
    pub fn new(frame: Vec<u8>) -> Mill {
        Mill { frame, counters: PortCounters::default() }
    }
}

impl Port for Mill {
    fn name(&self) -> &str {
        "mill"
    }

    fn mtu(&self) -> usize {
        1_500
    }

    fn receive(&mut self, id: PortId, batch: &mut Batch) -> Result<usize, PortError> {
        let now = io::now();
        let count = (0..AT_ONCE).take_while(|_| batch.push_bytes(&self.frame, id, now).is_ok()).count();
        self.counters.received.packets += count as u64;
        self.counters.received.bytes += (count * self.frame.len()) as u64;
        Ok(count)
    }

    fn send(&mut self, packets: &mut TxBatch<'_>) -> usize {
        packets.iter().for_each(|packet| self.counters.sent.count_packet(packet.len()));
        packets.len()
    }

    fn readiness(&self) -> Readiness<'_> {
        Readiness::Now
    }

    fn counters(&mut self) -> &PortCounters {
        &self.counters
    }
}
