//! Commands that build a lab, as data. This file runs nothing.

use super::topology::{Internet, Network, Remote, Server, Topology, Uplink, Vm};
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// UDP port of VXLAN (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;

/// MAC addresses of the Internet's router and host on the link between them. They are known, because
/// without link-local addresses there is no neighbour discovery.
const INTERNET_MACS: [&str; 2] = ["02:00:00:ff:00:01", "02:00:00:ff:00:02"];

/// Mark of a lab's namespace: the alias of its loopback interface starts with this.
pub(super) const MARK: &str = "terrace-lab:";

/// One step of building a lab. [`fmt::Display`] formats it as an equivalent shell command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabStep {
    /// Creates a network namespace.
    Namespace(String),
    /// Runs a program of iproute2 (`ip`, `bridge`) on a namespace.
    Run {
        /// Name of the program.
        tool: &'static str,
        /// Name of the namespace.
        namespace: String,
        /// Arguments of the program.
        arguments: Vec<String>,
    },
    /// Sets a kernel parameter of a namespace. The path is relative to `/proc/sys`.
    Sysctl {
        /// Name of the namespace.
        namespace: String,
        /// Path, for example `net/ipv4/ip_forward`.
        path: String,
        /// New value.
        value: &'static str,
    },
    /// Turns off all offloads that make packets on an interface differ from those on a wire.
    WireForm {
        /// Name of the namespace.
        namespace: String,
        /// Name of the interface.
        interface: String,
    },
}

impl fmt::Display for LabStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabStep::Namespace(name) => write!(f, "ip netns add {name}"),
            LabStep::Run { tool, namespace, arguments } => write!(f, "{tool} -n {namespace} {}", arguments.join(" ")),
            LabStep::Sysctl { namespace, path, value } => {
                write!(f, "ip netns exec {namespace} sysctl -w {}={value}", path.replace('/', "."))
            }
            LabStep::WireForm { namespace, interface } => {
                write!(f, "ip netns exec {namespace} ethtool -K {interface} {}", WIRE_FORM.join(" "))
            }
        }
    }
}

/// Arguments of `ethtool -K`.
pub(super) const WIRE_FORM: [&str; 8] = ["tx", "off", "tso", "off", "gso", "off", "gro", "off"];

/// Collects the steps of one namespace. Arguments are given as one string and split at blanks,
/// which is safe because names and addresses have no blanks.
struct StepBuilder<'a> {
    steps: &'a mut Vec<LabStep>,
    namespace: String,
}

impl StepBuilder<'_> {
    fn run(&mut self, tool: &'static str, arguments: impl AsRef<str>) {
        let arguments = arguments.as_ref().split_whitespace().map(str::to_owned).collect();
        self.steps.push(LabStep::Run { tool, namespace: self.namespace.clone(), arguments });
    }

    fn ip(&mut self, arguments: impl AsRef<str>) {
        self.run("ip", arguments);
    }

    fn bridge(&mut self, arguments: impl AsRef<str>) {
        self.run("bridge", arguments);
    }

    fn sysctl(&mut self, path: &str, value: &'static str) {
        self.steps.push(LabStep::Sysctl { namespace: self.namespace.clone(), path: path.to_owned(), value });
    }
}

/// Returns all steps, in order.
pub fn steps(topology: &Topology) -> Vec<LabStep> {
    let mut steps = Vec::new();
    for namespace in topology.namespaces() {
        add_namespace(&mut steps, topology, namespace);
    }
    // The gateway's ports bypass the kernel's network stack.
    let gateway = topology.gateway_namespace();
    steps.push(LabStep::Sysctl {
        namespace: gateway.clone(),
        path: "net/ipv6/conf/all/disable_ipv6".into(),
        value: "1",
    });
    steps.push(LabStep::Sysctl { namespace: gateway, path: "net/ipv6/conf/default/disable_ipv6".into(), value: "1" });
    for server in &topology.servers {
        add_underlay(&mut steps, topology, &server.name, server.address);
        for (vni, vms) in vms_by_vni(topology, server) {
            add_vswitch(&mut steps, topology, server, vni, &vms);
        }
    }
    for remote in &topology.remotes {
        add_underlay(&mut steps, topology, &remote.name, remote.address);
        for network in &remote.networks {
            add_remote_network(&mut steps, topology, remote, network);
        }
    }
    if let Some(internet) = &topology.internet {
        add_internet(&mut steps, topology, internet);
    }
    steps
}

