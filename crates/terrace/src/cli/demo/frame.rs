//! Builds and parses tenants' packets in VXLAN, and those of hosts without tunnels, for the demo without
//! namespaces.

use crate::cli::failure::CommandError;
use etherparse::{
    Ethernet2Header, Icmpv4Type, Icmpv6Type, IpHeaders, NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket,
    TransportSlice,
};
use std::net::IpAddr;

/// VXLAN's UDP port (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// Kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// ICMP echo. Both ports are the identifier.
    Echo,
    /// SYN, answered by SYN and ACK.
    Tcp,
}

/// A request or reply of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeMessage {
    /// Echo or TCP.
    pub kind: MessageKind,
    /// Number of the request, which no translation changes: a sequence number.
    pub id: u16,
    /// Whether this is the reply.
    pub reply: bool,
    /// Source and destination addresses of the tenant's packet.
    pub addresses: (IpAddr, IpAddr),
    /// Its source and destination ports.
    pub ports: (u16, u16),
}

impl ProbeMessage {
    /// Returns the reply to a request, as its receiver sends it.
    pub fn reply(&self) -> ProbeMessage {
        let (addresses, ports) = ((self.addresses.1, self.addresses.0), (self.ports.1, self.ports.0));
        ProbeMessage { reply: true, addresses, ports, ..*self }
    }
}

/// Tunnel around a message. MAC addresses are source and destination.
#[derive(Clone, Copy, Debug)]
pub struct TunnelHeaders {
    /// IP addresses of the underlay.
    pub addresses: (IpAddr, IpAddr),
    /// VNI.
    pub vni: u32,
    /// MAC addresses of the tenant's packet.
    pub inner_macs: ([u8; 6], [u8; 6]),
}

fn ip_headers(
    step: PacketBuilderStep<Ethernet2Header>,
    addresses: (IpAddr, IpAddr),
) -> Result<PacketBuilderStep<IpHeaders>, CommandError> {
    match addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(step.ipv4(source.octets(), destination.octets(), 64)),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(step.ipv6(source.octets(), destination.octets(), 64)),
        (source, destination) => {
            Err(CommandError::Bug(format!("{source} and {destination} are of different families")))
        }
    }
}

/// Builds the frame of a message between these MAC addresses, source and destination, in a tunnel if the
/// sender has one.
pub fn build_frame(
    message: &ProbeMessage,
    macs: ([u8; 6], [u8; 6]),
    tunnel: Option<&TunnelHeaders>,
) -> Result<Vec<u8>, CommandError> {
    let mut frame = Vec::new();
    let Some(tunnel) = tunnel else {
        write_message(message, macs, &mut frame)?;
        return Ok(frame);
    };
    let mut payload = vec![0x08, 0, 0, 0];
    payload.extend((tunnel.vni << 8).to_be_bytes());
    write_message(message, tunnel.inner_macs, &mut payload)?;
    let outer = ip_headers(PacketBuilder::ethernet2(macs.0, macs.1), tunnel.addresses)?;
    outer.udp(50000, VXLAN_PORT).write(&mut frame, &payload).map_err(bug)?;
    Ok(frame)
}

fn bug(error: etherparse::err::packet::BuildWriteError) -> CommandError {
    CommandError::Bug(error.to_string())
}

/// Appends the Ethernet frame of a message.
fn write_message(message: &ProbeMessage, macs: ([u8; 6], [u8; 6]), frame: &mut Vec<u8>) -> Result<(), CommandError> {
    let ProbeMessage { kind, id, reply, addresses, ports: (from, to) } = *message;
    let step = ip_headers(PacketBuilder::ethernet2(macs.0, macs.1), addresses)?;
    let (content, sequence) = (b"terrace", u32::from(id));
    let written = match (kind, addresses.0.is_ipv4(), reply) {
        (MessageKind::Echo, true, false) => step.icmpv4_echo_request(from, id).write(frame, content),
        (MessageKind::Echo, true, true) => step.icmpv4_echo_reply(from, id).write(frame, content),
        (MessageKind::Echo, false, false) => step.icmpv6_echo_request(from, id).write(frame, content),
        (MessageKind::Echo, false, true) => step.icmpv6_echo_reply(from, id).write(frame, content),
        (MessageKind::Tcp, _, false) => step.tcp(from, to, sequence, 65535).syn().write(frame, &[]),
        (MessageKind::Tcp, _, true) => step.tcp(from, to, 1, 65535).syn().ack(sequence + 1).write(frame, &[]),
    };
    written.map_err(bug)
}

/// Parsed fields of a frame that the gateway sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedProbe {
    /// Tunnel, if the frame is in one.
    pub tunnel: Option<ReceivedTunnel>,
    /// The message.
    pub message: ProbeMessage,
}

/// Tunnel of a frame that the gateway sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedTunnel {
    /// Address of the destination tunnel end point.
    pub host: IpAddr,
    /// VNI.
    pub vni: u32,
    /// Inner destination MAC.
    pub mac: [u8; 6],
}

