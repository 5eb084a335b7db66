//! ICMP errors: what the sender of a dropped packet is told. Limits are not modelled: packets have
//! to be a second apart.

use super::decide::SenderKind;
use super::parse::{Fragment, InnerPacket, ParsedPacket};
use super::rewrite::{choose_uplink, frame_start};
use super::{Model, ModelVerdict, covers};
use crate::frame::checksum;
use region::{Answer, Prefix, Vpc, WithPos};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes that are quoted behind the IP header.
const QUOTED: usize = 512;

impl Model<'_> {
    /// Returns the verdict of a packet that is dropped for `reason`, with the ICMP error to its
    /// sender, if any. `mtu` is the longest inner packet that passes.
    pub(super) fn tell(
        &self,
        packet: &[u8],
        parsed: &ParsedPacket,
        inner: &InnerPacket,
        sender: SenderKind,
        reason: &str,
        mtu: usize,
    ) -> ModelVerdict {
        let v4 = inner.source.is_ipv4();
        let (kind, code) = match (reason, v4) {
            ("inner_ttl_expired", true) => (11, 0),
            ("inner_ttl_expired", false) => (3, 0),
            ("exceeds_mtu", true) => (3, 4),
            ("exceeds_mtu", false) => (2, 0),
            ("no_route", true) => (3, 0),
            ("no_route", false) => (1, 0),
            ("unknown_vm", true) => (3, 1),
            ("unknown_vm", false) => (1, 3),
            ("acl_rejected_out" | "acl_rejected_in" | "acl_rejected_transit", true) => (3, 13),
            ("acl_rejected_out" | "acl_rejected_in" | "acl_rejected_transit", false) => (1, 1),
            _ => return ModelVerdict::Drop(reason.to_owned().into()),
        };
        let error = self.error_verdict(packet, parsed, inner, sender, (kind, code), mtu);
        ModelVerdict::Tell { reason: reason.to_owned().into(), error: Box::new(error) }
    }

    fn error_verdict(
        &self,
        packet: &[u8],
        parsed: &ParsedPacket,
        inner: &InnerPacket,
        sender: SenderKind,
        (kind, code): (u8, u8),
        mtu: usize,
    ) -> ModelVerdict {
        let v4 = inner.source.is_ipv4();
        let silent = ModelVerdict::Drop("icmp_forbidden".into());
        let vpc = self.region.file.vpcs.iter().position(|vpc| Some(vpc.vni.value) == parsed.vni);
        let Some(vpc) = vpc else { return silent };
        let Some(own) = self.error_source(vpc, inner, sender) else { return silent };
        if is_never_told(parsed, inner) || own == inner.source {
            return silent;
        }
        let header = if v4 { 20 } else { 40 };
        let be16 = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let length = if v4 { be16(inner.at + 2) } else { be16(inner.at + 4) + 40 };
        let quoted = &packet[inner.at..inner.at + length.min(header + QUOTED)];
        let mut message = vec![kind, code, 0, 0, 0, 0];
        message.extend((mtu as u16).to_be_bytes());
        message.extend(quoted);
        let ip = error_packet(own, inner.source, message);

        self.send_back(parsed, inner, own, (kind, code), ip)
    }

    /// Sends an ICMP packet through the tunnel that a packet came by.
    fn send_back(
        &self,
        parsed: &ParsedPacket,
        inner: &InnerPacket,
        own: IpAddr,
        (kind, code): (u8, u8),
        ip: Vec<u8>,
    ) -> ModelVerdict {
        let v4 = own.is_ipv4();
        let flow = InnerPacket {
            source: own,
            destination: inner.source,
            protocol: if v4 { 1 } else { 58 },
            ports: (kind.into(), code.into()),
            fragment: Fragment::Whole,
            ..inner.clone()
        };
        let ecn = if v4 { ip[1] & 3 } else { ip[1] >> 4 & 3 };
        self.send_frame(parsed, self.flow_hash(&flow), ecn, if v4 { 0x0800 } else { 0x86dd }, &ip)
    }

    /// Sends a frame of the gateway through the tunnel that a packet came by, to the packet's inner
    /// source. `bytes` are those after the frame's Ethernet header.
    pub(super) fn send_frame(
        &self,
        parsed: &ParsedPacket,
        hash: u32,
        ecn: u8,
        ether_type: u16,
        bytes: &[u8],
    ) -> ModelVerdict {
        let file = &self.region.file;
        let uplinks = parsed.source.and_then(|tunnel| Some((tunnel, self.uplinks_to(tunnel)?)));
        let Some((tunnel, uplinks)) = uplinks else { return ModelVerdict::Drop("no_underlay_route".into()) };
        let uplink = &file.uplinks[choose_uplink(&uplinks, hash)];
        let udp_length = (30 + bytes.len()) as u16;
        let mut out = frame_start(uplink);
        self.outer_ip(&mut out, tunnel, parsed.tos.0, ecn, udp_length, hash);
        out.extend((0xc000 | (hash & 0x3fff) as u16).to_be_bytes());
        out.extend(4789u16.to_be_bytes());
        out.extend(udp_length.to_be_bytes());
        out.extend([0, 0, 8, 0, 0, 0]);
        out.extend(&parsed.vni.unwrap_or_default().to_be_bytes()[1..]);
        out.push(0);
        out.extend(parsed.inner_macs[1]);
        out.extend(file.gateway.mac.0);
        out.extend(ether_type.to_be_bytes());
        out.extend(bytes);
        ModelVerdict::Send { port: uplink.port.value, bytes: out }
    }

    /// Returns whether the gateway answers echo requests, or solicitations, that are sent to an
    /// address.
    pub(super) fn answers_at(&self, vpc: usize, address: IpAddr) -> bool {
        let declared = &self.region.file.vpcs[vpc];
        let subnet = declared.subnets.iter().find(|subnet| covers(subnet.value, address));
        let answers = declared.answers(Answer::Echo) || declared.answers(Answer::Neighbours) && address.is_ipv6();
        answers && subnet.is_some_and(|subnet| self.gateway_in(vpc, subnet.value) == Some(address))
    }

    /// Returns whether a VPC answers solicitations for an address, as far as its lists are concerned.
    pub(super) fn is_own_address(&self, vpc: usize, address: IpAddr) -> bool {
        let declared = &self.region.file.vpcs[vpc];
        let subnet = declared.subnets.iter().find(|subnet| covers(subnet.value, address));
        let own = |subnet: &WithPos<Prefix>| declared_gateway(declared, subnet.value) == Some(address);
        declared.answers(Answer::Neighbours) && subnet.is_some_and(own)
    }

    /// Returns the verdict of a packet to an address of the gateway in a subnet.
    /// `echo`: it answers echo requests, and not only solicitations.
    pub(super) fn answer(&self, packet: &[u8], parsed: &ParsedPacket, inner: &InnerPacket, echo: bool) -> ModelVerdict {
        let v4 = inner.source.is_ipv4();
        let is_whole = packet.len() >= inner.at + 64;
        if inner.is_solicitation() && packet[inner.at + 6] == 58 && (is_whole || !echo) {
            let vpc = self.source_vpc(parsed);
            return vpc.map_or_else(|verdict| verdict, |vpc| self.solicitation_verdict(packet, parsed, inner, vpc));
        }
        if !echo {
            // What is no IPv6 header with a message behind it ends before its kind is known.
            let is_readable = packet.len() >= inner.at + 48;
            return ModelVerdict::Drop(if is_readable { "gateway_closed" } else { "neighbour_invalid" }.into());
        }
        let header = if v4 { 20 } else { 40 };
        let be16 = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        let length = if v4 { be16(inner.at + 2) } else { be16(inner.at + 4) + 40 };
        let direct = if v4 { packet[inner.at] == 0x45 } else { packet[inner.at + 6] == 58 };
        let request = (inner.protocol, inner.ports) == if v4 { (1, (8, 0)) } else { (58, (128, 0)) };
        let group = parsed.inner_macs[0][0] & 1 == 1;
        if !request || !direct || group || inner.fragment != Fragment::Whole || length < header + 8 {
            return ModelVerdict::Drop("gateway_closed".into());
        }
        let mut ip = packet[inner.at..inner.at + length].to_vec();
        let kind = if v4 { 0 } else { 129 };
        let addresses = if v4 { 12..20 } else { 8..40 };
        let half = addresses.len() / 2;
        ip[addresses].rotate_left(half);
        ip[header] = kind;
        // The checksum changes by what the type changes.
        let old = u16::from_be_bytes([ip[header + 2], ip[header + 3]]);
        let change = u32::from(!u16::from_be_bytes([if v4 { 8 } else { 128 }, 0])) + u32::from(kind) * 256;
        let mut sum = u32::from(!old) + change;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        ip[header + 2..header + 4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        if v4 {
            (ip[1], ip[8]) = (ip[1] & !3, 64);
            ip[10..12].fill(0);
            let sum = checksum(&ip[..20]).to_be_bytes();
            ip[10..12].copy_from_slice(&sum);
        } else {
            (ip[1], ip[7]) = (ip[1] & !0x30, 64);
        }
        self.send_back(parsed, inner, inner.destination, (kind, 0), ip)
    }

    /// Returns the address that the error comes from; `None`: none may be sent.
    fn error_source(&self, vpc: usize, inner: &InnerPacket, sender: SenderKind) -> Option<IpAddr> {
        let subject = if sender == SenderKind::Server { inner.source } else { inner.destination };
        let vtep = self.region.file.gateway.vteps.iter().map(|vtep| vtep.value).find(IpAddr::is_ipv6);
        let outside = if subject.is_ipv4() { Some(IpAddr::from([192, 0, 0, 8])) } else { vtep };
        let subnets = &self.region.file.vpcs[vpc].subnets;
        let Some(subnet) = subnets.iter().find(|subnet| covers(subnet.value, subject)) else {
            return outside.filter(|_| sender == SenderKind::Remote);
        };
        let net = subnet.value.0;
        let is_end = subject == net.network() || subject == net.broadcast();
        if sender == SenderKind::Server && subject.is_ipv4() && net.prefix_len() < 31 && is_end {
            return None;
        }
        self.gateway_in(vpc, subnet.value).or(outside)
    }

    /// Returns the gateway's address in a subnet, if it has one.
    pub(super) fn gateway_in(&self, vpc: usize, prefix: Prefix) -> Option<IpAddr> {
        let vpc = &self.region.file.vpcs[vpc];
        declared_gateway(vpc, prefix).filter(|address| !self.vms.contains_key(&(vpc.vni.value, *address)))
    }

    /// Returns the uplinks to a tunnel end point; `None`: no route leads there.
    fn uplinks_to(&self, tunnel: IpAddr) -> Option<Vec<usize>> {
        let file = &self.region.file;
        let server = file.servers.iter().position(|server| server.address.value == tunnel);
        let remote = || file.remotes.iter().position(|remote| remote.address.value == tunnel);
        match server {
            Some(server) => Some(self.region.server_uplinks[server].clone()),
            None => remote().map(|remote| self.region.remote_uplinks[remote].clone()),
        }
    }
}

