//! Random regions, and packets that are likely to find something in them.

use crate::frame::{Ip, Tunnelled, segment};
use fastrand::Rng;
use region::Region;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A region with a few of everything: both families in underlay and overlay, several uplinks, peerings, policy routes, ACLs.
/// VPC `v` has subnets 10.v.0.0/16 and fd00:v::/64; its machines have the first addresses of them.
pub fn region(rng: &mut Rng) -> String {
    let mut out = String::from(
        "region: made\ngateway: {mac: '02:00:5e:00:00:01', vteps: [192.0.2.1, '2001:db8::1']}\nuplinks:\n",
    );
    for u in 0..4 {
        let mtu = ["", ", mtu: 1500", ", mtu: 9000"][rng.usize(..3)];
        let _ = writeln!(
            out,
            "- {{name: u{u}, port: {u}, mac: '02:00:00:00:0{u}:01', peer_mac: '02:00:00:00:0{u}:02'{mtu}}}"
        );
    }
    out.push_str("servers:\n");
    for s in 0..4 {
        let address = if rng.bool() { format!("192.0.2.{}", 10 + s) } else { format!("'2001:db8::{}'", 10 + s) };
        let _ = writeln!(out, "- {{name: s{s}, address: {address}, uplinks: [{}]}}", uplinks(rng));
    }
    let _ = writeln!(
        out,
        "remotes:\n- {{name: hq, kind: idc, address: 198.51.100.1, vni: 7001, mac: '02:00:00:00:70:01', uplinks: [{}]}}\n\
         - {{name: far, kind: region, address: '2001:db8:9::1', mac: '02:00:00:00:90:01', uplinks: [{}]}}",
        uplinks(rng),
        uplinks(rng)
    );
    let vpcs = rng.usize(2..6);
    out.push_str("vpcs:\n");
    for v in 0..vpcs {
        vpc(rng, &mut out, v, vpcs);
    }
    out.push_str("peerings:\n- between: [v0, v1]\n");
    for a in 2..vpcs {
        let _ = writeln!(out, "- between: [v{}, v{a}]", a - 1);
    }
    out.push_str("vms:\n");
    for v in 0..vpcs {
        for m in 1..rng.usize(2..6) {
            let addresses = format!("10.{v}.0.{m}, 'fd00:{v}::{m}'");
            let server = rng.usize(..4);
            let _ = writeln!(
                out,
                "- {{name: m{v}-{m}, vpc: v{v}, server: s{server}, mac: '02:00:00:0{v}:00:0{m}', addresses: [{addresses}]}}"
            );
        }
    }
    out
}

fn uplinks(rng: &mut Rng) -> String {
    let first = rng.usize(..4);
    let names: Vec<String> = (0..rng.usize(1..4)).map(|i| format!("u{}", (first + i) % 4)).collect();
    names.join(", ")
}

fn vpc(rng: &mut Rng, out: &mut String, v: usize, vpcs: usize) {
    let default = ["permit", "permit", "deny"][rng.usize(..3)];
    let _ = writeln!(
        out,
        "- name: v{v}\n  vni: {}\n  subnets: [10.{v}.0.0/16, 'fd00:{v}::/64']\n  acl_default: {default}",
        100 + v
    );
    let pool = [
        "{to: 172.16.0.0/12, remote: hq}",
        "{to: 172.20.0.0/16, remote: far, vni: 9001}",
        "{to: 172.20.1.0/24, blackhole: true}",
        "{to: 0.0.0.0/0, internet: true}",
        "{to: 'fd01::/16', remote: far, vni: 9002}",
        "{to: '::/0', internet: true}",
    ];
    let routes = |rng: &mut Rng, out: &mut String, indent: &str| {
        for route in pool {
            if rng.bool() {
                let _ = writeln!(out, "{indent}- {route}");
            }
        }
        // Towards the higher numbers only, so that there is no loop.
        if v + 1 < vpcs && rng.bool() {
            let _ = writeln!(out, "{indent}- {{to: 172.30.0.0/16, peer: v{}}}", v + 1);
        }
        let _ = writeln!(out, "{indent}- {{to: 172.31.0.0/16, blackhole: true}}");
    };
    out.push_str("  routes:\n");
    routes(rng, out, "  ");
    out.push_str("  route_tables:\n  - name: other\n    routes:\n");
    routes(rng, out, "    ");
    if rng.bool() {
        let _ = writeln!(
            out,
            "  policy: [{{from: 10.{v}.0.2/31, table: other}}, {{from: 'fd00:{v}::2/127', table: other}}]"
        );
    }
    out.push_str("  acl:\n");
    for priority in 1..rng.u32(2..8) {
        let _ = writeln!(out, "  - {}", rule(rng, priority));
    }
}

fn rule(rng: &mut Rng, priority: u32) -> String {
    let mut out = format!("{{priority: {priority}, action: {}", ["permit", "deny"][rng.usize(..2)]);
    let _ = write!(out, ", direction: {}", ["egress", "ingress", "both"][rng.usize(..3)]);
    let protocol = ["any", "icmp", "tcp", "udp", "47"][rng.usize(..5)];
    let _ = write!(out, ", protocol: {protocol}");
    if matches!(protocol, "tcp" | "udp") && rng.bool() {
        let _ = write!(out, ", ports: {}", ["80", "53-443", "1024-65535"][rng.usize(..3)]);
    }
    if rng.bool() {
        let (from, to) = if rng.bool() { ("10.0.0.0/8", "10.1.0.0/30") } else { ("'fd00::/16'", "'fd00:1::/126'") };
        let _ = write!(out, ", from: {from}");
        if rng.bool() {
            let _ = write!(out, ", to: {to}");
        }
    }
    out + "}"
}

