//! Own addresses, identity, next hops and underlay routes.

use super::Maker;
use super::api::{exact, family, number};
use super::numbers::uplink_names;
use crate::position::Position;
use ir::KeyMatch;
use num_bigint::BigUint;
use std::net::IpAddr;

/// Largest IP packet of an uplink that says nothing of it, in bytes.
pub const DEFAULT_MTU: u16 = 1600;
/// ECMP buckets for each uplink at least: a share is within 1/8 of the ideal one.
const BUCKETS_PER_UPLINK: usize = 8;

impl Maker<'_> {
    pub(super) fn underlay(&mut self) {
        self.identity();
        self.next_hops();
        self.groups();
        let region = self.region;
        for (server, uplinks) in region.file.servers.iter().zip(&region.server_uplinks) {
            self.reach(server.address.value, uplinks, server.name.at, &format!("server {}", server.name.value));
        }
        for (remote, uplinks) in region.file.remotes.iter().zip(&region.remote_uplinks) {
            let what = format!("remote {}", remote.name.value);
            self.reach(remote.address.value, uplinks, remote.name.at, &what);
            let ip = remote.address.value;
            let args = vec![number(ip), BigUint::from(remote.mac.as_u64())];
            let id = self.numbers.remotes[&*remote.name.value];
            let entry = self.api.remote.entry(vec![exact(id)], family(ip), args);
            self.add(entry, remote.name.at, format_args!("{what}"));
        }
    }

    /// Where tunnels end, and what packets from here carry as source.
    fn identity(&mut self) {
        let gateway = &self.region.file.gateway;
        for vtep in &gateway.vteps {
            let entry = self.api.own_address[family(vtep.value)].entry(vec![exact(number(vtep.value))], 0, vec![]);
            self.add(entry, vtep.at, format_args!("gateway address {}", vtep.value));
        }
        let of_family = |v4: bool| gateway.vteps.iter().map(|v| v.value).find(|ip| ip.is_ipv4() == v4).map(number);
        let [v4, v6] = [true, false].map(|v4| of_family(v4).unwrap_or_default());
        let identity = self.api.identity.call(0, vec![v4, v6, BigUint::from(gateway.mac.as_u64())]);
        self.entries.defaults.push((self.api.identity.id, identity));
    }

    fn next_hops(&mut self) {
        for uplink in &self.region.file.uplinks {
            let mtu = uplink.mtu.as_ref().map_or(DEFAULT_MTU, |mtu| mtu.value);
            let macs = [uplink.mac.as_u64(), uplink.peer_mac.as_u64()].map(BigUint::from);
            let [own, peer] = macs;
            let args = vec![BigUint::from(uplink.port.value), own, peer, BigUint::from(mtu)];
            let id = self.numbers.next_hops[&*uplink.name.value];
            let entry = self.api.next_hop.entry(vec![exact(id)], 0, args);
            self.add(entry, uplink.name.at, format_args!("uplink {}", uplink.name.value));
        }
    }

    /// Buckets are dealt to a group's uplinks in turn.
    fn groups(&mut self) {
        let at = self.region.file.uplinks.first().map_or(Position::default(), |u| u.name.at);
        for (uplinks, group) in &self.numbers.groups {
            let what = format!("uplinks {}", uplinks.join(", "));
            let buckets = (uplinks.len() * BUCKETS_PER_UPLINK).next_power_of_two();
            let entry = self.api.ecmp_group.entry(vec![exact(*group)], 0, vec![BigUint::from(buckets - 1)]);
            self.add(entry, at, format_args!("{what}"));
            for (bucket, uplink) in (0..buckets).zip(uplinks.iter().cycle()) {
                let next_hop = BigUint::from(self.numbers.next_hops[uplink]);
                let entry = self.api.ecmp_bucket.entry(vec![exact(*group), exact(bucket)], 0, vec![next_hop]);
                self.add(entry, at, format_args!("{what}"));
            }
        }
    }

    fn reach(&mut self, ip: IpAddr, uplinks: &[usize], at: Position, what: &str) {
        let names = uplink_names(self.region, uplinks);
        let (action, id) = match (&*names, self.numbers.groups.get(&names)) {
            (_, Some(group)) => (1, *group),
            ([name, ..], None) => (0, self.numbers.next_hops[name]),
            ([], None) => return,
        };
        let prefix_len = if ip.is_ipv4() { 32 } else { 128 };
        let key = KeyMatch::Lpm { value: number(ip), prefix_len };
        let entry = self.api.underlay_route[family(ip)].entry(vec![key], action, vec![BigUint::from(id)]);
        self.add(entry, at, format_args!("{what}"));
    }
}
