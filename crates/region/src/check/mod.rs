//! Checking a region file as a whole, before anything of it is used.
//!
//! All problems are reported, not just the first, and names are resolved to indices on the way.

mod acl;
pub(crate) mod forms;
mod names;
mod routes;
mod sources;
mod underlay;
mod usable;
mod vms;
mod vpcs;

pub(crate) use acl::directions as acl_directions;
pub(crate) use names::MAX_NAME;
pub(crate) use routes::MAX_PEER_ROUTES;
pub use routes::{FlatRoute, Scope, Target};

use crate::model::RegionFile;
use crate::problem::{Problems, Report};
use std::collections::HashMap;

/// Greatest number of peerings that a packet may pass in a row.
pub const MAX_PEERINGS: usize = 4;
/// Greatest VNI: 24 bits (RFC 7348 section 5).
pub const MAX_VNI: u32 = 0xff_ffff;
/// Greatest number of VPCs: those below the numbers of lists of ways through other VPCs
/// (programs/gateway/metadata.p4).
pub(crate) const MAX_VPCS: usize = 0xf_0000;
/// Greatest number of ways through other VPCs that routes lead by: 16 bits, with one number less,
/// which stands for none.
pub(crate) const MAX_WAYS: usize = 0xffff;

/// Greatest number of uplinks: a group of all of them fits the run of next hops that it has
/// (`entries/underlay.rs`).
pub(crate) const MAX_UPLINKS: usize = 1024;

/// A region file that is right, with its references resolved.
#[derive(Clone, Debug)]
pub struct Region {
    /// The file.
    pub file: RegionFile,
    /// For each server, indices of its uplinks.
    pub server_uplinks: Vec<Vec<usize>>,
    /// For each remote, indices of its uplinks.
    pub remote_uplinks: Vec<Vec<usize>>,
    /// For each VPC, indices of its peers.
    pub peers: Vec<Vec<usize>>,
    /// For each VPC, its route tables with peerings resolved: the main one first, then `route_tables` in order.
    pub tables: Vec<Vec<Vec<FlatRoute>>>,
    /// For each VPC and each of its policy routes, the index into `tables`.
    pub policies: Vec<Vec<usize>>,
    /// For each machine, the indices of its VPC and server.
    pub vm_places: Vec<(usize, usize)>,
    /// For each VPC, how many routes of peers its routes made the check look at.
    pub(crate) peer_routes: Vec<usize>,
}

impl Region {
    /// VPCs' names to their indices.
    pub fn vpc_indices(&self) -> HashMap<&str, usize> {
        (0..).zip(&self.file.vpcs).map(|(index, vpc)| (&*vpc.name.value, index)).collect()
    }

    /// The indices of the machines of some VPCs.
    pub(crate) fn machines_of(&self, is_wanted: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
        // There are a few thousand machines to a VPC, each of which has to be asked for.
        let is_wanted: Vec<bool> = (0..self.file.vpcs.len()).map(is_wanted).collect();
        (0..).zip(&self.vm_places).filter(move |(_, (vpc, _))| is_wanted[*vpc]).map(|(machine, _)| machine)
    }
}

/// Names of one kind to indices.
pub(crate) type Index<'a> = HashMap<&'a str, usize>;

/// Checks everything in a file.
///
/// # Errors
/// All problems found, by place in the file.
pub fn check(name: &str, file: RegionFile) -> Result<Region, Problems> {
    check_into(Report::new(name), file)
}

/// As [`check`], for a file that was read from `text`: how things are written is checked, too.
pub(crate) fn check_with_text(name: &str, file: RegionFile, text: &str) -> Result<Region, Problems> {
    let mut report = Report::new(name);
    forms::check(&mut report, &file, text);
    check_into(report, file)
}

fn check_into(mut report: Report, file: RegionFile) -> Result<Region, Problems> {
    names::form(&mut report, "region", &file.region);
    let uplinks = names::index(&mut report, "uplink", file.uplinks.iter().map(|u| &u.name));
    let servers = names::index(&mut report, "server", file.servers.iter().map(|s| &s.name));
    let remotes = names::index(&mut report, "remote", file.remotes.iter().map(|r| &r.name));
    let vpcs = names::index(&mut report, "VPC", file.vpcs.iter().map(|v| &v.name));
    let (server_uplinks, remote_uplinks) = underlay::check(&mut report, &file, &uplinks);
    let subnets = vpcs::check(&mut report, &file);
    let peers = vpcs::peerings(&mut report, &file, &vpcs);
    let routes::Checked { tables, policies, peer_routes } =
        routes::check(&mut report, &file, &routes::Context { vpcs: &vpcs, remotes: &remotes, peers: &peers });
    acl::check(&mut report, &file);
    acl::ways(&mut report, &file, &tables);
    acl::extensions(&mut report, &file);
    sources::check(&mut report, &file);
    let vm_places = vms::check(&mut report, &file, &vpcs, &servers, &subnets);
    report.finish()?;
    Ok(Region { file, server_uplinks, remote_uplinks, peers, tables, policies, vm_places, peer_routes })
}
