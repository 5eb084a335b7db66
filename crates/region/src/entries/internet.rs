//! Entries for NATs: public addresses, their users, what they reach, and idle times.

use super::EntryBuilder;
use super::gateway_tables::{exact, family, lpm};
use crate::check::{MAX_NAT_SUBSCRIBERS, ResolvedRegion};
use crate::internet::{Internet, Nat, NatTimeouts, address_count, ipv4_network};
use crate::model::Vpc;
use crate::spanned::SourcePos;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use num_bigint::BigUint;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of addresses that are not on the Internet (RFC 1918; RFC 6598).
const PRIVATE_RANGES: [([u8; 4], u8); 4] =
    [([10, 0, 0, 0], 8), ([100, 64, 0, 0], 10), ([172, 16, 0, 0], 12), ([192, 168, 0, 0], 16)];

/// Addresses of IPv6 that are never on the Internet (RFC 4193).
const UNIQUE_LOCAL: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7);

/// Indices of the actions of a public address without and with port forwards.
const PUBLIC: usize = 2;
const FORWARDING: usize = 3;
/// Indices of the actions of `nat_source`.
const TRANSLATE: usize = 0;
const NO_NAT: usize = 1;

/// Returns the idle times of sessions by expire time profile, in nanoseconds.
pub(super) fn expire_times(region: &ResolvedRegion) -> Vec<(u8, u64)> {
    // Services have sessions, too, in regions without the Internet.
    let timeouts = region.file.internet.as_ref().and_then(|internet| internet.timeouts.clone()).unwrap_or_default();
    let times = NatTimeouts::by_profile(&timeouts);
    times.map(|(profile, seconds)| (profile, u64::from(seconds) * 1_000_000_000)).collect()
}

/// Numbers of a range of a power of two.
pub(super) type NumberRanges<K> = BTreeMap<K, u32>;

/// Keeps the first numbers of `wanted` ranges, gives the others the lowest free ones that are a multiple
/// of their size, and frees all others. If the free numbers below `limit` are too scattered, all ranges
/// get new ones.
pub(super) fn assign_ranges<K: Ord + Clone>(numbers: &mut NumberRanges<K>, wanted: &BTreeMap<K, u32>, limit: u32) {
    numbers.retain(|key, first| wanted.get(key).is_some_and(|size| first.is_multiple_of(*size)));
    let mut new: Vec<(&K, u32)> =
        wanted.iter().map(|(key, size)| (key, *size)).filter(|(key, _)| !numbers.contains_key(*key)).collect();
    if new.is_empty() {
        return;
    }
    // Large ranges first, so that none is lost between small ones.
    new.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let mut taken: BTreeMap<u32, u32> = numbers.iter().map(|(key, first)| (*first, wanted[key])).collect();
    for (key, size) in new {
        let first = first_free(&taken, size);
        if first.checked_add(size).is_none_or(|end| end > limit) && !numbers.is_empty() {
            numbers.clear();
            return assign_ranges(numbers, wanted, u32::MAX);
        }
        taken.insert(first, size);
        numbers.insert(key.clone(), first);
    }
}

/// Returns the lowest multiple of `size` at which `size` numbers are free. `taken` has the sizes of the
/// ranges in use by their first numbers.
fn first_free(taken: &BTreeMap<u32, u32>, size: u32) -> u32 {
    let mut at: u32 = 0;
    for (first, other) in taken {
        if *first >= at.saturating_add(size) {
            break;
        }
        at = at.max(first.saturating_add(*other).next_multiple_of(size));
    }
    at
}

/// Returns the sizes of the ranges of public addresses, by prefix.
pub(super) fn public_ranges(region: &ResolvedRegion) -> BTreeMap<Ipv4Net, u32> {
    let nats = region.file.internet.iter().flat_map(|internet| &internet.nats);
    nats.filter_map(|nat| ipv4_network(nat.addresses.network())).map(|network| (network, size(network))).collect()
}

/// Returns the sizes of the ranges of machines' addresses, by VPC and subnet.
pub(super) fn subscriber_ranges(region: &ResolvedRegion) -> BTreeMap<(String, Ipv4Net), u32> {
    let mut wanted = BTreeMap::new();
    for vpc in region.file.vpcs.iter().filter(|vpc| vpc.nat.is_some()) {
        for (subnet, _) in vpc.ipv4_subnets() {
            wanted.insert((vpc.name.value.to_string(), subnet), size(subnet));
        }
    }
    wanted
}

/// Returns the number of addresses of a prefix. Those of a checked region are not longer.
fn size(network: Ipv4Net) -> u32 {
    u32::try_from(address_count(network)).unwrap_or(MAX_NAT_SUBSCRIBERS)
}

/// Iterates over the public addresses of a NAT.
fn nat_addresses(nat: &Nat) -> impl Iterator<Item = Ipv4Addr> {
    let range = |network: Ipv4Net| u32::from(network.network())..=u32::from(network.broadcast());
    ipv4_network(nat.addresses.network()).into_iter().flat_map(range).map(Ipv4Addr::from)
}

