//! [`Passage`]: what the flow cache's program did at a port by itself, and what became of it.

use super::lost::Lost;
use super::mapped::Words;
use packet::{Counter, PortCounters, PortReason};

/// Words of a `struct passage` of `bpf/terrace.bpf.c`.
pub(super) const WORDS: usize = 8;

/// See the module. Counts of a place, which may have had other ports before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passage {
    /// Came in, and did not come to this process.
    pub received: Counter,
    /// Given to the device.
    pub sent: Counter,
    /// Was for this process, on a queue that has no socket.
    pub no_socket: Counter,
    /// Of `sent`, and of what was for sockets: lost.
    pub lost: Lost,
}

impl Passage {
    /// What the maps say of a place.
    pub fn read(words: &Words, ports: u32, processors: u32, place: u32, lost: Lost) -> Passage {
        let mut sum = [0u64; WORDS];
        for processor in 0..processors {
            let at = (processor * ports + place) as usize * WORDS;
            sum.iter_mut().zip(at..).for_each(|(sum, at)| *sum = sum.wrapping_add(words.get(at)));
        }
        let counter = |at: usize| Counter { packets: sum[at], bytes: sum[at + 1] };
        Passage { received: counter(0), sent: counter(2), no_socket: counter(4), lost }
    }

    /// What went through since `earlier`.
    pub fn since(&self, earlier: &Passage) -> Passage {
        Passage {
            received: self.received.since(earlier.received),
            sent: self.sent.since(earlier.sent),
            no_socket: self.no_socket.since(earlier.no_socket),
            lost: self.lost.since(&earlier.lost),
        }
    }

    /// Adds it to a port's counters. `has_sockets`: what misses is for sockets; else it is received from the stack, and no loss.
    pub fn add_to(&self, counters: &mut PortCounters, has_sockets: bool) {
        counters.received += self.received;
        counters.sent += self.sent;
        for (reason, packets) in self.lost.on_the_way_out() {
            counters.unsend(reason, packets);
        }
        if !has_sockets {
            return;
        }
        counters.drops.add_counter(PortReason::RxNoSocket, self.no_socket);
        for (reason, packets) in self.lost.on_the_way_in() {
            counters.drops.add_packets(reason, packets);
        }
    }
}
