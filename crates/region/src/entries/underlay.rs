//! Entries for own addresses, identity, tunnels, next hops and underlay routes.

use super::EntryBuilder;
use super::gateway_tables::{GatewayApi, exact, family, lpm, number};
use super::ids::{IdAssignments, uplink_names};
use crate::check::{MAX_UPLINKS, ResolvedRegion};
use crate::model::Uplink;
use crate::spanned::{SourcePos, WithPos};
use crate::values::Prefix;
use entries::ActionSpec;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::net::IpAddr;
use underlay::LinkUse;

/// MTU of an uplink without one: its largest IP packet in bytes.
pub const DEFAULT_MTU: u16 = 1600;
/// Minimum number of next hops of an ECMP group per uplink, so that a share is within 1/8 of the
/// ideal.
const SHARES_PER_UPLINK: usize = 8;
/// Next-hop ids per group. Those of a group start at (group id + 1) times this; lower ids belong to
/// uplinks.
const NEXT_HOPS_PER_GROUP: u32 = (MAX_UPLINKS * SHARES_PER_UPLINK) as u32;

/// Indices of the actions of a next hop.
pub(super) const FORWARD: usize = 0;
pub(super) const RESOLVE: usize = 1;
pub(super) const PATH_DOWN: usize = 2;
const FORWARD_TAGGED: usize = 3;

/// Indices of the actions of an underlay route.
pub(super) const VIA_NEXT_HOP: usize = 0;
pub(super) const VIA_GROUP: usize = 1;
/// Distance from one of them to the action for a path with an MTU of its own.
pub(super) const LIMITED: usize = 2;

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

/// Returns the default actions, which have the gateway's addresses and MAC, and the secret of the hash
/// of flows.
pub fn defaults(region: &ResolvedRegion, api: &GatewayApi, numbers: &IdAssignments) -> Vec<(ir::TableId, ActionSpec)> {
    let gateway = &region.file.gateway;
    let of_family = |v4: bool| gateway.vteps.iter().map(|v| v.value).find(|ip| ip.is_ipv4() == v4).map(number);
    let [v4, v6] = [true, false].map(|v4| of_family(v4).unwrap_or_default());
    let mac = BigUint::from(gateway.mac.as_u64());
    let (identity, router, outside) = (&api.identity, &api.router, &api.subnet_gateway_v6);
    vec![
        (outside.id, outside.call(1, vec![v6.clone()])),
        (identity.id, identity.call(0, vec![v4, v6, mac.clone()])),
        (router.id, router.call(0, vec![mac])),
        (api.flow_secret.id, api.flow_secret.call(0, vec![BigUint::from(numbers.flow_secret_of(region))])),
    ]
}

