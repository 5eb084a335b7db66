//! Checks the gateway, its uplinks, the servers and the remotes.

use super::{MAX_UPLINKS, MAX_VNI, NameIndex, names, usable};
use crate::model::{Name, RegionFile, Uplink};
use crate::problem::ProblemCollector;
use crate::spanned::{NumberWithPos, SourcePos, WithPos};
use crate::values::Mac;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Maximum port number. Higher numbers are reserved for the engine (CPU, recirculation, drop).
const MAX_PORT: u32 = 0xffff;

/// Maximum of `max_routes`: the tables have space for static routes beside those of the kernel.
const MAX_KERNEL_ROUTES: u32 = 60_000;

/// Values of `min_path_mtu`: from the least length of IPv4 that each host accepts (RFC 791) to that from
/// which no report lowers anything.
const PATH_MTUS: std::ops::RangeInclusive<u32> = 576..=65_515;

/// Numbers of VLANs (IEEE 802.1Q, table 9-2).
const VLANS: std::ops::RangeInclusive<u16> = 1..=4094;

/// Minimum MTU in bytes: the minimum of IPv6 (RFC 8200 section 5) and the overhead of VXLAN over
/// IPv6.
const MIN_MTU: u16 = 1280 + 70;

/// Checks the underlay. Returns the uplinks of each server and of each remote.
pub(super) fn check(
    report: &mut ProblemCollector,
    file: &RegionFile,
    uplinks: &NameIndex,
) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    check_gateway(report, file);
    check_ports(report, file);
    names::check_count(report, "uplinks", MAX_UPLINKS, file.uplinks.iter().map(|uplink| &uplink.name));
    let mut owners: HashMap<IpAddr, (&str, SourcePos)> = HashMap::new();
    for vtep in &file.gateway.vteps {
        check_end_point(report, &mut owners, vtep, "the gateway");
    }
    for address in file.uplinks.iter().flat_map(|uplink| &uplink.host).flat_map(|host| &host.addresses) {
        check_end_point(report, &mut owners, address, "the gateway's host side");
    }
    let mut server_uplinks = Vec::with_capacity(file.servers.len());
    for server in &file.servers {
        check_end_point(report, &mut owners, &server.address, &server.name);
        check_ip_version(report, file, &server.address);
        server_uplinks.push(resolve_uplinks(report, file, (&server.name, server.name.at), &server.uplinks, uplinks));
    }
    let mut remote_uplinks = Vec::with_capacity(file.remotes.len());
    for remote in &file.remotes {
        usable::check_unicast(report, &remote.mac);
        check_end_point(report, &mut owners, &remote.address, &remote.name);
        check_ip_version(report, file, &remote.address);
        if let Some(vni) = &remote.vni {
            self::check_vni(report, vni);
        }
        remote_uplinks.push(resolve_uplinks(report, file, (&remote.name, remote.name.at), &remote.uplinks, uplinks));
    }
    (server_uplinks, remote_uplinks)
}

fn check_gateway(report: &mut ProblemCollector, file: &RegionFile) {
    let gateway = &file.gateway;
    usable::check_unicast(report, &gateway.mac);
    for v4 in [true, false] {
        let mut of_family = gateway.vteps.iter().filter(|v| v.is_ipv4() == v4);
        if let (Some(_), Some(second)) = (of_family.next(), of_family.next()) {
            let help = "keep one IPv4 and one IPv6 address at most";
            report.add(
                second.at,
                format!("the gateway has a second {} address", if v4 { "IPv4" } else { "IPv6" }),
                help,
            );
        }
    }
    for (key, number, most) in
        [("table", &gateway.table, u32::MAX), ("max_routes", &gateway.max_routes, MAX_KERNEL_ROUTES)]
    {
        if let Some(number) = number.filter(|number| !(1..=most).contains(&number.value)) {
            report.add(number.at, format!("`{key}: {}` is out of range", number.value), format!("use 1 to {most}"));
        }
    }
    if let Some(mtu) = gateway.min_path_mtu.filter(|mtu| !PATH_MTUS.contains(&mtu.value)) {
        let help = format!("use {} to {}", PATH_MTUS.start(), PATH_MTUS.end());
        report.add(mtu.at, format!("`min_path_mtu: {}` is out of range", mtu.value), help);
    }
    if gateway.vteps.is_empty() {
        report.add(gateway.mac.at, "the gateway has no tunnel address", "add one to `vteps`");
    }
}

fn check_ports(report: &mut ProblemCollector, file: &RegionFile) {
    let mut lines: HashMap<u32, u32> = HashMap::new();
    let own: HashMap<Mac, u32> = file.uplinks.iter().rev().map(|u| (u.mac.value, u.mac.at.line)).collect();
    for uplink in &file.uplinks {
        usable::check_unicast(report, &uplink.mac);
        check_neighbour(report, file, uplink, &own);
        if *uplink.port > MAX_PORT {
            report.add(uplink.port.at, format!("port {} is too large", *uplink.port), format!("use 0 to {MAX_PORT}"));
        }
        if let Some(mtu) = &uplink.mtu
            && **mtu < MIN_MTU
        {
            report.add(mtu.at, format!("an MTU of {} bytes is too small", **mtu), format!("use {MIN_MTU} or more"));
        }
        check_vlan(report, file, uplink);
        if let Some(line) = lines.insert(*uplink.port, uplink.port.at.line) {
            let message = format!("port {} is used twice, first in line {line}", *uplink.port);
            report.add(uplink.port.at, message, "give each uplink a port of its own");
        }
    }
}