/// Creates a marked namespace with its loopback interface up. Kernel parameters are set first,
/// because interfaces inherit them.
fn add_namespace(steps: &mut Vec<LabStep>, topology: &Topology, namespace: String) {
    steps.push(LabStep::Namespace(namespace.clone()));
    let mut at = StepBuilder { steps, namespace };
    at.ip(format!("link set dev lo alias {MARK}{}", topology.name));
    // Packets may arrive on another device than the one that routes back to their source.
    at.sysctl("net/ipv4/conf/all/rp_filter", "0");
    at.sysctl("net/ipv4/conf/default/rp_filter", "0");
    // There are no router advertisements, and addresses are known to be unique.
    at.sysctl("net/ipv6/conf/default/accept_ra", "0");
    at.sysctl("net/ipv6/conf/default/accept_dad", "0");
    // Without link-local addresses, there is no background traffic for them (MLD, router
    // solicitations) over the tunnels.
    at.sysctl("net/ipv6/conf/default/addr_gen_mode", "1");
    at.ip("link set dev lo up");
}

fn port_interface(uplink: &Uplink) -> String {
    format!("port{}", uplink.port)
}

/// Adds the interfaces of a server or remote to the gateway, its tunnel address, and the route to
/// the gateway's tunnel address.
fn add_underlay(steps: &mut Vec<LabStep>, topology: &Topology, host: &str, address: IpAddr) {
    let mut at = StepBuilder { steps, namespace: topology.namespace_of(host) };
    at.ip(format!("address add {address} dev lo{}", nodad_option(address)));
    // `Topology::check` has verified that every host has these.
    let Some(vtep) = topology.vtep_for(address) else { return };
    add_uplinks(&mut at, topology, host);
    add_gateway_route(&mut at, topology, host, address, &[vtep.into()]);
}

/// Adds the interfaces of a host to the gateway.
fn add_uplinks(at: &mut StepBuilder, topology: &Topology, host: &str) {
    let gateway = topology.gateway_namespace();
    for uplink in topology.uplinks_of(host) {
        let Uplink { port, mac, host_mac, mtu, .. } = uplink;
        let theirs = port_interface(uplink);
        at.ip(format!(
            "link add up{port} mtu {mtu} address {host_mac} type veth peer name {theirs} mtu {mtu} address {mac} netns {gateway}"
        ));
        at.ip(format!("link set dev up{port} up"));
        at.steps.push(LabStep::WireForm { namespace: at.namespace.clone(), interface: format!("up{port}") });
        at.steps.push(LabStep::Run {
            tool: "ip",
            namespace: gateway.clone(),
            arguments: ["link", "set", "dev", &theirs, "up"].map(str::to_owned).to_vec(),
        });
    }
}

/// Adds the routes to addresses of the gateway over all uplinks. Each uplink gets a next hop
/// address that only this host knows, because IPv6 multipath routes require one. The kernel keeps
/// each tunnel device on one uplink; the gateway distributes by flow.
fn add_gateway_route(at: &mut StepBuilder, topology: &Topology, host: &str, address: IpAddr, to: &[IpNet]) {
    let mut next_hops = String::new();
    for uplink in topology.uplinks_of(host) {
        let Uplink { port, mac, .. } = uplink;
        let [.., high, low] = port.to_be_bytes();
        let next_hop = if address.is_ipv4() { format!("169.254.{high}.{low}") } else { format!("fe80::{port:x}") };
        at.ip(format!("neighbour add {next_hop} lladdr {mac} dev up{port} nud permanent"));
        next_hops.push_str(&format!(" nexthop via {next_hop} dev up{port} onlink"));
    }
    for prefix in to {
        at.ip(format!("route add {prefix} src {address}{next_hops}"));
    }
}

