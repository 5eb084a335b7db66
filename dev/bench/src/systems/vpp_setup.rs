//! [`VppSetup`]: configurations of VPP for the work that our programs do.
//!
//! Packets arrive at `pg0` and leave at `pg1`. Where VPP's model differs from ours, the setup is the one
//! that costs VPP less: one tunnel and one tenant instead of thousands.

/// Sessions for which one outside address suffices.
const SESSIONS_OF_ADDRESS: usize = 20_000;
/// MAC of both ports.
const MAC: &str = "02:00:00:00:00:01";
/// MAC of the neighbours.
const NEXT_MAC: &str = "02:00:00:00:00:22";

/// Plugins and commands of a VPP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VppSetup {
    /// Names of the plugins.
    pub plugins: &'static [&'static str],
    /// Commands that VPP runs when it starts, after the ports are created.
    pub commands: Vec<String>,
    /// Command that prints the number of sessions, and the word before it; `None`: VPP does not count them.
    pub summary: Option<(&'static str, &'static str)>,
}

const NAT_SUMMARY: Option<(&str, &str)> = Some(("show nat44 summary", "total sessions:"));

impl VppSetup {
    /// Source NAT (NAT44-ED) of plain packets from 10.0.0.0/8 to 198.51.100.1.
    pub fn source_nat(sessions: usize) -> VppSetup {
        let mut commands = lines(&[
            "set interface ip address pg0 10.255.0.1/8",
            "set interface ip address pg1 198.51.100.254/24",
            &format!("set interface mac address pg0 {MAC}"),
            "set interface state pg0 up",
            "set interface state pg1 up",
            &format!("ip neighbor pg1 198.51.100.1 {NEXT_MAC} static"),
        ]);
        add_nat(sessions, "pg0", &mut commands);
        VppSetup { plugins: &["nat"], commands, summary: NAT_SUMMARY }
    }

    /// Source NAT of packets in VXLAN from one server with one tenant, 10.0.0.0/8, to 203.0.113.0/24.
    pub fn tunnelled_nat(sessions: usize, server: &str, vni: u32) -> VppSetup {
        let mut commands = lines(&[
            "set interface ip address pg0 192.0.2.1/24",
            "set interface ip address pg1 198.51.100.254/24",
            &format!("set interface mac address pg0 {MAC}"),
            "set interface state pg0 up",
            "set interface state pg1 up",
            &format!("ip neighbor pg0 192.0.2.2 {NEXT_MAC} static"),
            &format!("ip neighbor pg1 198.51.100.1 {NEXT_MAC} static"),
            &format!("ip route add {server}/32 via 192.0.2.2 pg0"),
            "ip route add 203.0.113.0/24 via 198.51.100.1 pg1",
            &format!("create vxlan tunnel src 192.0.2.1 dst {server} vni {vni}"),
            "create bridge-domain 1 learn 0",
            "set interface l2 bridge vxlan_tunnel0 1",
            &format!("loopback create mac {MAC}"),
            "set interface l2 bridge loop0 1 bvi",
            "set interface state loop0 up",
            "set interface ip address loop0 10.255.0.1/8",
        ]);
        add_nat(sessions, "loop0", &mut commands);
        VppSetup { plugins: &["nat", "vxlan"], commands, summary: NAT_SUMMARY }
    }

    /// A load balancer (`lb`) for UDP to one port of an address, with eight backends behind GRE.
    pub fn load_balancer(connections: usize, address: &str, port: u16) -> VppSetup {
        let buckets = connections.next_power_of_two().max(1 << 16);
        let vip = format!("{address}/32 protocol udp port {port}");
        let mut commands = lines(&[
            "set interface ip address pg0 192.0.2.1/24",
            "set interface ip address pg1 198.51.100.254/24",
            &format!("set interface mac address pg0 {MAC}"),
            "set interface state pg0 up",
            "set interface state pg1 up",
            &format!("ip neighbor pg1 198.51.100.1 {NEXT_MAC} static"),
            "ip route add 172.16.0.0/24 via 198.51.100.1 pg1",
            &format!("lb conf ip4-src-address 192.0.2.1 buckets {buckets} timeout 3600"),
            &format!("lb vip {vip} encap gre4 new_len 65536"),
        ]);
        let backends = (1..=8).map(|backend| format!("lb as {vip} 172.16.0.{backend}"));
        commands.extend(backends);
        VppSetup { plugins: &["lb"], commands, summary: None }
    }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

/// Adds NAT44-ED with room for all sessions, from an inside interface to `pg1`.
fn add_nat(sessions: usize, inside: &str, commands: &mut Vec<String>) {
    commands.push(format!("nat44 plugin enable sessions {}", (2 * sessions).max(1 << 16)));
    for number in 0..=sessions / SESSIONS_OF_ADDRESS {
        commands.push(format!("nat44 add address 100.128.{}.{}", number / 200, 1 + number % 200));
    }
    commands.push(format!("set interface nat44 in {inside} out pg1"));
    commands.push("set nat timeout udp 3600 tcp-established 7440 tcp-transitory 240 icmp 60".to_owned());
}
