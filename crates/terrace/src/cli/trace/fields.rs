//! Builds a packet from fields on the command line, as the server of a VM encapsulates it.
//!
//! The inner packet is that of the VM. It is encapsulated in VXLAN (RFC 7348), UDP, IP and Ethernet
//! of the underlay. Missing fields are taken from the region file: the server of the VM with this
//! VNI and address, the uplink to that server, and the gateway's own addresses.

use crate::cli::failure::CommandError;
use clap::Args;
use etherparse::{IpNumber, PacketBuilder, PacketBuilderStep};
use region::{Mac, ResolvedRegion};
use std::net::IpAddr;

/// VXLAN's UDP port (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// Default number of bytes after the L4 header.
const PAYLOAD: usize = 32;

/// Options for the fields of a packet.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Packet from fields")]
pub struct FieldArgs {
    /// VNI. Builds a VXLAN packet as the VM's server sends it.
    #[arg(long, value_name = "VNI")]
    pub vni: Option<u32>,
    /// Address of the sending VM.
    #[arg(long, value_name = "ADDRESS", requires = "vni")]
    inner_src: Option<IpAddr>,
    /// Destination address of the inner packet.
    #[arg(long, value_name = "ADDRESS", requires = "vni")]
    inner_dst: Option<IpAddr>,
    /// Inner protocol: tcp, udp, icmp, or a protocol number.
    #[arg(long, value_name = "PROTOCOL", default_value = "tcp")]
    proto: String,
    /// Source port of TCP or UDP.
    #[arg(long, value_name = "PORT", default_value_t = 49152)]
    sport: u16,
    /// Destination port of TCP or UDP.
    #[arg(long, value_name = "PORT", default_value_t = 80)]
    dport: u16,
    /// TTL or hop limit of the inner packet.
    #[arg(long, value_name = "N", default_value_t = 64)]
    ttl: u8,
    /// Bytes of payload after the inner headers.
    #[arg(long, value_name = "N", default_value_t = PAYLOAD)]
    payload: usize,
    /// Underlay address of the VM's server.
    #[arg(long, value_name = "ADDRESS")]
    outer_src: Option<IpAddr>,
    /// Underlay address of the gateway.
    #[arg(long, value_name = "ADDRESS")]
    outer_dst: Option<IpAddr>,
    /// UDP source port of the underlay.
    #[arg(long, value_name = "PORT", default_value_t = 50000)]
    outer_sport: u16,
    /// MAC address of the VM.
    #[arg(long, value_name = "MAC")]
    inner_src_mac: Option<Mac>,
    /// Destination MAC address of the inner packet.
    #[arg(long, value_name = "MAC")]
    inner_dst_mac: Option<Mac>,
}

/// A packet, with its ingress port if the region determines it.
#[derive(Debug)]
pub struct BuiltPacket {
    /// Bytes from the Ethernet header on.
    pub bytes: Vec<u8>,
    /// Port of the server's uplink.
    pub port: Option<u32>,
}

/// Attributes of the sender in the region.
#[derive(Default)]
struct SenderInfo {
    vm_mac: Option<Mac>,
    server: Option<IpAddr>,
    uplink: Option<(u32, Mac, Mac)>,
}

impl FieldArgs {
    /// Builds the packet.
    ///
    /// # Errors
    /// If a field is given neither on the command line nor by the region. The error names the
    /// missing flag.
    /// Returns the bytes of the VXLAN packet and, if the region has an uplink for it, the port that
    /// it arrives on.
    pub fn build(&self, region: Option<&ResolvedRegion>) -> Result<BuiltPacket, CommandError> {
        let missing = |flag: &str, what: &str| CommandError::Usage(format!("{what} is not known; give {flag}"));
        let vni = self.vni.ok_or_else(|| missing("--vni", "the VNI"))?;
        if vni > region::MAX_VNI {
            return Err(CommandError::Usage(format!(
                "VNI {vni} has more than 24 bits; give one up to {}",
                region::MAX_VNI
            )));
        }
        let source = self.inner_src.ok_or_else(|| missing("--inner-src", "the inner source"))?;
        let destination = self.inner_dst.ok_or_else(|| missing("--inner-dst", "the inner destination"))?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(CommandError::Usage(
                "--inner-src and --inner-dst are of different families; give two of one".to_owned(),
            ));
        }
        if self.payload > 9000 {
            return Err(CommandError::Usage("--payload is more than 9000; no jumbo frame holds that".to_owned()));
        }
        let sender = region.map(|region| find_sender(region, vni, source, self.outer_src)).unwrap_or_default();
        let vm_mac = self.inner_src_mac.or(sender.vm_mac).unwrap_or(Mac([2, 0, 0, 0, 0, 1]));
        let router = region.map(|region| region.file.gateway.mac.value);
        let router = self.inner_dst_mac.or(router).unwrap_or(Mac([2, 0, 0, 0, 0, 2]));
        let inner = self.inner(vm_mac, router, source, destination)?;

