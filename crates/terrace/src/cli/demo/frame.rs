//! Builds and parses tenants' packets in VXLAN, for the demo without namespaces.

use super::scenario::{DENIED_PORT, ProbeMethod};
use crate::cli::failure::CommandError;
use etherparse::{
    Ethernet2Header, Icmpv4Type, Icmpv6Type, IpHeaders, NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket,
    TransportSlice,
};
use std::net::IpAddr;

/// VXLAN's UDP port (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// TCP source port of attempt 0. Attempt N uses this plus N.
const FIRST_PORT: u16 = 40000;

/// A request or reply of a station.
#[derive(Clone, Copy, Debug)]
pub struct ProbeMessage {
    /// Echo or TCP.
    pub method: ProbeMethod,
    /// Number of the attempt: ICMP identifier, or offset of the client's TCP port.
    pub id: u16,
    /// Whether this is the reply.
    pub reply: bool,
    /// Inner source and destination addresses.
    pub addresses: (IpAddr, IpAddr),
}

/// Headers around a message. MAC addresses are source and destination.
#[derive(Clone, Copy, Debug)]
pub struct OuterHeaders {
    /// MAC addresses of the underlay.
    pub macs: ([u8; 6], [u8; 6]),
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

/// Builds the bytes of a message with its outer headers.
pub fn build_frame(message: &ProbeMessage, outer_headers: &OuterHeaders) -> Result<Vec<u8>, CommandError> {
    let bug = |error: etherparse::err::packet::BuildWriteError| CommandError::Bug(error.to_string());
    let ProbeMessage { method, id, reply, addresses } = *message;
    let step = ip_headers(PacketBuilder::ethernet2(outer_headers.inner_macs.0, outer_headers.inner_macs.1), addresses)?;
    let mut payload = vec![0x08, 0, 0, 0];
    payload.extend((outer_headers.vni << 8).to_be_bytes());
    let (client, server) = (FIRST_PORT + id, DENIED_PORT);
    match (method, addresses.0.is_ipv4(), reply) {
        (ProbeMethod::Ping, true, false) => {
            step.icmpv4_echo_request(id, 1).write(&mut payload, b"terrace").map_err(bug)?
        }
        (ProbeMethod::Ping, true, true) => {
            step.icmpv4_echo_reply(id, 1).write(&mut payload, b"terrace").map_err(bug)?
        }
        (ProbeMethod::Ping, false, false) => {
            step.icmpv6_echo_request(id, 1).write(&mut payload, b"terrace").map_err(bug)?
        }
        (ProbeMethod::Ping, false, true) => {
            step.icmpv6_echo_reply(id, 1).write(&mut payload, b"terrace").map_err(bug)?
        }
        (ProbeMethod::Tcp, _, false) => {
            step.tcp(client, server, 1, 65535).syn().write(&mut payload, &[]).map_err(bug)?
        }
        (ProbeMethod::Tcp, _, true) => {
            step.tcp(server, client, 1, 65535).syn().ack(2).write(&mut payload, &[]).map_err(bug)?
        }
    }
    let outer =
        ip_headers(PacketBuilder::ethernet2(outer_headers.macs.0, outer_headers.macs.1), outer_headers.addresses)?;
    let mut frame = Vec::new();
    outer.udp(50000, VXLAN_PORT).write(&mut frame, &payload).map_err(bug)?;
    Ok(frame)
}

/// Parsed fields of a frame that the gateway sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedProbe {
    /// Address of the destination tunnel end point.
    pub host: IpAddr,
    /// VNI.
    pub vni: u32,
    /// Inner destination MAC.
    pub mac: [u8; 6],
    /// Inner source and destination addresses.
    pub addresses: (IpAddr, IpAddr),
    /// Number of the attempt.
    pub id: u16,
    /// Whether this is the reply.
    pub reply: bool,
}

/// Parses a frame. Returns `None` unless it is a complete message of the demo in VXLAN.
pub fn parse_frame(frame: &[u8]) -> Option<ReceivedProbe> {
    let outer = SlicedPacket::from_ethernet(frame).ok()?;
    let (_, host) = ip_endpoints(&outer)?;
    let Some(TransportSlice::Udp(udp)) = &outer.transport else { return None };
    let (vxlan, inner) = udp.payload().split_at_checked(8)?;
    if udp.destination_port() != VXLAN_PORT || vxlan[0] & 0x08 == 0 {
        return None;
    }
    let vni = u32::from_be_bytes([0, vxlan[4], vxlan[5], vxlan[6]]);
    let mac = inner.get(..6)?.try_into().ok()?;
    let inner = SlicedPacket::from_ethernet(inner).ok()?;
    let addresses = ip_endpoints(&inner)?;
    let (id, reply) = match inner.transport? {
        TransportSlice::Icmpv4(icmp) => match icmp.icmp_type() {
            Icmpv4Type::EchoRequest(echo) => (echo.id, false),
            Icmpv4Type::EchoReply(echo) => (echo.id, true),
            _ => return None,
        },
        TransportSlice::Icmpv6(icmp) => match icmp.icmp_type() {
            Icmpv6Type::EchoRequest(echo) => (echo.id, false),
            Icmpv6Type::EchoReply(echo) => (echo.id, true),
            _ => return None,
        },
        TransportSlice::Tcp(tcp) if tcp.ack() => (tcp.destination_port().checked_sub(FIRST_PORT)?, true),
        TransportSlice::Tcp(tcp) => (tcp.source_port().checked_sub(FIRST_PORT)?, false),
        TransportSlice::Udp(_) => return None,
    };
    Some(ReceivedProbe { host, vni, mac, addresses, id, reply })
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
        for (method, source, destination) in [
            (ProbeMethod::Ping, "10.0.0.1", "10.0.0.2"),
            (ProbeMethod::Ping, "fd00::1", "fd00::2"),
            (ProbeMethod::Tcp, "10.0.0.1", "10.0.0.2"),
        ] {
            for (reply, outer) in [(false, ["192.0.2.1", "192.0.2.2"]), (true, ["2001:db8::1", "2001:db8::2"])] {
                let addresses = (source.parse().unwrap(), destination.parse().unwrap());
                let [from, host] = outer.map(|address| address.parse::<IpAddr>().unwrap());
                let envelope = OuterHeaders {
                    macs: ([2; 6], [4; 6]),
                    addresses: (from, host),
                    vni: 77,
                    inner_macs: ([6; 6], [8; 6]),
                };
                let frame = build_frame(&ProbeMessage { method, id: 9, reply, addresses }, &envelope).unwrap();
                assert_eq!(
                    parse_frame(&frame),
                    Some(ReceivedProbe { host, vni: 77, mac: [8; 6], addresses, id: 9, reply })
                );
                assert_eq!(parse_frame(&frame[..frame.len() - 1]), None, "not whole");
            }
        }
    }
}
