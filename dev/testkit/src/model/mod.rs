//! Naive model of the gateway, written from programs/gateway/README.md and the region without P4,
//! tables or entries.
//!
//! Comparing it with the program on the interpreter tests the program, the front-end, the region's
//! entries and the interpreter together.

mod decide;
mod icmp;
mod neighbour;
mod parse;
mod rewrite;
mod tcp_mss;

pub use parse::{Fragment, ParsedPacket, parse};

use ipnet_free::covers;
use region::ResolvedRegion;
use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;

/// Verdict of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelVerdict {
    /// Dropped for a reason that the program declares.
    Drop(Cow<'static, str>),
    /// Dropped for such a reason, and an ICMP error is made of the packet.
    Tell {
        /// The reason.
        reason: Cow<'static, str>,
        /// Verdict of the error.
        error: Box<ModelVerdict>,
    },
    /// Sent to the CPU unchanged.
    Cpu,
    /// Sent out of a port.
    Send {
        /// Egress port.
        port: u32,
        /// Bytes of the packet.
        bytes: Vec<u8>,
    },
}

/// Model of a gateway with a region.
pub struct Model<'a> {
    region: &'a ResolvedRegion,
    vms: HashMap<(u32, IpAddr), usize>,
}

impl<'a> Model<'a> {
    /// Creates the model of a gateway for the region.
    pub fn new(region: &'a ResolvedRegion) -> Model<'a> {
        let mut vms = HashMap::new();
        for (i, (vm, (vpc, _))) in region.file.vms.iter().zip(&region.vm_locations).enumerate() {
            for address in &vm.addresses {
                vms.insert((region.file.vpcs[*vpc].vni.value, address.value), i);
            }
        }
        Model { region, vms }
    }

    /// Processes a packet that arrives on a port.
    pub fn process(&self, packet: &[u8], port: u32) -> ModelVerdict {
        match self.process_checked(packet, port) {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    fn process_checked(&self, packet: &[u8], port: u32) -> Result<ModelVerdict, ModelVerdict> {
        let (packet, vlan) = &without_tag(packet).map_err(|reason| ModelVerdict::Drop(reason.into()))?;
        let mut parsed = parse(packet).map_err(|reason| ModelVerdict::Drop(reason.into()))?;
        parsed.vlan = *vlan;
        let inner = decide::tunnelled(packet, &parsed)?;
        let from = self.classify(&parsed, port)?;
        let inner = match inner.ok_or(ModelVerdict::Cpu)? {
            decide::Content::Packet(inner) => inner,
            decide::Content::Request(request) => return Err(self.request_verdict(packet, &parsed, request, from)),
        };
        let decision = self.decide_destination(&parsed, inner, from).map_err(|verdict| match verdict {
            ModelVerdict::Drop(reason) if reason.starts_with("answer") => {
                self.answer(packet, &parsed, inner, reason == "answer_echo")
            }
            ModelVerdict::Drop(reason) => self.tell(packet, &parsed, inner, from, &reason, 0),
            verdict => verdict,
        })?;
        self.rewrite(packet, &parsed, inner, from, &decision)
    }
}

/// Returns a frame without its VLAN tag, and the number of the VLAN.
fn without_tag(packet: &[u8]) -> Result<(Cow<'_, [u8]>, Option<u16>), &'static str> {
    if packet.get(12..14) != Some(&[0x81, 0]) {
        return Ok((packet.into(), None));
    }
    let tag = packet.get(14..16).filter(|_| packet.len() >= 18).ok_or("underlay_truncated")?;
    let vlan = u16::from_be_bytes([tag[0], tag[1]]) & 0xfff;
    Ok(([&packet[..12], &packet[16..]].concat().into(), Some(vlan)))
}

mod ipnet_free {
    use region::Prefix;
    use std::net::IpAddr;

    /// Returns whether the prefix covers the address, by comparing bits.
    pub fn covers(prefix: Prefix, ip: IpAddr) -> bool {
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, true),
            IpAddr::V6(ip) => (u128::from(ip), false),
        };
        let ((a, four), (b, also_four)) = (bits(prefix.0.network()), bits(ip));
        let len = u32::from(prefix.0.prefix_len());
        four == also_four && (len == 0 || (a ^ b) >> (128 - len) == 0)
    }
}
