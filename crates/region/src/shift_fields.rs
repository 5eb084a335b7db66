//! Lists the fields of the model that contain positions, so that these can move with the text.

use crate::check::FlatRoute;
use crate::host_side::{HostSide, PuntRates};
use crate::internet::{ElasticAddress, Internet, Nat, NatTimeouts, PortForward};
use crate::ipv6_internet::{Ipv6Internet, PrefixTranslation};
use crate::model::{
    AclRule, Answer, Extension, Gateway, IcmpLimits, IcmpRates, Peering, PolicyRoute, RegionFile, Remote, RemoteKind,
    Route, RouteTable, Server, Uplink, Vm, Vpc,
};
use crate::nat64::Nat64;
use crate::security_groups::{GroupRule, SecurityGroup};
use crate::services::{Backend, Service};
use crate::shift::{Shift, ShiftInside};
use crate::spanned::SourcePos;

impl ShiftInside for crate::fields::NameText {}
impl ShiftInside for crate::values::Mac {}
impl ShiftInside for crate::values::Prefix {}
impl ShiftInside for crate::values::Ports {}
impl ShiftInside for crate::values::Protocol {}
impl ShiftInside for crate::values::TcpMss {}
impl ShiftInside for std::net::IpAddr {}
impl ShiftInside for Answer {}
impl ShiftInside for Extension {}
impl ShiftInside for RemoteKind {}

/// Implements a trait for a struct by its fields that contain positions.
macro_rules! shift_fields {
    ($trait:ident :: $method:ident for $kind:ident: $($field:ident),+; fixed: $($other:ident),*) => {
        impl $trait for $kind {
            fn $method(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
                // The pattern is exhaustive, so that a new field must be listed here.
                let $kind { $($field),+, $($other: _),* } = self;
                $($field.relocate(to);)+
            }
        }
    };
}

shift_fields!(Shift::relocate for RegionFile: region, gateway, uplinks, servers, remotes, internet, vpcs, peerings, vms; fixed:);
shift_fields!(Shift::relocate for Vm: name, vpc, server, mac, addresses, groups; fixed:);
shift_fields!(Shift::relocate for Vpc: name, vni, subnets, gateways, answer, tcp_mss, nat, ipv6_internet, nat64, services, routes, route_tables, policy, acl, security_groups, max_flows, max_connections, max_datagrams, drop; fixed: acl_default, strict_sources, keep_established, tcp_pick_up);
shift_fields!(Shift::relocate for SecurityGroup: name, rules; fixed:);
shift_fields!(Shift::relocate for Service: name, address, public, port, max_backends, backends; fixed: protocol, affinity);
shift_fields!(Shift::relocate for Backend: vm, port, weight; fixed: state);
shift_fields!(Shift::relocate for RouteTable: name, routes; fixed:);
shift_fields!(Shift::relocate for PolicyRoute: from, table; fixed:);
shift_fields!(Shift::relocate for FlatRoute: origin; fixed: prefix, scope, target, via);
shift_fields!(ShiftInside::relocate_inside for Route: to, peer, remote, vni; fixed: internet, blackhole);
shift_fields!(ShiftInside::relocate_inside for AclRule: priority, protocol, from, to, source_ports, ports, icmp_type, icmp_code; fixed: action, direction);
shift_fields!(ShiftInside::relocate_inside for GroupRule: protocol, from, from_group, to, to_group, ports, icmp_type, icmp_code; fixed: direction);
shift_fields!(Shift::relocate for Gateway: mac, vteps, sources, table, max_routes, min_path_mtu, flow_secret, punt_rates, icmp_limits; fixed: underlay);
shift_fields!(Shift::relocate for Uplink: name, port, mac, peer_mac, vlan, mtu, host; fixed:);
shift_fields!(Shift::relocate for HostSide: tap, interface, addresses; fixed:);
shift_fields!(Shift::relocate for IcmpLimits: too_big, other, reply, neighbours; fixed:);
shift_fields!(Shift::relocate for IcmpRates: vm, vpc; fixed:);
shift_fields!(Shift::relocate for Server: name, address, uplinks; fixed:);
shift_fields!(Shift::relocate for Remote: name, kind, address, vni, mac, uplinks, sources; fixed:);
shift_fields!(Shift::relocate for Internet: uplinks, nats, elastic, forwards, refuse, timeouts; fixed: answer_arp);
shift_fields!(ShiftInside::relocate_inside for Ipv6Internet: subnets, translate; fixed: inbound);
shift_fields!(ShiftInside::relocate_inside for Nat64: prefix; fixed:);
shift_fields!(Shift::relocate for PrefixTranslation: inside, outside; fixed:);
shift_fields!(Shift::relocate for ElasticAddress: address, vpc, vm; fixed:);
shift_fields!(Shift::relocate for PortForward: address, port, vpc, vm, vm_port; fixed: protocol);
shift_fields!(Shift::relocate for Nat: name, addresses, ports_per_vm; fixed:);

impl Shift for NatTimeouts {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.written_mut().for_each(|time| time.relocate(to));
    }
}

impl Shift for PuntRates {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.written_mut().for_each(|rate| rate.relocate(to));
    }
}

impl Shift for Peering {
    fn relocate(&mut self, to: &impl Fn(SourcePos) -> SourcePos) {
        self.between.iter_mut().for_each(|name| name.relocate(to));
    }
}
