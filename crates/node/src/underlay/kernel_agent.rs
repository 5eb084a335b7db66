//! The thread that follows the kernel's neighbours and routes, for a region with `underlay: kernel`.
//!
//! Messages about neighbours are applied one by one, because each can be the loss of a path. All
//! other messages (routes, addresses, links, next hop objects) are only a reason to dump the routes
//! again: the kernel removes IPv4 routes without a message when a link, an address or a next hop
//! object goes. A dump of 100,000 routes takes a tenth of a second; dumps take at most a tenth of the
//! time.

use super::kernel_paths::ResyncReason;
use super::neighbour_requests::NeighbourRequests;
use super::netlink_socket::{GROUP_LINK, NetlinkSocket};
use crate::device::Node;
use io::{InterfaceProbe, Namespace};
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tracing::{error, info, warn};
use underlay::{DumpKind, KernelMessage, Messages, RouteTables};

/// RTNLGRP_NEIGH, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE,
/// RTNLGRP_NEXTHOP (rtnetlink(7)).
const GROUPS: u32 = GROUP_LINK | 1 << 2 | 1 << 4 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 31;
/// Interval at which the region and the interfaces are looked at, without a message.
const IDLE_INTERVAL: Duration = Duration::from_millis(20);
/// Interval of the comparison with a complete dump.
const COMPARE_INTERVAL: Duration = Duration::from_secs(60);
/// Time after which a failed step is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Dumps take at most one part in this of the time.
const DUMP_SHARE: u32 = 10;
/// Maximum number of dumps in a row that a change interrupts.
const MAX_INTERRUPTED: usize = 5;

/// Follows the kernel until the node has ended.
pub(super) fn run(node: &Weak<Node>) {
    let mut follower: Option<KernelFollower> = None;
    let mut version = None;
    loop {
        let Some(strong) = node.upgrade() else { return };
        if version.replace(strong.region_version()) != Some(strong.region_version()) {
            match reconfigure(&strong, follower.take()) {
                Ok(next) => follower = next,
                Err(why) => {
                    error!(why = format!("{why:#}"), "the kernel's routes cannot be followed; trying again");
                    version = None;
                    drop(strong);
                    std::thread::sleep(RETRY_INTERVAL);
                    continue;
                }
            }
        }
        let Some(follower) = &mut follower else {
            drop(strong);
            std::thread::sleep(IDLE_INTERVAL);
            continue;
        };
        if let Err(error) = follower.follow(&strong) {
            warn!(%error, "netlink failed; the kernel's tables are read again");
            follower.resync(&strong, ResyncReason::Error);
            std::thread::sleep(RETRY_INTERVAL);
        }
        drop(strong);
        follower.wait();
    }
}

/// Adapts to the region in force. Returns `None` if it does not use the kernel's routes.
fn reconfigure(node: &Node, former: Option<KernelFollower>) -> anyhow::Result<Option<KernelFollower>> {
    let Some(setting) = node.kernel_underlay() else {
        if former.is_some() {
            info!("the kernel's routes are not used any more");
        }
        node.clear_kernel_paths();
        return Ok(None);
    };
    let netns = node.port_states().netns_of(setting.uplinks.first().map(|uplink| uplink.port));
    let mut follower = match former {
        Some(former) if former.netns == netns => former,
        _ => KernelFollower::open(netns)?,
    };
    follower.routes_due = true;
    node.configure_kernel_paths(setting);
    Ok(Some(follower))
}

/// A connection with the kernel.
struct KernelFollower {
    netns: Option<String>,
    probe: InterfaceProbe,
    notifications: NetlinkSocket,
    requests: NetlinkSocket,
    neighbours: NeighbourRequests,
    /// The routes have to be dumped.
    routes_due: bool,
    /// The neighbours have to be dumped.
    neighbours_due: bool,
    /// Time before which routes are not dumped again.
    next_dump: Instant,
    next_comparison: Instant,
}

impl KernelFollower {
    /// Opens the sockets in a namespace. Notifications are subscribed before anything is dumped, so
    /// that no change is missed.
    fn open(netns: Option<String>) -> anyhow::Result<KernelFollower> {
        let open = || {
            let (notifications, requests) = (NetlinkSocket::open(GROUPS)?, NetlinkSocket::open(0)?);
            Ok::<_, Error>((notifications, requests, InterfaceProbe::open()?))
        };
        let (notifications, requests, probe) = match &netns {
            Some(name) => Namespace::open(name)?.run(open)?,
            None => open(),
        }?;
        info!(netns, "the kernel's routes and neighbours are followed");
        let now = Instant::now();
        Ok(KernelFollower {
            netns,
            probe,
            notifications,
            requests,
            neighbours: NeighbourRequests::default(),
            routes_due: true,
            neighbours_due: true,
            next_dump: now,
            next_comparison: now + COMPARE_INTERVAL,
        })
    }

