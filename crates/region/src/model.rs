//! Model of the region file as written. Objects refer to each other by name.

use crate::fields::{NameText, item_list, non_null, non_null_mapping, optional_list, required_list};
use crate::host_side::{HostSide, PuntRates};
use crate::internet::Internet;
use crate::ipv6_internet::Ipv6Internet;
use crate::item_list::ItemList;
use crate::nat64::Nat64;
use crate::security_groups::SecurityGroup;
use crate::services::Service;
use crate::spanned::{NumberWithPos, SourcePos, WithPos};
use crate::underlay_source::{DEFAULT_MAX_ROUTES, MAIN_TABLE, UnderlaySource};
use crate::values::{Mac, Ports, Prefix, Protocol, TcpMss};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;

/// Least path MTU over IPv4 without `min_path_mtu`: 50 bytes of tunnel, and the least MTU of IPv6 (RFC
/// 8200, section 5).
const DEFAULT_MIN_PATH_MTU: u16 = 1330;

/// A name of letters, digits, `-`, `_` and `.`; it does not start with `-` or `.`. Names are
/// case-sensitive and unique within their kind.
pub type Name = WithPos<NameText>;

/// A region: the tenants' networks, the locations of their machines, and the underlay to them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionFile {
    /// Name of the region.
    pub region: Name,
    /// The gateway itself.
    pub gateway: Gateway,
    /// The gateway's ports and the neighbours on them.
    #[serde(deserialize_with = "required_list")]
    pub uplinks: Vec<Uplink>,
    /// Servers (NCs): they host virtual machines and terminate VXLAN.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Server>>")]
    pub servers: Vec<Server>,
    /// Tunnel end points outside of the region: IDCs and other regions.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Remote>>")]
    pub remotes: Vec<Remote>,
    /// The way to the Internet. Default: none; packets to the Internet go to the CPU port.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "Internet")]
    pub internet: Option<Internet>,
    /// Tenants' networks.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Vpc>>")]
    pub vpcs: Vec<Vpc>,
    /// Pairs of VPCs that exchange traffic.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Peering>>")]
    pub peerings: Vec<Peering>,
    /// Virtual machines.
    #[serde(default, deserialize_with = "item_list")]
    #[schemars(with = "Option<Vec<Vm>>")]
    pub vms: ItemList<Vm>,
}

impl RegionFile {
    /// Returns the position of the first public address.
    pub(crate) fn first_public_address(&self) -> Option<SourcePos> {
        let of_services = || self.vpcs.iter().flat_map(Vpc::public_services).map(|(_, _, at)| at).next();
        self.internet.as_ref()?.first_address().or_else(of_services)
    }

    /// Returns the position of the first way of a VPC to the Internet over IPv6.
    pub(crate) fn first_ipv6_internet(&self) -> Option<SourcePos> {
        self.vpcs.iter().find_map(|vpc| Some(vpc.ipv6_internet.as_ref()?.at))
    }
}

/// The gateway itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// The router's MAC address in each VPC: machines send to it and receive frames from it.
    pub mac: WithPos<Mac>,
    /// Addresses at which the gateway terminates VXLAN: one IPv4, one IPv6, or both.
    #[serde(deserialize_with = "required_list")]
    pub vteps: Vec<WithPos<IpAddr>>,
    /// Further underlay sources of VXLAN, besides the servers and remotes of the file. Packets from
    /// them are handled as if from servers. 0.0.0.0/0 and ::/0 mean any source.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Prefix>>>")]
    pub sources: Vec<WithPos<Prefix>>,
    /// Where routes and neighbours of the underlay come from. Default: `static`, this file.
    #[serde(default)]
    pub underlay: UnderlaySource,
    /// With `underlay: kernel`: number of the kernel's routing table. Default 254, the main one.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1))]
    pub table: Option<NumberWithPos<u32>>,
    /// With `underlay: kernel`: maximum number of the kernel's routes in the gateway's tables.
    /// Default 20000.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1, max = 60_000))]
    pub max_routes: Option<NumberWithPos<u32>>,
    /// Least MTU of a path over IPv4 that a router's report can lower it to, in bytes; over IPv6 it is
    /// 20 more. Default 1330, which leaves machines 1280. 65515: no report is believed.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 576, max = 65_515))]
    pub min_path_mtu: Option<NumberWithPos<u32>>,
    /// Secret of the hash of flows, which decides about the source ports of tunnels and the paths of
    /// flows. Gateways with the same one choose alike; 0: none. Default: chosen at random by the node.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    pub flow_secret: Option<NumberWithPos<u32>>,
    /// Rates at which packets for the host pass to the host sides of uplinks. Only with an uplink
    /// that has a host side.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "PuntRates")]
    pub punt_rates: Option<PuntRates>,
    /// How many ICMP errors a machine and a VPC may cause.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "IcmpLimits")]
    pub icmp_limits: Option<IcmpLimits>,
}

