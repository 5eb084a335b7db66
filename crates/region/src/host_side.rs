//! The host side of an uplink: the interface by which the host's own stack (ARP, BGP, BFD, ping)
//! uses the uplink beside the gateway, and the rates at which the gateway passes packets to it.

use crate::fields::{NameText, non_null, optional_list};
use crate::spanned::{NumberWithPos, WithPos};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::IpAddr;

/// The host side of an uplink: its interface, exactly one of `tap` and `interface`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSide {
    /// Name of a TAP interface that the node creates. It gets the uplink's MAC and the port's MTU.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<NameText>")]
    pub tap: Option<WithPos<NameText>>,
    /// Name of the port's own interface, which keeps its addresses in the kernel. The node only
    /// hides VXLAN from the kernel.
    #[serde(default, deserialize_with = "non_null")]
    #[schemars(with = "WithPos<NameText>")]
    pub interface: Option<WithPos<NameText>>,
    /// Addresses of the gateway besides `vteps`, such as those of BGP sessions: their packets go to
    /// the host.
    #[serde(default, deserialize_with = "optional_list")]
    #[schemars(with = "Option<Vec<WithPos<IpAddr>>>")]
    pub addresses: Vec<WithPos<IpAddr>>,
}

/// Declares the kinds of packets for the host with their default rates, so that keys, defaults and
/// names cannot drift apart.
macro_rules! punt_rates {
    ($($(#[doc = $doc:literal])* $kind:ident = $rate:literal,)*) => {
        /// Rates by kind of packet, in packets a second, which are also the bursts. A kind without
        /// a rate has the default.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct PuntRates {
            $(
                $(#[doc = $doc])*
                #[serde(default, deserialize_with = "non_null")]
                #[schemars(with = "NumberWithPos<u32>")]
                #[schemars(range(min = 1, max = 1_000_000))]
                pub $kind: Option<NumberWithPos<u32>>,
            )*
        }

        impl PuntRates {
            /// Iterates over all kinds, with the name of the gateway's punt reason and the rate in
            /// packets a second.
            pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, u32)> {
                [$((stringify!($kind), self.$kind.map_or($rate, |rate| rate.value)),)*].into_iter()
            }

            /// Iterates over the rates in the file, with their names.
            pub(crate) fn written(&self) -> impl Iterator<Item = (&'static str, &NumberWithPos<u32>)> {
                [$((stringify!($kind), self.$kind.as_ref()),)*].into_iter()
                    .filter_map(|(kind, rate)| Some((kind, rate?)))
            }

            pub(crate) fn written_mut(&mut self) -> impl Iterator<Item = &mut NumberWithPos<u32>> {
                [$(self.$kind.as_mut(),)*].into_iter().flatten()
            }
        }
    };
}

// The defaults are those of SONiC's control plane policing (files/image_config/copp/copp_cfg.j2),
// for the kinds that it has.
punt_rates! {
    /// ARP. Default 600.
    arp = 600,
    /// Neighbour and router discovery of IPv6. Default 600.
    nd = 600,
    /// BGP. Default 6000.
    bgp = 6000,
    /// BFD. Default 6000.
    bfd = 6000,
    /// LLDP, LACP, EAPOL. Default 300.
    link_protocol = 300,
    /// Others to link-local groups, such as OSPF and VRRP. Default 300.
    link_local = 300,
    /// DHCP and DHCPv6. Default 100.
    dhcp = 100,
    /// ICMP and ICMPv6 messages that are no errors, such as ping. Default 600.
    icmp = 600,
    /// ICMP and ICMPv6 errors. Default 1000.
    icmp_error = 1000,
    /// All else to an address of the gateway. Default 600.
    gateway_address = 600,
}
