//! [`PathPlanner`]: the entries that make packets take the kernel's routes.

use crate::buckets::{Buckets, MAX_BUCKETS};
use crate::damping::LinkUse;
use crate::kernel_tables::{HopKey, KernelTables};
use crate::message::RouteHop;
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The first id of a next hop of the kernel's routes. Lower ids are those of the region file.
pub const FIRST_KERNEL_HOP: u32 = 0xf0_0000;
/// Maximum number of single next hops. Groups have the ids behind them.
const MAX_HOPS: u32 = 0x1_0000;
/// The first id of the buckets of groups.
const FIRST_BUCKET: u32 = FIRST_KERNEL_HOP + MAX_HOPS;
/// Maximum number of groups: the ids are 24 bits wide.
const MAX_GROUPS: u32 = (0x100_0000 - FIRST_BUCKET) / MAX_BUCKETS as u32;

/// An uplink whose next hops the kernel decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelUplink {
    /// Number of the port.
    pub port: u32,
    /// Index of the interface that is the host side of the port.
    pub interface: u32,
    /// Name of that interface, for explanations.
    pub interface_name: String,
    /// The gateway's MAC address on the port.
    pub mac: [u8; 6],
    /// Longest IP packet in bytes.
    pub mtu_bytes: u16,
    /// MAC address of the one neighbour, if the region file overrides the kernel's neighbours.
    pub peer_mac: Option<[u8; 6]>,
    /// Whether packets may use the link.
    pub link_use: LinkUse,
}

/// What a next hop does with packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HopAction {
    /// Sends them.
    Forward {
        /// Port.
        port: u32,
        /// MAC address of the port.
        mac: [u8; 6],
        /// MAC address of the neighbour.
        neighbour_mac: [u8; 6],
        /// Longest IP packet in bytes.
        mtu_bytes: u16,
    },
    /// Drops them, because the neighbour's MAC address is not known.
    Resolve {
        /// Port.
        port: u32,
    },
    /// Drops them, because the link is down.
    PathDown,
}

/// Where packets of a destination go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedRoute {
    /// Id of the first next hop.
    pub first: u32,
    /// Number of next hops: 1, or a power of two.
    pub count: u32,
    /// Longest IP packet that the path carries, in bytes; `None`: as its links.
    pub mtu_bytes: Option<u16>,
    /// The kernel's route, for explanations.
    pub source: String,
}

/// The routes that the tables should contain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlannedRoutes {
    /// Routes by destination.
    pub routes: BTreeMap<IpNet, PlannedRoute>,
    /// Addresses without a route by an uplink.
    pub unreached: Vec<IpAddr>,
    /// Addresses whose routes exceed a limit.
    pub overflow: Vec<IpAddr>,
}

/// The next hops that the tables should contain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlannedHops {
    /// Next hops by id, each with its explanation.
    pub next_hops: BTreeMap<u32, (HopAction, String)>,
    /// Neighbours whose MAC addresses the kernel should find and keep.
    pub wanted: BTreeSet<HopKey>,
    /// Those of them that have none.
    pub unresolved: BTreeSet<HopKey>,
}

/// Next hops and path MTU of a destination.
struct WantedRoute {
    /// Next hops with their weights.
    hops: Vec<(HopKey, u32)>,
    mtu_bytes: Option<u16>,
    /// Destination of the kernel's route.
    kernel_route: IpNet,
}

type WantedRoutes = BTreeMap<IpNet, WantedRoute>;

fn index_uplinks(uplinks: &[KernelUplink]) -> BTreeMap<u32, &KernelUplink> {
    uplinks.iter().map(|uplink| (uplink.interface, uplink)).collect()
}

/// Computes the entries of the kernel's routes. Keeps ids and buckets between computations, so that
/// flows stay on their paths.
#[derive(Clone, Debug, Default)]
pub struct PathPlanner {
    hop_ids: BTreeMap<HopKey, u32>,
    groups: BTreeMap<Vec<(HopKey, u32)>, Group>,
    /// Of each destination, the members of its group.
    members: BTreeMap<IpNet, Vec<(HopKey, u32)>>,
}

#[derive(Clone, Debug)]
struct Group {
    index: u32,
    buckets: Buckets<HopKey>,
}

