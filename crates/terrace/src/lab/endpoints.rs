//! Who can talk in a lab.

use super::topology::Topology;
use std::net::IpAddr;

/// What an end point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointKind {
    /// A machine of a tenant.
    Vm,
    /// A host in a network behind a remote.
    RemoteHost,
}

/// Something with addresses, in a namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The machine's name; for a host behind a remote, the remote's, and its network's VNI if it has several networks.
    pub name: String,
    /// What it is.
    pub kind: EndpointKind,
    /// Its namespace.
    pub namespace: String,
    /// The machine's VPC; none for a host behind a remote.
    pub vpc: Option<String>,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl Topology {
    /// All end points: machines first, then hosts behind remotes.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let mut all = Vec::new();
        for vm in &self.vms {
            all.push(Endpoint {
                name: vm.name.clone(),
                kind: EndpointKind::Vm,
                namespace: self.namespace_of(&vm.name),
                vpc: Some(vm.vpc.clone()),
                addresses: vm.addresses.iter().map(|address| address.address.addr()).collect(),
            });
        }
        for remote in &self.remotes {
            for network in &remote.networks {
                let name = match remote.networks.len() {
                    1 => remote.name.clone(),
                    _ => format!("{}-{}", remote.name, network.vni),
                };
                all.push(Endpoint {
                    name,
                    kind: EndpointKind::RemoteHost,
                    namespace: self.network_namespace(remote, network),
                    vpc: None,
                    addresses: network.addresses.clone(),
                });
            }
        }
        all
    }

    /// The end point of this name.
    pub fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.endpoints().into_iter().find(|endpoint| endpoint.name == name)
    }
}
