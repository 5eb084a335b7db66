//! Generates requests of VMs: for the gateway's MAC address (ARP and neighbour solicitations), and
//! for TCP connections.

use crate::frame::{IpPacket, VM_MAC, VxlanFrame, checksum};
use fastrand::Rng;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Replaces the content of a frame by a request for the MAC address of `target`, mostly valid.
pub(crate) fn ask_for_mac(rng: &mut Rng, frame: &mut VxlanFrame, source: IpAddr, target: IpAddr) {
    if rng.u8(..8) != 0 {
        frame.inner_macs[0] = if target.is_ipv4() { [0xff; 6] } else { [0x33, 0x33, 0xff, 0, 0, 1] };
    }
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            frame.inner_type = Some(0x0806);
            frame.content = Some(arp(rng, source, target));
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => frame.inner = solicitation(rng, source, target),
        _ => {}
    }
}

fn arp(rng: &mut Rng, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let source = [source, source, source, Ipv4Addr::UNSPECIFIED, target][rng.usize(..5)];
    let mut bytes = vec![0, 1, 8, 0, 6, 4, 0, 1];
    bytes.extend(VM_MAC);
    bytes.extend(source.octets());
    bytes.extend([0; 6]);
    bytes.extend(target.octets());
    if rng.u8(..6) == 0 {
        bytes[rng.usize(..8)] ^= 1 << rng.u8(..8);
    }
    bytes
}

fn solicitation(rng: &mut Rng, source: Ipv6Addr, target: Ipv6Addr) -> IpPacket {
    let is_probe = rng.u8(..5) == 0;
    let source = if is_probe {
        Ipv6Addr::UNSPECIFIED
    } else {
        [source, source, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 5)][rng.usize(..3)]
    };
    let [.., a, b, c] = target.octets();
    let group =
        Ipv6Addr::from(0xff02_0000_0000_0000_0000_0001_ff00_0000 | u128::from(u32::from_be_bytes([0, a, b, c])));
    let to = [group, group, target][rng.usize(..3)];
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    for _ in 0..rng.usize(..6) {
        if is_probe && rng.u8(..4) != 0 {
            break;
        }
        // A length of 0 is invalid, and one of 2 needs another eight bytes.
        let length = [1, 1, 1, 1, 1, 1, 2, 0][rng.usize(..8)];
        message.extend([[1, 14][rng.usize(..2)], length, 2, 0, 0, 0x77, 0, 1]);
        if rng.bool() {
            break;
        }
    }
    if rng.u8(..16) == 0 {
        message.truncate(rng.usize(4..=message.len()));
    }
    let length = message.len();
    let mut summed = [source.octets(), to.octets()].concat();
    summed.extend((length as u32).to_be_bytes());
    summed.extend([0, 0, 0, 58]);
    summed.extend(&message);
    summed.resize(summed.len().next_multiple_of(2), 0);
    let sum = checksum(&summed).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    if rng.u8(..12) == 0 {
        message[rng.usize(..length)] ^= 1 << rng.u8(..8);
    }
    let mut packet = IpPacket::new(source.into(), to.into(), 58, message);
    packet.ttl = if rng.u8(..8) == 0 { 64 } else { 255 };
    packet
}

/// Returns a TCP header with random options, mostly with SYN and an MSS, and some data. Its checksum
/// is random.
pub(crate) fn tcp_with_options(rng: &mut Rng) -> Vec<u8> {
    let mut options = Vec::new();
    while rng.u8(..5) != 0 && options.len() < 36 {
        match rng.u8(..12) {
            0..3 => options.push(1),
            3..8 => options.extend([2, 4, rng.u8(3..6), rng.u8(..)]),
            8 => options.extend([8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
            9 => options.extend([[2, 3, 4, 0][rng.usize(..4)], rng.u8(..6), 7]),
            _ => options.extend([4, 2]),
        }
    }
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    let mut words = 5 + options.len() as u8 / 4;
    if rng.u8(..12) == 0 {
        words = rng.u8(..16);
    }
    let mut bytes = vec![4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, words << 4, 2, 0xff, 0xff];
    bytes[13] = [2, 2, 2, 0x12, 0xc2, 0x10][rng.usize(..6)];
    bytes.extend(rng.u16(..).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(options);
    bytes.resize(bytes.len() + rng.usize(..9), 0x5a);
    bytes
}