/// Parses a frame. Returns `None` unless it is a complete message of the demo.
pub fn parse_frame(frame: &[u8]) -> Option<ReceivedProbe> {
    let outer = SlicedPacket::from_ethernet(frame).ok()?;
    let udp = match &outer.transport {
        Some(TransportSlice::Udp(udp)) if udp.destination_port() == VXLAN_PORT => udp,
        _ => return Some(ReceivedProbe { tunnel: None, message: parse_message(&outer)? }),
    };
    let (_, host) = ip_endpoints(&outer)?;
    let (vxlan, inner) = udp.payload().split_at_checked(8)?;
    if vxlan[0] & 0x08 == 0 {
        return None;
    }
    let vni = u32::from_be_bytes([0, vxlan[4], vxlan[5], vxlan[6]]);
    let mac = inner.get(..6)?.try_into().ok()?;
    let message = parse_message(&SlicedPacket::from_ethernet(inner).ok()?)?;
    Some(ReceivedProbe { tunnel: Some(ReceivedTunnel { host, vni, mac }), message })
}

fn parse_message(packet: &SlicedPacket<'_>) -> Option<ProbeMessage> {
    let addresses = ip_endpoints(packet)?;
    let echo = |echo: etherparse::IcmpEchoHeader, reply| {
        let ports = (echo.id, echo.id);
        Some(ProbeMessage { kind: MessageKind::Echo, id: echo.seq, reply, addresses, ports })
    };
    match packet.transport.as_ref()? {
        TransportSlice::Icmpv4(icmp) => match icmp.icmp_type() {
            Icmpv4Type::EchoRequest(header) => echo(header, false),
            Icmpv4Type::EchoReply(header) => echo(header, true),
            _ => None,
        },
        TransportSlice::Icmpv6(icmp) => match icmp.icmp_type() {
            Icmpv6Type::EchoRequest(header) => echo(header, false),
            Icmpv6Type::EchoReply(header) => echo(header, true),
            _ => None,
        },
        TransportSlice::Tcp(tcp) => {
            let (reply, ports) = (tcp.ack(), (tcp.source_port(), tcp.destination_port()));
            let number = if reply { tcp.acknowledgment_number().wrapping_sub(1) } else { tcp.sequence_number() };
            Some(ProbeMessage { kind: MessageKind::Tcp, id: u16::try_from(number).ok()?, reply, addresses, ports })
        }
        TransportSlice::Udp(_) => None,
    }
}

/// Returns the source and destination addresses.
fn ip_endpoints(packet: &SlicedPacket<'_>) -> Option<(IpAddr, IpAddr)> {
    match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        NetSlice::Ipv6(ip) => Some((ip.header().source_addr().into(), ip.header().destination_addr().into())),
        NetSlice::Arp(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_read() {
        for (kind, source, destination) in [
            (MessageKind::Echo, "10.0.0.1", "10.0.0.2"),
            (MessageKind::Echo, "fd00::1", "fd00::2"),
            (MessageKind::Tcp, "10.0.0.1", "10.0.0.2"),
        ] {
            for (reply, outer) in [(false, ["192.0.2.1", "192.0.2.2"]), (true, ["2001:db8::1", "2001:db8::2"])] {
                let addresses = (source.parse().unwrap(), destination.parse().unwrap());
                let [from, host] = outer.map(|address| address.parse::<IpAddr>().unwrap());
                let ports = if kind == MessageKind::Tcp { (40000, 80) } else { (7, 7) };
                let message = ProbeMessage { kind, id: 9, reply, addresses, ports };
                let tunnel = TunnelHeaders { addresses: (from, host), vni: 77, inner_macs: ([6; 6], [8; 6]) };
                let frame = build_frame(&message, ([2; 6], [4; 6]), Some(&tunnel)).unwrap();
                let received = ReceivedTunnel { host, vni: 77, mac: [8; 6] };
                assert_eq!(parse_frame(&frame), Some(ReceivedProbe { tunnel: Some(received), message }));
                assert_eq!(parse_frame(&frame[..frame.len() - 1]), None, "not whole");
                let plain = build_frame(&message, ([2; 6], [4; 6]), None).unwrap();
                assert_eq!(parse_frame(&plain), Some(ReceivedProbe { tunnel: None, message }));
                assert_eq!(parse_frame(&plain[..plain.len() - 1]), None, "not whole");
            }
        }
    }

    #[test]
    fn a_reply_goes_back_with_the_number_of_its_request() {
        let addresses = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let request = ProbeMessage { kind: MessageKind::Tcp, id: 3, reply: false, addresses, ports: (40000, 80) };
        let reply = ProbeMessage { reply: true, addresses: (addresses.1, addresses.0), ports: (80, 40000), ..request };
        assert_eq!(request.reply(), reply);
    }
}
