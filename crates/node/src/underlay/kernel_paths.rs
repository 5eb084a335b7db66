//! [`KernelPaths`]: the kernel's tables, and the entries that are made of them.

use region::PathMtus;
use std::collections::BTreeMap;
use std::net::IpAddr;
use underlay::{HopAction, HopKey, KernelTables, KernelUplink, LinkUse, PathPlanner, PlannedHops, PlannedRoutes};

/// What the kernel decides for a region with `underlay: kernel`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KernelUnderlay {
    /// Number of the routing table.
    pub table: u32,
    /// Maximum number of routes.
    pub max_routes: usize,
    /// The uplinks with a host side. Index and link of their interfaces are not known here.
    pub uplinks: Vec<KernelUplink>,
    /// Tunnel addresses of the servers and remotes without `uplinks`.
    pub addresses: Vec<IpAddr>,
}

/// Why all tables of the kernel were read again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ResyncReason {
    /// Messages were lost, because more came than the socket's buffer holds.
    Overrun,
    /// A dump differed from what the messages had said.
    Comparison,
    /// Netlink failed.
    Error,
}

impl ResyncReason {
    /// All reasons.
    pub const ALL: [ResyncReason; 3] = [ResyncReason::Overrun, ResyncReason::Comparison, ResyncReason::Error];

    /// Returns the name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            ResyncReason::Overrun => "overrun",
            ResyncReason::Comparison => "comparison",
            ResyncReason::Error => "error",
        }
    }
}

/// The kernel's tables, and what is made of them.
pub(crate) struct KernelPaths {
    pub setting: KernelUnderlay,
    pub tables: KernelTables,
    /// The routes differ from those that were planned.
    pub have_routes_changed: bool,
    /// MTUs of paths that routers have reported.
    path_mtus: PathMtus,
    pub resyncs: BTreeMap<ResyncReason, u64>,
    /// Indices of the uplinks' interfaces; `None`: it does not exist.
    interfaces: Vec<Option<u32>>,
    planner: PathPlanner,
    /// What is in the tables.
    pub routes: PlannedRoutes,
    pub hops: PlannedHops,
    /// The last write failed, or there was none yet.
    pub is_in_doubt: bool,
    /// The last write failed, and the log says so.
    pub has_failed: bool,
    /// The kernel's tables have been read. Before that, entries of an earlier process stay.
    pub is_ready: bool,
}

impl KernelPaths {
    pub fn new(setting: KernelUnderlay) -> KernelPaths {
        KernelPaths {
            interfaces: vec![None; setting.uplinks.len()],
            setting,
            tables: KernelTables::default(),
            have_routes_changed: true,
            path_mtus: PathMtus::new(),
            resyncs: BTreeMap::new(),
            planner: PathPlanner::default(),
            routes: PlannedRoutes::default(),
            hops: PlannedHops::default(),
            is_in_doubt: true,
            has_failed: false,
            is_ready: false,
        }
    }

    /// Follows another version of the region.
    pub fn reconfigure(&mut self, setting: KernelUnderlay) {
        let known: BTreeMap<&str, u32> = (self.setting.uplinks.iter().zip(&self.interfaces))
            .filter_map(|(uplink, index)| Some((&*uplink.interface_name, (*index)?)))
            .collect();
        let index_of = |uplink: &KernelUplink| known.get(&*uplink.interface_name).copied();
        self.interfaces = setting.uplinks.iter().map(index_of).collect();
        (self.setting, self.have_routes_changed) = (setting, true);
    }

    /// Follows other reports about the MTUs of paths.
    pub fn set_path_mtus(&mut self, path_mtus: &PathMtus) {
        self.have_routes_changed |= self.path_mtus != *path_mtus;
        self.path_mtus.clone_from(path_mtus);
    }

    /// Looks up the interfaces of the uplinks. Returns whether one has another index.
    pub fn update_interfaces(&mut self, find: impl Fn(&str) -> Option<u32>) -> bool {
        let found: Vec<Option<u32>> = self.setting.uplinks.iter().map(|uplink| find(&uplink.interface_name)).collect();
        let changed = found != self.interfaces;
        self.interfaces = found;
        self.have_routes_changed |= changed;
        changed
    }

    /// Returns the uplinks with an interface. `link_of`: link and MTU of a port.
    fn uplinks(&self, link_of: impl Fn(u32) -> (LinkUse, Option<u16>)) -> Vec<KernelUplink> {
        let with_index = self.setting.uplinks.iter().zip(&self.interfaces);
        let uplinks = with_index.filter_map(|(uplink, index)| {
            let (link_use, mtu) = link_of(uplink.port);
            let mtu_bytes = mtu.map_or(uplink.mtu_bytes, |mtu| mtu.min(uplink.mtu_bytes));
            Some(KernelUplink { interface: (*index)?, link_use, mtu_bytes, ..uplink.clone() })
        });
        uplinks.collect()
    }

    /// Computes the entries anew. Returns the routes if they may have changed, and the next hops.
    pub fn plan(&mut self, link_of: impl Fn(u32) -> (LinkUse, Option<u16>)) -> (Option<PlannedRoutes>, PlannedHops) {
        let uplinks = self.uplinks(link_of);
        let routes = (self.have_routes_changed || self.is_in_doubt).then(|| {
            let KernelUnderlay { addresses, max_routes, .. } = &self.setting;
            self.planner.update_routes(&self.tables, &uplinks, (addresses, &self.path_mtus), *max_routes)
        });
        (routes, self.planner.plan_hops(&self.tables, &uplinks))
    }

    /// Returns the next hops that the kernel should resolve, each with whether it is resolved. Those
    /// on a link that is down, those that an operator has set, and those of an uplink with `peer_mac`
    /// need nothing.
    pub fn wanted_neighbours(&self) -> Vec<(HopKey, bool)> {
        let overrides: Vec<u32> = (self.setting.uplinks.iter().zip(&self.interfaces))
            .filter(|(uplink, _)| uplink.peer_mac.is_some())
            .filter_map(|(_, index)| *index)
            .collect();
        let is_wanted = |key: &&HopKey| !self.tables.is_static(key) && !overrides.contains(&key.0);
        let wanted = self.hops.wanted.iter().filter(is_wanted);
        wanted.map(|key| (*key, !self.hops.unresolved.contains(key))).collect()
    }

    /// Returns the numbers of next hops that work, that are not resolved, and whose link is down.
    pub fn count_hops(&self) -> [usize; 3] {
        let single = self.hops.next_hops.iter().take(self.hops.wanted.len());
        let mut counts = [0; 3];
        for (_, (action, _)) in single {
            counts[match action {
                HopAction::Forward { .. } => 0,
                HopAction::Resolve { .. } => 1,
                HopAction::PathDown => 2,
            }] += 1;
        }
        counts
    }
}

/// Formats addresses for the log: the first ones, and how many more there are.
pub(crate) fn list_addresses(addresses: &[IpAddr]) -> String {
    const LISTED: usize = 3;
    let listed: Vec<String> = addresses.iter().take(LISTED).map(IpAddr::to_string).collect();
    match addresses.len().saturating_sub(LISTED) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}
