//! The tables for packets to and from the Internet, and for fragments.

use super::table_finder::{FamilyPair, GatewayTable, GatewayTableFinder, NotAGateway};
use ir::TableId;

/// The tables and actions for packets to and from the Internet, and for fragments.
#[derive(Clone, Debug)]
pub(super) struct InternetTables {
    /// Subnets of VPCs with machines that the Internet reaches: no packet from there has such a source.
    pub(super) internet_source: GatewayTable<1>,
    pub(super) public_arp: GatewayTable<1>,
    /// Actions: machines of a subnet, all other sources of a VPC, machines with port forwards with and
    /// without a NAT, machines with elastic addresses.
    pub(super) nat_source: GatewayTable<5>,
    /// Actions: from machines, to machines, to services.
    pub(super) forwards: GatewayTable<3>,
    /// Destinations that are not on the Internet, over IPv4 and over IPv6.
    pub(super) refused: FamilyPair<1>,
    /// Prefixes of VPCs by the sources of packets. Actions: those that pass as they are, those that
    /// others replace, those that do not pass, all other sources of a VPC.
    pub(super) ipv6_sources: GatewayTable<4>,
    /// Prefixes of VPCs on the Internet. Actions: those of the VPC, those that stand for others of it.
    pub(super) vpc_prefix: GatewayTable<2>,
    pub(super) datagram_limits: GatewayTable<1>,
    /// Machines with NAT64 by their addresses, and by their numbers.
    pub(super) nat64_source: GatewayTable<1>,
    pub(super) nat64_vm: GatewayTable<1>,
}

impl InternetTables {
    /// Looks up the tables in a program.
    pub(super) fn new(find: &GatewayTableFinder<'_>) -> Result<InternetTables, NotAGateway> {
        Ok(InternetTables {
            internet_source: find.table("internet_source.own_subnet", 2, &[("forged", 0)])?,
            public_arp: find.table("classify.punt.public_arp.public_arp", 3, &[("answer_arp", 2)])?,
            nat_source: find.table(
                "nat_source.nat_source",
                2,
                &[
                    ("translate_subnet", 6),
                    ("no_nat", 0),
                    ("translate_with_forwards", 6),
                    ("translate_forwards", 0),
                    ("translate_vm", 1),
                ],
            )?,
            forwards: find.table(
                "nat_forward.forwards",
                5,
                &[("forward_to_internet", 2), ("forward_to_vm", 5), ("forward_to_service", 7)],
            )?,
            refused: [
                find.table("nat_source.nat_refused", 1, &[("not_internet", 0)])?,
                find.table("internet_v6.refused", 1, &[("not_internet", 0)])?,
            ],
            ipv6_sources: find.table(
                "internet_v6.sources",
                2,
                &[("routed_source", 4), ("translated_source", 8), ("closed_source", 0), ("other_source", 0)],
            )?,
            vpc_prefix: find.table("classify.vpc_prefix", 1, &[("routed_prefix", 7), ("translated_prefix", 11)])?,
            datagram_limits: find.table("fragments.datagram_limits", 1, &[("limit_datagrams", 1)])?,
            nat64_source: find.table("nat_source.nat64_source.nat64_source", 2, &[("translate_v6", 5)])?,
            nat64_vm: find.table("nat64_arrival.nat64_vm", 2, &[("vm_with_number", 2)])?,
        })
    }

    /// Returns all of them.
    pub(super) fn tables(&self) -> impl Iterator<Item = TableId> {
        let [over_v4, over_v6] = &self.refused;
        let others = [self.public_arp.id, self.forwards.id, over_v4.id, over_v6.id, self.vpc_prefix.id];
        self.tables_by_vpc().into_iter().chain(others)
    }

    /// Returns those with the id of a VPC as the first key of each entry.
    pub(super) fn tables_by_vpc(&self) -> [TableId; 6] {
        let of_nat64 = [&self.nat64_source, &self.nat64_vm];
        let [source, vm] = of_nat64.map(|table| table.id);
        [self.internet_source.id, self.nat_source.id, self.ipv6_sources.id, self.datagram_limits.id, source, vm]
    }
}
