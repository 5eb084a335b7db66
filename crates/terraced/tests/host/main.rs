//! The host sides of uplinks, in network namespaces: ARP, neighbour discovery, ping and BGP of the
//! gateway are those of the kernel and of FRR.

mod bfd;
mod bgp;
mod internet;
mod lab;

use lab::{GATEWAY_MAC, Lab, wait_until};

const TAPS: [&str; 2] = ["{tap: tg1}", "{tap: tg2, addresses: [198.51.100.1, '2001:db8:2::1']}"];

/// Starts a gateway with a TAP for each uplink.
fn with_taps(engine: &str) -> Option<Lab> {
    let mut lab = Lab::new()?;
    lab.configure(engine, TAPS);
    lab.start("");
    lab.address_taps();
    Some(lab)
}

/// Pings an address until it answers. Returns the output of the successful ping of three packets.
fn ping(lab: &Lab, namespace: &str, address: &str) -> String {
    let mut output = String::new();
    wait_until(&format!("{address} answers"), || {
        let (all, text) = lab.run(namespace, &format!("ping -c 3 -i 0.2 -W 5 {address}"));
        output = text;
        all
    });
    output
}

/// A neighbour without configuration resolves the tunnel address and pings it, with IPv4 and IPv6,
/// and each echo has one reply.
fn neighbours_reach_the_tunnel_address(engine: &str) {
    let Some(lab) = with_taps(engine) else { return };
    let [_, first, second] = lab.names();
    for (namespace, addresses) in [(first, ["192.0.2.1", "2001:db8::1"]), (second, ["198.51.100.1", "2001:db8:2::1"])] {
        for address in addresses {
            let output = ping(&lab, namespace, address);
            assert!(!output.contains("DUP"), "{output}");
        }
    }
    assert!(lab.to_host(1, "arp") > 0 && lab.to_host(1, "nd") > 0 && lab.to_host(1, "icmp") >= 6, "{:?}", lab.host(1));
    assert!(lab.host(1).from_host.packets >= 8, "{:?}", lab.host(1));
    let (_, neighbours) = lab.run(first, "ip neigh show 192.0.2.1");
    assert!(neighbours.contains(GATEWAY_MAC), "{neighbours}");
}

#[test]
fn neighbours_reach_the_tunnel_address_over_raw_sockets() {
    neighbours_reach_the_tunnel_address("jit");
}

#[test]
fn neighbours_reach_the_tunnel_address_over_xdp() {
    if !io::xdp::BUILT_IN {
        println!("SKIPPED: built without eBPF programs");
        return;
    }
    neighbours_reach_the_tunnel_address("xdp");
}

/// VXLAN of a packet between the two VMs, from the first server.
fn vxlan_frame() -> String {
    format!(
        "{} 02000000aabb 0800  4500 0046 0001 0000 4011 f699 c000020b c0000201  c000 12b5 0032 0000  08000000 00000a00 \
         02005e000001 02000000aa01 0800  4500 0014 0001 0000 40fd 65ea 0a000001 0a000002",
        GATEWAY_MAC.replace(':', "")
    )
}