    /// Waits for a message, at most until the next look at the interfaces.
    fn wait(&mut self) {
        let mut fds = [PollFd::from_borrowed_fd(self.notifications.as_fd(), PollFlags::IN)];
        // An interruption only makes the next look earlier.
        let _ = poll(&mut fds, IDLE_INTERVAL.try_into().ok().as_ref());
    }

    /// Reads what the kernel says, and brings the tables in accordance with it.
    fn follow(&mut self, node: &Node) -> Result<(), Error> {
        let mut changed = self.update_interfaces(node);
        let mut messages = Vec::new();
        let read = self.notifications.read_all(|datagram| messages.extend(Messages::of(datagram)))?;
        for message in messages.into_iter().map(|received| received.message) {
            match &message {
                KernelMessage::Neighbour(_) | KernelMessage::NeighbourGone(..) => {
                    changed |= node.with_kernel_paths(|paths| paths.tables.apply(&message)).unwrap_or(false);
                }
                _ => self.routes_due = true,
            }
        }
        if read.is_overrun {
            self.resync(node, ResyncReason::Overrun);
        }
        let now = Instant::now();
        let is_comparison = now >= self.next_comparison;
        if is_comparison {
            self.next_comparison = now + COMPARE_INTERVAL;
            (self.routes_due, self.neighbours_due) = (true, true);
        }
        if self.neighbours_due {
            changed |= self.dump_neighbours(node)?;
        }
        if self.routes_due && now >= self.next_dump {
            let is_different = self.dump_routes(node)?;
            if is_comparison && is_different {
                self.count(node, ResyncReason::Comparison);
            }
            changed |= is_different;
        }
        changed |= node.with_kernel_paths(|paths| {
            paths.is_ready = true;
            paths.is_in_doubt || paths.have_routes_changed
        }) == Some(true);
        if changed {
            node.refresh_kernel_paths();
        }
        self.neighbours.ask(node, &mut self.requests);
        Ok(())
    }

    /// Reads all tables again.
    fn resync(&mut self, node: &Node, reason: ResyncReason) {
        self.count(node, reason);
        (self.routes_due, self.neighbours_due) = (true, true);
    }

    fn count(&self, node: &Node, reason: ResyncReason) {
        node.with_kernel_paths(|paths| *paths.resyncs.entry(reason).or_default() += 1);
        warn!(reason = reason.name(), "the kernel's routes and neighbours are read again");
    }

    /// Looks up the interfaces of the uplinks. Returns whether one has another index.
    fn update_interfaces(&mut self, node: &Node) -> bool {
        let probe = &self.probe;
        let find = |name: &str| probe.find(name).and_then(|found| u32::try_from(found.index).ok());
        let changed = node.with_kernel_paths(|paths| paths.update_interfaces(find)).unwrap_or(false);
        self.routes_due |= changed;
        changed
    }

    fn dump_neighbours(&mut self, node: &Node) -> Result<bool, Error> {
        let dump = self.dump(&[DumpKind::Neighbours])?;
        self.neighbours_due = false;
        Ok(node.with_kernel_paths(|paths| paths.tables.replace_neighbours(dump.into_iter())).unwrap_or(false))
    }

    fn dump_routes(&mut self, node: &Node) -> Result<bool, Error> {
        let began = Instant::now();
        let dump = self.dump(&[DumpKind::NextHops, DumpKind::RoutesV4, DumpKind::RoutesV6])?;
        self.next_dump = Instant::now() + DUMP_SHARE * began.elapsed();
        self.routes_due = false;
        // Collects and compares without the lock, because a lost link must not wait for it.
        let now = node.with_kernel_paths(|paths| (paths.setting.table, paths.tables.route_tables()));
        let Some((table, former)) = now else { return Ok(false) };
        let routes = Arc::new(RouteTables::of_dump(table, dump.into_iter()));
        if routes == former {
            return Ok(false);
        }
        node.with_kernel_paths(|paths| {
            paths.tables.set_route_tables(routes);
            paths.have_routes_changed = true;
        });
        Ok(true)
    }

    /// Dumps tables, again if they changed meanwhile.
    fn dump(&mut self, kinds: &[DumpKind]) -> Result<Vec<KernelMessage>, Error> {
        let mut dump = Vec::new();
        for kind in kinds {
            let before = dump.len();
            for _ in 0..MAX_INTERRUPTED {
                dump.truncate(before);
                match self.requests.dump(*kind, &mut dump) {
                    Ok(true) => break,
                    Ok(false) => {}
                    // A kernel before Linux 5.3 has no next hop objects.
                    Err(error) if *kind == DumpKind::NextHops && error.kind() == ErrorKind::Unsupported => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(dump)
    }
}
