//! How a lab is.

use super::command::{program, run};
use super::error::LabError;
use super::state::State;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// How a lab is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Its name.
    pub name: String,
    /// The number of the gateway's process, if one runs.
    pub gateway: Option<u32>,
    /// Its namespaces.
    pub namespaces: Vec<NamespaceStatus>,
}

/// How a namespace is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamespaceStatus {
    /// Its name.
    pub name: String,
    /// Whether it exists.
    pub exists: bool,
    /// Its interfaces except the loopback, each with whether it is up.
    pub interfaces: BTreeMap<String, bool>,
}

impl Status {
    /// Whether all namespaces exist and all interfaces are up.
    pub fn healthy(&self) -> bool {
        self.namespaces.iter().all(|namespace| namespace.exists && namespace.interfaces.values().all(|up| *up))
    }
}

/// How the lab of this name is.
///
/// # Errors
/// If there is none.
pub fn status(name: &str) -> Result<Status, LabError> {
    let state = State::load(name)?;
    let gateway = state.gateway.filter(|gateway| gateway.alive()).map(|gateway| gateway.id);
    let namespaces = state.topology.namespaces().into_iter().map(namespace).collect::<Result<_, _>>()?;
    Ok(Status { name: name.to_owned(), gateway, namespaces })
}

fn namespace(name: String) -> Result<NamespaceStatus, LabError> {
    if !Path::new("/run/netns").join(&name).exists() {
        return Ok(NamespaceStatus { name, exists: false, interfaces: BTreeMap::new() });
    }
    let links = run(program("ip", &["-n", &name, "-brief", "link", "show"]))?;
    let interfaces = links.lines().filter_map(interface).filter(|(interface, _)| interface != "lo").collect();
    Ok(NamespaceStatus { name, exists: true, interfaces })
}

/// Reads `eth0@if2  UP  02:00:00:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP>`. The state in the second column says nothing for tunnels,
/// the flags do.
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