#[test]
fn hostile_frames_do_not_reach_the_host() {
    let Some(lab) = with_taps("jit") else { return };
    let [gateway, first, _] = lab.names();
    ping(&lab, first, "192.0.2.1");
    let own = GATEWAY_MAC.replace(':', "");
    let arp_request = "0001 0800 06 04 0001 02000000aabb c000024d 000000000000";
    let arp_before = lab.to_host(1, "arp");
    let solicitation = |hops: &str| {
        format!(
            "{own} 02000000aabb 86dd 60000000 0008 3a {hops} 20010db8000000000000000000000011 20010db8000000000000000000000001 8700 0000 00000000"
        )
    };
    lab.send_frames(
        first,
        &[
            // ARP to another MAC; neighbour discovery that a router has forwarded.
            format!("020000009999 02000000aabb 0806 {arp_request} c0000201"),
            solicitation("fe"),
            // A broadcast frame with a unicast packet: echo.
            "ffffffffffff 02000000aabb 0800 4500 001c 0001 0000 4001 f6d3 c000020b c0000201 0800 f7ff 0000 0000"
                .to_owned(),
        ],
    );
    wait_until("the drops are counted", || lab.drops("underlay_other_mac") >= 2 && lab.drops("nd_hop_limit") >= 1);
    assert_eq!(lab.to_host(1, "arp"), arp_before, "ARP to another MAC reached the host");
    // A request for the address of the other uplink has no answer: the interface has its own
    // addresses only.
    lab.send_frames(first, &[format!("ffffffffffff 02000000aabb 0806 {arp_request} c6336401")]);
    wait_until("the request arrives", || lab.to_host(1, "arp") > arp_before);
    lab.ip(first, "route add 198.51.100.1 dev p");
    lab.run(first, "ping -c 2 -i 0.2 -W 1 198.51.100.1");
    let (_, unknown) = lab.run(first, "ip neigh show 198.51.100.1");
    assert!(!unknown.contains("lladdr"), "{unknown}");
    // A gratuitous request for the tunnel address from elsewhere changes nothing in the gateway.
    lab.send_frames(
        first,
        &["ffffffffffff 02000000aabb 0806 0001 0800 06 04 0001 02000000aabb c0000201 000000000000 c0000201".to_owned()],
    );
    ping(&lab, first, "192.0.2.1");
    // VXLAN of the host is refused by name.
    let send = "python3 -c \"import socket; s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'x'*40, ('192.0.2.11', 4789))\"";
    assert!(lab.run(gateway, send).0);
    wait_until("VXLAN of the host is refused", || lab.host(1).drops.iter().any(|row| row.reason == "host_vxlan"));
    assert!(lab.log().contains("host_vxlan"), "{}", lab.log());
}

#[test]
fn the_carrier_follows_the_port() {
    let Some(lab) = with_taps("jit") else { return };
    let [gateway, first, _] = lab.names();
    let carrier = || lab.run(gateway, "cat /sys/class/net/tg1/carrier").1.trim().to_owned();
    wait_until("the TAP has a carrier", || carrier() == "1");
    lab.ip(first, "link set p down");
    wait_until("the TAP has no carrier", || carrier() == "0");
    assert_eq!(lab.run(gateway, "cat /sys/class/net/tg2/carrier").1.trim(), "1");
    lab.ip(first, "link set p up");
    wait_until("the TAP has a carrier again", || carrier() == "1");
    let (_, mac) = lab.run(gateway, "cat /sys/class/net/tg1/address /sys/class/net/tg1/mtu");
    assert_eq!(mac.split_whitespace().collect::<Vec<_>>(), [GATEWAY_MAC, "1500"]);
}

#[test]
fn a_name_in_use_is_refused() {
    let Some(lab) = Lab::new() else { return };
    lab.configure("jit", TAPS);
    lab.ip(lab.names()[0], "link add tg1 type veth peer name other");
    let log = lab.start_refused();
    assert!(log.contains("the interface name `tg1` is in use: choose another name"), "{log}");
    // A port without the kernel's interface of that name.
    lab.configure("jit", ["{interface: eth9}", ""]);
    let log = lab.start_refused();
    assert!(log.contains("its port 1 is `u1`: write that name"), "{log}");
}

#[test]
fn the_kernel_is_silent_about_vxlan_on_its_own_interface() {
    let Some(mut lab) = Lab::new() else { return };
    lab.configure("jit", ["{interface: u1}", ""]);
    let (gateway, first) = (lab.names()[0].to_owned(), lab.names()[1].to_owned());
    lab.ip(&gateway, &format!("link set u1 address {GATEWAY_MAC}"));
    lab.ip(&gateway, "addr add 192.0.2.1/24 dev u1");
    lab.start("");
    let output = ping(&lab, &first, "192.0.2.1");
    assert!(!output.contains("DUP"), "{output}");
    lab.send_frames(&first, &vec![vxlan_frame(); 5]);
    wait_until("the gateway forwards", || lab.port(2).sent.packets >= 5);
    let (_, statistics) = lab.run(&gateway, "nstat -asz UdpNoPorts");
    assert!(statistics.contains("UdpNoPorts                      0"), "{statistics}");
    assert!(lab.to_host(1, "icmp") >= 3, "{:?}", lab.host(1));
    assert!(!lab.host(1).is_tap);
    // Without the key, the kernel sees VXLAN, so that this test can fail.
    lab.stop();
    lab.configure("jit", ["", ""]);
    lab.start("");
    lab.send_frames(&first, &vec![vxlan_frame(); 5]);
    wait_until("the kernel has no port", || {
        !lab.run(&gateway, "nstat -asz UdpNoPorts").1.contains("UdpNoPorts                      0")
    });
}
