//! The kernel's routes and neighbours as entries, beside those of the region file.

use crate::Node;
use crate::underlay::{KernelPaths, KernelUnderlay, list_addresses};
use p4runtime::{Device, P4RuntimeError};
use region::Uplink;
use tracing::{info, warn};
use underlay::{KernelUplink, LinkUse, PlannedHops, PlannedRoutes};

impl Node {
    /// Returns a number that changes with each application of a region file.
    pub(crate) fn region_version(&self) -> u64 {
        self.region.status.lock().applications
    }

    /// Returns what the kernel decides for the region in force. `None`: nothing.
    pub(crate) fn kernel_underlay(&self) -> Option<KernelUnderlay> {
        let installed = self.region.installed.read();
        let region = &installed.as_ref()?.document.region;
        let (file, gateway) = (&region.file, &region.file.gateway);
        if !gateway.is_routed_by_kernel() {
            return None;
        }
        let servers = file.servers.iter().map(|server| server.address.value).zip(&region.server_uplinks);
        let remotes = file.remotes.iter().map(|remote| remote.address.value).zip(&region.remote_uplinks);
        let addresses = servers.chain(remotes).filter(|(_, uplinks)| uplinks.is_empty()).map(|(address, _)| address);
        Some(KernelUnderlay {
            table: gateway.kernel_table(),
            max_routes: gateway.max_kernel_routes(),
            uplinks: file.uplinks.iter().filter_map(kernel_uplink).collect(),
            addresses: addresses.collect(),
        })
    }

    /// Calls `work` with the kernel's tables. `None`: the region does not use them.
    pub(crate) fn with_kernel_paths<T>(&self, work: impl FnOnce(&mut KernelPaths) -> T) -> Option<T> {
        self.region.kernel_paths.lock().as_mut().map(work)
    }

    /// Lets the kernel decide for another version of the region.
    pub(crate) fn configure_kernel_paths(&self, setting: KernelUnderlay) {
        let mut paths = self.region.kernel_paths.lock();
        match paths.as_mut() {
            Some(paths) => paths.reconfigure(setting),
            None => *paths = Some(KernelPaths::new(setting)),
        }
    }

    /// Removes the kernel's entries from the tables.
    pub(crate) fn clear_kernel_paths(&self) {
        let mut paths = self.region.kernel_paths.lock();
        // Without earlier paths, the store can have entries of an earlier process.
        let had_paths = paths.take().is_some();
        if let Err(why) = self.write_kernel_paths(Some(&PlannedRoutes::default()), &PlannedHops::default())
            && had_paths
        {
            warn!(%why, "entries of the kernel's routes cannot be removed");
        }
    }

    /// Brings the entries in accordance with the kernel's tables and the links.
    pub(crate) fn refresh_kernel_paths(&self) {
        let mut paths = self.region.kernel_paths.lock();
        let Some(paths) = paths.as_mut().filter(|paths| paths.is_ready) else { return };
        let ports = self.region.ports.lock().clone();
        paths.set_path_mtus(&self.path_mtus());
        let (routes, hops) = paths.plan(|port| (ports.link_use(port), ports.mtu_bytes(port)));
        let are_same = routes.as_ref().is_none_or(|routes| *routes == paths.routes) && hops == paths.hops;
        if are_same && !paths.is_in_doubt {
            paths.have_routes_changed = false;
            return;
        }
        match self.write_kernel_paths(routes.as_ref(), &hops) {
            Ok(written) => {
                (paths.is_in_doubt, paths.have_routes_changed, paths.has_failed) = (false, false, false);
                if written > 0 {
                    tracing::debug!(written, "entries follow the kernel's routes");
                }
            }
            Err(why) => {
                if !std::mem::replace(&mut paths.has_failed, true) {
                    warn!(%why, "the entries of the kernel's routes cannot be written; trying again");
                }
                paths.is_in_doubt = true;
            }
        }
        if let Some(routes) = routes {
            report_routes(&paths.routes, &routes, paths.setting.max_routes);
            paths.routes = routes;
        }
        paths.hops = hops;
    }

    /// Writes the planned entries. Returns the number of written ones.
    fn write_kernel_paths(&self, routes: Option<&PlannedRoutes>, hops: &PlannedHops) -> Result<usize, P4RuntimeError> {
        let _serial = self.region.reconciling.lock();
        // The tables are read before the region is locked, see `reconcile_next_hops`.
        let Some(state) = self.state() else { return Ok(0) };
        let batch = {
            let installed = self.region.installed.read();
            let Some(installed) = installed.as_ref() else { return Ok(0) };
            let mut sources = self.region.kernel_sources.lock();
            region::kernel_changes(&state, &installed.api, routes, hops, &mut sources)
                .map_err(|error| P4RuntimeError::invalid(error.to_string()))?
        };
        self.write_updates(batch)
    }
}

/// Logs addresses that have lost their route or got one, and those beyond a limit.
fn report_routes(before: &PlannedRoutes, after: &PlannedRoutes, max_routes: usize) {
    if before.unreached != after.unreached {
        match &after.unreached[..] {
            [] => info!("the kernel's routes lead to all servers and remotes"),
            unreached => warn!(
                "no route of the kernel by an uplink leads to {}: packets to them are dropped as `no_underlay_route`",
                list_addresses(unreached)
            ),
        }
    }
    if before.overflow != after.overflow && !after.overflow.is_empty() {
        warn!(
            max_routes,
            "the routes to {} are more than the tables take: packets to them are dropped as `no_underlay_route`; raise `max_routes`",
            list_addresses(&after.overflow)
        );
    }
}

/// Returns an uplink with a host side as the kernel's routes see it.
fn kernel_uplink(uplink: &Uplink) -> Option<KernelUplink> {
    Some(KernelUplink {
        port: uplink.port.value,
        interface: 0,
        interface_name: uplink.host_interface()?.name().to_owned(),
        mac: uplink.mac.0,
        mtu_bytes: uplink.mtu.as_ref().map_or(region::DEFAULT_MTU, |mtu| mtu.value),
        peer_mac: uplink.peer_mac.as_ref().map(|peer| peer.0),
        link_use: LinkUse::Up,
    })
}
