//! Keeps the routes to servers and remotes in accordance with the MTUs of their paths.

use crate::Node;
use p4runtime::P4RuntimeError;
use region::{PathMtus, RegionPart};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

/// Tunnels of a region, as reports about paths are checked with.
pub(crate) struct RegionTunnels {
    /// Version of the region ([`Node::region_version`]).
    pub version: u64,
    /// The gateway's tunnel addresses.
    pub vteps: Vec<IpAddr>,
    /// Tunnel addresses of servers and remotes.
    pub ends: HashSet<IpAddr>,
    /// Least MTU that is believed, over IPv4 and over IPv6.
    pub min_mtu: [u16; 2],
    /// Secret of the hash of flows, which source ports of tunnel packets are made from.
    pub flow_secret: u32,
    /// Ports of the uplinks, with their configured MTUs in bytes.
    uplinks: Vec<(u32, u16)>,
}

impl Node {
    /// Returns the tunnels of the region in force.
    pub(crate) fn region_tunnels(&self) -> Option<RegionTunnels> {
        let version = self.region_version();
        let installed = self.region.installed.read();
        let installed = installed.as_ref()?;
        let file = &installed.document.region.file;
        let servers = file.servers.iter().map(|server| server.address.value);
        Some(RegionTunnels {
            version,
            vteps: file.gateway.vteps.iter().map(|vtep| vtep.value).collect(),
            ends: servers.chain(file.remotes.iter().map(|remote| remote.address.value)).collect(),
            min_mtu: file.gateway.min_path_mtus(),
            flow_secret: installed.numbers.flow_secret_of(&installed.document.region),
            uplinks: file
                .uplinks
                .iter()
                .map(|uplink| (*uplink.port, uplink.mtu.as_ref().map_or(region::DEFAULT_MTU, |mtu| mtu.value)))
                .collect(),
        })
    }

    /// Returns the largest MTU among the uplinks' ports, in bytes: no packet of the gateway is
    /// longer.
    pub(crate) fn longest_port_mtu(&self, tunnels: &RegionTunnels) -> u16 {
        let ports = self.region.ports.lock();
        let mtus = tunnels
            .uplinks
            .iter()
            .map(|(port, configured)| ports.mtu_bytes(*port).map_or(*configured, |mtu| mtu.min(*configured)));
        mtus.max().unwrap_or_default()
    }

    /// Counts a report by its result.
    pub(crate) fn count_path_mtu_report(&self, result: &'static str) {
        *self.region.path_mtus.reports.lock().entry(result).or_default() += 1;
    }

    /// Returns the numbers of reports by result.
    pub(crate) fn path_mtu_reports(&self) -> BTreeMap<&'static str, u64> {
        self.region.path_mtus.reports.lock().clone()
    }

    /// Returns the reported path MTUs in bytes, by destination.
    pub(crate) fn path_mtus(&self) -> PathMtus {
        self.region.path_mtus.mtus.lock().clone()
    }

    /// Sets the path MTUs, and rewrites the routes to the destinations whose path MTU has changed.
    ///
    /// # Errors
    /// The tables refuse writes. The next call writes these routes too.
    pub(crate) fn set_path_mtus(&self, mtus: &PathMtus) -> Result<(), P4RuntimeError> {
        let state = &self.region.path_mtus;
        let before = std::mem::replace(&mut *state.mtus.lock(), mtus.clone());
        let mut unwritten = state.unwritten.lock();
        let destinations: BTreeSet<IpAddr> = before.keys().chain(mtus.keys()).copied().collect();
        unwritten.extend(destinations.into_iter().filter(|address| before.get(address) != mtus.get(address)));
        self.rewrite_entries(&RegionPart::RoutesTo(unwritten.clone()))?;
        unwritten.clear();
        drop(unwritten);
        self.refresh_kernel_paths();
        Ok(())
    }
}