/// Checks that a VLAN is in range, and that the region file decides about the paths in it.
fn check_vlan(report: &mut ProblemCollector, file: &RegionFile, uplink: &Uplink) {
    let Some(vlan) = &uplink.vlan else { return };
    if !VLANS.contains(&vlan.value) {
        let help = format!("use {} to {}", VLANS.start(), VLANS.end());
        report.add(vlan.at, format!("`vlan: {}` is out of range", vlan.value), help);
    }
    if file.gateway.is_routed_by_kernel() {
        let message = format!("the uplink `{}` has a `vlan`, and the kernel decides about paths", uplink.name.value);
        report.add(vlan.at, message, "remove `vlan` and let the switch remove the tag, or write `underlay: static`");
    }
}

/// Checks that the MAC address of the neighbour is given, or that the kernel can find it.
fn check_neighbour(report: &mut ProblemCollector, file: &RegionFile, uplink: &Uplink, own: &HashMap<Mac, u32>) {
    let (name, by_kernel) = (&uplink.name.value, file.gateway.is_routed_by_kernel());
    match &uplink.peer_mac {
        Some(peer) => {
            usable::check_unicast(report, peer);
            if let Some(line) = own.get(&peer.value) {
                let message = format!("{} is the gateway's own MAC address, see line {line}", peer.value);
                report.add(peer.at, message, "give the address of the neighbour on the port");
            }
        }
        None if !by_kernel => {
            let help = "give the address of the neighbour on the port, or write `underlay: kernel` in `gateway`";
            report.add(uplink.name.at, format!("the uplink `{name}` has no `peer_mac`"), help);
        }
        None if uplink.host_interface().is_none() => {
            let message = format!("the uplink `{name}` has neither `host` nor `peer_mac`");
            report.add(
                uplink.name.at,
                message,
                "name the interface by which the kernel reaches its neighbours in `host`",
            );
        }
        None => {}
    }
    if let Some(interface) = uplink.host.as_ref().and_then(|host| host.interface.as_ref()) {
        names::check_name(report, "interface", interface);
    }
    if uplink.host.is_some() && uplink.host_interface().is_none() {
        report.add(
            uplink.name.at,
            format!("`host` of the uplink `{name}` names no interface"),
            "write `interface: NAME`",
        );
    }
}

/// Checks that a tunnel address is usable and that no other end point has it.
fn check_end_point<'a>(
    report: &mut ProblemCollector,
    owners: &mut HashMap<IpAddr, (&'a str, SourcePos)>,
    address: &WithPos<IpAddr>,
    owner: &'a str,
) {
    let ip = address.value;
    usable::check_address(report, address, "a tunnel address");
    if let Some((other, at)) = owners.insert(ip, (owner, address.at)) {
        let message = format!("{ip} is taken already by `{other}` in line {}", at.line);
        report.add(address.at, message, "give each end point an address of its own");
    }
}

/// Checks that the gateway has an address of the same IP version, because it needs one as source.
fn check_ip_version(report: &mut ProblemCollector, file: &RegionFile, address: &WithPos<IpAddr>) {
    if !file.gateway.vteps.iter().any(|v| v.is_ipv4() == address.is_ipv4()) {
        let kind = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let message = format!("{} can't be reached: the gateway has no {kind} tunnel address", address.value);
        report.add(address.at, message, format!("add an {kind} address to `gateway.vteps`"));
    }
}

/// Returns the indices of the uplinks that reach a server or a remote. None: the kernel's routes
/// decide.
pub(super) fn resolve_uplinks(
    report: &mut ProblemCollector,
    file: &RegionFile,
    (name, at): (&str, SourcePos),
    uplinks: &[Name],
    index: &NameIndex,
) -> Vec<usize> {
    if uplinks.is_empty() && !file.gateway.is_routed_by_kernel() {
        report.add(at, format!("no uplink reaches `{name}`"), "name at least one in `uplinks`");
    }
    let mut found: Vec<usize> = Vec::with_capacity(uplinks.len());
    let mut seen = HashSet::with_capacity(uplinks.len());
    for uplink in uplinks {
        let Some(resolved) = names::resolve(report, "uplink", uplink, index) else { continue };
        if file.gateway.is_routed_by_kernel() && file.uplinks[resolved].peer_mac.is_none() {
            let help = "give it one, or remove `uplinks`, so that the kernel's routes decide";
            report.add(uplink.at, format!("the uplink `{}` has no `peer_mac`", uplink.value), help);
        }
        if seen.insert(resolved) {
            found.push(resolved);
        } else {
            report.add(uplink.at, format!("uplink `{}` is named twice", uplink.value), "keep one of the two");
        }
    }
    found
}

/// Checks that a VNI is in range.
pub(super) fn check_vni(report: &mut ProblemCollector, vni: &NumberWithPos<u32>) {
    if vni.value == 0 || vni.value > MAX_VNI {
        report.add(vni.at, format!("VNI {} is out of range", vni.value), format!("use 1 to {MAX_VNI}"));
    }
}