impl Gateway {
    /// Returns whether the kernel's routes and neighbours decide about paths.
    pub fn is_routed_by_kernel(&self) -> bool {
        self.underlay == UnderlaySource::Kernel
    }

    /// Returns the least MTUs that reports can lower a path to, in bytes, over IPv4 and over IPv6.
    pub fn min_path_mtus(&self) -> [u16; 2] {
        let written = self.min_path_mtu.as_ref().and_then(|mtu| u16::try_from(mtu.value).ok());
        let over_v4 = written.unwrap_or(DEFAULT_MIN_PATH_MTU);
        [over_v4, over_v4.saturating_add(20)]
    }

    /// Returns the number of the kernel's routing table.
    pub fn kernel_table(&self) -> u32 {
        self.table.as_ref().map_or(MAIN_TABLE, |table| table.value)
    }

    /// Returns the maximum number of the kernel's routes in the gateway's tables.
    pub fn max_kernel_routes(&self) -> usize {
        self.max_routes.as_ref().map_or(DEFAULT_MAX_ROUTES, |most| most.value) as usize
    }
}

/// Limits of ICMP errors. Both kinds are counted apart, so that errors of one do not use up the
/// other.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IcmpLimits {
    /// Errors about packets that are too long. Default: 50 and 1000.
    pub too_big: IcmpRates,
    /// All other errors. Default: 10 and 500.
    pub other: IcmpRates,
    /// Echo replies. Default: 20 and 2000.
    pub reply: IcmpRates,
    /// Answers with the gateway's MAC address. Default: 20 and 2000.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "IcmpRates")]
    pub neighbours: Option<IcmpRates>,
}

/// Messages per second. A machine may cause those of two seconds at once (other errors: of three),
/// a VPC those of two seconds.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IcmpRates {
    /// Of each machine; 0: none.
    pub vm: NumberWithPos<u32>,
    /// Of each VPC; 0: none.
    pub vpc: NumberWithPos<u32>,
}

/// A port of the gateway and the neighbour on it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Name.
    pub name: Name,
    /// Port number in the engine.
    #[schemars(range(max = 65_535))]
    pub port: NumberWithPos<u32>,
    /// The gateway's MAC address on this port.
    pub mac: WithPos<Mac>,
    /// MAC address of the neighbour: the switch or, in a lab, the server. Optional with `underlay:
    /// kernel`; if it is present, all packets of the port go to it.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Mac>")]
    pub peer_mac: Option<WithPos<Mac>>,
    /// VLAN of the underlay on this port: packets from it have this tag (IEEE 802.1Q), and packets to it
    /// get it. Default: no tag.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u16>")]
    #[schemars(range(min = 1, max = 4094))]
    pub vlan: Option<NumberWithPos<u16>>,
    /// Largest IP packet of the port, in bytes. Default 1600. It is 50 bytes (IPv6 underlay: 70)
    /// more than the largest packet of a tenant.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u16>")]
    #[schemars(range(min = 1350))]
    pub mtu: Option<NumberWithPos<u16>>,
    /// The host side: the interface by which the host's own stack uses the port. Default: none.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "HostSide")]
    pub host: Option<HostSide>,
}

/// A server that hosts virtual machines.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Name.
    pub name: Name,
    /// Underlay address at which it terminates VXLAN.
    pub address: WithPos<IpAddr>,
    /// Uplinks that reach it; traffic is spread over them by flow. Without it, the kernel's routes
    /// decide (`underlay: kernel`).
    #[serde(default, deserialize_with = "required_list")]
    pub uplinks: Vec<Name>,
}

/// Kind of a remote tunnel end point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemoteKind {
    /// A customer's own data centre.
    Idc,
    /// The gateway of another region.
    Region,
}

/// A tunnel end point outside of the region.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// Name.
    pub name: Name,
    /// Its kind, which sets the scope of routes to it: `idc` or `cross_region`.
    pub kind: WithPos<RemoteKind>,
    /// Its tunnel address.
    pub address: WithPos<IpAddr>,
    /// The VNI that it expects, for routes without one.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<NumberWithPos<u32>>,
    /// Destination MAC address of inner frames to it.
    pub mac: WithPos<Mac>,
    /// Uplinks that reach it. Without it, the kernel's routes decide (`underlay: kernel`).
    #[serde(default, deserialize_with = "required_list")]
    pub uplinks: Vec<Name>,
    /// Further source addresses of its packets, besides its address. They belong to devices that
    /// share the address but send from their own.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Prefix>>>")]
    pub sources: Vec<WithPos<Prefix>>,
}

