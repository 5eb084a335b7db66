//! Builds the packet that the gateway sends.

use super::decide::{ForwardingDecision, SenderKind};
use super::parse::{Fragment, InnerPacket, ParsedPacket};
use super::{Model, ModelVerdict};
use crate::frame::checksum;
use region::Uplink;
use std::net::IpAddr;

impl Model<'_> {
    /// Builds the packet for a decision: new outer headers for the tunnel, and the inner packet
    /// with its TTL and ECN updated. Drops it if it exceeds the uplink's MTU.
    pub(super) fn rewrite(
        &self,
        packet: &[u8],
        parsed: &ParsedPacket,
        inner: &InnerPacket,
        sender: SenderKind,
        decision: &ForwardingDecision,
    ) -> Result<ModelVerdict, ModelVerdict> {
        let file = &self.region.file;
        let hash = self.flow_hash(inner);
        let uplink = &file.uplinks[choose_uplink(&decision.uplinks, hash)];
        let mtu = uplink.mtu.as_ref().map_or(1600, |m| usize::from(m.value));
        let udp_offset = 14 + parsed.outer_ip;
        let udp_length = usize::from(u16::from_be_bytes([packet[udp_offset + 4], packet[udp_offset + 5]]));
        if udp_length + if decision.tunnel.is_ipv4() { 20 } else { 40 } > mtu {
            let left = mtu - if decision.tunnel.is_ipv4() { 50 } else { 70 };
            return Err(self.tell(packet, parsed, inner, sender, "exceeds_mtu", left));
        }
        let ecn = decapsulated_ecn(parsed.tos.1, inner.ecn).ok_or(ModelVerdict::Drop("ecn_ce_on_not_ect".into()))?;

        let mut out = frame_start(uplink);
        self.outer_ip(&mut out, decision.tunnel, parsed.tos.0, ecn, udp_length as u16, hash);
        out.extend((0xc000 | (hash & 0x3fff) as u16).to_be_bytes());
        out.extend(4789u16.to_be_bytes());
        out.extend((udp_length as u16).to_be_bytes());
        out.extend([0, 0, 8, 0, 0, 0]);
        out.extend(&decision.vni.to_be_bytes()[1..]);
        out.push(0);
        out.extend(decision.mac.0);
        out.extend(file.gateway.mac.0);
        out.extend(parsed.inner_type.to_be_bytes());
        let inner_start = out.len();
        // Bytes after the outer packet are not sent.
        out.extend(&packet[inner.at..udp_offset + udp_length]);
        inner_ip(&mut out[inner_start..], inner.source.is_ipv4(), ecn, decision.hops);
        self.lower_mss(inner, &decision.vpcs, &mut out[inner_start..]);
        Ok(ModelVerdict::Send { port: uplink.port.value, bytes: out })
    }

    /// Appends the outer Ethernet type and IP header. The gateway's own address is that of the
    /// tunnel's family; `hash` is the flow label of IPv6.
    pub(super) fn outer_ip(&self, out: &mut Vec<u8>, tunnel: IpAddr, dscp: u8, ecn: u8, udp_length: u16, hash: u32) {
        let own_address =
            self.region.file.gateway.vteps.iter().map(|v| v.value).find(|v| v.is_ipv4() == tunnel.is_ipv4());
        match (own_address, tunnel) {
            (Some(IpAddr::V4(own_address)), IpAddr::V4(tunnel_address)) => {
                out.extend(0x0800u16.to_be_bytes());
                let start = out.len();
                out.extend([0x45, dscp << 2 | ecn]);
                out.extend((20 + udp_length).to_be_bytes());
                out.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
                out.extend(own_address.octets());
                out.extend(tunnel_address.octets());
                let sum = checksum(&out[start..]).to_be_bytes();
                out[start + 10..start + 12].copy_from_slice(&sum);
            }
            (Some(IpAddr::V6(own_address)), IpAddr::V6(tunnel_address)) => {
                out.extend(0x86ddu16.to_be_bytes());
                let first = 6u32 << 28 | u32::from(dscp) << 22 | u32::from(ecn) << 20 | hash & 0xf_ffff;
                out.extend(first.to_be_bytes());
                out.extend(udp_length.to_be_bytes());
                out.extend([17, 64]);
                out.extend(own_address.octets());
                out.extend(tunnel_address.octets());
            }
            _ => unreachable!("the region's checks ask for a gateway address of the family"),
        }
    }
}

