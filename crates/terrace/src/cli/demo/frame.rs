//! Tenants' packets in VXLAN, as servers send and get them: for the demo without namespaces.

use super::scenario::{DENIED_PORT, Means};
use crate::cli::failure::Failure;
use etherparse::{
    Ethernet2Header, Icmpv4Type, Icmpv6Type, IpHeaders, NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket,
    TransportSlice,
};
use std::net::IpAddr;

/// VXLAN's UDP port (RFC 7348, section 5).
const VXLAN_PORT: u16 = 4789;
/// The source port of attempt 0 over TCP; those of the others follow.
const FIRST_PORT: u16 = 40000;

/// What a machine sends.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Echo or TCP.
    pub means: Means,
    /// The attempt's number: ICMP identifier, or the client's TCP port.
    pub id: u16,
    /// Whether it is the answer.
    pub reply: bool,
    /// The inner addresses.
    pub addresses: (IpAddr, IpAddr),
}

/// The headers around it. MAC addresses are source and destination.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Of the underlay.
    pub macs: ([u8; 6], [u8; 6]),
    /// Of the underlay.
    pub addresses: (IpAddr, IpAddr),
    /// The VNI.
    pub vni: u32,
    /// Of the tenant's packet.
    pub inner_macs: ([u8; 6], [u8; 6]),
}

fn ip(
    step: PacketBuilderStep<Ethernet2Header>,
    addresses: (IpAddr, IpAddr),
) -> Result<PacketBuilderStep<IpHeaders>, Failure> {
    match addresses {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ok(step.ipv4(source.octets(), destination.octets(), 64)),
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ok(step.ipv6(source.octets(), destination.octets(), 64)),
        (source, destination) => Err(Failure::Bug(format!("{source} and {destination} are of different families"))),
    }
}

/// The bytes of a message in its envelope.
pub fn build(message: &Message, envelope: &Envelope) -> Result<Vec<u8>, Failure> {
    let bug = |error: etherparse::err::packet::BuildWriteError| Failure::Bug(error.to_string());
    let Message { means, id, reply, addresses } = *message;
    let step = ip(PacketBuilder::ethernet2(envelope.inner_macs.0, envelope.inner_macs.1), addresses)?;
    let mut payload = vec![0x08, 0, 0, 0];
    payload.extend((envelope.vni << 8).to_be_bytes());
    let (client, server) = (FIRST_PORT + id, DENIED_PORT);
    match (means, addresses.0.is_ipv4(), reply) {
        (Means::Ping, true, false) => step.icmpv4_echo_request(id, 1).write(&mut payload, b"terrace").map_err(bug)?,
        (Means::Ping, true, true) => step.icmpv4_echo_reply(id, 1).write(&mut payload, b"terrace").map_err(bug)?,
        (Means::Ping, false, false) => step.icmpv6_echo_request(id, 1).write(&mut payload, b"terrace").map_err(bug)?,
        (Means::Ping, false, true) => step.icmpv6_echo_reply(id, 1).write(&mut payload, b"terrace").map_err(bug)?,
        (Means::Tcp, _, false) => step.tcp(client, server, 1, 65535).syn().write(&mut payload, &[]).map_err(bug)?,
        (Means::Tcp, _, true) => {
            step.tcp(server, client, 1, 65535).syn().ack(2).write(&mut payload, &[]).map_err(bug)?
        }
    }
    let outer = ip(PacketBuilder::ethernet2(envelope.macs.0, envelope.macs.1), envelope.addresses)?;
    let mut frame = Vec::new();
    outer.udp(50000, VXLAN_PORT).write(&mut frame, &payload).map_err(bug)?;
    Ok(frame)
}

/// What is read from a frame that the gateway sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// The tunnel end point that it is for.
    pub host: IpAddr,
    /// The VNI.
    pub vni: u32,
    /// The machine's MAC that it is for.
    pub mac: [u8; 6],
    /// The inner addresses.
    pub addresses: (IpAddr, IpAddr),
    /// The attempt's number.
    pub id: u16,
    /// Whether it is the answer.
    pub reply: bool,
}

/// Reads a frame; `None` if it is no message of the demo, whole and in VXLAN.
pub fn read(frame: &[u8]) -> Option<Arrived> {
    let outer = SlicedPacket::from_ethernet(frame).ok()?;
    let (_, host) = ends(&outer)?;
    let Some(TransportSlice::Udp(udp)) = &outer.transport else { return None };
    let (vxlan, inner) = udp.payload().split_at_checked(8)?;
    if udp.destination_port() != VXLAN_PORT || vxlan[0] & 0x08 == 0 {
        return None;
    }
    let vni = u32::from_be_bytes([0, vxlan[4], vxlan[5], vxlan[6]]);
    let mac = inner.get(..6)?.try_into().ok()?;
    let inner = SlicedPacket::from_ethernet(inner).ok()?;
    let addresses = ends(&inner)?;
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
    Some(Arrived { host, vni, mac, addresses, id, reply })
}

/// Source and destination.
fn ends(packet: &SlicedPacket<'_>) -> Option<(IpAddr, IpAddr)> {
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
        for (means, source, destination) in [
            (Means::Ping, "10.0.0.1", "10.0.0.2"),
            (Means::Ping, "fd00::1", "fd00::2"),
            (Means::Tcp, "10.0.0.1", "10.0.0.2"),
        ] {
            for (reply, outer) in [(false, ["192.0.2.1", "192.0.2.2"]), (true, ["2001:db8::1", "2001:db8::2"])] {
                let addresses = (source.parse().unwrap(), destination.parse().unwrap());
                let [from, host] = outer.map(|address| address.parse::<IpAddr>().unwrap());
                let envelope =
                    Envelope { macs: ([2; 6], [4; 6]), addresses: (from, host), vni: 77, inner_macs: ([6; 6], [8; 6]) };
                let frame = build(&Message { means, id: 9, reply, addresses }, &envelope).unwrap();
                assert_eq!(read(&frame), Some(Arrived { host, vni: 77, mac: [8; 6], addresses, id: 9, reply }));
                assert_eq!(read(&frame[..frame.len() - 1]), None, "not whole");
            }
        }
    }
}