impl PathPlanner {
    /// Computes the routes by which packets reach `addresses`, at most `max_routes`.
    ///
    /// Only routes that one of the addresses needs are in the result: a router can have a million
    /// routes, and a gateway sends to its servers and remotes alone. A directly connected address
    /// gets a route of its own, and so does one of `path_mtus`: the MTUs in bytes that routers have
    /// reported by destination. An MTU of the kernel's route counts if it is lower. `uplinks`: the
    /// ports by which a route may lead.
    pub fn update_routes(
        &mut self,
        kernel: &KernelTables,
        uplinks: &[KernelUplink],
        (addresses, path_mtus): (&[IpAddr], &BTreeMap<IpAddr, u16>),
        max_routes: usize,
    ) -> PlannedRoutes {
        let mut planned = PlannedRoutes::default();
        let by_interface = index_uplinks(uplinks);
        let mut wanted = WantedRoutes::new();
        for address in addresses {
            let Some(route) = kernel.find_route(*address) else {
                planned.unreached.push(*address);
                continue;
            };
            let hops = usable_hops(&route.hops, *address, &by_interface);
            let is_connected = route.hops.iter().any(|hop| hop.gateway.is_none());
            let reported = path_mtus.get(address).copied();
            let has_own_route = is_connected || reported.is_some();
            let destination = if has_own_route { IpNet::from(*address) } else { route.destination };
            let mtu_bytes = [reported, route.mtu_bytes].into_iter().flatten().min();
            if hops.is_empty() {
                planned.unreached.push(*address);
            } else if wanted.len() >= max_routes && !wanted.contains_key(&destination) {
                planned.overflow.push(*address);
            } else {
                wanted.insert(destination, WantedRoute { hops, mtu_bytes, kernel_route: route.destination });
            }
        }
        self.assign_ids(&wanted);
        for (destination, WantedRoute { hops, mtu_bytes, kernel_route }) in &wanted {
            let Some((first, count)) = self.target_of(hops) else {
                planned.overflow.push(destination.addr());
                continue;
            };
            let source = describe_route(kernel_route, hops, &by_interface);
            planned.routes.insert(*destination, PlannedRoute { first, count, mtu_bytes: *mtu_bytes, source });
        }
        planned
    }

    /// Computes the next hops of the routes, and the buckets of groups. This is all that a change
    /// of a link or of a neighbour needs.
    pub fn plan_hops(&self, kernel: &KernelTables, uplinks: &[KernelUplink]) -> PlannedHops {
        let by_interface = index_uplinks(uplinks);
        let mut planned = PlannedHops::default();
        for (key, id) in &self.hop_ids {
            let action = hop_action(key, kernel, &by_interface);
            planned.wanted.insert(*key);
            if matches!(action, HopAction::Resolve { .. }) {
                planned.unresolved.insert(*key);
            }
            planned.next_hops.insert(FIRST_KERNEL_HOP + id, (action, describe_hop(key, &by_interface)));
        }
        for (members, group) in &self.groups {
            let members_with = |link_use: LinkUse| -> Vec<HopKey> {
                let is_usable = |key: &HopKey| {
                    // A key is the interface and the address of a neighbour.
                    let current = by_interface.get(&key.0).map_or(LinkUse::Down, |uplink| uplink.link_use);
                    let action = hop_action(key, kernel, &by_interface);
                    current == link_use && matches!(action, HopAction::Forward { .. })
                };
                members.iter().map(|(key, _)| *key).filter(is_usable).collect()
            };
            // Held links carry packets only if no link is up.
            let mut usable = members_with(LinkUse::Up);
            if usable.is_empty() {
                usable = members_with(LinkUse::Held);
            }
            let first = FIRST_BUCKET + group.index * MAX_BUCKETS as u32;
            for (id, key) in (first..).zip(group.buckets.serving(&usable)) {
                let hop = (hop_action(&key, kernel, &by_interface), describe_hop(&key, &by_interface));
                planned.next_hops.insert(id, hop);
            }
        }
        planned
    }

