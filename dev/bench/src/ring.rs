//! [`Ring`]: the packets that in-memory systems process, about a megabyte of them, regenerated for
//! each round.
//!
//! A round fills all batches (not timed), and then processes all of them (timed). So packets come
//! from the second-level cache, while a network card's would come from the last level, and no
//! packet is processed twice.

use crate::workload::{Flow, Flows, GATEWAY, OWN_MAC, ROUTER_MAC};
use packet::{Batch, Packet, PortId};

/// Maximum size of the packets in a ring, in bytes.
const RING_BYTES: usize = 1 << 20;

/// Maximum number of packets in a ring. Each has its own buffer. An engine touches at least four
/// cache lines of a buffer and its descriptor, so more packets would exceed the inner caches with
/// any engine.
const RING_PACKETS: usize = 2048;

/// Bytes before the inner IPv4 packet: Ethernet, IPv4, UDP, VXLAN, Ethernet.
pub const HEADERS: usize = 14 + 20 + 8 + 8 + 14;

/// Ingress port of all packets.
pub const IN_PORT: u32 = 1;

/// Byte offsets of the fields that differ between packets.
mod offset {
    pub const OUTER: usize = 14;
    pub const OUTER_CHECKSUM: usize = 24;
    pub const SENDER: usize = 26;
    pub const VNI: usize = 46;
    pub const IDENTIFICATION: usize = 68;
    pub const CHECKSUM: usize = 74;
    pub const SOURCE: usize = 76;
    pub const DESTINATION: usize = 80;
    pub const PORT: usize = 84;
}

/// A packet without the fields that differ between packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    /// Sums of the other words of the outer and the inner IPv4 header.
    outer_sum: u32,
    sum: u32,
}

impl Template {
    /// Creates a template for packets with an inner Ethernet frame of `frame` bytes, without check
    /// sequence: 64 to 1,514 (at least 60).
    pub fn new(frame: usize) -> Template {
        let inner_ip_len = frame.max(60) - 14;
        let mut bytes = Vec::with_capacity(HEADERS + inner_ip_len);
        let append_mac = |bytes: &mut Vec<u8>, append_mac: u64| bytes.extend_from_slice(&append_mac.to_be_bytes()[2..]);
        append_mac(&mut bytes, OWN_MAC);
        append_mac(&mut bytes, ROUTER_MAC);
        bytes.extend_from_slice(&[0x08, 0x00]);
        append_ipv4(&mut bytes, 20 + 8 + 8 + 14 + inner_ip_len, 17, 0, GATEWAY);
        let outer_sum = words(&bytes[offset::OUTER..offset::OUTER + 20]);
        // UDP header of the outer packet: ports, length, no checksum.
        for word in [0xd903, 4789, (8 + 8 + 14 + inner_ip_len) as u16, 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0]);
        append_mac(&mut bytes, OWN_MAC);
        append_mac(&mut bytes, 0x5254_00ff_fffe);
        bytes.extend_from_slice(&[0x08, 0x00]);
        append_ipv4(&mut bytes, inner_ip_len, 17, 0, 0);
        let sum = words(&bytes[HEADERS..HEADERS + 20]);
        // UDP header of the inner packet; the source port is that of the flow.
        for word in [0, 443, (inner_ip_len - 20) as u16, 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.resize(HEADERS + inner_ip_len, 0x5a);
        Template { bytes, outer_sum, sum }
    }

    /// Returns the length of a packet in bytes.
    pub fn packet_len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a flow's packet to `to`, which has [`Template::packet_len`] bytes.
    #[inline]
    pub fn write(&self, flow: Flow, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes);
        to[offset::SENDER..offset::SENDER + 4].copy_from_slice(&flow.sender.to_be_bytes());
        to[offset::VNI..offset::VNI + 3].copy_from_slice(&flow.vni.to_be_bytes()[1..]);
        to[offset::IDENTIFICATION..offset::IDENTIFICATION + 2].copy_from_slice(&flow.identification.to_be_bytes());
        to[offset::SOURCE..offset::SOURCE + 4].copy_from_slice(&flow.source.to_be_bytes());
        to[offset::DESTINATION..offset::DESTINATION + 4].copy_from_slice(&flow.destination.to_be_bytes());
        to[offset::PORT..offset::PORT + 2].copy_from_slice(&flow.port.to_be_bytes());
        let halves = |word: u32| (word >> 16) + (word & 0xffff);
        let sum = checksum(self.outer_sum + halves(flow.sender));
        to[offset::OUTER_CHECKSUM..offset::OUTER_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        let sum = self.sum + halves(flow.source) + halves(flow.destination) + u32::from(flow.identification);
        to[offset::CHECKSUM..offset::CHECKSUM + 2].copy_from_slice(&checksum(sum).to_be_bytes());
    }

