//! [`HostInterface`]: the interfaces on the host sides of a region's uplinks.

use crate::model::{RegionFile, Uplink};

/// The interface on the host side of an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostInterface<'a> {
    /// A TAP of this name, which the node creates.
    Tap(&'a str),
    /// The port's own interface, of this name.
    Kernel(&'a str),
}

impl<'a> HostInterface<'a> {
    /// Returns the name of the interface.
    pub fn name(self) -> &'a str {
        match self {
            HostInterface::Tap(name) | HostInterface::Kernel(name) => name,
        }
    }
}

impl Uplink {
    /// Returns the interface on the host side. `None`: the uplink has no host side.
    pub fn host_interface(&self) -> Option<HostInterface<'_>> {
        let host = self.host.as_ref()?;
        let tap = host.tap.as_ref().map(|name| HostInterface::Tap(&name.value));
        tap.or_else(|| host.interface.as_ref().map(|name| HostInterface::Kernel(&name.value)))
    }
}

impl RegionFile {
    /// Iterates over the uplinks with a host side.
    pub fn host_uplinks(&self) -> impl Iterator<Item = (&Uplink, HostInterface<'_>)> {
        self.uplinks.iter().filter_map(|uplink| Some((uplink, uplink.host_interface()?)))
    }
}
