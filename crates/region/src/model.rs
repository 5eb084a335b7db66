//! The region file as it is written. Everything in it refers to other things by name.

use crate::fields::{NameText, given, item_list, items, list};
use crate::item_list::ItemList;
use crate::position::{At, Number};
use crate::values::{Mac, Ports, Prefix, Protocol};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;

/// A name: letters, digits, `-`, `_`, `.`, the first no `-` or `.`; unique among its kind, upper and lower case apart.
pub type Name = At<NameText>;

/// A region: the tenants' networks, where their machines are, and how the gateway reaches them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegionFile {
    /// Name of the region.
    pub region: Name,
    /// The gateway itself.
    pub gateway: Gateway,
    /// The gateway's ports and what is behind them.
    #[serde(deserialize_with = "items")]
    pub uplinks: Vec<Uplink>,
    /// Servers (NCs): they host virtual machines and terminate VXLAN.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<Server>>")]
    pub servers: Vec<Server>,
    /// Tunnel end points outside of the region: IDCs and other regions.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<Remote>>")]
    pub remotes: Vec<Remote>,
    /// Tenants' networks.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<Vpc>>")]
    pub vpcs: Vec<Vpc>,
    /// Pairs of VPCs that exchange traffic.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<Peering>>")]
    pub peerings: Vec<Peering>,
    /// Virtual machines.
    #[serde(default, deserialize_with = "item_list")]
    #[schemars(with = "Option<Vec<Vm>>")]
    pub vms: ItemList<Vm>,
}

/// The gateway itself.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// The router's MAC address inside each VPC: machines send to it, frames to them come from it.
    pub mac: At<Mac>,
    /// Addresses at which the gateway terminates VXLAN: one IPv4, one IPv6, or both.
    #[serde(deserialize_with = "items")]
    pub vteps: Vec<At<IpAddr>>,
    /// Where VXLAN may come from besides the servers and remotes of the file, as if from servers. 0.0.0.0/0 and ::/0: from anywhere.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<Prefix>>>")]
    pub sources: Vec<At<Prefix>>,
}

/// A port of the gateway and the neighbour behind it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uplink {
    /// Name.
    pub name: Name,
    /// Port number in the engine.
    #[schemars(range(max = 65_535))]
    pub port: Number<u32>,
    /// The gateway's MAC address on this port.
    pub mac: At<Mac>,
    /// MAC address of the neighbour: the switch or, in a lab, the server.
    pub peer_mac: At<Mac>,
    /// Largest IP packet that the port takes, in bytes: 50 (IPv6 underlay: 70) more than the tenants' packets. Default 1600.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Number<u16>")]
    #[schemars(range(min = 1350))]
    pub mtu: Option<Number<u16>>,
}

/// A server that hosts virtual machines.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Name.
    pub name: Name,
    /// Underlay address at which it terminates VXLAN.
    pub address: At<IpAddr>,
    /// Uplinks that lead to it; traffic is spread over them by flow.
    #[serde(deserialize_with = "items")]
    pub uplinks: Vec<Name>,
}

/// What a remote tunnel end point is.
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
    /// What it is: its routes have scope `idc` or `cross_region`.
    pub kind: At<RemoteKind>,
    /// Its tunnel address.
    pub address: At<IpAddr>,
    /// The VNI that it expects, for routes that do not say another.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Number<u32>")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<Number<u32>>,
    /// MAC address that inner frames to it carry as destination.
    pub mac: At<Mac>,
    /// Uplinks that lead to it.
    #[serde(deserialize_with = "items")]
    pub uplinks: Vec<Name>,
    /// Where its packets come from besides its address: devices that share the address and send from ones of their own.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<Prefix>>>")]
    pub sources: Vec<At<Prefix>>,
}

/// What happens to traffic that no ACL rule matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It passes.
    #[default]
    Permit,
    /// It is dropped.
    Deny,
}

/// A tenant's network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vpc {
    /// Name.
    pub name: Name,
    /// VXLAN network identifier, 1 to 16777215.
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Number<u32>,
    /// Address ranges of its machines. They may equal another VPC's.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<Prefix>>>")]
    pub subnets: Vec<At<Prefix>>,
    /// Routes beyond its own subnets and those of its peers.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<Route>>>")]
    pub routes: Vec<At<Route>>,
    /// Further route tables, for the sources that `policy` sends there.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<RouteTable>>")]
    pub route_tables: Vec<RouteTable>,
    /// Which sources use which route table; others use `routes`.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<PolicyRoute>>")]
    pub policy: Vec<PolicyRoute>,
    /// Rules for traffic between machines; the highest priority that matches decides.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<AclRule>>>")]
    pub acl: Vec<At<AclRule>>,
    /// What happens to traffic that no rule matches.
    #[serde(default)]
    pub acl_default: Verdict,
    /// Whether its packets are taken from servers that have machines of it, and remotes that it has routes to, alone. Otherwise from all of them.
    #[serde(default)]
    pub strict_sources: bool,
    /// Options and extension headers with which its machines' packets are dropped, those that they send and those that they are sent. Otherwise they pass.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<Extension>>>")]
    pub drop: Vec<At<Extension>>,
}

