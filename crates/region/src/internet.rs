//! The way to the Internet: public addresses that stand for machines, and their limits.

use crate::fields::{NameText, non_null, optional_list, present_list, required_list};
use crate::spanned::{NumberWithPos, SourcePos, WithPos};
use crate::values::Prefix;
use ipnet::{IpNet, Ipv4Net};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// Ports of a block, which a machine gets at a time.
pub const BLOCK_PORTS: u32 = 64;
/// Ports of a public address that a NAT uses: 1024 to 65535.
pub const ADDRESS_PORTS: u32 = 64_512;
/// The lowest of them. Ports below are free for port forwards.
pub const FIRST_NAT_PORT: u16 = 1024;
/// Most ports of a machine for each protocol, without `ports_per_vm`.
const DEFAULT_PORTS_PER_VM: u32 = 1024;

/// Returns a prefix of IPv4; `None` for one of IPv6.
pub(crate) fn ipv4_network(network: IpNet) -> Option<Ipv4Net> {
    match network {
        IpNet::V4(network) => Some(network),
        IpNet::V6(_) => None,
    }
}

/// Returns the number of addresses of a prefix.
pub(crate) fn address_count(network: Ipv4Net) -> u64 {
    1 << (32 - network.prefix_len())
}

/// The way to the Internet over IPv4. VPCs name the NAT that they use.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Internet {
    /// Uplinks that lead to the Internet: the default route of the underlay. Without it, the kernel's
    /// routes decide (`underlay: kernel`).
    #[serde(default, deserialize_with = "required_list")]
    pub uplinks: Vec<WithPos<NameText>>,
    /// Answer ARP requests for the public addresses on these uplinks, with the MAC of the uplink: for a router
    /// on the link that has no route to them by the gateway's own address. Default: no.
    #[serde(default)]
    pub answer_arp: bool,
    /// Sets of public addresses that the machines of VPCs share. Default: none.
    #[serde(default, deserialize_with = "required_list")]
    pub nats: Vec<Nat>,
    /// Elastic addresses: public addresses of one machine each.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<ElasticAddress>>")]
    pub elastic: Vec<ElasticAddress>,
    /// Ports of public addresses that stand for ports of machines.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<PortForward>>")]
    pub forwards: Vec<PortForward>,
    /// Destinations that machines cannot reach through a NAT, besides the underlay's addresses in this
    /// file. Default: the private ranges 10.0.0.0/8, 100.64.0.0/10, 172.16.0.0/12 and 192.168.0.0/16.
    #[serde(default, deserialize_with = "present_list")]
    #[schemars(with = "Vec<WithPos<Prefix>>")]
    pub refuse: Option<Vec<WithPos<Prefix>>>,
    /// Idle times of sessions.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NatTimeouts")]
    pub timeouts: Option<NatTimeouts>,
}

impl Internet {
    /// Returns the position of the first public address.
    pub(crate) fn first_address(&self) -> Option<SourcePos> {
        let nat = self.nats.first().map(|nat| nat.name.at);
        let elastic = || self.elastic.first().map(|elastic| elastic.address.at);
        let forward = || self.forwards.first().map(|forward| forward.address.at);
        nat.or_else(elastic).or_else(forward)
    }
}

/// A public address that stands for one machine, in both directions and for all protocols.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElasticAddress {
    /// The public address, over IPv4.
    pub address: WithPos<IpAddr>,
    /// Name of the VPC.
    pub vpc: WithPos<NameText>,
    /// The machine: its address in the VPC.
    pub vm: WithPos<IpAddr>,
}

/// Protocol of a port forward.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForwardProtocol {
    /// TCP.
    Tcp = 6,
    /// UDP.
    Udp = 17,
}

impl fmt::Display for ForwardProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ForwardProtocol::Tcp => "TCP",
            ForwardProtocol::Udp => "UDP",
        })
    }
}

/// A port of a public address that stands for a port of a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortForward {
    /// The public address, over IPv4. It can be one of a NAT; then the port is below 1024.
    pub address: WithPos<IpAddr>,
    /// The protocol.
    pub protocol: ForwardProtocol,
    /// The port of the public address.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: NumberWithPos<u16>,
    /// Name of the VPC.
    pub vpc: WithPos<NameText>,
    /// The machine: its address in the VPC.
    pub vm: WithPos<IpAddr>,
    /// The port of the machine. Default: `port`.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u16>")]
    #[schemars(range(min = 1, max = 65_535))]
    pub vm_port: Option<NumberWithPos<u16>>,
}

impl PortForward {
    /// Returns the port of the machine.
    pub fn vm_port(&self) -> u16 {
        self.vm_port.unwrap_or(self.port).value
    }
}

/// Public addresses that stand for the machines of VPCs.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nat {
    /// Name.
    pub name: WithPos<NameText>,
    /// The public addresses: an IPv4 prefix of at most 1,024 addresses. All are used.
    pub addresses: WithPos<Prefix>,
    /// Most ports that a machine may have at a time for each of UDP, TCP and ICMP, in blocks of 64.
    /// Default 1024.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "NumberWithPos<u32>")]
    #[schemars(range(min = 64, max = 64_512))]
    pub ports_per_vm: Option<NumberWithPos<u32>>,
}

impl Nat {
    /// Returns the number of blocks of ports that a machine may have.
    pub fn blocks_per_vm(&self) -> u32 {
        self.ports_per_vm.map_or(DEFAULT_PORTS_PER_VM, |ports| ports.value) / BLOCK_PORTS
    }
}

/// Declares the idle times with their expire time profiles and defaults, so that they cannot drift
/// apart.
macro_rules! nat_timeouts {
    ($($(#[doc = $doc:literal])* $name:ident = $profile:literal, $seconds:literal;)*) => {
        /// Idle times of sessions, in seconds.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct NatTimeouts {
            $(
                $(#[doc = $doc])*
                #[serde(default, deserialize_with = "non_null")]
                #[schemars(with = "NumberWithPos<u32>")]
                #[schemars(range(min = 10, max = 86_400))]
                pub $name: Option<NumberWithPos<u32>>,
            )*
        }

        impl NatTimeouts {
            /// Iterates over all idle times, with the expire time profile of the gateway's program,
            /// and the time in seconds.
            pub fn by_profile(&self) -> impl Iterator<Item = (u8, u32)> {
                [$(($profile, self.$name.map_or($seconds, |time| time.value)),)*].into_iter()
            }

            /// Iterates over the times in the file, with their names.
            pub(crate) fn written(&self) -> impl Iterator<Item = (&'static str, &NumberWithPos<u32>)> {
                [$((stringify!($name), self.$name.as_ref()),)*].into_iter()
                    .filter_map(|(name, time)| Some((name, time?)))
            }

            pub(crate) fn written_mut(&mut self) -> impl Iterator<Item = &mut NumberWithPos<u32>> {
                [$(self.$name.as_mut(),)*].into_iter().flatten()
            }
        }
    };
}

// The profiles are those of programs/gateway/nat_session.p4.
nat_timeouts! {
    /// UDP. Default 300 (RFC 4787, REQ-5).
    udp = 0, 300;
    /// ICMP echo. Default 60 (RFC 5508, REQ-2).
    icmp = 1, 60;
    /// TCP before the answer to the SYN, and after a FIN or RST. Default 240 (RFC 5382, REQ-5).
    tcp_transitory = 2, 240;
    /// TCP that is established. Default 7440 (RFC 5382, REQ-5).
    tcp_established = 3, 7440;
}
