//! [`SlotCounters`]: counters of packets that the flow cache's program handled itself at a port.

use super::lost::LostPackets;
use super::mapped::MappedArray;
use packet::{Counter, PortCounters, PortReason};

/// Words of a `struct passage` of `bpf/flow.bpf.h`.
pub(super) const WORDS: usize = 8;

/// Counters of a port slot, which can include those of its earlier ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotCounters {
    /// Received packets that were not passed to this process.
    pub received: Counter,
    /// Packets passed to the device.
    pub sent: Counter,
    /// Packets for this process on a queue without a socket.
    pub no_socket: Counter,
    /// Packets for the port that were dropped at the tc hook, because they are longer than the MTU.
    pub too_long: Counter,
    /// Packets of `sent`, and packets for sockets, that were dropped.
    pub lost: LostPackets,
}

impl SlotCounters {
    /// Reads the counters of a slot from the maps.
    pub fn read(words: &MappedArray, ports: u32, processors: u32, slot: u32, lost: LostPackets) -> SlotCounters {
        let mut sum = [0u64; WORDS];
        for processor in 0..processors {
            let first_word = (processor * ports + slot) as usize * WORDS;
            sum.iter_mut().zip(first_word..).for_each(|(sum, word)| *sum = sum.wrapping_add(words.get(word)));
        }
        let counter = |word: usize| Counter { packets: sum[word], bytes: sum[word + 1] };
        SlotCounters { received: counter(0), sent: counter(2), no_socket: counter(4), too_long: counter(6), lost }
    }

    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &SlotCounters) -> SlotCounters {
        SlotCounters {
            received: self.received.since(earlier.received),
            sent: self.sent.since(earlier.sent),
            no_socket: self.no_socket.since(earlier.no_socket),
            too_long: self.too_long.since(earlier.too_long),
            lost: self.lost.since(&earlier.lost),
        }
    }

    /// Adds the counters to those of a port. `has_sockets`: misses are for sockets. Otherwise, the
    /// port receives them from the stack, and they are no drops.
    pub fn add_to(&self, counters: &mut PortCounters, has_sockets: bool) {
        counters.received += self.received;
        counters.sent += self.sent;
        counters.drops.add_counter(PortReason::TxMtu, self.too_long);
        for (reason, packets) in self.lost.tx_drops() {
            counters.move_sent_to_drops(reason, packets);
        }
        if !has_sockets {
            return;
        }
        counters.drops.add_counter(PortReason::RxNoSocket, self.no_socket);
        for (reason, packets) in self.lost.rx_drops() {
            counters.drops.count_drops(reason, packets);
        }
    }
}
