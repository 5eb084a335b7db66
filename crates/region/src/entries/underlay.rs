//! Entries for own addresses, identity, tunnels, next hops and underlay routes.

use super::EntryBuilder;
use super::gateway_tables::{GatewayApi, exact, family, lpm, number};
use super::ids::uplink_names;
use crate::check::{MAX_UPLINKS, ResolvedRegion};
use crate::model::Uplink;
use crate::spanned::{SourcePos, WithPos};
use crate::values::Prefix;
use entries::ActionSpec;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::net::IpAddr;

/// MTU of an uplink without one: its largest IP packet in bytes.
pub const DEFAULT_MTU: u16 = 1600;
/// Minimum number of next hops of an ECMP group per uplink, so that a share is within 1/8 of the
/// ideal.
const SHARES_PER_UPLINK: usize = 8;
/// Next-hop ids per group. Those of a group start at (group id + 1) times this; lower ids belong to
/// uplinks.
const NEXT_HOPS_PER_GROUP: u32 = (MAX_UPLINKS * SHARES_PER_UPLINK) as u32;

/// Index of the action of a tunnel that ends at a server.
const SERVER: usize = 0;
/// Index of the action of a tunnel that ends at a remote.
const REMOTE: usize = 1;

/// Returns the number of next hops of a group of `uplinks`: a power of two.
fn group_size(uplinks: usize) -> usize {
    (uplinks * SHARES_PER_UPLINK).next_power_of_two()
}

/// Returns the id of a group's first next hop.
fn first_next_hop(group: u32) -> u32 {
    (group + 1) * NEXT_HOPS_PER_GROUP
}

/// Returns the default actions, which have the gateway's addresses and MAC.
pub fn defaults(region: &ResolvedRegion, api: &GatewayApi) -> Vec<(ir::TableId, ActionSpec)> {
    let gateway = &region.file.gateway;
    let of_family = |v4: bool| gateway.vteps.iter().map(|v| v.value).find(|ip| ip.is_ipv4() == v4).map(number);
    let [v4, v6] = [true, false].map(|v4| of_family(v4).unwrap_or_default());
    let mac = BigUint::from(gateway.mac.as_u64());
    let (identity, router, outside) = (&api.identity, &api.router, &api.subnet_gateway_v6);
    vec![
        (outside.id, outside.call(1, vec![v6.clone()])),
        (identity.id, identity.call(0, vec![v4, v6, mac.clone()])),
        (router.id, router.call(0, vec![mac])),
    ]
}