/// A kind of options or extension headers between IP and layer 4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extension {
    /// Options of IPv4, whatever they are.
    Ipv4Options,
    /// IPv6 hop-by-hop options (RFC 8200 section 4.3).
    HopByHop,
    /// IPv6 destination options (RFC 8200 section 4.6).
    DestinationOptions,
    /// IPv6 routing header (RFC 8200 section 4.4). That of type 0 is always dropped (RFC 5095).
    Routing,
    /// Authentication header of either (RFC 4302).
    Authentication,
    /// IPv6 mobility header (RFC 6275).
    Mobility,
    /// Host identity protocol (RFC 7401).
    HostIdentity,
    /// Shim6 (RFC 5533).
    Shim6,
}

impl Extension {
    /// The kind's bit in the gateway's tables (programs/gateway/metadata.p4).
    pub fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Vpc {
    /// A VPC of that name and VNI with nothing else.
    pub(crate) fn bare(of: &Vpc) -> Vpc {
        Vpc {
            name: of.name.clone(),
            vni: of.vni,
            subnets: Vec::new(),
            routes: Vec::new(),
            route_tables: Vec::new(),
            policy: Vec::new(),
            acl: Vec::new(),
            acl_default: Verdict::default(),
            strict_sources: false,
            drop: Vec::new(),
        }
    }

    /// The bits of what it drops.
    pub fn dropped_extensions(&self) -> u8 {
        self.drop.iter().fold(0, |bits, kind| bits | kind.bit())
    }
}

/// A route: a prefix and exactly one of `peer`, `remote`, `internet`, `blackhole`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Destination.
    pub to: At<Prefix>,
    /// A peered VPC decides further.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Name")]
    pub peer: Option<Name>,
    /// To a remote tunnel end point.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Name")]
    pub remote: Option<Name>,
    /// VNI for the remote, if not its own.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Number<u32>")]
    #[schemars(range(min = 1, max = 16_777_215))]
    pub vni: Option<Number<u32>>,
    /// To the internet.
    #[serde(default)]
    pub internet: bool,
    /// Dropped.
    #[serde(default)]
    pub blackhole: bool,
}

/// A route table besides the VPC's main one. It holds the VPC's subnets and peers too.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteTable {
    /// Name, unique in the VPC.
    pub name: Name,
    /// Its routes.
    #[serde(default, deserialize_with = "list")]
    #[schemars(with = "Option<Vec<At<Route>>>")]
    pub routes: Vec<At<Route>>,
}

/// Sources that use another route table.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRoute {
    /// Source prefix.
    pub from: At<Prefix>,
    /// Name of the route table.
    pub table: Name,
}

/// Which traffic of the VPC a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AclDirection {
    /// Sent by a machine of the VPC, or leaving the VPC by one of its routes.
    Egress,
    /// Delivered to a machine of the VPC, wherever it comes from.
    Ingress,
    /// Both.
    #[default]
    Both,
}

/// An ACL rule.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AclRule {
    /// Greater wins; unique in the VPC for a direction.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub priority: Number<u32>,
    /// Permit or deny.
    pub action: Verdict,
    /// Which traffic.
    #[serde(default)]
    pub direction: AclDirection,
    /// IP protocol; default any.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "At<Protocol>")]
    pub protocol: Option<At<Protocol>>,
    /// Source addresses; default any.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "At<Prefix>")]
    pub from: Option<At<Prefix>>,
    /// Destination addresses; default any.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "At<Prefix>")]
    pub to: Option<At<Prefix>>,
    /// Source ports; default any. Only with tcp, udp, sctp, udplite or dccp.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "At<Ports>")]
    pub source_ports: Option<At<Ports>>,
    /// Destination ports; default any. Only with tcp, udp, sctp, udplite or dccp.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "At<Ports>")]
    pub ports: Option<At<Ports>>,
    /// ICMP type; default any. Only with icmp, whose types are IPv4's, or icmpv6.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Number<u8>")]
    pub icmp_type: Option<Number<u8>>,
    /// ICMP code; default any. Only with `icmp_type`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Number<u8>")]
    pub icmp_code: Option<Number<u8>>,
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
    pub mac: At<Mac>,
    /// Its addresses, each within a subnet of the VPC.
    #[serde(deserialize_with = "items")]
    pub addresses: Vec<At<IpAddr>>,
}