    /// Builds a packet as if it had been received at time `now` (nanoseconds) on [`IN_PORT`].
    pub fn receive(&self, flow: Flow, packet: &mut Packet, now: u64) {
        packet.reset();
        (packet.ingress_port, packet.rx_time_ns) = (PortId(IN_PORT), now);
        let len = self.packet_len();
        // No packet built here is too long for a buffer.
        if let Ok(space) = packet.receive_space(len) {
            self.write(flow, space);
            packet.set_received_len(len);
        }
    }

    /// Returns a flow's packet.
    pub fn packet(&self, flow: Flow) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes.len()];
        self.write(flow, &mut bytes);
        bytes
    }
}

fn append_ipv4(bytes: &mut Vec<u8>, len: usize, protocol: u8, source: u32, destination: u32) {
    bytes.extend_from_slice(&[0x45, 0]);
    bytes.extend_from_slice(&(len as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend_from_slice(&source.to_be_bytes());
    bytes.extend_from_slice(&destination.to_be_bytes());
}

/// Returns the sum of 16-bit words (RFC 1071), not folded.
pub fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum()
}

/// Returns the checksum of a sum of words.
pub fn checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Batches of packets.
#[derive(Debug)]
pub struct Ring {
    /// The batches, full after [`Ring::fill`].
    pub batches: Vec<Batch>,
    template: Template,
}

impl Ring {
    /// Creates a ring of batches of `batch` packets.
    pub fn new(template: Template, batch: usize) -> Ring {
        let packets = (RING_BYTES / template.packet_len()).min(RING_PACKETS).max(batch);
        let batches = (0..packets.div_ceil(batch)).map(|_| Batch::with_capacity(batch)).collect();
        Ring { batches, template }
    }

    /// Returns the number of packets in the ring.
    pub fn packets(&self) -> usize {
        self.batches.iter().map(Batch::capacity).sum()
    }

    /// Regenerates all packets, for the next flows.
    pub fn fill(&mut self, flows: &mut Flows) {
        for batch in &mut self.batches {
            fill(batch, &self.template, flows);
        }
    }

    /// Regenerates one batch, as a port that copies would receive it.
    pub fn fill_one(&mut self, index: usize, flows: &mut Flows) -> &mut Batch {
        let batch = &mut self.batches[index];
        fill(batch, &self.template, flows);
        batch
    }
}

fn fill(batch: &mut Batch, template: &Template, flows: &mut Flows) {
    batch.clear();
    let len = template.packet_len();
    while let Ok(packet) = batch.push() {
        packet.ingress_port = PortId(IN_PORT);
        // No packet built here is too long for a buffer.
        if let Ok(space) = packet.receive_space(len) {
            template.write(flows.next_flow(), space);
            packet.set_received_len(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{FlowDistribution, TenantLayout, Workload};

    #[test]
    fn packets_are_sound() {
        let world = Workload { layout: TenantLayout::ManyTenants, vms: 1000 };
        let flows = Flows::new(&world, FlowDistribution::Uniform, 50, 1);
        for frame in [64, 1514] {
            let template = Template::new(frame);
            assert_eq!(template.packet_len(), frame + 50);
            for flow in flows.all() {
                let packet = template.packet(*flow);
                assert_eq!(checksum(words(&packet[14..34])), 0, "outer checksum");
                assert_eq!(checksum(words(&packet[64..84])), 0, "inner checksum");
                assert_eq!(packet[46..49], flow.vni.to_be_bytes()[1..]);
                assert_eq!(usize::from(u16::from_be_bytes([packet[16], packet[17]])) + 14, packet.len());
            }
        }
    }

    #[test]
    fn rings_stay_in_the_cache() {
        let small = Ring::new(Template::new(64), 256);
        assert!((2048..2048 + 256).contains(&small.packets()), "{}", small.packets());
        let large = Ring::new(Template::new(1514), 256);
        assert!((512..1024).contains(&large.packets()), "{}", large.packets());
    }
}
