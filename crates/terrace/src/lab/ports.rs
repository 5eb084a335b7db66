//! The gateway's ports in a lab.

use super::error::LabError;
use super::topology::Topology;
use io::dpdk::{DpdkOptions, EalOptions, HugePages};
use io::{Attached, Namespace, OpenedPort, PortError};
use packet::PortId;

/// Opens a port: interface, number, options.
pub type OpenOne<'a> = &'a (dyn Fn((&str, u32), &DpdkOptions) -> Result<OpenedPort, PortError> + Sync);

/// Opens each of the gateway's interfaces as a port, by `open`, from whatever namespace the caller is in. The ports have the numbers that
/// the region file gives them. `note` is told what is not as it was asked for.
///
/// # Errors
/// If the lab is not up, or this process may not.
pub fn open_ports(
    topology: &Topology,
    open: OpenOne<'_>,
    note: &mut (dyn FnMut(String) + Send),
) -> Result<Vec<Attached>, LabError> {
    // Huge pages are for those who need the speed; the kernel behind these interfaces is slower.
    let eal = EalOptions { huge_pages: HugePages::Avoid, ..EalOptions::default() };
    let options = DpdkOptions { eal, ..DpdkOptions::default() };
    let namespace = Namespace::open(&topology.gateway_namespace())?;
    namespace.run(|| {
        let mut one = |port: u32| {
            let opened = open((&format!("port{port}"), port), &options)?;
            opened.note.into_iter().for_each(&mut *note);
            Ok(Attached { id: PortId(port), port: opened.port })
        };
        topology.gateway.uplinks.iter().map(|uplink| one(uplink.port)).collect()
    })?
}
