//! The gateway once more, naively: straight from programs/gateway/README.md and the region, without P4, tables or entries.
//!
//! Compared with the program on the interpreter, it checks the program, the front-end, the region's entries and the
//! interpreter at once.

mod decide;
mod parse;
mod rewrite;

pub use parse::{Fragment, Parsed, parse};

use ipnet_free::covers;
use region::Region;
use std::collections::HashMap;
use std::net::IpAddr;

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Dropped, for the reason that the program declares.
    Drop(&'static str),
    /// Handed to the CPU unchanged.
    Cpu,
    /// Sent out of a port.
    Send {
        /// The port.
        port: u32,
        /// The packet.
        bytes: Vec<u8>,
    },
}

/// The model of a gateway that serves a region.
pub struct Model<'a> {
    region: &'a Region,
    vms: HashMap<(u32, IpAddr), usize>,
}

impl<'a> Model<'a> {
    /// A gateway for the region.
    pub fn new(region: &'a Region) -> Model<'a> {
        let mut vms = HashMap::new();
        for (i, (vm, (vpc, _))) in region.file.vms.iter().zip(&region.vm_places).enumerate() {
            for address in &vm.addresses {
                vms.insert((region.file.vpcs[*vpc].vni.value, address.value), i);
            }
        }
        Model { region, vms }
    }

    /// What it does with a packet that comes in on a port.
    pub fn process(&self, packet: &[u8], port: u32) -> Outcome {
        match self.walk(packet, port) {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    fn walk(&self, packet: &[u8], port: u32) -> Result<Outcome, Outcome> {
        let parsed = parse(packet).map_err(Outcome::Drop)?;
        let inner = decide::tunnelled(packet, &parsed)?;
        let from = self.classify(&parsed, port)?;
        let inner = inner.ok_or(Outcome::Cpu)?;
        let decision = self.decide(&parsed, inner, from)?;
        self.rewrite(packet, &parsed, inner, &decision)
    }
}

mod ipnet_free {
    use region::Prefix;
    use std::net::IpAddr;

    /// Whether the prefix covers the address, bit by bit.
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
