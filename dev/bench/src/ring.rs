//! [`Ring`]: the packets that in-memory systems work on, a megabyte or so of them, made anew each time.
//!
//! A round is: fill all batches (the time of that is not counted), then process all of them (counted). So packets come from the
//! second-level cache, as a network card's would come from the last level; and no packet is seen twice.

use crate::world::{Flow, Flows, GATEWAY, OWN_MAC, ROUTER_MAC};
use packet::{Batch, Packet, PortId};

/// Bytes of packets in a ring, at most.
const RING_BYTES: usize = 1 << 20;

/// Packets in a ring, at most. Each has a buffer of its own, of which an engine touches four lines or more with what describes it:
/// more packets than this would not stay in the nearer caches, whatever the engine.
const RING_PACKETS: usize = 2048;

/// Bytes in front of the inner IPv4 packet: Ethernet, IPv4, UDP, VXLAN, Ethernet.
pub const HEADERS: usize = 14 + 20 + 8 + 8 + 14;

/// The port that packets come in on.
pub const IN_PORT: u32 = 1;

/// Where a packet has what is different in each, in bytes.
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

/// A packet without what is different in each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    bytes: Vec<u8>,
    /// The sums of the outer and the inner IPv4 header's other words.
    outer_sum: u32,
    sum: u32,
}

impl Template {
    /// Packets whose inner Ethernet frame has `frame` bytes, without check sequence: 64 to 1,514 (at least 60 are made).
    pub fn new(frame: usize) -> Template {
        let inner = frame.max(60) - 14;
        let mut bytes = Vec::with_capacity(HEADERS + inner);
        let mac = |bytes: &mut Vec<u8>, mac: u64| bytes.extend_from_slice(&mac.to_be_bytes()[2..]);
        mac(&mut bytes, OWN_MAC);
        mac(&mut bytes, ROUTER_MAC);
        bytes.extend_from_slice(&[0x08, 0x00]);
        ipv4(&mut bytes, 20 + 8 + 8 + 14 + inner, 17, 0, GATEWAY);
        let outer_sum = words(&bytes[offset::OUTER..offset::OUTER + 20]);
        for word in [0xd903, 4789, (8 + 8 + 14 + inner) as u16, 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0]);
        mac(&mut bytes, OWN_MAC);
        mac(&mut bytes, 0x5254_00ff_fffe);
        bytes.extend_from_slice(&[0x08, 0x00]);
        ipv4(&mut bytes, inner, 17, 0, 0);
        let sum = words(&bytes[HEADERS..HEADERS + 20]);
        for word in [0, 443, (inner - 20) as u16, 0] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
        bytes.resize(HEADERS + inner, 0x5a);
        Template { bytes, outer_sum, sum }
    }

    /// The length of a packet in bytes.
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

    /// Makes a packet as if it had been received at that time (nanoseconds) on [`IN_PORT`].
    pub fn receive(&self, flow: Flow, packet: &mut Packet, now: u64) {
        packet.reset();
        (packet.ingress_port, packet.received_at) = (PortId(IN_PORT), now);
        let len = self.packet_len();
        // No packet made here is too long for a buffer.
        if let Ok(space) = packet.receive_space(len) {
            self.write(flow, space);
            packet.received(len);
        }
    }

    /// A flow's packet.
    pub fn packet(&self, flow: Flow) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes.len()];
        self.write(flow, &mut bytes);
        bytes
    }
}

fn ipv4(bytes: &mut Vec<u8>, len: usize, protocol: u8, source: u32, destination: u32) {
    bytes.extend_from_slice(&[0x45, 0]);
    bytes.extend_from_slice(&(len as u16).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    bytes.extend_from_slice(&source.to_be_bytes());
    bytes.extend_from_slice(&destination.to_be_bytes());
}

/// The sum of 16-bit words (RFC 1071), not folded.
pub fn words(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0))).sum()
}

/// The checksum of a sum of words.
pub fn checksum(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Batches of packets.
#[derive(Debug)]
pub struct Ring {
    /// Full ones after [`Ring::fill`].
    pub batches: Vec<Batch>,
    template: Template,
}

impl Ring {
    /// A ring of batches of `batch` packets.
    pub fn new(template: Template, batch: usize) -> Ring {
        let packets = (RING_BYTES / template.packet_len()).min(RING_PACKETS).max(batch);
        let batches = (0..packets.div_ceil(batch)).map(|_| Batch::with_capacity(batch)).collect();
        Ring { batches, template }
    }

    /// Packets in the ring.
    pub fn packets(&self) -> usize {
        self.batches.iter().map(Batch::capacity).sum()
    }

    /// Makes all packets anew: the next of `flows`.
    pub fn fill(&mut self, flows: &mut Flows) {
        for batch in &mut self.batches {
            fill(batch, &self.template, flows);
        }
    }

    /// Makes one batch anew, as a port that copies would receive it.
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
        // No packet made here is too long for a buffer.
        if let Ok(space) = packet.receive_space(len) {
            template.write(flows.next_flow(), space);
            packet.received(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{Choice, Layout, World};

    #[test]
    fn packets_are_sound() {
        let world = World { layout: Layout::ManyTenants, vms: 1000 };
        let flows = Flows::new(&world, Choice::Uniform, 50, 1);
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
