//! Status of a lab.

use super::command::{program, run};
use super::error::LabError;
use super::state::LabState;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Status of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabStatus {
    /// Name of the lab.
    pub name: String,
    /// Process id of the gateway, if it runs.
    pub gateway: Option<u32>,
    /// Namespaces of the lab.
    pub namespaces: Vec<NamespaceStatus>,
}

/// Status of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamespaceStatus {
    /// Name of the namespace.
    pub name: String,
    /// Whether the namespace exists.
    pub exists: bool,
    /// Interfaces except the loopback, with whether each is up.
    pub interfaces: BTreeMap<String, bool>,
}

impl LabStatus {
    /// Returns whether all namespaces exist and all interfaces are up.
    pub fn healthy(&self) -> bool {
        self.namespaces.iter().all(|namespace| namespace.exists && namespace.interfaces.values().all(|up| *up))
    }
}

/// Returns the status of the lab of this name.
///
/// # Errors
/// If the lab does not exist.
pub fn status(name: &str) -> Result<LabStatus, LabError> {
    let state = LabState::load(name)?;
    let gateway = state.gateway.filter(|gateway| gateway.alive()).map(|gateway| gateway.id);
    let namespaces = state.topology.namespaces().into_iter().map(namespace).collect::<Result<_, _>>()?;
    Ok(LabStatus { name: name.to_owned(), gateway, namespaces })
}

fn namespace(name: String) -> Result<NamespaceStatus, LabError> {
    if !Path::new("/run/netns").join(&name).exists() {
        return Ok(NamespaceStatus { name, exists: false, interfaces: BTreeMap::new() });
    }
    let links = run(program("ip", &["-n", &name, "-brief", "link", "show"]))?;
    let interfaces = links.lines().filter_map(interface).filter(|(interface, _)| interface != "lo").collect();
    Ok(NamespaceStatus { name, exists: true, interfaces })
}

/// Parses `eth0@if2  UP  02:00:00:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP>`. The flags are used,
/// because the state in the second column is not meaningful for tunnels.
fn interface(line: &str) -> Option<(String, bool)> {
    let name = line.split_whitespace().next()?.split('@').next()?.to_owned();
    let flags = line.split_once('<')?.1.split('>').next()?;
    Some((name, flags.split(',').any(|flag| flag == "LOWER_UP")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read() {
        let read = |line| interface(line).unwrap();
        assert_eq!(read("eth0@if2  UP  02:00:00:00:00:01 <BROADCAST,UP,LOWER_UP>"), ("eth0".into(), true));
        assert_eq!(read("vx100  UNKNOWN  02:00:00:00:00:01 <BROADCAST,UP,LOWER_UP>"), ("vx100".into(), true));
        assert_eq!(read("up1@if3  LOWERLAYERDOWN  02:00:00:00:00:01 <NO-CARRIER,BROADCAST,UP>"), ("up1".into(), false));
        assert_eq!(interface("nonsense"), None);
    }
}
