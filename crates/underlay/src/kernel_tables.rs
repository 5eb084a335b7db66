//! [`KernelTables`]: the kernel's neighbours and routes, as far as they concern the underlay.

use crate::message::{KernelMessage, Neighbour, NextHopObject, Route, RouteAction, RouteHop};
use ipnet::IpNet;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

/// A neighbour by its interface and its address, which can be of another IP version than the
/// packets sent to it.
pub type HopKey = (u32, IpAddr);

/// Depth of groups in groups; the kernel allows one.
const MAX_GROUP_DEPTH: usize = 4;

/// The kernel's neighbours, next hop objects and routes of one routing table.
///
/// Neighbours follow the kernel's messages, because each of them can be the loss of a path. Routes
/// are only ever replaced by a complete dump, because the kernel removes IPv4 routes without a
/// message (a link, an address or a next hop object that goes).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelTables {
    neighbours: HashMap<HopKey, Neighbour>,
    routes: Arc<RouteTables>,
}

/// The next hop objects and the routes of one routing table, as of one dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RouteTables {
    objects: BTreeMap<u32, NextHopObject>,
    /// Of each destination, the route that counts.
    routes: HashMap<IpNet, Route>,
    /// The lengths of prefixes among the routes, by IP version.
    lengths: [BTreeSet<u8>; 2],
}

/// What a destination's route does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundRoute {
    /// Destination of the route.
    pub destination: IpNet,
    /// The next hops; empty if the route drops packets.
    pub hops: Vec<RouteHop>,
    /// Longest IP packet that the route carries, in bytes; `None`: as its links.
    pub mtu_bytes: Option<u16>,
}

impl KernelTables {
    /// Applies a message about a neighbour. Returns whether it changed anything that decides about
    /// paths.
    pub fn apply(&mut self, message: &KernelMessage) -> bool {
        match message {
            KernelMessage::Neighbour(neighbour) => {
                let key = (neighbour.interface, neighbour.address);
                let before = self.neighbours.insert(key, neighbour.clone());
                before.and_then(|before| before.mac) != neighbour.mac
            }
            KernelMessage::NeighbourGone(interface, address) => {
                self.neighbours.remove(&(*interface, *address)).is_some_and(|gone| gone.mac.is_some())
            }
            _ => false,
        }
    }

    /// Replaces all neighbours by those of a dump. Returns whether they differ in anything that
    /// decides about paths.
    pub fn replace_neighbours(&mut self, dump: impl Iterator<Item = KernelMessage>) -> bool {
        let mut neighbours = HashMap::new();
        for message in dump {
            if let KernelMessage::Neighbour(neighbour) = message {
                neighbours.insert((neighbour.interface, neighbour.address), neighbour);
            }
        }
        let macs = |all: &HashMap<HopKey, Neighbour>| -> BTreeMap<HopKey, [u8; 6]> {
            all.iter().filter_map(|(key, neighbour)| Some((*key, neighbour.mac?))).collect()
        };
        let is_different = macs(&self.neighbours) != macs(&neighbours);
        self.neighbours = neighbours;
        is_different
    }

    /// Replaces all next hop objects and routes by those of dumps. Returns whether they differ.
    pub fn replace_routes(&mut self, table: u32, dump: impl Iterator<Item = KernelMessage>) -> bool {
        let routes = Arc::new(RouteTables::of_dump(table, dump));
        std::mem::replace(&mut self.routes, routes.clone()) != routes
    }

    /// Returns the next hop objects and routes.
    pub fn route_tables(&self) -> Arc<RouteTables> {
        self.routes.clone()
    }

    /// Replaces the next hop objects and routes.
    pub fn set_route_tables(&mut self, routes: Arc<RouteTables>) {
        self.routes = routes;
    }

    /// Returns the number of routes.
    pub fn route_count(&self) -> usize {
        self.routes.routes.len()
    }

    /// Returns the neighbour's MAC address, if packets can be sent to it.
    pub fn mac_of(&self, key: &HopKey) -> Option<[u8; 6]> {
        self.neighbours.get(key)?.mac
    }

    /// Returns whether an operator has set the neighbour.
    pub fn is_static(&self, key: &HopKey) -> bool {
        self.neighbours.get(key).is_some_and(|neighbour| neighbour.is_static)
    }

    /// Returns the route of an address: that of the longest prefix.
    pub fn find_route(&self, address: IpAddr) -> Option<FoundRoute> {
        self.routes.find_route(address)
    }
}

impl RouteTables {
    /// Collects the next hop objects and the routes of a routing table from dumps.
    pub fn of_dump(table: u32, dump: impl Iterator<Item = KernelMessage>) -> RouteTables {
        let mut tables = RouteTables::default();
        for message in dump {
            match message {
                KernelMessage::NextHop(id, object) => drop(tables.objects.insert(id, object)),
                KernelMessage::Route(route) if route.table == table && route.action != RouteAction::Other => {
                    tables.add_route(route);
                }
                _ => {}
            }
        }
        tables
    }

    fn add_route(&mut self, route: Route) {
        self.lengths[version_index(route.destination)].insert(route.destination.prefix_len());
        match self.routes.get_mut(&route.destination) {
            // Next hops of IPv6 can come as several routes.
            Some(known) if known.metric == route.metric => merge_hops(known, route),
            Some(known) if known.metric < route.metric => {}
            _ => drop(self.routes.insert(route.destination, route)),
        }
    }

    /// Returns the route of an address: that of the longest prefix.
    fn find_route(&self, address: IpAddr) -> Option<FoundRoute> {
        let host = IpNet::from(address);
        let mut lengths = self.lengths[version_index(host)].iter().rev();
        let route = lengths.find_map(|length| self.routes.get(&IpNet::new(address, *length).ok()?.trunc()))?;
        let hops = match &route.action {
            RouteAction::Forward(hops) => hops.clone(),
            RouteAction::Object(id) => self.hops_of(*id, 1, MAX_GROUP_DEPTH),
            RouteAction::Drop | RouteAction::Other => Vec::new(),
        };
        Some(FoundRoute { destination: route.destination, hops, mtu_bytes: route.mtu_bytes })
    }

    /// Returns the next hops of an object, each with its weight.
    fn hops_of(&self, id: u32, weight: u32, depth: usize) -> Vec<RouteHop> {
        match self.objects.get(&id) {
            Some(NextHopObject::Single(hop)) => vec![RouteHop { weight, ..hop.clone() }],
            Some(NextHopObject::Group(members)) if depth > 0 => {
                members.iter().flat_map(|(id, weight)| self.hops_of(*id, *weight, depth - 1)).collect()
            }
            Some(NextHopObject::Blackhole | NextHopObject::Group(_)) | None => Vec::new(),
        }
    }
}

fn version_index(prefix: IpNet) -> usize {
    usize::from(prefix.addr().is_ipv6())
}

fn merge_hops(stored: &mut Route, other: Route) {
    if let (RouteAction::Forward(hops), RouteAction::Forward(more)) = (&mut stored.action, other.action) {
        hops.extend(more);
    }
}