/// Action of an ACL rule or of an ACL's default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AclAction {
    /// The traffic passes.
    #[default]
    Permit,
    /// The traffic is dropped.
    Deny,
    /// The traffic is dropped, and its sender is told by ICMP ("administratively prohibited").
    Reject,
}

/// A tenant's network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vpc {
    /// Name.
    pub name: Name,
    /// VXLAN network identifier, 1 to 16777215.
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: NumberWithPos<u32>,
    /// Address ranges of its machines. Two VPCs can have the same ranges.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Prefix>>>")]
    pub subnets: Vec<WithPos<Prefix>>,
    /// The gateway's addresses in the subnets, from which it sends ICMP errors. In a subnet without
    /// one, it has the first address behind the subnet's own: 10.0.0.1 in 10.0.0.0/24.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<IpAddr>>>")]
    pub gateways: Vec<WithPos<IpAddr>>,
    /// What the gateway answers at its addresses in the subnets. Default: nothing.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Answer>>>")]
    pub answer: Vec<WithPos<Answer>>,
    /// Largest TCP segment that connections of its machines may agree on, in bytes, or `auto`: what fits
    /// the uplink with the smallest MTU. Default: no limit.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<TcpMss>")]
    pub tcp_mss: Option<WithPos<TcpMss>>,
    /// Name of the NAT whose public addresses stand for its machines on the Internet. Default: none.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "Name")]
    pub nat: Option<Name>,
    /// The way to the Internet over IPv6: with the addresses of the VPC's subnets, or with others in
    /// their place. Default: none.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Ipv6Internet>")]
    pub ipv6_internet: Option<WithPos<Ipv6Internet>>,
    /// Hosts with IPv4 alone, for machines with IPv6: behind a prefix, by the public addresses of `nat`
    /// (NAT64). Default: none.
    #[serde(default, deserialize_with = "non_null_mapping")]
    #[schemars(with = "WithPos<Nat64>")]
    pub nat64: Option<WithPos<Nat64>>,
    /// Services: addresses for which machines of the VPC answer in turn. Default: none.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Service>>")]
    pub services: Vec<Service>,
    /// Routes beyond its own subnets and those of its peers.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Route>>>")]
    pub routes: Vec<WithPos<Route>>,
    /// Further route tables, for sources with an entry in `policy`.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<RouteTable>>")]
    pub route_tables: Vec<RouteTable>,
    /// Route tables by source. All other sources use `routes`.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<PolicyRoute>>")]
    pub policy: Vec<PolicyRoute>,
    /// Rules for traffic of the VPC's machines; the matching rule of highest priority decides.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<AclRule>>>")]
    pub acl: Vec<WithPos<AclRule>>,
    /// Action for traffic that matches no rule.
    #[serde(default)]
    pub acl_default: AclAction,
    /// Security groups: stateful rules of machines that name them. Default: none.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<SecurityGroup>>")]
    pub security_groups: Vec<SecurityGroup>,
    /// With security groups: flows go on after a change of rules that no longer permits them. Default:
    /// they end with their next packet.
    #[serde(default)]
    pub keep_established: bool,
    /// With security groups: a TCP connection may begin with a segment other than the first, if the
    /// rules permit it, as after the loss of all flows. Default: such segments are dropped.
    #[serde(default)]
    pub tcp_pick_up: bool,
    /// With security groups: most flows of its machines at one time, for each version of IP: those that
    /// they begin, and those that begin outside of all groups. Default 1048576, a quarter of the table.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1, max = 4_194_304))]
    pub max_flows: Option<NumberWithPos<u32>>,
    /// Most connections to its services at one time. Default 524288, a quarter of the table.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1, max = 2_097_152))]
    pub max_connections: Option<NumberWithPos<u32>>,
    /// Where packets are judged or translated by their flow: most datagrams in fragments at one time, for
    /// each version of IP. Default 65536, a quarter of the table.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1, max = 262_144))]
    pub max_datagrams: Option<NumberWithPos<u32>>,
    /// Accept packets of the VPC only from servers with machines of it and from remotes of its
    /// routes. Otherwise, they are accepted from all servers and remotes.
    #[serde(default)]
    pub strict_sources: bool,
    /// Options and extension headers that drop a packet from or to its machines. All others pass.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Extension>>>")]
    pub drop: Vec<WithPos<Extension>>,
}

