//! [`PortTransfer`]: the state with which another process continues a port exactly where this one
//! stopped.

use packet::{Counter, PortCounters, PortReason};
use serde::{Deserialize, Serialize};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A port in transfer to another process: bytes, and descriptors that are sent with them
/// (SCM_RIGHTS, unix(7)).
#[derive(Debug)]
pub struct PortTransfer {
    /// The port's state, serialised with postcard. Its first number is the kind of port.
    pub description: Vec<u8>,
    /// Copies of the port's descriptors, in the order that the description defines.
    pub descriptors: Vec<OwnedFd>,
}

/// Kinds of ports that can be transferred. The variant's index is part of the format, so order and
/// format of the variants must not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TransferKind {
    Raw,
    Memif,
    RawWithTap,
}

impl PortTransfer {
    /// Serialises a port. `None` if the system provides no more descriptors.
    pub(crate) fn new(
        kind: TransferKind,
        described: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Option<PortTransfer> {
        let description = postcard::to_stdvec(&(kind, described)).ok()?;
        let descriptors: Result<Vec<OwnedFd>, _> = descriptors.iter().map(BorrowedFd::try_clone_to_owned).collect();
        Some(PortTransfer { description, descriptors: descriptors.ok()? })
    }
}

/// Packets and bytes.
type CounterPair = (u64, u64);

/// Counters of a port. Drop reasons are stored by name, because another version can have other
/// reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortCountersState {
    received: CounterPair,
    sent: CounterPair,
    linearised: CounterPair,
    copied: CounterPair,
    drops: Vec<(String, CounterPair)>,
}

fn pair(counter: Counter) -> CounterPair {
    (counter.packets, counter.bytes)
}

fn counter((packets, bytes): CounterPair) -> Counter {
    Counter { packets, bytes }
}

impl PortCountersState {
    /// Returns the counters for a transfer. Drops have the names of their reasons, because the
    /// other process can be of another version.
    pub(crate) fn of(counters: &PortCounters) -> PortCountersState {
        let drops = PortReason::ALL.iter().map(|reason| (reason.name().to_owned(), pair(counters.drops.get(*reason))));
        PortCountersState {
            received: pair(counters.received),
            sent: pair(counters.sent),
            linearised: pair(counters.linearised),
            copied: pair(counters.copied),
            drops: drops.filter(|(_, pair)| *pair != (0, 0)).collect(),
        }
    }

    /// Returns the counters of a transferred port. Drops of a reason that this version does not
    /// know count as [`PortReason::RxError`].
    pub(crate) fn into_counters(self) -> PortCounters {
        let mut counters = PortCounters {
            received: counter(self.received),
            sent: counter(self.sent),
            linearised: counter(self.linearised),
            copied: counter(self.copied),
            ..PortCounters::default()
        };
        for (name, packets_and_bytes) in self.drops {
            let reason = PortReason::from_name(&name).unwrap_or(PortReason::RxError);
            counters.drops.add_counter(reason, counter(packets_and_bytes));
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_transferred;

    #[test]
    fn counters_come_through_with_their_reasons() {
        let mut counters = PortCounters::default();
        counters.received.count_packet(100);
        counters.sent.count_packet(7);
        counters.drops.count_drop(PortReason::TxMtu, 10_000);
        counters.drops.count_drops(PortReason::RxQueueFull, 3);
        let form = PortCountersState::of(&counters);
        let bytes = postcard::to_stdvec(&form).expect("a form");
        assert_eq!(postcard::from_bytes::<PortCountersState>(&bytes).expect("the same").into_counters(), counters);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for bytes in [vec![], vec![7], vec![1], vec![0, 200], vec![1; 40]] {
            let given = PortTransfer { description: bytes.clone(), descriptors: Vec::new() };
            assert!(open_transferred(given).is_err(), "{bytes:?}");
        }
    }
}
