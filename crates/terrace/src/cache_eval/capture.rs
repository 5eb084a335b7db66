//! Arrival pattern of a real capture: the flow and the arrival time of each packet. The contents of
//! the packets are not used.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;
use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;

/// Maximum number of packets that are read from a capture.
pub const MAX_PACKETS: usize = 10_000_000;

/// Arrival times of the packets of each flow, in nanoseconds since the first packet of the capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArrivalPattern {
    /// Arrival times of each flow, in order of the flows' first packets.
    pub flows: Vec<Vec<u64>>,
}

/// Reads a pcap file. A flow is one direction of an address pair, protocol and port pair. Packets
/// that are not IP are skipped.
///
/// # Errors
/// If the file is not a pcap file of Ethernet frames, or has no IP packet.
pub fn read(file: impl Read) -> Result<ArrivalPattern, String> {
    let help = "give an uncompressed pcap file of Ethernet frames";
    let mut reader = PcapReader::new(file).map_err(|error| format!("{error}; {help}"))?;
    if reader.header().datalink != pcap_file::DataLink::ETHERNET {
        return Err(format!("its packets are {:?}; {help}", reader.header().datalink));
    }
    let mut flow_numbers = HashMap::new();
    let mut pattern = ArrivalPattern::default();
    let (mut first_ns, mut count) = (None, 0);
    // Captures are often truncated in their last packet. All packets before it are used.
    while let Some(Ok(packet)) = reader.next_packet() {
        let time_ns = packet.timestamp.as_nanos() as u64;
        let begin_ns = *first_ns.get_or_insert(time_ns);
        let Some(key) = flow_key(&packet.data) else { continue };
        let flow = *flow_numbers.entry(key).or_insert_with(|| {
            pattern.flows.push(Vec::new());
            pattern.flows.len() - 1
        });
        pattern.flows[flow].push(time_ns.saturating_sub(begin_ns));
        count += 1;
        if count == MAX_PACKETS {
            break;
        }
    }
    pattern.flows.iter_mut().for_each(|times| times.sort_unstable());
    if pattern.flows.is_empty() { Err("it has no IP packet".to_owned()) } else { Ok(pattern) }
}

type Key = (IpAddr, IpAddr, u8, u16, u16);

/// Returns the flow of a frame: addresses, protocol and ports, which are 0 without TCP or UDP.
/// `None`: no IP packet.
fn flow_key(frame: &[u8]) -> Option<Key> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let (source, destination, protocol) = match packet.net? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), ip.payload_ip_number().0)
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            (header.source_addr().into(), header.destination_addr().into(), ip.payload().ip_number.0)
        }
        NetSlice::Arp(_) => return None,
    };
    let ports = match packet.transport {
        Some(TransportSlice::Tcp(tcp)) => (tcp.source_port(), tcp.destination_port()),
        Some(TransportSlice::Udp(udp)) => (udp.source_port(), udp.destination_port()),
        _ => (0, 0),
    };
    Some((source, destination, protocol, ports.0, ports.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    use std::time::Duration;

    fn frame(port: u16) -> Vec<u8> {
        let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).udp(port, 53);
        let mut frame = Vec::new();
        builder.write(&mut frame, b"x").unwrap();
        frame
    }

    #[test]
    fn a_capture_is_read_by_flows() {
        let mut file = Vec::new();
        let mut writer = PcapWriter::new(&mut file).unwrap();
        for (at, port) in [(1_000, 7), (1_200, 8), (1_500, 7)] {
            let frame = frame(port);
            let len = frame.len() as u32;
            writer.write_packet(&PcapPacket::new(Duration::from_millis(at), len, &frame)).unwrap();
        }
        writer.write_packet(&PcapPacket::new(Duration::from_secs(2), 14, &[0xff; 14])).unwrap();
        let pattern = read(&file[..]).unwrap();
        assert_eq!(pattern.flows, [vec![0, 500_000_000], vec![200_000_000]]);
        // A capture truncated within a packet is valid up to the packet before.
        assert_eq!(read(&file[..file.len() - 40]).unwrap().flows.concat().len(), 2);
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        assert!(read(&b"nonsense"[..]).unwrap_err().contains("uncompressed pcap"));
    }
}
