//! The gateway, its uplinks, the servers and the remotes.

use super::{Index, MAX_UPLINKS, MAX_VNI, names, usable};
use crate::model::{Name, RegionFile};
use crate::position::{At, Number, Position};
use crate::problem::Report;
use crate::values::Mac;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// Ports with this number and above are the engine's own (CPU, recirculation, drop).
const MAX_PORT: u32 = 0xffff;

/// IPv6's least MTU (RFC 8200 section 5) and what VXLAN over IPv6 adds to it, in bytes.
const MIN_MTU: u16 = 1280 + 70;

/// Checks the underlay; gives each server's and each remote's uplinks.
pub(super) fn check(report: &mut Report, file: &RegionFile, uplinks: &Index) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    gateway(report, file);
    ports(report, file);
    names::at_most(report, "uplinks", MAX_UPLINKS, file.uplinks.iter().map(|uplink| &uplink.name));
    let mut owners: HashMap<IpAddr, (&str, Position)> = HashMap::new();
    for vtep in &file.gateway.vteps {
        claim(report, &mut owners, vtep, "the gateway");
    }
    let mut server_uplinks = Vec::with_capacity(file.servers.len());
    for server in &file.servers {
        claim(report, &mut owners, &server.address, &server.name);
        family(report, file, &server.address);
        server_uplinks.push(leads_to(report, &server.name, &server.uplinks, uplinks));
    }
    let mut remote_uplinks = Vec::with_capacity(file.remotes.len());
    for remote in &file.remotes {
        usable::unicast(report, &remote.mac);
        claim(report, &mut owners, &remote.address, &remote.name);
        family(report, file, &remote.address);
        if let Some(vni) = &remote.vni {
            self::vni(report, vni);
        }
        remote_uplinks.push(leads_to(report, &remote.name, &remote.uplinks, uplinks));
    }
    (server_uplinks, remote_uplinks)
}

fn gateway(report: &mut Report, file: &RegionFile) {
    let gateway = &file.gateway;
    usable::unicast(report, &gateway.mac);
    for v4 in [true, false] {
        let mut of_family = gateway.vteps.iter().filter(|v| v.is_ipv4() == v4);
        if let (Some(_), Some(second)) = (of_family.next(), of_family.next()) {
            let mend = "keep one IPv4 and one IPv6 address at most";
            report.add(
                second.at,
                format!("the gateway has a second {} address", if v4 { "IPv4" } else { "IPv6" }),
                mend,
            );
        }
    }
    if gateway.vteps.is_empty() {
        report.add(gateway.mac.at, "the gateway has no tunnel address", "add one to `vteps`");
    }
}

fn ports(report: &mut Report, file: &RegionFile) {
    let mut lines: HashMap<u32, u32> = HashMap::new();
    let own: HashMap<Mac, u32> = file.uplinks.iter().rev().map(|u| (u.mac.value, u.mac.at.line)).collect();
    for uplink in &file.uplinks {
        usable::unicast(report, &uplink.mac);
        usable::unicast(report, &uplink.peer_mac);
        if let Some(line) = own.get(&uplink.peer_mac.value) {
            let message = format!("{} is the gateway's own MAC address, see line {line}", uplink.peer_mac.value);
            report.add(uplink.peer_mac.at, message, "give the address of the neighbour behind the port");
        }
        if *uplink.port > MAX_PORT {
            report.add(uplink.port.at, format!("port {} is too large", *uplink.port), format!("use 0 to {MAX_PORT}"));
        }
        if let Some(mtu) = &uplink.mtu
            && **mtu < MIN_MTU
        {
            report.add(mtu.at, format!("an MTU of {} bytes is too small", **mtu), format!("use {MIN_MTU} or more"));
        }
        if let Some(line) = lines.insert(*uplink.port, uplink.port.at.line) {
            let message = format!("port {} is used twice, first in line {line}", *uplink.port);
            report.add(uplink.port.at, message, "give each uplink a port of its own");
        }
    }
}

/// A tunnel address: usable, and no other end point's.
fn claim<'a>(
    report: &mut Report,
    owners: &mut HashMap<IpAddr, (&'a str, Position)>,
    address: &At<IpAddr>,
    owner: &'a str,
) {
    let ip = address.value;
    usable::address(report, address, "a tunnel address");
    if let Some((other, at)) = owners.insert(ip, (owner, address.at)) {
        let message = format!("{ip} is taken already by `{other}` in line {}", at.line);
        report.add(address.at, message, "give each end point an address of its own");
    }
}

/// The gateway needs an address of the same family to send from.
fn family(report: &mut Report, file: &RegionFile, address: &At<IpAddr>) {
    if !file.gateway.vteps.iter().any(|v| v.is_ipv4() == address.is_ipv4()) {
        let kind = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let message = format!("{} can't be reached: the gateway has no {kind} tunnel address", address.value);
        report.add(address.at, message, format!("add an {kind} address to `gateway.vteps`"));
    }
}

fn leads_to(report: &mut Report, name: &Name, uplinks: &[Name], index: &Index) -> Vec<usize> {
    if uplinks.is_empty() {
        report.add(name.at, format!("no uplink leads to `{}`", name.value), "name at least one in `uplinks`");
    }
    let mut found: Vec<usize> = Vec::with_capacity(uplinks.len());
    let mut seen = HashSet::with_capacity(uplinks.len());
    for uplink in uplinks {
        let Some(resolved) = names::resolve(report, "uplink", uplink, index) else { continue };
        if seen.insert(resolved) {
            found.push(resolved);
        } else {
            report.add(uplink.at, format!("uplink `{}` is named twice", uplink.value), "keep one of the two");
        }
    }
    found
}

/// A VNI in range.
pub(super) fn vni(report: &mut Report, vni: &Number<u32>) {
    if vni.value == 0 || vni.value > MAX_VNI {
        report.add(vni.at, format!("VNI {} is out of range", vni.value), format!("use 1 to {MAX_VNI}"));
    }
}