impl EntryBuilder<'_> {
    /// Adds the next hops of uplinks and groups: all entries that depend on the state of ports.
    pub(super) fn add_next_hops(&mut self) {
        self.add_uplinks();
        self.add_groups();
    }

    pub(super) fn add_underlay(&mut self) {
        self.add_identity();
        self.add_own_macs();
        self.add_next_hops();
        self.add_underlay_routes(|_| true);
        self.add_default_route();
        self.add_internet();
        let region = self.region;
        for server in &region.file.servers {
            let what = format!("server {}", server.name.value);
            self.add_tunnel(server.address.value, SERVER, server.name.at, &what);
        }
        for remote in &region.file.remotes {
            let what = format!("remote {}", remote.name.value);
            self.add_tunnel(remote.address.value, REMOTE, remote.name.at, &what);
            self.add_sources(&remote.sources, REMOTE, &what);
            let ip = remote.address.value;
            let args = vec![number(ip), BigUint::from(remote.mac.as_u64())];
            let id = self.numbers.remotes[&*remote.name.value];
            let entry = self.api.remote.entry(vec![exact(id)], family(ip), args);
            self.add_entry(entry, remote.name.at, format_args!("{what}"));
        }
    }

    /// Adds the routes to servers and remotes whose addresses are wanted.
    pub(super) fn add_underlay_routes(&mut self, is_wanted: impl Fn(IpAddr) -> bool) {
        let region = self.region;
        for (server, uplinks) in region.file.servers.iter().zip(&region.server_uplinks) {
            if is_wanted(server.address.value) {
                let what = format!("server {}", server.name.value);
                self.add_underlay_route(server.address.value, uplinks, server.name.at, &what);
            }
        }
        for (remote, uplinks) in region.file.remotes.iter().zip(&region.remote_uplinks) {
            if is_wanted(remote.address.value) {
                let what = format!("remote {}", remote.name.value);
                self.add_underlay_route(remote.address.value, uplinks, remote.name.at, &what);
            }
        }
    }

    /// Adds the gateway's tunnel addresses and its further sources.
    fn add_identity(&mut self) {
        let gateway = &self.region.file.gateway;
        for vtep in &gateway.vteps {
            let entry = self.api.own_address[family(vtep.value)].entry(vec![exact(number(vtep.value))], 0, vec![]);
            self.add_entry(entry, vtep.at, format_args!("gateway address {}", vtep.value));
        }
        for (uplink, host) in self.region.file.uplinks.iter().filter_map(|uplink| Some((uplink, uplink.host.as_ref()?)))
        {
            for address in &host.addresses {
                let keys = vec![exact(number(address.value))];
                let entry = self.api.own_address[family(address.value)].entry(keys, 1, vec![]);
                self.add_entry(entry, address.at, format_args!("host side of uplink {}", uplink.name.value));
            }
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

    /// Adds the MAC addresses of the gateway on its ports.
    fn add_own_macs(&mut self) {
        for uplink in &self.region.file.uplinks {
            let [port, mac] = [u64::from(uplink.port.value), uplink.mac.as_u64()].map(exact);
            let what = format!("uplink {}", uplink.name.value);
            let Some(vlan) = &uplink.vlan else {
                let entry = self.api.own_mac.entry(vec![port, mac], 0, vec![]);
                self.add_entry(entry, uplink.name.at, format_args!("{what}"));
                continue;
            };
            let in_vlan = vec![port, exact(vlan.value)];
            let unicast = self.api.own_vlan.entry([in_vlan.clone(), vec![mac]].concat(), 0, vec![]);
            for entry in [unicast, self.api.group_vlan.entry(in_vlan, 0, vec![])] {
                self.add_entry(entry, vlan.at, format_args!("{what}: vlan"));
            }
        }
    }

    /// Adds a next hop for each uplink.
    fn add_uplinks(&mut self) {
        for uplink in &self.region.file.uplinks {
            let what = format!("uplink {}", uplink.name.value);
            let number = self.numbers.next_hops[&*uplink.name.value];
            self.add_next_hop(number, uplink, uplink.name.at, &what);
        }
    }

    fn add_next_hop(&mut self, number: u32, uplink: &Uplink, at: SourcePos, what: &str) {
        // Without it, the kernel's neighbours decide, and no route of the region leads here.
        let Some(peer_mac) = &uplink.peer_mac else { return };
        if self.numbers.ports.link_use(*uplink.port) == LinkUse::Down {
            let entry = self.api.next_hop.entry(vec![exact(number)], PATH_DOWN, vec![]);
            return self.add_entry(entry, at, format_args!("{what}"));
        }
        let [own, peer] = [uplink.mac.as_u64(), peer_mac.as_u64()].map(BigUint::from);
        let configured = uplink.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value);
        let mtu = self.numbers.ports.mtu_bytes(*uplink.port).map_or(configured, |mtu| mtu.min(configured));
        let mut args = vec![BigUint::from(uplink.port.value), own, peer, BigUint::from(mtu)];
        args.extend(uplink.vlan.as_ref().map(|vlan| BigUint::from(vlan.value)));
        let action = if uplink.vlan.is_some() { FORWARD_TAGGED } else { FORWARD };
        let entry = self.api.next_hop.entry(vec![exact(number)], action, args);
        self.add_entry(entry, at, format_args!("{what}"));
    }

    /// Adds the next hops of each group, which repeat its uplinks in turn. Those of an uplink whose
    /// port is down are shared out among the others.
    fn add_groups(&mut self) {
        let (region, at) = (self.region, self.region.file.uplinks.first().map(|uplink| uplink.name.at));
        let named = |name: &String| region.file.uplinks.iter().find(|uplink| *uplink.name.value == **name);
        for (names, group) in self.numbers.groups.clone() {
            let what = format!("uplinks {}", names.join(", "));
            let uplinks: Vec<&Uplink> = names.iter().filter_map(named).collect();
            let slots = self.assign_slots(&uplinks);
            for (number, uplink) in (first_next_hop(group)..).zip(slots) {
                self.add_next_hop(number, uplinks[uplink], at.unwrap_or_default(), &what);
            }
        }
    }

    /// Returns, for each next hop of a group, the index of its uplink. An uplink that is up again
    /// but not for long is used if no other one is left. Without any, all stay where they are with all,
    /// and their next hops drop packets as `path_down`.
    fn assign_slots(&self, uplinks: &[&Uplink]) -> Vec<usize> {
        let (members, size) = (uplinks.len(), group_size(uplinks.len()));
        let link_use = |member: usize| self.numbers.ports.link_use(*uplinks[member].port);
        let choices: [&dyn Fn(usize) -> bool; 3] =
            [&|member| link_use(member) == LinkUse::Up, &|member| link_use(member) != LinkUse::Down, &|_| true];
        let assigned = choices.iter().map(|is_usable| underlay::assign_slots(members, size, is_usable));
        let complete = assigned.map(|slots| slots.into_iter().collect::<Option<Vec<usize>>>());
        complete.flatten().next().unwrap_or_default()
    }

    fn add_underlay_route(&mut self, ip: IpAddr, uplinks: &[usize], at: SourcePos, what: &str) {
        let prefix_len = if ip.is_ipv4() { 32 } else { 128 };
        let key = KeyMatch::Lpm { value: number(ip), prefix_len };
        self.add_underlay_route_of(key, (ip, uplinks), at, what);
    }

    /// Adds a route over these uplinks. The path's MTU is that of `ip`.
    pub(super) fn add_underlay_route_of(
        &mut self,
        key: KeyMatch,
        (ip, uplinks): (IpAddr, &[usize]),
        at: SourcePos,
        what: &str,
    ) {
        let names = uplink_names(self.region, uplinks);
        let (mut action, mut args) = match (&*names, self.numbers.groups.get(&names)) {
            (_, Some(group)) => {
                (VIA_GROUP, vec![BigUint::from(first_next_hop(*group)), BigUint::from(group_size(names.len()) - 1)])
            }
            ([name, ..], None) => (VIA_NEXT_HOP, vec![BigUint::from(self.numbers.next_hops[name])]),
            ([], None) => return,
        };
        if let Some(mtu) = self.numbers.path_mtus.get(&ip) {
            action += LIMITED;
            args.push(BigUint::from(*mtu));
        }
        let entry = self.api.underlay_route[family(ip)].entry(vec![key], action, args);
        self.add_entry(entry, at, format_args!("{what}"));
    }
}
