//! Positions of a model that moves in its file: lines in front of it were added or taken away.

use crate::check::FlatRoute;
use crate::model::{
    AclRule, Extension, Gateway, Peering, PolicyRoute, RegionFile, Remote, RemoteKind, Route, RouteTable, Server,
    Uplink, Vm, Vpc,
};
use crate::position::{At, Number, Position};

/// Something with positions in the file.
pub(crate) trait Shift {
    /// Has each line be the one that `to` gives for it.
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32);

    /// Adds `by` to all lines.
    fn shift(&mut self, by: i64) {
        self.move_lines(&|line| shifted(line, by));
    }
}

/// A line with `by` lines more in front of it.
pub(crate) fn shifted(line: u32, by: i64) -> u32 {
    u32::try_from(i64::from(line).saturating_add(by).max(0)).unwrap_or(u32::MAX)
}

impl Shift for Position {
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32) {
        self.line = to(self.line);
    }
}

impl<T> Shift for Number<T> {
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32) {
        self.at.move_lines(to);
        self.digits.move_lines(to);
    }
}

impl<T: Shift> Shift for Vec<T> {
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32) {
        self.iter_mut().for_each(|item| item.move_lines(to));
    }
}

impl<T: Shift> Shift for Option<T> {
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32) {
        self.iter_mut().for_each(|item| item.move_lines(to));
    }
}

impl<T: ShiftInside> Shift for At<T> {
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32) {
        self.at.move_lines(to);
        self.value.move_inside(to);
    }
}

/// A value that has a position around it, and may have more inside.
pub(crate) trait ShiftInside {
    fn move_inside(&mut self, _to: &impl Fn(u32) -> u32) {}
}

impl ShiftInside for crate::fields::NameText {}
impl ShiftInside for crate::values::Mac {}
impl ShiftInside for crate::values::Prefix {}
impl ShiftInside for crate::values::Ports {}
impl ShiftInside for crate::values::Protocol {}
impl ShiftInside for std::net::IpAddr {}
impl ShiftInside for Extension {}
impl ShiftInside for RemoteKind {}

/// Implements a trait for a struct: all of its fields that have positions.
macro_rules! shift_fields {
    ($trait:ident :: $method:ident for $kind:ident: $($field:ident),+; fixed: $($other:ident),*) => {
        impl $trait for $kind {
            fn $method(&mut self, to: &impl Fn(u32) -> u32) {
                // A field that is added must be named here.
                let $kind { $($field),+, $($other: _),* } = self;
                $($field.move_lines(to);)+
            }
        }
    };
}

shift_fields!(Shift::move_lines for RegionFile: region, gateway, uplinks, servers, remotes, vpcs, peerings, vms; fixed:);
shift_fields!(Shift::move_lines for Vm: name, vpc, server, mac, addresses; fixed:);
shift_fields!(Shift::move_lines for Vpc: name, vni, subnets, routes, route_tables, policy, acl, drop; fixed: acl_default, strict_sources);
shift_fields!(Shift::move_lines for RouteTable: name, routes; fixed:);
shift_fields!(Shift::move_lines for PolicyRoute: from, table; fixed:);
shift_fields!(Shift::move_lines for FlatRoute: origin; fixed: prefix, scope, target, via);
shift_fields!(ShiftInside::move_inside for Route: to, peer, remote, vni; fixed: internet, blackhole);
shift_fields!(ShiftInside::move_inside for AclRule: priority, protocol, from, to, source_ports, ports, icmp_type, icmp_code; fixed: action, direction);
shift_fields!(Shift::move_lines for Gateway: mac, vteps, sources; fixed:);
shift_fields!(Shift::move_lines for Uplink: name, port, mac, peer_mac, mtu; fixed:);
shift_fields!(Shift::move_lines for Server: name, address, uplinks; fixed:);
shift_fields!(Shift::move_lines for Remote: name, kind, address, vni, mac, uplinks, sources; fixed:);

impl Shift for Peering {
    fn move_lines(&mut self, to: &impl Fn(u32) -> u32) {
        self.between.iter_mut().for_each(|name| name.move_lines(to));
    }
}
