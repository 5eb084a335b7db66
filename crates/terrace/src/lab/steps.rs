//! The commands that build a lab, as data: nothing is run here.

use super::topology::{Network, Remote, Server, Topology, Uplink, Vm};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// The UDP port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;

/// What marks a namespace as a lab's: the alias of its loopback interface starts with this.
pub(super) const MARK: &str = "terrace-lab:";

/// One step of building a lab. [`fmt::Display`] gives the shell command that does the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Makes a network namespace.
    Namespace(String),
    /// Runs a program of iproute2 (`ip`, `bridge`) on a namespace.
    Run {
        /// The program.
        tool: &'static str,
        /// The namespace.
        namespace: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// Sets a kernel parameter of a namespace; the path is below `/proc/sys`.
    Sysctl {
        /// The namespace.
        namespace: String,
        /// For example `net/ipv4/ip_forward`.
        path: String,
        /// Its value.
        value: &'static str,
    },
    /// Turns off everything that makes packets on an interface differ from those on a wire.
    WireForm {
        /// The namespace.
        namespace: String,
        /// The interface.
        interface: String,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Namespace(name) => write!(f, "ip netns add {name}"),
            Step::Run { tool, namespace, arguments } => write!(f, "{tool} -n {namespace} {}", arguments.join(" ")),
            Step::Sysctl { namespace, path, value } => {
                write!(f, "ip netns exec {namespace} sysctl -w {}={value}", path.replace('/', "."))
            }
            Step::WireForm { namespace, interface } => {
                write!(f, "ip netns exec {namespace} ethtool -K {interface} {}", WIRE_FORM.join(" "))
            }
        }
    }
}

/// The arguments of `ethtool -K`.
pub(super) const WIRE_FORM: [&str; 8] = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];

/// Collects the steps of one namespace. Arguments are given as one string, split at blanks: no name or address has one.
struct Builder<'a> {
    steps: &'a mut Vec<Step>,
    namespace: String,
}

impl Builder<'_> {
    fn run(&mut self, tool: &'static str, arguments: impl AsRef<str>) {
        let arguments = arguments.as_ref().split_whitespace().map(str::to_owned).collect();
        self.steps.push(Step::Run { tool, namespace: self.namespace.clone(), arguments });
    }

    fn ip(&mut self, arguments: impl AsRef<str>) {
        self.run("ip", arguments);
    }

    fn bridge(&mut self, arguments: impl AsRef<str>) {
        self.run("bridge", arguments);
    }

    fn sysctl(&mut self, path: &str, value: &'static str) {
        self.steps.push(Step::Sysctl { namespace: self.namespace.clone(), path: path.to_owned(), value });
    }
}

/// All steps, in order.
pub fn steps(topology: &Topology) -> Vec<Step> {
    let mut steps = Vec::new();
    for namespace in topology.namespaces() {
        basics(&mut steps, topology, namespace);
    }
    // The gateway's ports take no part in the kernel's network stack.
    let gateway = topology.gateway_namespace();
    steps.push(Step::Sysctl { namespace: gateway.clone(), path: "net/ipv6/conf/all/disable_ipv6".into(), value: "1" });
    steps.push(Step::Sysctl { namespace: gateway, path: "net/ipv6/conf/default/disable_ipv6".into(), value: "1" });
    for server in &topology.servers {
        underlay(&mut steps, topology, &server.name, server.address);
        for (vni, vms) in vpcs_of(topology, server) {
            vswitch(&mut steps, topology, server, vni, &vms);
        }
    }
    for remote in &topology.remotes {
        underlay(&mut steps, topology, &remote.name, remote.address);
        for network in &remote.networks {
            remote_network(&mut steps, topology, remote, network);
        }
    }
    steps
}

/// A namespace with its loopback interface up and marked. Kernel settings are made before there are interfaces to inherit them.
fn basics(steps: &mut Vec<Step>, topology: &Topology, namespace: String) {
    steps.push(Step::Namespace(namespace.clone()));
    let mut at = Builder { steps, namespace };
    at.ip(format!("link set dev lo alias {MARK}{}", topology.name));
    // Answers may come in on another device than the one that leads back.
    at.sysctl("net/ipv4/conf/all/rp_filter", "0");
    at.sysctl("net/ipv4/conf/default/rp_filter", "0");
    // There are no IPv6 routers that advertise anything, and addresses are known to be unique.
    at.sysctl("net/ipv6/conf/default/accept_ra", "0");
    at.sysctl("net/ipv6/conf/default/accept_dad", "0");
    // No link-local addresses, and so no chatter about them (MLD, router solicitations) over the tunnels.
    at.sysctl("net/ipv6/conf/default/addr_gen_mode", "1");
    at.ip("link set dev lo up");
}

