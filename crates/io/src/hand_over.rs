//! [`HandOver`]: what another process needs to go on with a port at exactly the place where this one stopped.

use packet::{Counter, PortCounters, PortReason};
use serde::{Deserialize, Serialize};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A port on its way to another process: bytes, and descriptors that go beside them (SCM_RIGHTS of unix(7)).
#[derive(Debug)]
pub struct HandOver {
    /// What it is, in a form of our own (postcard) whose first number is the kind of port.
    pub description: Vec<u8>,
    /// Copies of the port's own, in an order that the description knows.
    pub descriptors: Vec<OwnedFd>,
}

/// Which kinds of ports can be handed over. Numbers in the description: none changes its place, or its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Raw,
    Memif,
}

impl HandOver {
    /// `None` if the system gives no more descriptors.
    pub(crate) fn new(kind: Kind, described: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Option<HandOver> {
        let description = postcard::to_stdvec(&(kind, described)).ok()?;
        let descriptors: Result<Vec<OwnedFd>, _> = descriptors.iter().map(BorrowedFd::try_clone_to_owned).collect();
        Some(HandOver { description, descriptors: descriptors.ok()? })
    }
}

/// Packets and bytes.
type Pair = (u64, u64);

/// Counters of a port, with their reasons by name: another version may have other reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CountersForm {
    received: Pair,
    sent: Pair,
    linearised: Pair,
    copied: Pair,
    drops: Vec<(String, Pair)>,
}

fn pair(counter: Counter) -> Pair {
    (counter.packets, counter.bytes)
}

fn counter((packets, bytes): Pair) -> Counter {
    Counter { packets, bytes }
}

impl CountersForm {
    pub(crate) fn of(counters: &PortCounters) -> CountersForm {
        let drops = PortReason::ALL.iter().map(|reason| (reason.name().to_owned(), pair(counters.drops.get(*reason))));
        CountersForm {
            received: pair(counters.received),
            sent: pair(counters.sent),
            linearised: pair(counters.linearised),
            copied: pair(counters.copied),
            drops: drops.filter(|(_, pair)| *pair != (0, 0)).collect(),
        }
    }

    pub(crate) fn counters(self) -> PortCounters {
        let mut counters = PortCounters {
            received: counter(self.received),
            sent: counter(self.sent),
            linearised: counter(self.linearised),
            copied: counter(self.copied),
            ..PortCounters::default()
        };
        for (name, pair) in self.drops {
            let reason = PortReason::from_name(&name).unwrap_or(PortReason::RxError);
            counters.drops.add_counter(reason, counter(pair));
        }
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::take_over;

    #[test]
    fn counters_come_through_with_their_reasons() {
        let mut counters = PortCounters::default();
        counters.received.add(100);
        counters.sent.add(7);
        counters.drops.add(PortReason::TxMtu, 10_000);
        counters.drops.add_packets(PortReason::RxQueueFull, 3);
        let form = CountersForm::of(&counters);
        let bytes = postcard::to_stdvec(&form).expect("a form");
        assert_eq!(postcard::from_bytes::<CountersForm>(&bytes).expect("the same").counters(), counters);
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for bytes in [vec![], vec![7], vec![1], vec![0, 200], vec![1; 40]] {
            let given = HandOver { description: bytes.clone(), descriptors: Vec::new() };
            assert!(take_over(given).is_err(), "{bytes:?}");
        }
    }
}