impl EntryBuilder<'_> {
    pub(super) fn add_underlay(&mut self) {
        self.add_identity();
        self.add_next_hops();
        self.add_groups();
        let region = self.region;
        for (server, uplinks) in region.file.servers.iter().zip(&region.server_uplinks) {
            let what = format!("server {}", server.name.value);
            self.add_underlay_route(server.address.value, uplinks, server.name.at, &what);
            self.add_tunnel(server.address.value, SERVER, server.name.at, &what);
        }
        for (remote, uplinks) in region.file.remotes.iter().zip(&region.remote_uplinks) {
            let what = format!("remote {}", remote.name.value);
            self.add_underlay_route(remote.address.value, uplinks, remote.name.at, &what);
            self.add_tunnel(remote.address.value, REMOTE, remote.name.at, &what);
            self.add_sources(&remote.sources, REMOTE, &what);
            let ip = remote.address.value;
            let args = vec![number(ip), BigUint::from(remote.mac.as_u64())];
            let id = self.numbers.remotes[&*remote.name.value];
            let entry = self.api.remote.entry(vec![exact(id)], family(ip), args);
            self.add_entry(entry, remote.name.at, format_args!("{what}"));
        }
    }

    /// Adds the gateway's tunnel addresses and its further sources.
    fn add_identity(&mut self) {
        let gateway = &self.region.file.gateway;
        for vtep in &gateway.vteps {
            let entry = self.api.own_address[family(vtep.value)].entry(vec![exact(number(vtep.value))], 0, vec![]);
            self.add_entry(entry, vtep.at, format_args!("gateway address {}", vtep.value));
        }
        self.add_sources(&gateway.sources, SERVER, "the gateway's sources");
        self.add_icmp_limits();
    }

    /// Adds a remote tunnel end point. The gateway's address of the same IP version is the other
    /// end.
    fn add_tunnel(&mut self, ip: IpAddr, kind: usize, at: SourcePos, what: &str) {
        let vteps = self.region.file.gateway.vteps.iter().map(|vtep| vtep.value);
        for vtep in vteps.filter(|vtep| vtep.is_ipv4() == ip.is_ipv4()) {
            let keys = vec![exact(number(ip)), exact(number(vtep))];
            let entry = self.api.tunnel[family(ip)].entry(keys, kind, vec![]);
            self.add_entry(entry, at, format_args!("{what}"));
        }
    }

    fn add_sources(&mut self, sources: &[WithPos<Prefix>], kind: usize, what: &str) {
        for source in sources {
            let prefix = source.network();
            let entry = self.api.source[family(prefix.addr())].entry(vec![lpm(prefix)], kind, vec![]);
            self.add_entry(entry, source.at, format_args!("{what}: {prefix}"));
        }
    }

    fn add_next_hops(&mut self) {
        for uplink in &self.region.file.uplinks {
            let what = format!("uplink {}", uplink.name.value);
            let keys = vec![exact(uplink.port.value), exact(BigUint::from(uplink.mac.as_u64()))];
            let entry = self.api.own_mac.entry(keys, 0, vec![]);
            self.add_entry(entry, uplink.name.at, format_args!("{what}"));
            let number = self.numbers.next_hops[&*uplink.name.value];
            self.add_next_hop(number, uplink, uplink.name.at, &what);
        }
    }

    fn add_next_hop(&mut self, number: u32, uplink: &Uplink, at: SourcePos, what: &str) {
        let [own, peer] = [uplink.mac.as_u64(), uplink.peer_mac.as_u64()].map(BigUint::from);
        let mtu = uplink.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value);
        let args = vec![BigUint::from(uplink.port.value), own, peer, BigUint::from(mtu)];
        let entry = self.api.next_hop.entry(vec![exact(number)], 0, args);
        self.add_entry(entry, at, format_args!("{what}"));
    }

    /// Adds the next hops of each group, which repeat its uplinks in turn.
    fn add_groups(&mut self) {
        let (region, at) = (self.region, self.region.file.uplinks.first().map(|uplink| uplink.name.at));
        let named = |name: &String| region.file.uplinks.iter().find(|uplink| *uplink.name.value == **name);
        for (names, group) in self.numbers.groups.clone() {
            let what = format!("uplinks {}", names.join(", "));
            let uplinks: Vec<&Uplink> = names.iter().filter_map(named).collect();
            for (number, uplink) in
                (first_next_hop(group)..).zip(uplinks.iter().cycle()).take(group_size(uplinks.len()))
            {
                self.add_next_hop(number, uplink, at.unwrap_or_default(), &what);
            }
        }
    }

    fn add_underlay_route(&mut self, ip: IpAddr, uplinks: &[usize], at: SourcePos, what: &str) {
        let names = uplink_names(self.region, uplinks);
        let (action, args) = match (&*names, self.numbers.groups.get(&names)) {
            (_, Some(group)) => {
                (1, vec![BigUint::from(first_next_hop(*group)), BigUint::from(group_size(names.len()) - 1)])
            }
            ([name, ..], None) => (0, vec![BigUint::from(self.numbers.next_hops[name])]),
            ([], None) => return,
        };
        let prefix_len = if ip.is_ipv4() { 32 } else { 128 };
        let key = KeyMatch::Lpm { value: number(ip), prefix_len };
        let entry = self.api.underlay_route[family(ip)].entry(vec![key], action, args);
        self.add_entry(entry, at, format_args!("{what}"));
    }
}
