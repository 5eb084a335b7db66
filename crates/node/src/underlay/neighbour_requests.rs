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

/// The last request for a neighbour.
struct Request {
    at: Instant,
    /// The neighbour has been found since. If it is lost, it is asked for at once.
    is_answered: bool,
}

/// Asks the kernel for neighbours. The kernel itself neither asks for a next hop that only the
/// gateway uses nor notices that it has gone.
#[derive(Default)]
pub(super) struct NeighbourRequests {
    asked: HashMap<HopKey, Request>,
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
                let Some(request) = self.asked.get_mut(key) else { return true };
                let is_lost = !is_resolved && request.is_answered;
                request.is_answered |= is_resolved;
                let interval = match is_resolved {
                    _ if is_lost => return true,
                    true if !self.lacks_managed => return false,
                    true => PROBE_INTERVAL,
                    false => UNRESOLVED_INTERVAL,
                };
                request.at.elapsed() >= interval
            };
            wanted.into_iter().filter(is_due).map(|(key, _)| key).collect::<Vec<_>>()
        }) else {
            return;
        };
        for (interface, address) in due {
            self.asked.insert((interface, address), Request { at: Instant::now(), is_answered: false });
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
