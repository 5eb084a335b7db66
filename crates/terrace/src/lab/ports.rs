//! The gateway's ports in a lab.

use super::error::LabError;
use super::topology::Topology;
use io::{Attached, Namespace, RawPort};

/// Opens a raw socket on each of the gateway's interfaces, from whatever namespace the caller is in. The ports have the numbers that the
/// region file gives them.
///
/// # Errors
/// If the lab is not up, or this process may not.
pub fn open_ports(topology: &Topology) -> Result<Vec<Attached>, LabError> {
    let namespace = Namespace::open(&topology.gateway_namespace())?;
    namespace.run(|| {
        let open = |port: u32| Ok(Attached::new(port, RawPort::open(&format!("port{port}"))?));
        topology.gateway.uplinks.iter().map(|uplink| open(uplink.port)).collect()
    })?
}