/// Returns the MAC addresses of a frame to the neighbour of an uplink, and the tag of its VLAN.
pub(super) fn frame_start(uplink: &Uplink) -> Vec<u8> {
    let mut out = [uplink.peer_mac.as_ref().map_or([0; 6], |peer| peer.0), uplink.mac.0].concat();
    if let Some(vlan) = &uplink.vlan {
        out.extend([0x81, 0]);
        out.extend(vlan.value.to_be_bytes());
    }
    out
}

/// Decrements the TTL by `hops`, sets the ECN bits, and updates the checksum.
fn inner_ip(packet: &mut [u8], v4: bool, ecn: u8, hops: u8) {
    if v4 {
        packet[1] = packet[1] & !3 | ecn;
        packet[8] -= hops;
        packet[10..12].fill(0);
        let header = usize::from(packet[0] & 15) * 4;
        let sum = checksum(&packet[..header]).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
    } else {
        packet[1] = packet[1] & !0x30 | ecn << 4;
        packet[7] -= hops;
    }
}

/// Returns the ECN bits after decapsulation (RFC 6040, figure 4); `None`: drop.
fn decapsulated_ecn(outer: u8, inner: u8) -> Option<u8> {
    const NOT_ECT: u8 = 0;
    const ECT_1: u8 = 1;
    const ECT_0: u8 = 2;
    const CE: u8 = 3;
    match (inner, outer) {
        (NOT_ECT, CE) => None,
        (NOT_ECT, _) => Some(NOT_ECT),
        (_, CE) => Some(CE),
        (ECT_0, ECT_1) => Some(ECT_1),
        (inner, _) => Some(inner),
    }
}

impl Model<'_> {
    /// Returns the CRC-32 of the inner addresses, protocol and ports, with the secret added to the last
    /// 32 bits of each address and to the ports. Fragments have no ports.
    pub(super) fn flow_hash(&self, inner: &InnerPacket) -> u32 {
        let secret = self.region.file.gateway.flow_secret.as_ref().map_or(0, |secret| secret.value);
        let mut bytes = Vec::new();
        for ip in [inner.source, inner.destination] {
            match ip {
                IpAddr::V4(ip) => bytes.extend(u32::from(ip).wrapping_add(secret).to_be_bytes()),
                IpAddr::V6(ip) => {
                    bytes.extend(&ip.octets()[..12]);
                    bytes.extend((u128::from(ip) as u32).wrapping_add(secret).to_be_bytes());
                }
            }
        }
        bytes.push(inner.protocol);
        let ports = if inner.fragment == Fragment::Whole { inner.ports } else { (0, 0) };
        let ports = u32::from(ports.0) << 16 | u32::from(ports.1);
        bytes.extend(ports.wrapping_add(secret).to_be_bytes());
        crc32(&bytes)
    }
}

/// Computes the CRC-32 of Ethernet bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
        }
    }
    !crc
}

/// Chooses the uplink of a flow. Each uplink has at least 8 buckets; their total is a power of two,
/// assigned in turn.
pub(super) fn choose_uplink(uplinks: &[usize], hash: u32) -> usize {
    let buckets = (uplinks.len() * 8).next_power_of_two();
    let bucket = if uplinks.len() == 1 { 0 } else { (hash >> 16) as usize & (buckets - 1) };
    uplinks[bucket % uplinks.len()]
}
