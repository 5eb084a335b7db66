//! Generates random regions, and packets that are likely to hit their entries.

use crate::frame::{IpPacket, VxlanFrame, segment};
use fastrand::Rng;
use region::ResolvedRegion;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Generates a region with a few objects of every kind: both families in underlay and overlay,
/// several uplinks, peerings, policy routes, ACLs. VPC `v` has subnets 10.v.0.0/24, 10.v.1.0/24,
/// and two IPv6 subnets that start with fd00:v, as defined by [`SUBNETS`]. Its VMs have addresses
/// from 1 on, in the second subnets from 3 on.
pub fn random_region(rng: &mut Rng) -> String {
    let sources = ["", ", sources: [203.0.113.0/28, '2001:db8:f::/48']", ", sources: [203.0.113.0/24]"][rng.usize(..3)];
    let secret = ["", ", flow_secret: 4000000007", ", flow_secret: 77"][rng.usize(..3)];
    let mut out = format!(
        "region: made\ngateway: {{mac: '02:00:5e:00:00:01', vteps: [192.0.2.1, '2001:db8::1']{sources}{secret}}}\nuplinks:\n",
    );
    // Frames with and without tags fill the key masks of a flow cache twice.
    let has_vlans = rng.u8(..4) == 0;
    for index in 0..4 {
        let mtu = ["", ", mtu: 1500", ", mtu: 9000"][rng.usize(..3)];
        let vlan = if has_vlans { ["", ", vlan: 100", ", vlan: 4094"][rng.usize(..3)] } else { "" };
        let _ = writeln!(
            out,
            "- {{name: u{index}, port: {index}, mac: '02:00:00:00:0{index}:01', peer_mac: '02:00:00:00:0{index}:02'{mtu}{vlan}}}"
        );
    }
    out.push_str("servers:\n");
    for index in 0..4 {
        let address =
            if rng.bool() { format!("192.0.2.{}", 10 + index) } else { format!("'2001:db8::{}'", 10 + index) };
        let _ = writeln!(out, "- {{name: s{index}, address: {address}, uplinks: [{}]}}", uplinks_text(rng));
    }
    let _ = writeln!(
        out,
        "remotes:\n- {{name: hq, kind: idc, address: 198.51.100.1, vni: 7001, mac: '02:00:00:00:70:01', sources: [203.0.113.8/29], uplinks: [{}]}}\n\
         - {{name: far, kind: region, address: '2001:db8:9::1', mac: '02:00:00:00:90:01', uplinks: [{}]}}",
        uplinks_text(rng),
        uplinks_text(rng)
    );
    let vpc_count = rng.usize(2..6);
    out.push_str("vpcs:\n");
    for v in 0..vpc_count {
        append_vpc(rng, &mut out, v, vpc_count);
    }
    out.push_str("peerings:\n- between: [v0, v1]\n");
    for a in 2..vpc_count {
        let _ = writeln!(out, "- between: [v{}, v{a}]", a - 1);
    }
    out.push_str("vms:\n");
    for v in 0..vpc_count {
        for m in 1..rng.usize(2..6) {
            let addresses = format!("{}, '{}'", vm_address(v, m as u8, false), vm_address(v, m as u8, true));
            let server = rng.usize(..4);
            let _ = writeln!(
                out,
                "- {{name: m{v}-{m}, vpc: v{v}, server: s{server}, mac: '02:00:00:0{v}:00:0{m}', addresses: [{addresses}]}}"
            );
        }
    }
    out
}

/// Prefix lengths of the VPCs' IPv6 subnets, and the difference between the two subnets of a VPC,
/// which is in the last bits of the prefix.
const SUBNETS: [(u8, u128); 5] = [(64, 1 << 64), (40, 1 << 88), (100, 1 << 28), (48, 1 << 80), (96, 1 << 32)];

/// Returns one of the two IPv6 subnets of a VPC: prefix length and first address.
fn subnet_v6(vpc: usize, second: bool) -> (u8, Ipv6Addr) {
    let (length, difference) = SUBNETS[vpc % SUBNETS.len()];
    let first = u128::from(Ipv6Addr::new(0xfd00, vpc as u16, 0, 0, 0, 0, 0, 0));
    (length, Ipv6Addr::from(first + u128::from(second) * difference))
}

fn uplinks_text(rng: &mut Rng) -> String {
    let first = rng.usize(..4);
    let names: Vec<String> = (0..rng.usize(1..4)).map(|i| format!("u{}", (first + i) % 4)).collect();
    names.join(", ")
}