/// Adds the Internet: a router on uplinks of the gateway, and a host behind it.
fn add_internet(steps: &mut Vec<LabStep>, topology: &Topology, internet: &Internet) {
    let Internet { router, host, over_v6, public } = internet;
    let behind = topology.namespace_of(Internet::HOST);
    let mut at = StepBuilder { steps, namespace: topology.namespace_of(Internet::ROUTER) };
    let [v4, v6]: [Vec<IpNet>; 2] =
        [true, false].map(|v4| public.iter().copied().filter(|prefix| prefix.addr().is_ipv4() == v4).collect());
    at.ip(format!("address add {router} dev lo{}", nodad_option(*router)));
    add_uplinks(&mut at, topology, Internet::ROUTER);
    // A router joins groups of its own (RFC 4291, section 2.8), and its kernel would report them to the gateway.
    for uplink in topology.uplinks_of(Internet::ROUTER) {
        at.ip(format!("link set dev up{} multicast off", uplink.port));
    }
    add_gateway_route(&mut at, topology, Internet::ROUTER, *router, &v4);
    at.sysctl("net/ipv4/ip_forward", "1");
    let [router_mac, host_mac] = INTERNET_MACS;
    at.ip(format!(
        "link add in0 mtu 1500 address {router_mac} type veth peer name eth0 mtu 1500 address {host_mac} netns {behind}"
    ));
    at.ip("link set dev in0 up");
    at.ip(format!("route add {host} dev in0 src {router}"));
    if let Some([router, host]) = over_v6 {
        at.ip(format!("address add {router} dev lo{}", nodad_option(*router)));
        add_gateway_route(&mut at, topology, Internet::ROUTER, *router, &v6);
        at.sysctl("net/ipv6/conf/all/forwarding", "1");
        at.ip(format!("neighbour add {host} lladdr {host_mac} dev in0 nud permanent"));
        at.ip(format!("route add {host} dev in0 src {router}"));
    }
    let mut at = StepBuilder { steps: at.steps, namespace: behind };
    at.ip("link set dev eth0 up");
    at.ip(format!("address add {host} dev eth0"));
    at.ip(format!("route add {router} dev eth0 src {host}"));
    at.ip(format!("route add default via {router} dev eth0 src {host}"));
    if let Some([router, host]) = over_v6 {
        at.ip(format!("address add {host} dev eth0 nodad"));
        at.ip(format!("neighbour add {router} lladdr {router_mac} dev eth0 nud permanent"));
        at.ip(format!("route add {router} dev eth0 src {host}"));
        at.ip(format!("route add default via {router} dev eth0 src {host}"));
    }
}

/// Returns the VMs on a server by VNI, numbered so that each has a distinct interface name on the
/// server.
fn vms_by_vni<'a>(topology: &'a Topology, server: &Server) -> BTreeMap<u32, Vec<(usize, &'a Vm)>> {
    let mut vpcs: BTreeMap<u32, Vec<(usize, &Vm)>> = BTreeMap::new();
    for (number, vm) in topology.vms.iter().filter(|vm| vm.server == server.name).enumerate() {
        vpcs.entry(vm.vni).or_default().push((number, vm));
    }
    vpcs
}

/// Returns the arguments that create a VXLAN device with the gateway as its only peer.
fn vxlan_arguments(topology: &Topology, vni: u32, local: IpAddr, more: &str) -> String {
    let vtep = topology.vtep_for(local).unwrap_or(local);
    let mtu = topology.tenant_mtu();
    // The gateway sends UDP checksums of 0, over IPv6 too (RFC 6935).
    let zero_checksum = if local.is_ipv6() { " udp6zerocsumrx" } else { "" };
    format!(
        "link add vx{vni} mtu {mtu}{more} type vxlan id {vni} local {local} remote {vtep} dstport {VXLAN_PORT} nolearning \
         ttl 64{zero_checksum}"
    )
}