/// Returns the addresses with port forwards or services, which need not be of a NAT.
fn forwarding_addresses(region: &ResolvedRegion, internet: &Internet) -> BTreeMap<Ipv4Addr, SourcePos> {
    let mut addresses = BTreeMap::new();
    for forward in &internet.forwards {
        if let IpAddr::V4(address) = forward.address.value {
            addresses.entry(address).or_insert(forward.address.at);
        }
    }
    for (_, address, at) in region.file.vpcs.iter().flat_map(Vpc::public_services) {
        addresses.entry(address).or_insert(at);
    }
    addresses
}

impl<'a> EntryBuilder<'a> {
    /// Adds the public addresses, the destinations that they do not reach, and the route to the
    /// Internet.
    pub(super) fn add_internet(&mut self) {
        let region = self.region;
        let Some(internet) = &region.file.internet else { return };
        let forwards = forwarding_addresses(region, internet);
        for nat in &internet.nats {
            for address in nat_addresses(nat).filter(|address| !forwards.contains_key(address)) {
                let entry = self.api.own_address[0].entry(vec![exact(u32::from(address))], PUBLIC, vec![]);
                self.add_entry(entry, nat.name.at, format_args!("NAT {}", nat.name.value));
            }
        }
        for (address, at) in forwards {
            let entry = self.api.own_address[0].entry(vec![exact(u32::from(address))], FORWARDING, vec![]);
            self.add_entry(entry, at, format_args!("port forwards of {address}"));
        }
        self.add_refused();
        self.add_public_arp();
    }

    /// Adds the public addresses for which the gateway answers ARP requests, on each uplink to the Internet.
    fn add_public_arp(&mut self) {
        let region = self.region;
        let Some(internet) = region.file.internet.as_ref().filter(|internet| internet.answer_arp) else { return };
        let nats = internet.nats.iter();
        let mut addresses: BTreeMap<Ipv4Addr, SourcePos> =
            nats.flat_map(|nat| nat_addresses(nat).map(|address| (address, nat.name.at))).collect();
        let elastic = internet.elastic.iter().filter_map(|elastic| match elastic.address.value {
            IpAddr::V4(address) => Some((address, elastic.address.at)),
            IpAddr::V6(_) => None,
        });
        for (address, at) in elastic.chain(forwarding_addresses(region, internet)) {
            addresses.entry(address).or_insert(at);
        }
        for uplink in region.internet_uplinks.iter().map(|uplink| &region.file.uplinks[*uplink]) {
            let vid = uplink.vlan.as_ref().map_or(0, |vlan| u64::from(vlan.value));
            for (address, at) in &addresses {
                let keys = vec![exact(uplink.port.value), exact(vid), exact(u32::from(*address))];
                let args = vec![uplink.port.value.into(), uplink.mac.as_u64().into()];
                let entry = self.api.internet.public_arp.entry(keys, 0, args);
                self.add_entry(entry, *at, format_args!("ARP for {address} on uplink {}", uplink.name.value));
            }
        }
    }

    /// Adds the routes to the Internet.
    pub(super) fn add_default_route(&mut self) {
        let region = self.region;
        let uplinks = &region.internet_uplinks;
        if let Some(at) = region.file.first_public_address() {
            let key = lpm(Ipv4Net::default().into());
            self.add_underlay_route_of(key, (Ipv4Addr::UNSPECIFIED.into(), uplinks), at, "the Internet");
        }
        if let Some(at) = region.file.first_ipv6_internet() {
            let key = lpm(Ipv6Net::default().into());
            self.add_underlay_route_of(key, (Ipv6Addr::UNSPECIFIED.into(), uplinks), at, "the Internet over IPv6");
        }
    }

    /// Adds the destinations that are not on the Internet: all addresses of the underlay that the file
    /// has, what `refuse` lists, and unique local addresses (RFC 4193).
    fn add_refused(&mut self) {
        let file = &self.region.file;
        let Some(internet) = &file.internet else { return };
        let mut refused: BTreeMap<IpNet, (SourcePos, &str)> = BTreeMap::new();
        let over_v6 = file.first_ipv6_internet();
        let mut add = |prefix: IpNet, at: SourcePos, what| {
            // A source of 0.0.0.0/0 stands for servers that the file does not know.
            if prefix.prefix_len() > 0 && (prefix.addr().is_ipv4() || over_v6.is_some()) {
                refused.entry(prefix).or_insert((at, what));
            }
        };
        for prefix in internet.refuse.iter().flatten() {
            add(prefix.network(), prefix.at, "refuse");
        }
        if internet.refuse.is_none() {
            let at = file.first_public_address().unwrap_or_default();
            for (address, len) in PRIVATE_RANGES {
                add(IpNet::new_assert(Ipv4Addr::from(address).into(), len), at, "private addresses");
            }
        }
        add(UNIQUE_LOCAL.into(), over_v6.unwrap_or_default(), "unique local addresses");
        let hosts = file.uplinks.iter().flat_map(|uplink| &uplink.host).flat_map(|host| &host.addresses);
        for address in file.gateway.vteps.iter().chain(hosts) {
            add(address.value.into(), address.at, "the gateway");
        }
        for server in &file.servers {
            add(server.address.value.into(), server.address.at, "a server");
        }
        for remote in &file.remotes {
            add(remote.address.value.into(), remote.address.at, "a remote");
        }
        for source in file.gateway.sources.iter().chain(file.remotes.iter().flat_map(|remote| &remote.sources)) {
            add(source.network(), source.at, "sources of VXLAN");
        }
        for (prefix, (at, what)) in refused {
            let entry = self.api.internet.refused[family(prefix.addr())].entry(vec![lpm(prefix)], 0, vec![]);
            self.add_entry(entry, at, format_args!("{prefix} is not on the Internet: {what}"));
        }
    }