/// Requests that the gateway answers in a VPC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// ICMP and ICMPv6 echo requests: ping.
    Echo,
    /// ARP requests and neighbour solicitations for the gateway's addresses in the subnets.
    Neighbours,
}

/// A kind of options or extension headers between IP and layer 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extension {
    /// Any options of IPv4.
    Ipv4Options,
    /// IPv6 hop-by-hop options (RFC 8200 section 4.3).
    HopByHop,
    /// IPv6 destination options (RFC 8200 section 4.6).
    DestinationOptions,
    /// IPv6 routing header (RFC 8200 section 4.4). One of type 0 is always dropped (RFC 5095).
    Routing,
    /// Authentication header of IPv4 or IPv6 (RFC 4302).
    Authentication,
    /// IPv6 mobility header (RFC 6275).
    Mobility,
    /// Host identity protocol (RFC 7401).
    HostIdentity,
    /// Shim6 (RFC 5533).
    Shim6,
}

impl Extension {
    /// Returns the bit of this kind in the gateway's tables (programs/gateway/metadata.p4).
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A route: a prefix and exactly one of `peer`, `remote`, `internet`, `blackhole`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Destination.
    pub to: WithPos<Prefix>,
    /// A peered VPC, which decides about the next hop.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "Name")]
    pub peer: Option<Name>,
    /// A remote tunnel end point.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "Name")]
    pub remote: Option<Name>,
    /// VNI for the remote, if it is not the remote's own.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<NumberWithPos<u32>>,
    /// The internet.
    #[serde(default)]
    pub internet: bool,
    /// Drop the traffic.
    #[serde(default)]
    pub blackhole: bool,
}

/// A route table besides the VPC's main one. It includes the VPC's subnets and those of its peers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// Name, unique in the VPC.
    pub name: Name,
    /// Its routes.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<Route>>>")]
    pub routes: Vec<WithPos<Route>>,
}

/// Sources that use another route table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRoute {
    /// Source prefix.
    pub from: WithPos<Prefix>,
    /// Name of the route table.
    pub table: Name,
}

/// Direction of the VPC's traffic that a rule matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AclDirection {
    /// Traffic that a machine of the VPC sends, or that leaves the VPC by one of its routes.
    Egress,
    /// Traffic that is delivered to a machine of the VPC, from any source.
    Ingress,
    /// Both.
    #[default]
    Both,
}

/// An ACL rule.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AclRule {
    /// The greater priority wins. Unique in the VPC for a direction.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub priority: NumberWithPos<u32>,
    /// Permit, deny or reject.
    pub action: AclAction,
    /// Direction of the traffic.
    #[serde(default)]
    pub direction: AclDirection,
    /// IP protocol; default any.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Protocol>")]
    pub protocol: Option<WithPos<Protocol>>,
    /// Source addresses; default any.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Prefix>")]
    pub from: Option<WithPos<Prefix>>,
    /// Destination addresses; default any.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Prefix>")]
    pub to: Option<WithPos<Prefix>>,
    /// Source ports; default any. Only with tcp, udp, sctp, udplite or dccp.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Ports>")]
    pub source_ports: Option<WithPos<Ports>>,
    /// Destination ports; default any. Only with tcp, udp, sctp, udplite or dccp.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<Ports>")]
    pub ports: Option<WithPos<Ports>>,
    /// ICMP type; default any. Only with icmp (types of IPv4) or icmpv6.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u8>")]
    pub icmp_type: Option<NumberWithPos<u8>>,
    /// ICMP code; default any. Only with `icmp_type`.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u8>")]
    pub icmp_code: Option<NumberWithPos<u8>>,
}

/// Two VPCs that exchange traffic: each gets routes to the other's subnets.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peering {
    /// The two names.
    pub between: [Name; 2],
}

/// A virtual machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vm {
    /// Name, unique in the region.
    pub name: Name,
    /// Its VPC.
    pub vpc: Name,
    /// The server that hosts it.
    pub server: Name,
    /// Its MAC address.
    pub mac: WithPos<Mac>,
    /// Its addresses, each within a subnet of the VPC.
    #[serde(deserialize_with = "required_list")]
    pub addresses: Vec<WithPos<IpAddr>>,
    /// Names of the VPC's security groups whose rules restrict it. Default: none, no restriction.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<Name>>")]
    pub groups: Vec<Name>,
}
