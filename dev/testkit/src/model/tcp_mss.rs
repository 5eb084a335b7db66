//! The MSS of packets that open TCP connections (RFC 9293, sections 3.1 and 3.7.1).

use super::Model;
use super::parse::{Fragment, InnerPacket};
use region::{TcpMss, Vpc};

impl Model<'_> {
    /// Lowers the MSS of an inner packet to the limits of the two VPCs that it passes between.
    /// `packet` starts with the IP header.
    pub(super) fn lower_mss(&self, inner: &InnerPacket, vpcs: &[usize], packet: &mut [u8]) {
        let v4 = inner.source.is_ipv4();
        let of_vpc = |vpc: &usize| self.mss_limit(&self.region.file.vpcs[*vpc], v4);
        let Some(limit) = vpcs.iter().filter_map(of_vpc).min() else { return };
        // Only directly behind the IP header.
        let (header, direct) = if v4 { (20, packet[0] == 0x45 && packet[9] == 6) } else { (40, packet[6] == 6) };
        let be16 = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let length = if v4 { usize::from(be16(2)) } else { usize::from(be16(4)) + 40 };
        if inner.fragment == Fragment::Later || !direct || length < header + 20 || packet[header + 13] & 2 == 0 {
            return;
        }
        let tcp = &mut packet[header..length];
        let end = usize::from(tcp[12] >> 4) * 4;
        let Some(at) = tcp.get(20..end).and_then(mss_position).map(|at| 20 + at) else { return };
        let old = u16::from_be_bytes([tcp[at + 2], tcp[at + 3]]);
        if old <= limit {
            return;
        }
        // The checksum changes by what the bytes change, each at an even or an odd place.
        let change = |value: u16| u32::from(if at % 2 == 0 { value } else { value.swap_bytes() });
        let mut sum = u32::from(!u16::from_be_bytes([tcp[16], tcp[17]])) + (0xffff - change(old)) + change(limit);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        tcp[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        tcp[at + 2..at + 4].copy_from_slice(&limit.to_be_bytes());
    }

    /// Returns the largest segment that a VPC permits over one version of IP, in bytes.
    fn mss_limit(&self, vpc: &Vpc, v4: bool) -> Option<u16> {
        let file = &self.region.file;
        let least_mtu = file.uplinks.iter().map(|uplink| uplink.mtu.as_ref().map_or(1600, |mtu| mtu.value)).min()?;
        let tunnel = if file.gateway.vteps.iter().any(|vtep| vtep.is_ipv6()) { 70 } else { 50 };
        Some(match vpc.tcp_mss.as_ref()?.value {
            TcpMss::Bytes(bytes) => bytes,
            TcpMss::Auto => least_mtu - tunnel - if v4 { 40 } else { 60 },
        })
    }
}

/// Returns the offset of the MSS option; `None` if there is none, or the format is broken before it.
fn mss_position(options: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += match (*options.get(at)?, options.get(at + 1)) {
            (0, _) => return None,
            (1, _) => 1,
            (2, Some(4)) if at + 4 <= options.len() => return Some(at),
            (2, _) | (_, None | Some(0 | 1)) => return None,
            (_, Some(length)) => usize::from(*length),
        };
    }
}
