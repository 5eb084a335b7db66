//! Entries for the ways of VPCs to the Internet over IPv6. They belong to the VPCs.

use super::EntryBuilder;
use super::gateway_tables::{exact, lpm};
use super::tenants::NO_MSS_LIMIT;
use crate::ipv6_internet::{Npt, ipv6_network};
use crate::model::Vpc;
use ipnet::Ipv6Net;
use num_bigint::BigUint;

/// Indices of the actions of `sources`.
const ROUTED_SOURCE: usize = 0;
const TRANSLATED_SOURCE: usize = 1;
const CLOSED_SOURCE: usize = 2;
const OTHER_SOURCE: usize = 3;
/// Indices of the actions of `vpc_prefix`.
const ROUTED_PREFIX: usize = 0;
const TRANSLATED_PREFIX: usize = 1;

/// Returns the arguments of actions that translate a prefix.
fn npt_args(npt: Npt) -> [BigUint; 4] {
    [npt.prefix.into(), npt.mask.into(), npt.adjustment.into(), u8::from(npt.in_subnet).into()]
}

/// Returns the options of a VPC: whether it takes only answers, whether flows outlive a change of rules,
/// and whether TCP may begin with any segment.
fn options(vpc: &Vpc) -> [BigUint; 3] {
    [vpc.takes_only_answers(), vpc.keep_established, vpc.tcp_pick_up].map(|option| BigUint::from(u8::from(option)))
}

impl EntryBuilder<'_> {
    /// Adds the VPCs' own prefixes, by the sources of packets in both directions.
    pub(super) fn add_ipv6_sources(&mut self) {
        let (region, part) = (self.region, self.part);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let Some(internet) = &vpc.ipv6_internet else { continue };
            let name = &*vpc.name.value;
            let id = self.numbers.vpcs[name];
            let key = |network: Ipv6Net| vec![exact(id), lpm(network.into())];
            for subnet in &vpc.subnets {
                let Some(network) = ipv6_network(subnet.network()) else { continue };
                let used = vpc.internet_subnets().find(|used| used.network == network);
                let mut args: Vec<BigUint> = options(vpc).into_iter().chain([vpc.flow_limit().into()]).collect();
                let (action, args, what) = match used.map(|used| used.translation.and_then(|one| one.networks())) {
                    None => (CLOSED_SOURCE, vec![], "is not on it".to_owned()),
                    Some(None) => (ROUTED_SOURCE, args, "as it is".to_owned()),
                    Some(Some([inside, outside])) => {
                        args.extend(npt_args(Npt::new(inside, outside)));
                        (TRANSLATED_SOURCE, args, format!("as {outside}"))
                    }
                };
                let entry = self.api.internet.ipv6_sources.entry(key(network), action, args);
                let what = format_args!("VPC {name}: Internet over IPv6, {network} {what}");
                self.add_entry(entry, internet.at, what);
            }
            let entry = self.api.internet.ipv6_sources.entry(key(Ipv6Net::default()), OTHER_SOURCE, vec![]);
            self.add_entry(entry, internet.at, format_args!("VPC {name}: Internet over IPv6, for no other sources"));
        }
    }

    /// Adds the prefixes of VPCs on the Internet, by the destinations of packets from there.
    pub(super) fn add_ipv6_prefixes(&mut self) {
        let (region, part) = (self.region, self.part);
        for (_, vpc) in region.file.vpcs.iter().enumerate().filter(|(v, _)| part.has_vpc(*v)) {
            let Some(internet) = &vpc.ipv6_internet else { continue };
            let name = &*vpc.name.value;
            let mss = self.mss_limits(vpc).map_or(NO_MSS_LIMIT, |limits| limits[1]);
            let head = [self.numbers.vpcs[name], vpc.vni.value, vpc.dropped_extensions().into(), mss.into()];
            let args: Vec<BigUint> = head.map(BigUint::from).into_iter().chain(options(vpc)).collect();
            for subnet in vpc.internet_subnets().filter(|subnet| subnet.translation.is_none()) {
                let keys = vec![lpm(subnet.network.into())];
                let entry = self.api.internet.vpc_prefix.entry(keys, ROUTED_PREFIX, args.clone());
                let what = format_args!("VPC {name}: {} on the Internet", subnet.network);
                self.add_entry(entry, internet.at, what);
            }
            for (translation, [inside, outside]) in
                internet.translate.iter().filter_map(|one| Some((one, one.networks()?)))
            {
                let args = args.iter().cloned().chain(npt_args(Npt::new(outside, inside))).collect();
                let entry = self.api.internet.vpc_prefix.entry(vec![lpm(outside.into())], TRANSLATED_PREFIX, args);
                let what = format_args!("VPC {name}: {outside} on the Internet is {inside}");
                self.add_entry(entry, translation.outside.at, what);
            }
        }
    }
}