fn port_interface(uplink: &Uplink) -> String {
    format!("port{}", uplink.port)
}

/// The interfaces of a server or remote to the gateway, its tunnel address, and the way to the gateway's.
fn underlay(steps: &mut Vec<Step>, topology: &Topology, host: &str, address: IpAddr) {
    let gateway = topology.gateway_namespace();
    let mut at = Builder { steps, namespace: topology.namespace_of(host) };
    at.ip(format!("address add {address} dev lo"));
    // The check that every host has these is in `Topology::check`.
    let Some(vtep) = topology.vtep_for(address) else { return };
    for uplink in topology.uplinks_of(host) {
        let Uplink { port, mac, host_mac, mtu, .. } = uplink;
        let theirs = port_interface(uplink);
        at.ip(format!(
            "link add up{port} mtu {mtu} address {host_mac} type veth peer name {theirs} mtu {mtu} address {mac} netns {gateway}"
        ));
        at.ip(format!("link set dev up{port} up"));
        at.steps.push(Step::WireForm { namespace: at.namespace.clone(), interface: format!("up{port}") });
        at.steps.push(Step::Run {
            tool: "ip",
            namespace: gateway.clone(),
            arguments: ["link", "set", "dev", &theirs, "up"].map(str::to_owned).to_vec(),
        });
    }
    way_to_gateway(&mut at, topology, host, address, vtep);
}

/// The route to the gateway's tunnel address over all uplinks, each with a next hop address that only this host knows: IPv6 has no
/// multipath routes without. The kernel keeps each tunnel device on one of them; the gateway spreads by flow.
fn way_to_gateway(at: &mut Builder, topology: &Topology, host: &str, address: IpAddr, vtep: IpAddr) {
    let length = if address.is_ipv4() { 32 } else { 128 };
    let mut next_hops = String::new();
    for uplink in topology.uplinks_of(host) {
        let Uplink { port, mac, .. } = uplink;
        let [.., high, low] = port.to_be_bytes();
        let next_hop = if address.is_ipv4() { format!("169.254.{high}.{low}") } else { format!("fe80::{port:x}") };
        at.ip(format!("neighbour add {next_hop} lladdr {mac} dev up{port} nud permanent"));
        next_hops.push_str(&format!(" nexthop via {next_hop} dev up{port} onlink"));
    }
    at.ip(format!("route add {vtep}/{length} src {address}{next_hops}"));
}

/// The machines on a server by VNI, numbered so that each has an interface name of its own on the server.
fn vpcs_of<'a>(topology: &'a Topology, server: &Server) -> BTreeMap<u32, Vec<(usize, &'a Vm)>> {
    let mut vpcs: BTreeMap<u32, Vec<(usize, &Vm)>> = BTreeMap::new();
    for (number, vm) in topology.vms.iter().filter(|vm| vm.server == server.name).enumerate() {
        vpcs.entry(vm.vni).or_default().push((number, vm));
    }
    vpcs
}

/// The arguments that make a VXLAN device whose only peer is the gateway.
fn vxlan(topology: &Topology, vni: u32, local: IpAddr, more: &str) -> String {
    let vtep = topology.vtep_for(local).unwrap_or(local);
    let mtu = topology.tenant_mtu();
    // The gateway sends UDP checksums of 0, also over IPv6 (RFC 6935).
    let zero_checksum = if local.is_ipv6() { " udp6zerocsumrx" } else { "" };
    format!(
        "link add vx{vni} mtu {mtu}{more} type vxlan id {vni} local {local} remote {vtep} dstport {VXLAN_PORT} nolearning \
         ttl 64{zero_checksum}"
    )
}

