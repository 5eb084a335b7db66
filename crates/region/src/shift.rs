//! Positions of a model that moves in its file: lines in front of it were added or taken away.

use crate::check::FlatRoute;
use crate::model::{
    AclRule, Extension, Gateway, Peering, PolicyRoute, Remote, RemoteKind, Route, RouteTable, Server, Uplink, Vm, Vpc,
};
use crate::position::{At, Number, Position};

/// Something with positions in the file.
pub(crate) trait Shift {
    /// Adds `by` to all lines.
    fn shift(&mut self, by: i64);
}

impl Shift for Position {
    fn shift(&mut self, by: i64) {
        let line = i64::from(self.line).saturating_add(by);
        self.line = u32::try_from(line.max(0)).unwrap_or(u32::MAX);
    }
}

impl<T> Shift for Number<T> {
    fn shift(&mut self, by: i64) {
        self.at.shift(by);
        self.digits.shift(by);
    }
}

impl<T: Shift> Shift for Vec<T> {
    fn shift(&mut self, by: i64) {
        self.iter_mut().for_each(|item| item.shift(by));
    }
}

impl<T: Shift> Shift for Option<T> {
    fn shift(&mut self, by: i64) {
        self.iter_mut().for_each(|item| item.shift(by));
    }
}

impl<T: ShiftInside> Shift for At<T> {
    fn shift(&mut self, by: i64) {
        self.at.shift(by);
        self.value.shift_inside(by);
    }
}

/// A value that has a position around it, and may have more inside.
pub(crate) trait ShiftInside {
    fn shift_inside(&mut self, _by: i64) {}
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
            fn $method(&mut self, by: i64) {
                // A field that is added must be named here.
                let $kind { $($field),+, $($other: _),* } = self;
                $($field.shift(by);)+
            }
        }
    };
}

shift_fields!(Shift::shift for Vm: name, vpc, server, mac, addresses; fixed:);
shift_fields!(Shift::shift for Vpc: name, vni, subnets, routes, route_tables, policy, acl, drop; fixed: acl_default, strict_sources);
shift_fields!(Shift::shift for RouteTable: name, routes; fixed:);
shift_fields!(Shift::shift for PolicyRoute: from, table; fixed:);
shift_fields!(Shift::shift for FlatRoute: origin; fixed: prefix, scope, target, via);
shift_fields!(ShiftInside::shift_inside for Route: to, peer, remote, vni; fixed: internet, blackhole);
shift_fields!(ShiftInside::shift_inside for AclRule: priority, protocol, from, to, source_ports, ports, icmp_type, icmp_code; fixed: action, direction);
shift_fields!(Shift::shift for Gateway: mac, vteps, sources; fixed:);
shift_fields!(Shift::shift for Uplink: name, port, mac, peer_mac, mtu; fixed:);
shift_fields!(Shift::shift for Server: name, address, uplinks; fixed:);
shift_fields!(Shift::shift for Remote: name, kind, address, vni, mac, uplinks, sources; fixed:);

impl Shift for Peering {
    fn shift(&mut self, by: i64) {
        self.between.iter_mut().for_each(|name| name.shift(by));
    }
}
