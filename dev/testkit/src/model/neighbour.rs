//! Requests for the gateway's MAC address: ARP (RFC 826) and neighbour solicitations (RFC 4861).
//! Limits are not modelled, as those of ICMP errors.

use super::decide::SenderKind;
use super::parse::{Fragment, InnerPacket, ParsedPacket};
use super::{Model, ModelVerdict, covers};
use crate::frame::checksum;
use region::Answer;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn drop_verdict(reason: &'static str) -> ModelVerdict {
    ModelVerdict::Drop(reason.into())
}

impl Model<'_> {
    /// Returns the verdict of ARP, or of a solicitation for addresses without a route. `inner`: the
    /// packet, if it is no ARP.
    pub(super) fn request_verdict(
        &self,
        packet: &[u8],
        parsed: &ParsedPacket,
        inner: Option<&InnerPacket>,
        sender: SenderKind,
    ) -> ModelVerdict {
        let vpc = match self.source_vpc(parsed) {
            Ok(vpc) => vpc,
            Err(verdict) => return verdict,
        };
        if sender != SenderKind::Server || !self.region.file.vpcs[vpc].answers(Answer::Neighbours) {
            return drop_verdict(if inner.is_some() { "inner_address" } else { "inner_not_ip" });
        }
        match inner {
            Some(inner) => self.solicitation_verdict(packet, parsed, inner, vpc),
            None => self.arp_verdict(packet, parsed, vpc),
        }
    }

    fn arp_verdict(&self, packet: &[u8], parsed: &ParsedPacket, vpc: usize) -> ModelVerdict {
        let request = &packet[14 + parsed.outer_ip + 30..][..28];
        if request[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
            return drop_verdict("neighbour_invalid");
        }
        let address = |at: usize| Ipv4Addr::from(<[u8; 4]>::try_from(&request[at..at + 4]).expect("four bytes"));
        let (asker, target) = (address(14), address(24));
        if self.address_on_link(vpc, target.into()) != Some(target.into()) {
            return drop_verdict("neighbour_other");
        }
        if asker == target {
            return drop_verdict("neighbour_conflict");
        }
        let mut answer = vec![0, 1, 8, 0, 6, 4, 0, 2];
        answer.extend(self.region.file.gateway.mac.0);
        answer.extend(target.octets());
        answer.extend(&request[8..14]);
        answer.extend(asker.octets());
        // Without an IP header, the hash is that of zeros.
        let nothing = InnerPacket {
            at: 0,
            source: Ipv6Addr::UNSPECIFIED.into(),
            destination: Ipv6Addr::UNSPECIFIED.into(),
            protocol: 0,
            ports: (0, 0),
            fragment: Fragment::Whole,
            extensions: 0,
            ttl: 0,
            ecn: 0,
        };
        self.send_answer(parsed, self.flow_hash(&nothing), 0x0806, &answer)
    }

    /// Returns the verdict of a solicitation in a VPC in which the gateway answers, or to an address at
    /// which it does.
    pub(super) fn solicitation_verdict(
        &self,
        packet: &[u8],
        parsed: &ParsedPacket,
        inner: &InnerPacket,
        vpc: usize,
    ) -> ModelVerdict {
        let ip = &packet[inner.at..];
        let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
        // Behind other headers it is none that the gateway knows.
        if ip[6] != 58 {
            return drop_verdict("gateway_closed");
        }
        let message = &ip[40..40 + length];
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (inner.source, inner.destination) else {
            return drop_verdict("gateway_closed");
        };
        // What the parser of the second pass cannot read ends before the message is known.
        if ip.len() < 40 + 24 || ip[40] != 135 {
            return drop_verdict("neighbour_invalid");
        }
        let target = Ipv6Addr::from(<[u8; 16]>::try_from(&ip[48..64]).expect("sixteen bytes"));
        if inner.ttl != 255 {
            return drop_verdict("nd_hop_limit");
        }
        let has_valid_length = matches!(length, 24 | 32 | 40 | 48 | 56);
        let options = if has_valid_length { options_of(&message[24..]) } else { None };
        let valid = options.as_ref().is_some_and(|kinds| {
            let to_group = destination.octets()[..13] == [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff];
            ip[41] == 0 && !target.is_multicast() && (!source.is_unspecified() || to_group && !kinds.contains(&1))
        });
        if !valid {
            return drop_verdict("neighbour_invalid");
        }
        if checksum(&[&pseudo_header(source, destination, length), message].concat()) != 0 {
            return drop_verdict("neighbour_checksum");
        }
        if self.address_on_link(vpc, target.into()) != Some(target.into()) {
            return drop_verdict("neighbour_other");
        }
        let to_all = source.is_unspecified();
        let to = if to_all { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1) } else { source };
        let mut answer = vec![136, 0, 0, 0, if to_all { 0xa0 } else { 0xe0 }, 0, 0, 0];
        answer.extend(target.octets());
        answer.extend([2, 1]);
        answer.extend(self.region.file.gateway.mac.0);
        let sum = checksum(&[&pseudo_header(target, to, 32)[..], &answer].concat()).to_be_bytes();
        answer[2..4].copy_from_slice(&sum);
        let mut out = ip[..4].to_vec();
        out[1] &= !0x30;
        out.extend([0, 32, 58, 255]);
        out.extend(target.octets());
        out.extend(to.octets());
        out.extend(answer);
        let flow = InnerPacket {
            source: target.into(),
            destination: to.into(),
            ports: (136, 0),
            protocol: 58,
            ..inner.clone()
        };
        let flow = InnerPacket { fragment: Fragment::Whole, ..flow };
        self.send_answer(parsed, self.flow_hash(&flow), 0x86dd, &out)
    }

    /// Sends an answer back, unless the request was in a frame to the MAC of another.
    fn send_answer(&self, parsed: &ParsedPacket, hash: u32, ether_type: u16, bytes: &[u8]) -> ModelVerdict {
        let sent = self.send_frame(parsed, hash, 0, ether_type, bytes);
        let to = parsed.inner_macs[0];
        let is_for_other = to[0] & 1 == 0 && to != self.region.file.gateway.mac.0;
        if is_for_other && matches!(sent, ModelVerdict::Send { .. }) { drop_verdict("inner_other_mac") } else { sent }
    }

    /// Returns the gateway's address in the subnet of an address.
    fn address_on_link(&self, vpc: usize, address: IpAddr) -> Option<IpAddr> {
        let subnets = &self.region.file.vpcs[vpc].subnets;
        let subnet = subnets.iter().find(|subnet| covers(subnet.value, address))?;
        self.gateway_in(vpc, subnet.value)
    }
}

fn pseudo_header(source: Ipv6Addr, destination: Ipv6Addr, length: usize) -> Vec<u8> {
    let addresses = [source.octets(), destination.octets()].concat();
    [&addresses[..], &(length as u32).to_be_bytes(), &[0, 0, 0, 58]].concat()
}

/// Returns the types of options; `None` if one has the length 0 or ends behind the message.
fn options_of(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut types = Vec::new();
    while let [kind, length, ..] = *bytes {
        bytes = bytes.get(8 * usize::from(length)..).filter(|_| length != 0)?;
        types.push(kind);
    }
    Some(types)
}