/// A frame to the gateway: mostly sound, mostly between machines of the region, sometimes broken.
pub fn packet(rng: &mut Rng, region: &Region) -> Vec<u8> {
    let file = &region.file;
    let vpc = rng.usize(..file.vpcs.len());
    let v6 = rng.bool();
    let vni = if rng.u8(..) < 12 { rng.u32(..1 << 24) } else { file.vpcs[vpc].vni.value };
    let source = machine(rng, vpc, v6);
    let destination = destination(rng, vpc, file.vpcs.len(), v6);
    let (protocol, payload) = payload(rng);
    let mut inner = Ip::new(source, destination, protocol, payload);
    inner.ecn = rng.u8(..4);
    inner.dscp = rng.u8(..64);
    inner.ttl = if rng.u8(..) < 16 { rng.u8(..3) } else { rng.u8(2..) };
    if rng.u8(..) < 40 {
        inner.fragment = Some((rng.bool(), if rng.bool() { 0 } else { rng.u16(1..0x1fff) }));
    }
    let outer: (IpAddr, IpAddr) = if rng.bool() {
        (Ipv4Addr::new(192, 0, 2, 10).into(), Ipv4Addr::new(192, 0, 2, 1).into())
    } else {
        (
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        )
    };
    let mut frame = Tunnelled::new(outer, vni, inner);
    frame.outer_tos = (rng.u8(..64), if rng.u8(..) < 128 { 0 } else { rng.u8(..4) });
    if rng.u8(..) < 8 {
        frame.flags = rng.u8(..);
    }
    if rng.u8(..) < 8 {
        frame.inner_type = Some([0x8100, 0x88a8, 0x0806, 0x0800, 0x86dd][rng.usize(..5)]);
    }
    let mut bytes = frame.bytes();
    spoil(rng, &mut bytes);
    bytes
}

fn machine(rng: &mut Rng, vpc: usize, v6: bool) -> IpAddr {
    let host = rng.u8(1..6);
    if v6 {
        Ipv6Addr::new(0xfd00, vpc as u16, 0, 0, 0, 0, 0, host.into()).into()
    } else {
        Ipv4Addr::new(10, vpc as u8, 0, host).into()
    }
}

fn destination(rng: &mut Rng, vpc: usize, vpcs: usize, v6: bool) -> IpAddr {
    match rng.u8(..10) {
        0..5 => machine(rng, vpc, v6),
        5..8 => {
            let other = rng.usize(..vpcs);
            machine(rng, other, v6)
        }
        _ if v6 => {
            Ipv6Addr::new([0xfd01, 0x2001, 0xff02, 0xfe80, 0][rng.usize(..5)], 0, 0, 0, 0, 0, 0, rng.u16(..3)).into()
        }
        _ => {
            let [a, b] =
                [[172, 16], [172, 20], [172, 30], [172, 31], [8, 8], [224, 0], [127, 0], [0, 0]][rng.usize(..8)];
            Ipv4Addr::new(a, b, rng.u8(..3), 1).into()
        }
    }
}

fn payload(rng: &mut Rng) -> (u8, Vec<u8>) {
    let ports = [80, 53, 443, 2000, 0, 65535, 22];
    let length = [4, 8, 20, 100, 1300, 1420, 1470][rng.usize(..7)];
    match rng.u8(..6) {
        0 => (1, vec![8; length]),
        1 => (58, vec![128; length]),
        2 => (47, vec![0; rng.usize(..40)]),
        n => ([6, 17][usize::from(n % 2)], segment(ports[rng.usize(..7)], ports[rng.usize(..7)], length)),
    }
}

/// Now and then breaks a frame: cuts it, pads it, or changes some of its first bytes.
fn spoil(rng: &mut Rng, bytes: &mut Vec<u8>) {
    match rng.u8(..16) {
        0 => bytes.truncate(rng.usize(..=bytes.len())),
        1 => bytes.extend(vec![0; rng.usize(..30)]),
        2..=4 => {
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..bytes.len().min(110));
                bytes[at] = if rng.bool() { rng.u8(..) } else { bytes[at] ^ 1 << rng.u8(..8) };
            }
        }
        _ => {}
    }
}

/// How often each outcome was compared.
pub type Seen = BTreeMap<String, usize>;

/// Compares in rounds, at least so many. Regions differ, and of some few packets are forwarded: so it goes on, for up to ten times as long, until a tenth of the
/// packets was sent and twenty outcomes were seen. Gives what was seen, and in how many rounds.
pub fn rounds(least: u64, mut compare: impl FnMut(u64, &mut Seen)) -> (Seen, u64) {
    let mut seen = Seen::new();
    let enough = |seen: &Seen| {
        let total: usize = seen.values().sum();
        seen.get("sent").copied().unwrap_or_default() > total / 10 && seen.len() >= 20
    };
    let mut round = 0;
    while round < least || (!enough(&seen) && round < 10 * least) {
        compare(round, &mut seen);
        round += 1;
    }
    println!("{seen:#?}");
    (seen, round)
}
