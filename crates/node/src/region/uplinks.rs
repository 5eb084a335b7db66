//! Checks whether the uplinks of a region fit the node's ports.
//!
//! A region that does not fit runs nevertheless, because a lab may have only some of a region's
//! ports: the existing ports forward. Warnings about the lost packets appear at start, at each
//! application, and in `terrace region status`.

use region::{ResolvedRegion, Uplink};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of listed warnings; the others are counted.
const MAX_WARNINGS: usize = 20;

/// An open port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPort {
    /// Interface or device.
    pub name: String,
    /// Maximum size in bytes of an IP packet that the port sends.
    pub mtu_bytes: usize,
}

/// Open ports by number.
pub type OpenPorts = BTreeMap<u32, OpenPort>;

/// Returns one warning for each uplink of a server or a remote that does not fit the ports. `file`
/// is the region file's name.
pub fn warnings(region: &ResolvedRegion, file: &str, ports: &OpenPorts) -> Vec<String> {
    let used: BTreeSet<usize> = region.server_uplinks.iter().chain(&region.remote_uplinks).flatten().copied().collect();
    let mut found: Vec<String> =
        used.iter().filter_map(|index| uplink_warning(&region.file.uplinks[*index], file, ports)).collect();
    let more = found.len().saturating_sub(MAX_WARNINGS);
    if more > 0 {
        found.truncate(MAX_WARNINGS);
        found.push(format!("{file}: {more} more uplinks do not fit the ports"));
    }
    found
}

fn uplink_warning(uplink: &Uplink, file: &str, ports: &OpenPorts) -> Option<String> {
    let (name, number) = (&uplink.name.value, uplink.port.value);
    let Some(port) = ports.get(&number) else {
        return Some(format!(
            "{file}:{}: the uplink `{name}` is at port {number}, which is not open: packets to it are dropped as `unknown_port`; give the node \
             a port of this number (`[[port]]`, or `--port {number}=INTERFACE`), or correct `port`",
            uplink.port.at
        ));
    };
    let (mtu, at) = match &uplink.mtu {
        Some(mtu) => (mtu.value, mtu.at),
        None => (region::DEFAULT_MTU, uplink.name.at),
    };
    (usize::from(mtu) > port.mtu_bytes).then(|| {
        format!(
            "{file}:{at}: the uplink `{name}` has an MTU of {mtu} bytes, but its port {number} ({}) takes {}: longer packets are lost; raise \
             the interface's MTU, or write `mtu: {}`",
            port.name, port.mtu_bytes, port.mtu_bytes
        )
    })
}
