//! Own addresses, identity, tunnels, next hops and underlay routes.

use super::Maker;
use super::api::{Api, exact, family, lpm, number};
use super::numbers::uplink_names;
use crate::check::{MAX_UPLINKS, Region};
use crate::model::Uplink;
use crate::position::{At, Position};
use crate::values::Prefix;
use entries::ActionSpec;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::net::IpAddr;

/// Largest IP packet of an uplink that says nothing of it, in bytes.
pub const DEFAULT_MTU: u16 = 1600;
/// Next hops of an ECMP group for each uplink at least: a share is within 1/8 of the ideal one.
const SHARES_PER_UPLINK: usize = 8;
/// The run of a group's next hops begins at the group's number and one, times this. Uplinks' own numbers are below.
const RUN: u32 = (MAX_UPLINKS * SHARES_PER_UPLINK) as u32;

/// Index of the action of a tunnel that ends at a server.
const SERVER: usize = 0;
/// Index of the action of one that ends at a remote.
const REMOTE: usize = 1;

/// The number of next hops of a group of `uplinks`: a power of two.
fn shares(uplinks: usize) -> usize {
    (uplinks * SHARES_PER_UPLINK).next_power_of_two()
}

/// The first of a group's next hops.
fn first_of(group: u32) -> u32 {
    (group + 1) * RUN
}

/// The default actions: the gateway's addresses and MAC.
pub fn defaults(region: &Region, api: &Api) -> Vec<(ir::TableId, ActionSpec)> {
    let gateway = &region.file.gateway;
    let of_family = |v4: bool| gateway.vteps.iter().map(|v| v.value).find(|ip| ip.is_ipv4() == v4).map(number);
    let [v4, v6] = [true, false].map(|v4| of_family(v4).unwrap_or_default());
    let mac = BigUint::from(gateway.mac.as_u64());
    let (identity, router) = (&api.identity, &api.router);
    vec![(identity.id, identity.call(0, vec![v4, v6, mac.clone()])), (router.id, router.call(0, vec![mac]))]
}

impl Maker<'_> {
    pub(super) fn underlay(&mut self) {
        self.identity();
        self.next_hops();
        self.groups();
        let region = self.region;
        for (server, uplinks) in region.file.servers.iter().zip(&region.server_uplinks) {
            let what = format!("server {}", server.name.value);
            self.reach(server.address.value, uplinks, server.name.at, &what);
            self.tunnel(server.address.value, SERVER, server.name.at, &what);
        }
        for (remote, uplinks) in region.file.remotes.iter().zip(&region.remote_uplinks) {
            let what = format!("remote {}", remote.name.value);
            self.reach(remote.address.value, uplinks, remote.name.at, &what);
            self.tunnel(remote.address.value, REMOTE, remote.name.at, &what);
            self.sources(&remote.sources, REMOTE, &what);
            let ip = remote.address.value;
            let args = vec![number(ip), BigUint::from(remote.mac.as_u64())];
            let id = self.numbers.remotes[&*remote.name.value];
            let entry = self.api.remote.entry(vec![exact(id)], family(ip), args);
            self.add(entry, remote.name.at, format_args!("{what}"));
        }
    }

    /// Where tunnels end.
    fn identity(&mut self) {
        let gateway = &self.region.file.gateway;
        for vtep in &gateway.vteps {
            let entry = self.api.own_address[family(vtep.value)].entry(vec![exact(number(vtep.value))], 0, vec![]);
            self.add(entry, vtep.at, format_args!("gateway address {}", vtep.value));
        }
        self.sources(&gateway.sources, SERVER, "the gateway's sources");
    }

    /// A tunnel end point that packets come from, as that one: the gateway's address of its family is the other end.
    fn tunnel(&mut self, ip: IpAddr, kind: usize, at: Position, what: &str) {
        let vteps = self.region.file.gateway.vteps.iter().map(|vtep| vtep.value);
        for vtep in vteps.filter(|vtep| vtep.is_ipv4() == ip.is_ipv4()) {
            let keys = vec![exact(number(ip)), exact(number(vtep))];
            let entry = self.api.tunnel[family(ip)].entry(keys, kind, vec![]);
            self.add(entry, at, format_args!("{what}"));
        }
    }

    fn sources(&mut self, sources: &[At<Prefix>], kind: usize, what: &str) {
        for source in sources {
            let prefix = source.network();
            let entry = self.api.source[family(prefix.addr())].entry(vec![lpm(prefix)], kind, vec![]);
            self.add(entry, source.at, format_args!("{what}: {prefix}"));
        }
    }

    fn next_hops(&mut self) {
        for uplink in &self.region.file.uplinks {
            let what = format!("uplink {}", uplink.name.value);
            let keys = vec![exact(uplink.port.value), exact(BigUint::from(uplink.mac.as_u64()))];
            let entry = self.api.own_mac.entry(keys, 0, vec![]);
            self.add(entry, uplink.name.at, format_args!("{what}"));
            let number = self.numbers.next_hops[&*uplink.name.value];
            self.next_hop(number, uplink, uplink.name.at, &what);
        }
    }

    fn next_hop(&mut self, number: u32, uplink: &Uplink, at: Position, what: &str) {
        let [own, peer] = [uplink.mac.as_u64(), uplink.peer_mac.as_u64()].map(BigUint::from);
        let mtu = uplink.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value);
        let args = vec![BigUint::from(uplink.port.value), own, peer, BigUint::from(mtu)];
        let entry = self.api.next_hop.entry(vec![exact(number)], 0, args);
        self.add(entry, at, format_args!("{what}"));
    }

    /// A group's next hops are its uplinks in turn.
    fn groups(&mut self) {
        let (region, at) = (self.region, self.region.file.uplinks.first().map(|uplink| uplink.name.at));
        let named = |name: &String| region.file.uplinks.iter().find(|uplink| *uplink.name.value == **name);
        for (names, group) in self.numbers.groups.clone() {
            let what = format!("uplinks {}", names.join(", "));
            let uplinks: Vec<&Uplink> = names.iter().filter_map(named).collect();
            for (number, uplink) in (first_of(group)..).zip(uplinks.iter().cycle()).take(shares(uplinks.len())) {
                self.next_hop(number, uplink, at.unwrap_or_default(), &what);
            }
        }
    }

    fn reach(&mut self, ip: IpAddr, uplinks: &[usize], at: Position, what: &str) {
        let names = uplink_names(self.region, uplinks);
        let (action, args) = match (&*names, self.numbers.groups.get(&names)) {
            (_, Some(group)) => (1, vec![BigUint::from(first_of(*group)), BigUint::from(shares(names.len()) - 1)]),
            ([name, ..], None) => (0, vec![BigUint::from(self.numbers.next_hops[name])]),
            ([], None) => return,
        };
        let prefix_len = if ip.is_ipv4() { 32 } else { 128 };
        let key = KeyMatch::Lpm { value: number(ip), prefix_len };
        let entry = self.api.underlay_route[family(ip)].entry(vec![key], action, args);
        self.add(entry, at, format_args!("{what}"));
    }
}
