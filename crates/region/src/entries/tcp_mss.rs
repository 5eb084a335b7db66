//! Limits of TCP segments in entries of VPCs and of routes to peers.

use super::EntryBuilder;
use super::underlay::DEFAULT_MTU;
use crate::model::Vpc;
use crate::values::TcpMss;
use std::net::IpAddr;

/// Bytes of a tunnel over IPv4 and over IPv6, with the Ethernet header of the tenant.
const TUNNEL_BYTES: [u16; 2] = [50, 70];
/// Bytes of the headers of IPv4 and TCP, and of IPv6 and TCP, without options.
const HEADER_BYTES: [u16; 2] = [40, 60];

impl EntryBuilder<'_> {
    /// Returns the largest TCP segments of a VPC, in bytes of data, over IPv4 and over IPv6. `None`: it
    /// has no limit.
    pub(super) fn mss_limits(&self, vpc: &Vpc) -> Option<[u16; 2]> {
        Some(match vpc.tcp_mss.as_ref()?.value {
            TcpMss::Bytes(bytes) => [bytes; 2],
            TcpMss::Auto => HEADER_BYTES.map(|headers| self.least_tenant_mtu() - headers),
        })
    }

    /// Returns the lower limit of two VPCs for packets to an address of this IP version.
    pub(super) fn lower_mss_limit(&self, vpcs: [&Vpc; 2], address: IpAddr) -> Option<u16> {
        let limits = vpcs.into_iter().filter_map(|vpc| self.mss_limits(vpc));
        limits.map(|limits| limits[usize::from(address.is_ipv6())]).min()
    }

    /// Returns the longest packet of a tenant, in bytes, that fits each uplink in a tunnel of each family
    /// that the gateway has.
    fn least_tenant_mtu(&self) -> u16 {
        let file = &self.region.file;
        let mtus = file.uplinks.iter().map(|uplink| uplink.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value));
        let over_v6 = file.gateway.vteps.iter().any(|vtep| vtep.is_ipv6());
        mtus.min().unwrap_or(DEFAULT_MTU) - TUNNEL_BYTES[usize::from(over_v6)]
    }
}