    /// Gives ids to next hops and groups, and frees those that are not wanted any more.
    fn assign_ids(&mut self, wanted: &WantedRoutes) {
        let keys: BTreeSet<HopKey> = wanted.values().flat_map(|route| route.hops.iter().map(|(key, _)| *key)).collect();
        self.hop_ids.retain(|key, _| keys.contains(key));
        let taken: BTreeSet<u32> = self.hop_ids.values().copied().collect();
        let mut free = (0..MAX_HOPS).filter(|id| !taken.contains(id));
        for key in keys {
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.hop_ids.entry(key)
                && let Some(id) = free.next()
            {
                vacant.insert(id);
            }
        }
        let former = std::mem::take(&mut self.groups);
        let groups: BTreeSet<&Vec<(HopKey, u32)>> =
            wanted.values().map(|route| &route.hops).filter(|hops| hops.len() > 1).collect();
        // A group that no route has any more gives its id and buckets to the one that follows it.
        let mut unused: BTreeMap<&Vec<(HopKey, u32)>, &Group> =
            former.iter().filter(|(members, _)| !groups.contains(members)).collect();
        let mut new_groups = Vec::new();
        for (destination, WantedRoute { hops, .. }) in wanted.iter().filter(|(_, route)| route.hops.len() > 1) {
            if self.groups.contains_key(hops) || new_groups.iter().any(|(members, _)| *members == hops) {
                continue;
            }
            if let Some(kept) = former.get(hops) {
                self.groups.insert(hops.clone(), kept.clone());
                continue;
            }
            let former_group = self.members.get(destination).and_then(|members| former.get_key_value(members));
            let buckets = Buckets::new(hops, former_group.map(|(_, group)| &group.buckets));
            match former_group.and_then(|(members, _)| unused.remove(members)) {
                Some(group) => drop(self.groups.insert(hops.clone(), Group { index: group.index, buckets })),
                None => new_groups.push((hops, buckets)),
            }
        }
        let taken: BTreeSet<u32> = self.groups.values().map(|group| group.index).collect();
        let free = (0..MAX_GROUPS).filter(|index| !taken.contains(index));
        for ((hops, buckets), index) in new_groups.into_iter().zip(free) {
            self.groups.insert(hops.clone(), Group { index, buckets });
        }
        self.members = wanted.iter().map(|(destination, route)| (*destination, route.hops.clone())).collect();
    }

    /// Returns the first next hop and the number of next hops of a route. `None` if there are too
    /// many next hops or groups.
    fn target_of(&self, hops: &[(HopKey, u32)]) -> Option<(u32, u32)> {
        match hops {
            [(key, _)] => Some((FIRST_KERNEL_HOP + self.hop_ids.get(key)?, 1)),
            _ => {
                let group = self.groups.get(hops)?;
                hops.iter().try_for_each(|(key, _)| self.hop_ids.get(key).map(drop))?;
                Some((FIRST_BUCKET + group.index * MAX_BUCKETS as u32, group.buckets.len() as u32))
            }
        }
    }
}

/// Returns what a next hop does with packets now.
fn hop_action(key: &HopKey, kernel: &KernelTables, uplinks: &BTreeMap<u32, &KernelUplink>) -> HopAction {
    let Some(uplink) = uplinks.get(&key.0) else { return HopAction::PathDown };
    let KernelUplink { port, mac, mtu_bytes, .. } = **uplink;
    match uplink.peer_mac.or_else(|| kernel.mac_of(key)) {
        _ if uplink.link_use == LinkUse::Down => HopAction::PathDown,
        Some(neighbour_mac) => HopAction::Forward { port, mac, neighbour_mac, mtu_bytes },
        None => HopAction::Resolve { port },
    }
}

/// Returns the next hops of a route that are behind an uplink, in a fixed order. Equal ones are
/// joined.
fn usable_hops(hops: &[RouteHop], address: IpAddr, uplinks: &BTreeMap<u32, &KernelUplink>) -> Vec<(HopKey, u32)> {
    let mut joined: BTreeMap<HopKey, u32> = BTreeMap::new();
    for hop in hops.iter().filter(|hop| uplinks.contains_key(&hop.interface)) {
        *joined.entry((hop.interface, hop.gateway.unwrap_or(address))).or_default() += hop.weight;
    }
    joined.into_iter().collect()
}

fn describe_hop(key: &HopKey, uplinks: &BTreeMap<u32, &KernelUplink>) -> String {
    let name = uplinks.get(&key.0).map_or("?", |uplink| &*uplink.interface_name);
    format!("kernel neighbour {} dev {name}", key.1)
}

/// Formats a route as `ip route` does.
fn describe_route(destination: &IpNet, hops: &[(HopKey, u32)], uplinks: &BTreeMap<u32, &KernelUplink>) -> String {
    let hop = |((interface, address), _): &(HopKey, u32)| {
        let name = uplinks.get(interface).map_or("?", |uplink| &*uplink.interface_name);
        format!("via {address} dev {name}")
    };
    let hops: Vec<String> = hops.iter().map(hop).collect();
    format!("kernel route {destination} {}", hops.join(", "))
}