/// Appends VPC `v` of `vpcs` with its routes, a second route table, and ACL rules. Random parts of
/// a pool of routes make overlapping prefixes likely.
fn append_vpc(rng: &mut Rng, out: &mut String, v: usize, vpcs: usize) {
    let default = ["permit", "permit", "permit", "permit", "permit", "permit", "deny", "reject"][rng.usize(..8)];
    let [first, second] = [false, true].map(|second| {
        let (length, first) = subnet_v6(v, second);
        format!("'{first}/{length}'")
    });
    let answer = ["", "echo", "neighbours", "echo, neighbours"][rng.usize(..4)];
    let tcp_mss = ["", "  tcp_mss: 1300\n", "  tcp_mss: 1200\n", "  tcp_mss: auto\n"][rng.usize(..4)];
    let gateways = ["", "10.{v}.0.200"][rng.usize(..2)].replace("{v}", &v.to_string());
    let _ = writeln!(
        out,
        "- name: v{v}\n  vni: {}\n  subnets: [10.{v}.0.0/24, 10.{v}.1.0/24, {first}, {second}]\n  \
         gateways: [{gateways}]\n  answer: [{answer}]\n{tcp_mss}  acl_default: {default}\n  strict_sources: {}\n  drop: [{}]",
        100 + v,
        rng.u8(..12) == 0,
        ["", "", "", "ipv4_options", "hop_by_hop, routing, mobility", "destination_options, authentication, shim6"]
            [rng.usize(..6)]
    );
    let pool = [
        "{to: 172.16.0.0/12, remote: hq}",
        "{to: 172.20.0.0/16, remote: far, vni: 9001}",
        "{to: 172.20.1.0/24, blackhole: true}",
        "{to: 0.0.0.0/0, internet: true}",
        "{to: 'fd01::/16', remote: far, vni: 9002}",
        "{to: '::/0', internet: true}",
    ];
    // Both route tables are made from the pool.
    let routes = |rng: &mut Rng, out: &mut String, indent: &str| {
        for route in pool {
            if rng.bool() {
                let _ = writeln!(out, "{indent}- {route}");
            }
        }
        // Only to higher numbers, so that there is no loop.
        if v + 1 < vpcs && rng.bool() {
            let _ = writeln!(out, "{indent}- {{to: 172.30.0.0/16, peer: v{}}}", v + 1);
        }
        // Via the next VPC to the one after it.
        if v + 2 < vpcs && rng.bool() {
            let _ = writeln!(out, "{indent}- {{to: 10.{}.0.0/16, peer: v{}}}", v + 2, v + 1);
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
        let _ = writeln!(out, "  - {}", acl_rule_text(rng, priority));
    }
}

/// Returns a random ACL rule as YAML. Ports and ICMP types are only with protocols that have them.
fn acl_rule_text(rng: &mut Rng, priority: u32) -> String {
    let mut out = format!("{{priority: {priority}, action: {}", ["permit", "permit", "deny", "reject"][rng.usize(..4)]);
    let _ = write!(out, ", direction: {}", ["egress", "ingress", "both"][rng.usize(..3)]);
    let protocol = ["any", "icmp", "tcp", "udp", "47", "icmpv6", "sctp", "udplite", "dccp", "1"][rng.usize(..10)];
    let _ = write!(out, ", protocol: {protocol}");
    let has_icmp_type = matches!(protocol, "icmp" | "icmpv6" | "1") && rng.bool();
    if has_icmp_type {
        let _ = write!(out, ", icmp_type: {}", [8, 128, 0][rng.usize(..3)]);
        if rng.bool() {
            let _ = write!(out, ", icmp_code: {}", [8, 128, 0][rng.usize(..3)]);
        }
    }
    if matches!(protocol, "tcp" | "udp" | "sctp" | "udplite" | "dccp") && rng.bool() {
        let _ = write!(out, ", ports: {}", ["80", "53-443", "1024-65535"][rng.usize(..3)]);
    }
    if rng.bool() {
        let is_v4 = if has_icmp_type { protocol != "icmpv6" } else { rng.bool() };
        let (from, to) = if is_v4 { ("10.0.0.0/8", "10.1.0.0/30") } else { ("'fd00::/16'", "'fd00:1::/126'") };
        let _ = write!(out, ", from: {from}");
        if rng.bool() {
            let _ = write!(out, ", to: {to}");
        }
    }
    out + "}"
}

/// Generates a frame that arrives on a port of the gateway: mostly valid, mostly between VMs of the
/// region, sometimes corrupt.
pub fn random_packet(rng: &mut Rng, region: &ResolvedRegion, port: u32) -> Vec<u8> {
    let file = &region.file;
    let vpc = rng.usize(..file.vpcs.len());
    let is_v6 = rng.bool();
    let vni = if rng.u8(..) < 12 { rng.u32(..1 << 24) } else { file.vpcs[vpc].vni.value };
    let source = random_vm(rng, vpc, is_v6);
    let destination = random_destination(rng, vpc, file.vpcs.len(), is_v6);
    let (protocol, payload) = random_payload(rng);
    let (protocol, payload) =
        if rng.u8(..8) == 0 { add_extension_headers(rng, is_v6, protocol, payload) } else { (protocol, payload) };
    let mut inner = IpPacket::new(source, destination, protocol, payload);
    if rng.u8(..16) == 0 {
        inner.options = vec![1; 4 * rng.usize(1..=10)];
    }
    inner.ecn = rng.u8(..4);
    inner.dscp = rng.u8(..64);
    inner.ttl = if rng.u8(..) < 16 { rng.u8(..3) } else { rng.u8(2..) };
    if rng.u8(..) < 40 {
        inner.fragment = Some((rng.bool(), if rng.bool() { 0 } else { rng.u16(1..0x1fff) }));
    }
    let from = random_sender(rng, region);
    let vtep = file.gateway.vteps.iter().find(|vtep| vtep.is_ipv4() == from.is_ipv4()).expect("one of each family");
    let mut frame = VxlanFrame::new((from, vtep.value), vni, inner);
    set_macs(rng, region, port, &mut frame);
    frame.outer_tos = (rng.u8(..64), if rng.u8(..) < 128 { 0 } else { rng.u8(..4) });
    if rng.u8(..) < 8 {
        frame.flags = rng.u8(..);
    }
    if rng.u8(..) < 8 {
        frame.inner_type = Some([0x8100, 0x88a8, 0x0806, 0x0800, 0x86dd][rng.usize(..5)]);
    }
    if rng.u8(..24) == 0 {
        let gateways = [
            vm_address(vpc, 1, is_v6),
            gateway_of_second_subnet(vpc, is_v6),
            Ipv4Addr::new(10, vpc as u8, 0, 200).into(),
        ];
        let target = gateways[rng.usize(..2 + usize::from(!is_v6))];
        crate::requests::ask_for_mac(rng, &mut frame, source, target);
    }
    let mut bytes = frame.bytes();
    let vlan = file.uplinks.iter().find(|uplink| uplink.port.value == port).and_then(|uplink| uplink.vlan);
    let own = vlan.map(|vlan| vlan.value | rng.u16(..16) << 12);
    let tag = if rng.u8(..20) == 0 { [None, Some(0), Some(100), Some(300)][rng.usize(..4)] } else { own };
    if let Some(tag) = tag {
        bytes.splice(12..12, [[0x81, 0], tag.to_be_bytes()].concat());
    }
    corrupt_frame(rng, &mut bytes);
    bytes
}

/// Chooses the outer source: mostly a server, sometimes a remote, rarely another address.
fn random_sender(rng: &mut Rng, region: &ResolvedRegion) -> IpAddr {
    let file = &region.file;
    match rng.u8(..64) {
        0..56 => file.servers[rng.usize(..file.servers.len())].address.value,
        56..61 => file.remotes[rng.usize(..file.remotes.len())].address.value,
        61 => Ipv4Addr::new(203, 0, 113, rng.u8(..32)).into(),
        62 => Ipv6Addr::new(0x2001, 0xdb8, 0xf, 0, 0, 0, 0, 1).into(),
        _ => Ipv4Addr::new(198, 18, 0, rng.u8(..)).into(),
    }
}

/// Sets the MACs: those of the port and of the VPCs' router, or within a VPC that of the target VM;
/// rarely others.
fn set_macs(rng: &mut Rng, region: &ResolvedRegion, port: u32, frame: &mut VxlanFrame) {
    let uplink = region.file.uplinks.iter().find(|uplink| uplink.port.value == port);
    frame.mac = uplink.map_or(frame.mac, |uplink| uplink.mac.value.0);
    let to = region.file.vms.iter().find(|vm| vm.addresses.iter().any(|a| a.value == frame.inner.destination));
    if let Some(vm) = to
        && rng.u8(..4) == 0
    {
        frame.inner_macs[0] = vm.mac.value.0;
    }
    if rng.u8(..32) == 0 {
        let group = [[0xff; 6], [1, 0, 0x5e, 0, 0, 5], [2, 0, 0, 0x99, 0, 1]][rng.usize(..3)];
        let [to, from] = &mut frame.inner_macs;
        *[&mut frame.mac, to, from][rng.usize(..3)] = group;
    }
}

/// Returns the address of a VM.
fn vm_address(vpc: usize, host: u8, v6: bool) -> IpAddr {
    let second = host > 2;
    if v6 {
        Ipv6Addr::from(u128::from(subnet_v6(vpc, second).1) + u128::from(host)).into()
    } else {
        Ipv4Addr::new(10, vpc as u8, second.into(), host).into()
    }
}

/// Returns the gateway's address in the second subnet of a VPC, if none is named.
fn gateway_of_second_subnet(vpc: usize, v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::from(u128::from(subnet_v6(vpc, true).1) + 1).into()
    } else {
        Ipv4Addr::new(10, vpc as u8, 1, 1).into()
    }
}