/// The part of a server's vSwitch for one VPC: bridge, tunnel, and the machines here.
fn vswitch(steps: &mut Vec<Step>, topology: &Topology, server: &Server, vni: u32, here: &[(usize, &Vm)]) {
    let mut at = Builder { steps, namespace: topology.namespace_of(&server.name) };
    let mtu = topology.tenant_mtu();
    at.ip(format!("link add br{vni} mtu {mtu} type bridge stp_state 0 mcast_snooping 0"));
    at.ip(format!("link set dev br{vni} up"));
    at.ip(vxlan(topology, vni, server.address, ""));
    at.ip(format!("link set dev vx{vni} master br{vni} up"));
    // Answers ARP and neighbour solicitations from the neighbour table of the bridge; lets no other broadcast or multicast out.
    at.bridge(format!("link set dev vx{vni} neigh_suppress on learning off mcast_flood off bcast_flood off"));
    for (number, vm) in here {
        machine(&mut at, topology, *number, vm);
    }
    let elsewhere = topology.vms.iter().filter(|vm| vm.vni == vni && vm.server != server.name);
    let mut neighbours: BTreeMap<IpAddr, _> = BTreeMap::new();
    for vm in elsewhere.clone() {
        neighbours.extend(vm.addresses.iter().map(|address| (address.address.addr(), vm.mac)));
        at.bridge(format!("fdb replace {} dev vx{vni} master static", vm.mac));
    }
    let routers = topology.vms.iter().filter(|vm| vm.vni == vni).flat_map(|vm| &vm.addresses);
    neighbours.extend(routers.map(|address| (address.router, topology.gateway.mac)));
    at.bridge(format!("fdb replace {} dev vx{vni} master static", topology.gateway.mac));
    for (address, mac) in neighbours {
        at.ip(format!("neighbour replace {address} lladdr {mac} dev br{vni} nud permanent"));
    }
}

/// A machine: its interface, addresses, and default routes.
fn machine(server: &mut Builder, topology: &Topology, number: usize, vm: &Vm) {
    let Vm { vni, mac, .. } = vm;
    let mtu = topology.tenant_mtu();
    let namespace = topology.namespace_of(&vm.name);
    server.ip(format!(
        "link add vm{number} mtu {mtu} type veth peer name eth0 mtu {mtu} address {mac} netns {namespace}"
    ));
    server.ip(format!("link set dev vm{number} master br{vni} up"));
    server.bridge(format!("fdb replace {mac} dev vm{number} master static"));

    let mut at = Builder { steps: server.steps, namespace };
    at.ip("link set dev eth0 up");
    let mut with_default = [false; 2];
    for address in &vm.addresses {
        at.ip(format!("address add {} dev eth0{}", address.address, no_dad(address.address.addr())));
        let family = usize::from(address.router.is_ipv6());
        if !with_default[family] {
            with_default[family] = true;
            at.ip(format!("route add default via {} dev eth0 onlink src {}", address.router, address.address.addr()));
        }
    }
}

/// Duplicate address detection would keep an IPv6 address from use for a second.
fn no_dad(address: IpAddr) -> &'static str {
    if address.is_ipv6() { " nodad" } else { "" }
}

/// A network behind a remote: a host that gets what arrives with the network's VNI, and answers with the VNI of the VPC.
fn remote_network(steps: &mut Vec<Step>, topology: &Topology, remote: &Remote, network: &Network) {
    let namespace = topology.network_namespace(remote, network);
    let mut outside = Builder { steps, namespace: topology.namespace_of(&remote.name) };
    let mut vnis: Vec<u32> = network.returns.iter().map(|back| back.vni).chain([network.vni]).collect();
    vnis.sort_unstable();
    vnis.dedup();
    for vni in &vnis {
        outside.ip(vxlan(topology, *vni, remote.address, &format!(" address {}", remote.mac)));
        outside.ip(format!("link set dev vx{vni} netns {namespace}"));
    }
    let mut at = Builder { steps, namespace };
    for vni in &vnis {
        at.ip(format!("link set dev vx{vni} up"));
    }
    // On the loopback: an IPv6 address on the tunnel would be announced there (MLD).
    for address in &network.addresses {
        at.ip(format!("address add {address} dev lo"));
    }
    for back in &network.returns {
        for prefix in &back.prefixes {
            let same_family = |address: &&IpAddr| address.is_ipv4() == prefix.addr().is_ipv4();
            // Without an address of the family, no packet of the family can have come.
            let Some(source) = network.addresses.iter().find(same_family) else { continue };
            let router = if source.is_ipv4() { "169.254.1.1" } else { "fe80::1" };
            at.ip(format!(
                "neighbour replace {router} lladdr {} dev vx{} nud permanent",
                topology.gateway.mac, back.vni
            ));
            at.ip(format!("route add {prefix} via {router} dev vx{} onlink src {source}", back.vni));
        }
    }
}
