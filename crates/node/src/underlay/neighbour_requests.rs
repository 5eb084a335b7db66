//! [`NeighbourRequests`]: lets the kernel find and keep the MAC addresses of next hops.

use super::netlink_socket::NetlinkSocket;
use crate::device::Node;
use rustix::io::Errno;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::warn;
use underlay::HopKey;

/// Interval at which an unresolved neighbour is asked for.
const UNRESOLVED_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which a resolved one is probed, if the kernel does not do that by itself.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Asks the kernel for neighbours. The kernel itself neither asks for a next hop that only the
/// gateway uses nor notices that it has gone.
#[derive(Default)]
pub(super) struct NeighbourRequests {
    asked: HashMap<HopKey, Instant>,
    /// The kernel knows no managed neighbours (before Linux 5.16).
    lacks_managed: bool,
    has_reported_permission: bool,
}

impl NeighbourRequests {
    /// Asks for the wanted neighbours that are due.
    pub fn ask(&mut self, node: &Node, requests: &mut NetlinkSocket) {
        let Some(due) = node.with_kernel_paths(|paths| {
            let wanted = paths.wanted_neighbours();
            self.asked.retain(|key, _| wanted.iter().any(|(wanted, _)| wanted == key));
            let is_due = |(key, is_resolved): &(HopKey, bool)| {
                let interval = match (self.asked.get(key), is_resolved) {
                    (None, _) => return true,
                    (Some(_), true) if !self.lacks_managed => return false,
                    (Some(_), true) => PROBE_INTERVAL,
                    (Some(_), false) => UNRESOLVED_INTERVAL,
                };
                self.asked.get(key).is_none_or(|asked| asked.elapsed() >= interval)
            };
            wanted.into_iter().filter(is_due).map(|(key, _)| key).collect::<Vec<_>>()
        }) else {
            return;
        };
        for (interface, address) in due {
            self.asked.insert((interface, address), Instant::now());
            let mut outcome = requests.resolve(interface, address, !self.lacks_managed);
            if !self.lacks_managed && matches!(errno(&outcome), Some(Errno::INVAL | Errno::OPNOTSUPP)) {
                self.lacks_managed = true;
                outcome = requests.resolve(interface, address, false);
            }
            match errno(&outcome) {
                Some(Errno::PERM | Errno::ACCESS) if !self.has_reported_permission => {
                    self.has_reported_permission = true;
                    warn!(
                        "the kernel does not let this process ask for neighbours: next hops are resolved only when the host itself uses them; give the \
                         process CAP_NET_ADMIN"
                    );
                }
                // An interface that has just gone is noticed by its link.
                _ => {}
            }
        }
    }
}

fn errno(outcome: &Result<(), std::io::Error>) -> Option<Errno> {
    outcome.as_ref().err().and_then(Errno::from_io_error)
}
