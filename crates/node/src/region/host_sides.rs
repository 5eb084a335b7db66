//! The host sides that a region wants for its uplinks.

use super::keeper::RegionError;
use crate::Node;
use crate::host::{HostSetting, PreparedHost, WantedInterface};
use packet::PortId;
use region::{HostInterface, RegionFile};

/// Returns the host sides of a region.
fn settings(file: &RegionFile) -> Vec<HostSetting> {
    let of = |(uplink, interface): (&region::Uplink, HostInterface<'_>)| HostSetting {
        uplink: uplink.name.value.to_string(),
        port: uplink.port.value,
        mac: uplink.mac.value.0,
        mtu: usize::from(uplink.mtu.map_or(region::DEFAULT_MTU, |mtu| mtu.value)),
        interface: match interface {
            HostInterface::Tap(name) => WantedInterface::Tap(name.to_owned()),
            HostInterface::Kernel(name) => WantedInterface::Kernel(name.to_owned()),
        },
    };
    file.host_uplinks().map(of).collect()
}

impl Node {
    /// Opens the host sides of a region, which are not in force yet.
    ///
    /// # Errors
    /// An interface cannot be opened.
    pub(super) fn prepare_host(&self, file: &RegionFile) -> Result<PreparedHost, RegionError> {
        let mtus = self.plane.open_ports().into_iter().map(|(number, port)| (number, port.mtu_bytes)).collect();
        Ok(self.plane.host().prepare(&settings(file), &mtus)?)
    }

    /// Puts host sides in force, with the rates of their packets in `file`.
    ///
    /// # Errors
    /// The host thread cannot start.
    pub(super) fn commit_host(&self, prepared: PreparedHost, file: &RegionFile) -> Result<(), RegionError> {
        let rates: Vec<(&str, u32)> = file.gateway.punt_rates.clone().unwrap_or_default().by_kind().collect();
        let links = self.plane.links();
        let is_up = |port: PortId| links.get(&port.0).is_some_and(|link| link.is_up);
        Ok(self.plane.host().commit(prepared, &rates, is_up)?)
    }
}
