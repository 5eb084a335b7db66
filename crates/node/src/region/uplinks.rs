//! Whether the uplinks of a region fit the ports that the node has.
//!
//! A region that does not fit is run all the same: the ports that are there forward, as a lab with a part of a region's ports does. But what
//! is lost by it is said at start, at each application, and by `terrace region status`.

use region::{Region, Uplink};
use std::collections::{BTreeMap, BTreeSet};

/// How many warnings are told; the others are counted.
const MAX_WARNINGS: usize = 20;

/// A port that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPort {
    /// Its interface or device.
    pub name: String,
    /// The most bytes of an IP packet that it sends.
    pub mtu_bytes: usize,
}

/// The ports that are open, by number.
pub type OpenPorts = BTreeMap<u32, OpenPort>;

/// What is lost with these ports, one text for each uplink that a server or a remote needs. `file` is the region file's name.
pub fn warnings(region: &Region, file: &str, ports: &OpenPorts) -> Vec<String> {
    let used: BTreeSet<usize> = region.server_uplinks.iter().chain(&region.remote_uplinks).flatten().copied().collect();
    let mut found: Vec<String> =
        used.iter().filter_map(|index| warning(&region.file.uplinks[*index], file, ports)).collect();
    let more = found.len().saturating_sub(MAX_WARNINGS);
    if more > 0 {
        found.truncate(MAX_WARNINGS);
        found.push(format!("{file}: {more} more uplinks do not fit the ports"));
    }
    found
}

fn warning(uplink: &Uplink, file: &str, ports: &OpenPorts) -> Option<String> {
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
