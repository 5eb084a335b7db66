//! [`PortStates`]: what next hops depend on besides the region file.

use std::collections::BTreeMap;
use underlay::LinkUse;

/// State of the gateway's ports, by port number. A port without a state is up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortStates {
    links: BTreeMap<u32, LinkUse>,
    mtus: BTreeMap<u32, u16>,
}

impl PortStates {
    /// Sets whether packets may use a port, and the longest IP packet in bytes that it can send.
    /// `None`: unknown; then the region file's value counts.
    pub fn set_port(&mut self, port: u32, link_use: LinkUse, mtu_bytes: Option<u16>) {
        self.links.insert(port, link_use);
        match mtu_bytes {
            Some(mtu) => self.mtus.insert(port, mtu),
            None => self.mtus.remove(&port),
        };
    }

    /// Returns whether packets may use a port.
    pub fn link_use(&self, port: u32) -> LinkUse {
        self.links.get(&port).copied().unwrap_or(LinkUse::Up)
    }

    /// Returns the longest IP packet of a port in bytes, if it is known.
    pub fn mtu_bytes(&self, port: u32) -> Option<u16> {
        self.mtus.get(&port).copied()
    }
}
