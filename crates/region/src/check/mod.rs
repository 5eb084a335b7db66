//! Checks a region file as a whole, before any part of it is used.
//!
//! Reports all problems, not just the first, and resolves names to indices.

mod acl;
mod elastic;
mod host;
mod internet;
mod ipv6_internet;
mod match_fields;
mod names;
mod nat64;
pub(crate) mod number_notation;
mod routes;
mod security_groups;
mod services;
mod sources;
mod underlay;
mod usable;
mod vms;
mod vpcs;

pub(crate) use acl::directions as acl_directions;
pub(crate) use internet::{MAX_NAT_SUBSCRIBERS, MAX_PUBLIC_ADDRESSES};
pub(crate) use names::MAX_NAME;
pub(crate) use routes::MAX_PEER_ROUTES;
pub use routes::{FlatRoute, RouteScope, RouteTarget};

use crate::model::RegionFile;
use crate::problem::{ProblemCollector, Problems};
use std::collections::HashMap;

/// Maximum number of consecutive peerings on a packet's path.
pub const MAX_PEERINGS: usize = 4;
/// Maximum VNI: 24 bits (RFC 7348 section 5).
pub const MAX_VNI: u32 = 0xff_ffff;
/// Maximum number of VPCs. The ids above are those of transit lists (programs/gateway/metadata.p4).
pub(crate) const MAX_VPCS: usize = 0xf_0000;
/// Maximum number of transit paths: the 16-bit ids without the last one, which means "no path".
pub(crate) const MAX_TRANSIT_PATHS: usize = 0xffff;

/// Maximum number of uplinks. A group of all uplinks fits in the group's range of next hops
/// (`entries/underlay.rs`).
pub(crate) const MAX_UPLINKS: usize = 1024;

/// A correct region file with resolved references.
#[derive(Clone, Debug)]
pub struct ResolvedRegion {
    /// The file.
    pub file: RegionFile,
    /// For each server, indices of its uplinks.
    pub server_uplinks: Vec<Vec<usize>>,
    /// For each remote, indices of its uplinks.
    pub remote_uplinks: Vec<Vec<usize>>,
    /// Indices of the uplinks that lead to the Internet.
    pub internet_uplinks: Vec<usize>,
    /// For each VPC, the index of its NAT.
    pub vpc_nats: Vec<Option<usize>>,
    /// For each elastic address, the index of its VPC.
    pub elastic_vpcs: Vec<usize>,
    /// For each port forward, the index of its VPC.
    pub forward_vpcs: Vec<usize>,
    /// For each VPC, indices of its peers.
    pub peers: Vec<Vec<usize>>,
    /// For each VPC, its route tables with resolved peerings: the main one, then `route_tables` in
    /// order.
    pub tables: Vec<Vec<Vec<FlatRoute>>>,
    /// For each VPC and each of its policy routes, the index into `tables`.
    pub policies: Vec<Vec<usize>>,
    /// For each machine, the indices of its VPC and server.
    pub vm_locations: Vec<(usize, usize)>,
    /// For each VPC, the number of peer routes that the check visited for its routes.
    pub(crate) peer_routes: Vec<usize>,
}

impl ResolvedRegion {
    /// Returns the index of each VPC by name.
    pub fn vpc_indices(&self) -> HashMap<&str, usize> {
        (0..).zip(&self.file.vpcs).map(|(index, vpc)| (&*vpc.name.value, index)).collect()
    }

    /// Iterates over the indices of the machines of the VPCs that `is_wanted` selects.
    pub(crate) fn machines_of(&self, is_wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
        // Evaluate `is_wanted` once per VPC, because each has a few thousand machines.
        let is_wanted: Vec<bool> = (0..self.file.vpcs.len()).map(is_wanted).collect();
        (0..).zip(&self.vm_locations).filter(move |(_, (vpc, _))| is_wanted[*vpc]).map(|(machine, _)| machine)
    }
}

/// Indices by name, for one kind of object.
pub(crate) type NameIndex<'a> = HashMap<&'a str, usize>;

/// Checks a region file.
///
/// # Errors
/// All problems, in the order of the file.
pub fn check(name: &str, file: RegionFile) -> Result<ResolvedRegion, Problems> {
    check_into(ProblemCollector::new(name), file)
}

/// Checks a region file that was parsed from `text`. Also checks the notation of numbers in `text`.
pub(crate) fn check_with_text(name: &str, file: RegionFile, text: &str) -> Result<ResolvedRegion, Problems> {
    let mut report = ProblemCollector::new(name);
    number_notation::check(&mut report, &file, text);
    check_into(report, file)
}

fn check_into(mut report: ProblemCollector, file: RegionFile) -> Result<ResolvedRegion, Problems> {
    names::check_name(&mut report, "region", &file.region);
    let uplinks = names::index_names(&mut report, "uplink", file.uplinks.iter().map(|u| &u.name));
    let servers = names::index_names(&mut report, "server", file.servers.iter().map(|s| &s.name));
    let remotes = names::index_names(&mut report, "remote", file.remotes.iter().map(|r| &r.name));
    let vpcs = names::index_names(&mut report, "VPC", file.vpcs.iter().map(|v| &v.name));
    let (server_uplinks, remote_uplinks) = underlay::check(&mut report, &file, &uplinks);
    host::check(&mut report, &file);
    let subnets = vpcs::check(&mut report, &file);
    let internet::ResolvedInternet { uplinks: internet_uplinks, vpc_nats } =
        internet::check(&mut report, &file, &uplinks);
    ipv6_internet::check(&mut report, &file);
    nat64::check(&mut report, &file);
    let elastic::ResolvedVpcs { elastic: elastic_vpcs, forwards: forward_vpcs } =
        elastic::check(&mut report, &file, &vpcs);
    let peers = vpcs::check_peerings(&mut report, &file, &vpcs);
    let routes::FlattenedRoutes { tables, policies, peer_routes } =
        routes::check(&mut report, &file, &routes::RouteContext { vpcs: &vpcs, remotes: &remotes, peers: &peers });
    acl::check(&mut report, &file);
    acl::check_transit_paths(&mut report, &file, &tables);
    acl::check_extensions(&mut report, &file);
    sources::check(&mut report, &file);
    security_groups::check(&mut report, &file, &vpcs);
    services::check(&mut report, &file, &subnets);
    let vm_locations = vms::check(&mut report, &file, &vpcs, &servers, &subnets);
    report.finish()?;
    Ok(ResolvedRegion {
        file,
        server_uplinks,
        remote_uplinks,
        internet_uplinks,
        vpc_nats,
        elastic_vpcs,
        forward_vpcs,
        peers,
        tables,
        policies,
        vm_locations,
        peer_routes,
    })
}