/// Adds the objects of a server's vSwitch for one VPC: bridge, tunnel, and local VMs.
fn add_vswitch(steps: &mut Vec<LabStep>, topology: &Topology, server: &Server, vni: u32, here: &[(usize, &Vm)]) {
    let mut at = StepBuilder { steps, namespace: topology.namespace_of(&server.name) };
    let mtu = topology.tenant_mtu();
    at.ip(format!("link add br{vni} mtu {mtu} type bridge stp_state 0 mcast_snooping 0"));
    at.ip(format!("link set dev br{vni} up"));
    at.ip(vxlan_arguments(topology, vni, server.address, ""));
    at.ip(format!("link set dev vx{vni} master br{vni} up"));
    // Answers ARP and neighbour solicitations from the bridge's neighbour table, and sends no other
    // broadcast or multicast.
    at.bridge(format!("link set dev vx{vni} neigh_suppress on learning off mcast_flood off bcast_flood off"));
    for (number, vm) in here {
        add_vm(&mut at, topology, *number, vm);
    }
    let elsewhere = topology.vms.iter().filter(|vm| vm.vni == vni && vm.server != server.name);
    let mut neighbours: BTreeMap<IpAddr, _> = BTreeMap::new();
    for vm in elsewhere.clone() {
        neighbours.extend(vm.addresses.iter().map(|address| (address.address.addr(), vm.mac)));
        at.bridge(format!("fdb replace {} dev vx{vni} master static", vm.mac));
    }
    let routers = topology.vms.iter().filter(|vm| vm.vni == vni).flat_map(|vm| &vm.addresses);
    neighbours.extend(routers.map(|address| (address.router, topology.gateway.mac)));
    let services = topology.services.iter().filter(|(of, _)| *of == vni);
    neighbours.extend(services.map(|(_, address)| (*address, topology.gateway.mac)));
    at.bridge(format!("fdb replace {} dev vx{vni} master static", topology.gateway.mac));
    for (address, mac) in neighbours {
        at.ip(format!("neighbour replace {address} lladdr {mac} dev br{vni} nud permanent"));
    }
}

/// Adds a VM: its interface, addresses, and default routes.
fn add_vm(server: &mut StepBuilder, topology: &Topology, number: usize, vm: &Vm) {
    let Vm { vni, mac, .. } = vm;
    let mtu = topology.tenant_mtu();
    let namespace = topology.namespace_of(&vm.name);
    server.ip(format!(
        "link add vm{number} mtu {mtu} type veth peer name eth0 mtu {mtu} address {mac} netns {namespace}"
    ));
    server.ip(format!("link set dev vm{number} master br{vni} up"));
    server.bridge(format!("fdb replace {mac} dev vm{number} master static"));

    let mut at = StepBuilder { steps: server.steps, namespace };
    at.ip("link set dev eth0 up");
    let mut with_default = [false; 2];
    for address in &vm.addresses {
        at.ip(format!("address add {} dev eth0{}", address.address, nodad_option(address.address.addr())));
        let family = usize::from(address.router.is_ipv6());
        if !with_default[family] {
            with_default[family] = true;
            at.ip(format!("route add default via {} dev eth0 onlink src {}", address.router, address.address.addr()));
        }
    }
}

/// Returns the option that turns off duplicate address detection, which would delay the use of an
/// IPv6 address by a second.
fn nodad_option(address: IpAddr) -> &'static str {
    if address.is_ipv6() { " nodad" } else { "" }
}

/// Adds a network behind a remote: a host that receives packets with the network's VNI, and replies
/// with the VNI of the VPC.
fn add_remote_network(steps: &mut Vec<LabStep>, topology: &Topology, remote: &Remote, network: &Network) {
    let namespace = topology.network_namespace(remote, network);
    let mut outside = StepBuilder { steps, namespace: topology.namespace_of(&remote.name) };
    let mut vnis: Vec<u32> = network.returns.iter().map(|back| back.vni).chain([network.vni]).collect();
    vnis.sort_unstable();
    vnis.dedup();
    for vni in &vnis {
        outside.ip(vxlan_arguments(topology, *vni, remote.address, &format!(" address {}", remote.mac)));
        outside.ip(format!("link set dev vx{vni} netns {namespace}"));
    }
    let mut at = StepBuilder { steps, namespace };
    for vni in &vnis {
        at.ip(format!("link set dev vx{vni} up"));
    }
    // Addresses are on the loopback, because an IPv6 address on the tunnel would be announced there
    // (MLD).
    for address in &network.addresses {
        at.ip(format!("address add {address} dev lo{}", nodad_option(*address)));
    }
    for back in &network.returns {
        for prefix in &back.prefixes {
            let same_family = |address: &&IpAddr| address.is_ipv4() == prefix.addr().is_ipv4();
            // Without an address of the family, no packet of the family can arrive.
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