fn random_vm(rng: &mut Rng, vpc: usize, v6: bool) -> IpAddr {
    vm_address(vpc, rng.u8(1..6), v6)
}

fn random_destination(rng: &mut Rng, vpc: usize, vpcs: usize, v6: bool) -> IpAddr {
    match rng.u8(..10) {
        0..5 => random_vm(rng, vpc, v6),
        5..8 => {
            let other = rng.usize(..vpcs);
            random_vm(rng, other, v6)
        }
        _ if v6 => {
            let first = [0xfd01, 0x2001, 0xff02, 0xfe80, 0][rng.usize(..5)];
            let sixth = [0, 0, 0xffff][rng.usize(..3)];
            Ipv6Addr::new(first, 0, 0, 0, 0, sixth, 0, rng.u16(..3)).into()
        }
        _ => {
            let [a, b] = [[172, 16], [172, 20], [172, 30], [172, 31], [8, 8], [224, 0], [127, 0], [0, 0], [169, 254]]
                [rng.usize(..9)];
            Ipv4Addr::new(a, b, rng.u8(..3), 1).into()
        }
    }
}

fn random_payload(rng: &mut Rng) -> (u8, Vec<u8>) {
    let ports = [80, 53, 443, 2000, 0, 65535, 22];
    let length = [4, 8, 20, 100, 1300, 1420, 1470][rng.usize(..7)];
    match rng.u8(..16) {
        0 => (1, vec![8; length]),
        1 => (58, vec![128; length]),
        2 => (47, vec![0; rng.usize(..40)]),
        3 => (6, crate::requests::tcp_with_options(rng)),
        n => (
            [6, 17, 6, 17, 132, 136, 33][usize::from(n % 7)],
            segment(ports[rng.usize(..7)], ports[rng.usize(..7)], length),
        ),
    }
}