/// Returns the gateway's address in a subnet, unless a VM has it.
fn declared_gateway(vpc: &Vpc, prefix: Prefix) -> Option<IpAddr> {
    let has_first = prefix.0.prefix_len() < if prefix.0.addr().is_ipv4() { 31 } else { 127 };
    let first = has_first.then(|| match prefix.0.network() {
        IpAddr::V4(first) => IpAddr::from(Ipv4Addr::from(u32::from(first) + 1)),
        IpAddr::V6(first) => IpAddr::from(Ipv6Addr::from(u128::from(first) + 1)),
    });
    let named = vpc.gateways.iter().map(|gateway| gateway.value).find(|gateway| covers(prefix, *gateway));
    named.or(first)
}

/// Returns whether RFC 1812, section 4.3.2.7, or RFC 4443, section 2.4 (e), forbids an error.
fn is_never_told(parsed: &ParsedPacket, inner: &InnerPacket) -> bool {
    let later = inner.fragment == Fragment::Later;
    let group = parsed.inner_macs[0][0] & 1 == 1;
    let about_error = match (inner.source, inner.protocol) {
        (IpAddr::V4(_), 1) => matches!(inner.ports.0, 3 | 4 | 5 | 11 | 12),
        (IpAddr::V6(_), 58) => inner.ports.0 < 128 || inner.ports.0 == 137,
        _ => false,
    };
    later || group || about_error
}

/// Returns an ICMP message with its IP header.
fn error_packet(from: IpAddr, to: IpAddr, mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u16;
    // A checksum is over 16-bit words.
    let padding = vec![0; message.len() % 2];
    let mut packet = Vec::new();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let sum = checksum(&[&message[..], &padding].concat()).to_be_bytes();
            message[2..4].copy_from_slice(&sum);
            packet.extend([0x45, 0xc0]);
            packet.extend((length + 20).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, 1, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
            let sum = checksum(&packet).to_be_bytes();
            packet[10..12].copy_from_slice(&sum);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let addresses = [from.octets(), to.octets()].concat();
            let pseudo = [&addresses[..], &[0, 0], &length.to_be_bytes(), &[0, 0, 0, 58]].concat();
            let sum = checksum(&[&pseudo[..], &message, &padding].concat()).to_be_bytes();
            message[2..4].copy_from_slice(&sum);
            packet.extend([0x6c, 0, 0, 0]);
            packet.extend(length.to_be_bytes());
            packet.extend([58, 64]);
            packet.extend(addresses);
        }
        _ => unreachable!("an error has the family of the packet"),
    }
    packet.extend(message);
    packet
}
