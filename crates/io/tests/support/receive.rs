//! Reception of packets in flight.

use io::Port;
use packet::{Batch, Packet, PortId};
use std::time::{Duration, Instant};

/// Receives until `count` packets have arrived, for at most `patience`.
pub fn receive(port: &mut impl Port, count: usize, patience: Duration) -> Vec<Packet> {
    let deadline = Instant::now() + patience;
    let mut all = Vec::new();
    while all.len() < count && Instant::now() < deadline {
        let mut batch = Batch::new();
        if port.receive(PortId(3), &mut batch).unwrap() == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        all.extend_from_slice(batch.packets());
    }
    all
}
