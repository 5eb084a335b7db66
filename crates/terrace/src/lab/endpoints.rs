//! End points of a lab, which can communicate.

use super::topology::{Internet, Topology};
use std::net::IpAddr;

/// Kind of an end point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointKind {
    /// A VM of a tenant.
    Vm,
    /// A host in a network behind a remote, or in the Internet.
    RemoteHost,
}

/// A network namespace with addresses that can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the VM. For a host behind a remote, the remote's name, with its network's VNI if the
    /// remote has several networks.
    pub name: String,
    /// Kind of the end point.
    pub kind: EndpointKind,
    /// Name of its namespace.
    pub namespace: String,
    /// VPC of the VM; none for a host behind a remote.
    pub vpc: Option<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
}

impl Topology {
    /// Returns all end points: VMs first, then hosts behind remotes, then that in the Internet.
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
        all.extend(self.internet.as_ref().map(|internet| Endpoint {
            name: Internet::HOST.to_owned(),
            kind: EndpointKind::RemoteHost,
            namespace: self.namespace_of(Internet::HOST),
            vpc: None,
            addresses: std::iter::once(internet.host).chain(internet.over_v6.map(|[_, host]| host)).collect(),
        }));
        all
    }

    /// Returns the end point of this name.
    pub fn endpoint(&self, name: &str) -> Option<Endpoint> {
        self.endpoints().into_iter().find(|endpoint| endpoint.name == name)
    }
}