/// Adds some headers before layer 4, in any order, sometimes more than the gateway parses.
fn add_extension_headers(rng: &mut Rng, v6: bool, protocol: u8, payload: Vec<u8>) -> (u8, Vec<u8>) {
    let kinds: &[u8] = if v6 { &[0, 43, 44, 51, 60, 60, 135, 139, 140] } else { &[51] };
    let (mut next, mut all) = (protocol, payload);
    for _ in 0..rng.usize(1..4) {
        let kind = kinds[rng.usize(..kinds.len())];
        let length = match kind {
            44 => 0,
            51 => rng.u8(1..6),
            _ => rng.u8(..4) * u8::from(rng.bool()),
        };
        let bytes = if kind == 51 { 4 * usize::from(length) + 8 } else { 8 * usize::from(length) + 8 };
        let mut header = vec![0; bytes];
        header[..4].copy_from_slice(&[next, length, rng.u8(..8).saturating_sub(4), rng.u8(..4).saturating_sub(2)]);
        all.splice(..0, header);
        next = kind;
    }
    (next, all)
}

/// Sometimes corrupts a frame: truncates it, pads it, or changes some of its first bytes.
fn corrupt_frame(rng: &mut Rng, bytes: &mut Vec<u8>) {
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

/// Number of comparisons with each outcome.
pub type OutcomeCounts = BTreeMap<String, usize>;

/// Compares in at least `least` rounds. Continues for up to ten times that number until a tenth of
/// the packets was sent and twenty outcomes occurred, because regions differ, and some forward few
/// packets. Returns the outcome counts and the number of rounds.
pub fn compare_in_rounds(least: u64, mut compare: impl FnMut(u64, &mut OutcomeCounts)) -> (OutcomeCounts, u64) {
    let mut seen = OutcomeCounts::new();
    let enough = |seen: &OutcomeCounts| {
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
