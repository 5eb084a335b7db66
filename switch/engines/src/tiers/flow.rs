//! Program-independent flow hash, with which a switch chooses a link.

use std::hash::{BuildHasher, Hasher};

/// Maximum number of encapsulation layers that are hashed.
const MAX_LAYERS: usize = 4;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;

/// Hashes addresses, protocol and ports of each layer, and the network identifiers of VXLAN (RFC
/// 7348) and Geneve (RFC 8926). For a non-IP frame: its addresses and type. All fragments of a
/// packet have the same hash, because the ports of fragments are ignored.
pub fn flow_hash(seed: &impl BuildHasher, frame: &[u8]) -> u64 {
    let mut hasher = seed.build_hasher();
    let mut rest = frame;
    for _ in 0..MAX_LAYERS {
        match hash_layer(rest, &mut hasher) {
            Some(inner) => rest = inner,
            None => break,
        }
    }
    hasher.finish()
}

/// Hashes the addresses, protocol and ports of an Ethernet frame (VLAN ids too). Returns the inner
/// frame of a VXLAN or Geneve tunnel; `None` if there is none.
fn hash_layer<'f>(frame: &'f [u8], hasher: &mut impl Hasher) -> Option<&'f [u8]> {
    let mut type_offset = 12;
    let mut ethertype = read_u16(frame, type_offset)?;
    while matches!(ethertype, 0x8100 | 0x88a8) {
        hasher.write_u16(read_u16(frame, type_offset + 2)? & 0xfff);
        type_offset += 4;
        ethertype = read_u16(frame, type_offset)?;
    }
    let ip = frame.get(type_offset + 2..)?;
    let (protocol, transport) = match ethertype {
        0x0800 => {
            let header_bytes = usize::from(*ip.first()? & 15) * 4;
            hasher.write(ip.get(12..20)?);
            let is_unfragmented = read_u16(ip, 6)? & 0x3fff == 0;
            // Fragments after the first have no ports, so the ports of no fragment are hashed.
            (*ip.get(9)?, ip.get(header_bytes..).filter(|_| is_unfragmented))
        }
        0x86dd => {
            hasher.write(ip.get(8..40)?);
            (*ip.get(6)?, ip.get(40..))
        }
        ethertype => {
            hasher.write(frame.get(..12)?);
            hasher.write_u16(ethertype);
            return None;
        }
    };
    hasher.write_u8(protocol);
    let transport = transport?;
    let ports = match protocol {
        6 | 17 | 132 => transport.get(..4)?,
        _ => return None,
    };
    hasher.write(ports);
    if protocol != 17 {
        return None;
    }
    match read_u16(ports, 2)? {
        VXLAN_PORT => {
            hasher.write(transport.get(12..15)?);
            transport.get(16..)
        }
        GENEVE_PORT => {
            hasher.write(transport.get(12..15)?);
            let options = usize::from(*transport.get(8)? & 0x3f) * 4;
            transport.get(16 + options..).filter(|_| read_u16(transport, 10) == Some(0x6558))
        }
        _ => None,
    }
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::hash::RandomState;
    use std::net::IpAddr;
    use testkit::frame::{IpPacket, VxlanFrame, segment};

    fn frame(vni: u32, last: u8, port: u16, length: usize) -> Vec<u8> {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let inner = IpPacket::new(ip("10.0.0.1"), IpAddr::from([10, 0, 1, last]), 6, segment(port, 443, length));
        VxlanFrame::new((ip("192.0.2.1"), ip("192.0.2.2")), vni, inner).bytes()
    }

    #[test]
    fn packets_of_a_flow_are_alike_and_flows_are_not() {
        let seed = RandomState::new();
        let hash = |vni, last, port, length| flow_hash(&seed, &frame(vni, last, port, length));
        assert_eq!(hash(5, 1, 1_000, 40), hash(5, 1, 1_000, 900));
        let flows = [hash(5, 1, 1_000, 40), hash(6, 1, 1_000, 40), hash(5, 2, 1_000, 40), hash(5, 1, 1_001, 40)];
        assert_eq!(flows.iter().collect::<HashSet<_>>().len(), 4, "inner addresses, ports and networks count");
    }

    #[test]
    fn any_bytes_have_a_flow() {
        let seed = RandomState::new();
        let whole = frame(5, 1, 1_000, 40);
        let hashes: HashSet<u64> = (0..whole.len()).map(|len| flow_hash(&seed, &whole[..len])).collect();
        assert!(hashes.len() > 5);
    }
}
