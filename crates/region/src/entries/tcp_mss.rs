//! Entries for the limits of TCP segments.

use super::EntryBuilder;
use super::gateway_tables::exact;
use super::underlay::DEFAULT_MTU;
use crate::values::TcpMss;
use num_bigint::BigUint;

/// Bytes of a tunnel over IPv4 and over IPv6, with the Ethernet header of the tenant.
const TUNNEL_BYTES: [u16; 2] = [50, 70];
/// Bytes of the headers of IPv4 and TCP, and of IPv6 and TCP, without options.
const HEADER_BYTES: [u16; 2] = [40, 60];

impl EntryBuilder<'_> {
    /// Adds the limits of VPCs, for packets from them and for packets to them from peers.
    pub(super) fn add_tcp_mss(&mut self) {
        let (region, part) = (self.region, self.part);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let Some(limit) = &vpc.tcp_mss else { continue };
            let segments = match limit.value {
                TcpMss::Bytes(bytes) => [bytes; 2],
                TcpMss::Auto => HEADER_BYTES.map(|headers| self.least_tenant_mtu() - headers),
            };
            let name = &*vpc.name.value;
            let keys = [self.numbers.vpcs[name], vpc.vni.value];
            for (table, key) in self.api.tcp_mss.iter().zip(keys) {
                let entry = table.entry(vec![exact(key)], 0, segments.map(BigUint::from).into());
                self.add_entry(entry, limit.at, format_args!("VPC {name}: tcp_mss"));
            }
        }
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