        let no_server = format!("the server of VM {source} in VNI {vni}");
        let server =
            self.outer_src.or(sender.server).ok_or_else(|| missing("--outer-src (or --region)", &no_server))?;
        let vteps = region.map(|region| region.file.gateway.vteps.as_slice()).unwrap_or_default();
        let vtep = vteps.iter().map(|vtep| vtep.value).find(|vtep| vtep.is_ipv4() == server.is_ipv4());
        let gateway = self.outer_dst.or(vtep);
        let gateway = gateway.ok_or_else(|| missing("--outer-dst (or --region)", "the gateway's underlay address"))?;
        let (port, own_mac, peer_mac) = sender
            .uplink
            .map_or((None, None, None), |(port, own_mac, peer_mac)| (Some(port), Some(own_mac), Some(peer_mac)));
        let macs = (peer_mac.unwrap_or(Mac([2, 0, 0, 0, 1, 1])), own_mac.unwrap_or(Mac([2, 0, 0, 0, 1, 2])));
        let mut vxlan = vec![0x08, 0, 0, 0];
        vxlan.extend((vni << 8).to_be_bytes());
        vxlan.extend(inner);
        let outer = append_ip_header(PacketBuilder::ethernet2(macs.0.0, macs.1.0), server, gateway, 64)?;
        let udp = outer.udp(self.outer_sport, VXLAN_PORT);
        let mut bytes = Vec::with_capacity(udp.size(vxlan.len()));
        udp.write(&mut bytes, &vxlan).map_err(|error| CommandError::Bug(error.to_string()))?;
        Ok(BuiltPacket { bytes, port })
    }

    /// Builds the inner frame, from the VM to its router. The payload counts up from 0. `--proto`
    /// may be a number of IP, which then has no header of its own.
    fn inner(
        &self,
        source_mac: Mac,
        router: Mac,
        source: IpAddr,
        destination: IpAddr,
    ) -> Result<Vec<u8>, CommandError> {
        let headers =
            append_ip_header(PacketBuilder::ethernet2(source_mac.0, router.0), source, destination, self.ttl)?;
        let payload: Vec<u8> = (0..self.payload).map(|index| index as u8).collect();
        let mut bytes = Vec::new();
        let written = match self.proto.as_str() {
            "tcp" => headers.tcp(self.sport, self.dport, 1, 65535).syn().write(&mut bytes, &payload),
            "udp" => headers.udp(self.sport, self.dport).write(&mut bytes, &payload),
            "icmp" if source.is_ipv4() => headers.icmpv4_echo_request(1, 1).write(&mut bytes, &payload),
            "icmp" => headers.icmpv6_echo_request(1, 1).write(&mut bytes, &payload),
            other => match other.parse() {
                Ok(number) => headers.write(&mut bytes, IpNumber(number), &payload),
                Err(_) => {
                    return Err(CommandError::Usage(format!(
                        "--proto {other} is unknown; give tcp, udp, icmp or a number"
                    )));
                }
            },
        };
        written.map_err(|error| CommandError::Usage(format!("such a packet cannot be: {error}")))?;
        Ok(bytes)
    }
}

/// Appends the IP header to the Ethernet header.
fn append_ip_header(
    step: PacketBuilderStep<etherparse::Ethernet2Header>,
    source: IpAddr,
    destination: IpAddr,
    ttl: u8,
) -> Result<PacketBuilderStep<etherparse::IpHeaders>, CommandError> {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(step.ipv4(source.octets(), destination.octets(), ttl)),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(step.ipv6(source.octets(), destination.octets(), ttl)),
        _ => {
            let what = format!("{source} and {destination} are of different families");
            Err(CommandError::Usage(format!("{what}; give two of one with --outer-src and --outer-dst")))
        }
    }
}

/// Looks up the VM with this VNI and address, its server, and the uplink to the server, or to the
/// given tunnel end point.
fn find_sender(region: &ResolvedRegion, vni: u32, source: IpAddr, outer_source: Option<IpAddr>) -> SenderInfo {
    let file = &region.file;
    let uplink = |uplinks: &Vec<usize>| {
        let uplink = &file.uplinks[*uplinks.first()?];
        Some((uplink.port.value, uplink.mac.value, uplink.peer_mac.as_ref()?.value))
    };
    let servers = file.servers.iter().map(|server| server.address.value).zip(&region.server_uplinks);
    let remotes = file.remotes.iter().map(|remote| remote.address.value).zip(&region.remote_uplinks);
    let sender = servers.chain(remotes).find(|(address, _)| Some(*address) == outer_source);
    let outer_uplink = sender.and_then(|(_, uplinks)| uplink(uplinks));
    let is_sender = |(index, vm): &(usize, &region::Vm)| {
        let (vpc, _) = region.vm_locations[*index];
        file.vpcs[vpc].vni.value == vni && vm.addresses.iter().any(|address| address.value == source)
    };
    let Some((index, vm)) = file.vms.iter().enumerate().find(is_sender) else {
        return SenderInfo { uplink: outer_uplink, ..SenderInfo::default() };
    };
    let (_, server) = region.vm_locations[index];
    SenderInfo {
        vm_mac: Some(vm.mac.value),
        server: Some(file.servers[server].address.value),
        uplink: outer_uplink.or_else(|| uplink(&region.server_uplinks[server])),
    }
}