    /// Returns the NAT of a VPC.
    pub(super) fn nat_of(&self, vpc: usize) -> Option<&'a Nat> {
        let nat = self.region.vpc_nats.get(vpc).copied().flatten()?;
        self.region.file.internet.as_ref()?.nats.get(nat)
    }

    /// Adds the users of a NAT: the machines of each subnet of IPv4, and no other source of the VPC.
    pub(super) fn add_nat_sources(&mut self) {
        let (region, part) = (self.region, self.part);
        for (v, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let Some(nat) = self.nat_of(v) else { continue };
            self.add_nat_sources_of(vpc, nat);
        }
    }

    /// Returns the arguments of the entry for machines of a subnet.
    pub(super) fn translation(&self, vpc: &Vpc, nat: &Nat, subnet: Ipv4Net) -> Vec<BigUint> {
        let first = self.numbers.nat_subscribers[&(vpc.name.value.to_string(), subnet)];
        [u32::from(subnet.network()), first].into_iter().chain(self.pool_args(nat)).map(BigUint::from).collect()
    }

    /// Returns the arguments with a NAT's part of the pool of ports.
    pub(super) fn pool_args(&self, nat: &Nat) -> [u32; 4] {
        let public = ipv4_network(nat.addresses.network()).unwrap_or_default();
        let first_number = self.numbers.public_addresses[&public];
        [u32::from(public.network()), first_number, size(public), nat.blocks_per_vm()]
    }

    fn add_nat_sources_of(&mut self, vpc: &Vpc, nat: &Nat) {
        let name = &*vpc.name.value;
        let (id, at) = (self.numbers.vpcs[name], vpc.nat.as_ref().map_or(vpc.name.at, |nat| nat.at));
        let subnets: BTreeSet<Ipv4Net> = vpc.ipv4_subnets().map(|(subnet, _)| subnet).collect();
        for subnet in &subnets {
            // A subnet of one machine has the entry of the machine.
            if self.has_public_address(name, subnet) {
                continue;
            }
            let args = self.translation(vpc, nat, *subnet);
            let keys = vec![exact(id), lpm((*subnet).into())];
            let entry = self.api.internet.nat_source.entry(keys, TRANSLATE, args);
            self.add_entry(entry, at, format_args!("VPC {name}: NAT {} for {subnet}", nat.name.value));
        }
        if !subnets.contains(&Ipv4Net::default()) {
            let keys = vec![exact(id), lpm(Ipv4Net::default().into())];
            let entry = self.api.internet.nat_source.entry(keys, NO_NAT, vec![]);
            self.add_entry(entry, at, format_args!("VPC {name}: NAT {} for no other sources", nat.name.value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(sizes: &[(u8, u32)]) -> BTreeMap<u8, u32> {
        sizes.iter().copied().collect()
    }

    #[test]
    fn ranges_keep_their_numbers_and_never_overlap() {
        let mut numbers = BTreeMap::new();
        assign_ranges(&mut numbers, &ranges(&[(1, 4), (2, 16), (3, 1)]), 64);
        assert_eq!(numbers, ranges(&[(2, 0), (1, 16), (3, 20)]));
        // One goes and two come: the small one has room before the others, the large one has not.
        assign_ranges(&mut numbers, &ranges(&[(1, 4), (3, 1), (4, 16), (5, 2)]), 64);
        assert_eq!(numbers, ranges(&[(1, 16), (3, 20), (4, 0), (5, 22)]));
    }

    #[test]
    fn scattered_ranges_are_numbered_anew_if_another_has_no_room() {
        let mut numbers = ranges(&[(1, 0), (2, 4)]);
        assign_ranges(&mut numbers, &ranges(&[(1, 1), (2, 1), (3, 4)]), 8);
        assert_eq!(numbers, ranges(&[(3, 0), (1, 4), (2, 5)]));
    }
}
