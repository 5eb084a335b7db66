//! Compiles a checked region to entries of the gateway program.
//!
//! programs/gateway/TABLES.md describes the entries that a packet needs. Each group of tables has a
//! file here.

mod acl;
mod acl_transit;
mod changes;
mod diff;
mod elastic;
mod fragments;
mod gateway_tables;
mod icmp;
mod ids;
mod internet;
mod internet_tables;
mod ipv6_internet;
mod kernel_paths;
mod machine_numbers;
mod maglev;
mod nat64;
mod ports;
mod security_groups;
mod services;
mod sources;
mod table_finder;
mod tcp_mss;
mod tenants;
mod underlay;

pub use changes::{Changes, changes};
pub use diff::diff;
pub use gateway_tables::GatewayApi;
pub(crate) use icmp::subnet_gateway;
pub use ids::{IdAssignments, PathMtus, TransitPath};
pub use kernel_paths::{KernelSources, kernel_changes};
pub use machine_numbers::MachineNumbers;
pub use ports::PortStates;
pub(crate) use security_groups::policy_rows;
pub use sources::{EntryKey, source_of};
pub use table_finder::NotAGateway;
pub use underlay::{DEFAULT_MTU, defaults};

use crate::check::ResolvedRegion;
use crate::spanned::SourcePos;
use entries::{ActionSpec, TableEntry};
use ir::Pipeline;
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// All entries and settings of a gateway that serves a region.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GatewayEntries {
    /// The entries, no two with the same table, keys and priority.
    pub entries: Vec<TableEntry>,
    /// Default actions.
    pub defaults: Vec<(ir::TableId, ActionSpec)>,
    /// Counter cells that were assigned to another VPC and must restart at 0.
    pub counters_to_reset: Vec<(ir::ExternId, u64)>,
    /// Expire time profiles, in nanoseconds.
    pub expire_times: Vec<(u8, u64)>,
}

/// Builds the entries of a region. Each has its line in `file` as provenance. `numbers` preserves
/// the ids of VPCs, route tables, remotes and next hops between versions of the file, so that
/// counters keep their meaning.
///
/// # Errors
/// The program lacks a table, action or parameter of the gateway.
pub fn entries(
    region: &ResolvedRegion,
    file: &str,
    pipeline: &Pipeline,
    numbers: &mut IdAssignments,
) -> Result<GatewayEntries, NotAGateway> {
    let api = GatewayApi::new(pipeline)?;
    let reused = api.counters_of(&numbers.assign(region));
    let mut all = GatewayEntries {
        entries: Vec::new(),
        defaults: defaults(region, &api, numbers),
        counters_to_reset: reused,
        expire_times: expire_times(region),
    };
    all.entries.reserve(region.file.vms.len());
    visit(region, &api, numbers, &RegionPart::Whole, &mut |entry, source| {
        all.entries.push(entry.with_provenance(source.text(file)));
    });
    Ok(all)
}

/// Returns the idle times of entries that packets add, by expire time profile, in nanoseconds.
fn expire_times(region: &ResolvedRegion) -> Vec<(u8, u64)> {
    let of_sessions = internet::expire_times(region).into_iter();
    of_sessions.chain(security_groups::expire_times()).chain(fragments::expire_times()).collect()
}

/// A part of a region for which entries are built together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegionPart {
    /// The whole region.
    Whole,
    /// The gateway's addresses, uplinks, servers and remotes.
    Underlay,
    /// The next hops of uplinks and groups, which depend on the state of ports.
    NextHops,
    /// The routes to servers and remotes with these addresses, which depend on the path's MTU.
    RoutesTo(BTreeSet<IpAddr>),
    /// Elastic addresses, port forwards, public services and prefixes on the Internet of all VPCs.
    PublicAddresses,
    /// VPCs by index, with their machines, and the lists of transit paths through one of them.
    Vpcs(BTreeSet<usize>),
}

impl RegionPart {
    fn has_vpc(&self, vpc: usize) -> bool {
        match self {
            RegionPart::Whole | RegionPart::PublicAddresses => true,
            RegionPart::Underlay | RegionPart::NextHops | RegionPart::RoutesTo(_) => false,
            RegionPart::Vpcs(vpcs) => vpcs.contains(&vpc),
        }
    }
}

/// Origin of an entry in the region file: its position and a description.
#[derive(Clone, Copy, Debug)]
pub struct EntrySource<'a> {
    /// The position in the file.
    pub at: SourcePos,
    what: fmt::Arguments<'a>,
}

impl EntrySource<'_> {
    /// Returns `FILE:LINE: WHAT`, as traces show it.
    pub fn text(&self, file: &str) -> String {
        format!("{file}:{}: {}", self.at.line, self.what)
    }
}

/// Callback for each entry that is built.
pub type EntryVisitor<'a> = dyn FnMut(TableEntry, EntrySource<'_>) + 'a;

/// Builds the entries of a part and passes them to `visitor`. `numbers` must have been assigned for
/// `region`.
pub fn visit(
    region: &ResolvedRegion,
    api: &GatewayApi,
    numbers: &IdAssignments,
    part: &RegionPart,
    visitor: &mut EntryVisitor<'_>,
) {
    let mut maker = EntryBuilder { region, api, numbers, part, visitor };
    match part {
        RegionPart::Underlay => maker.add_underlay(),
        RegionPart::NextHops => maker.add_next_hops(),
        RegionPart::RoutesTo(addresses) => maker.add_underlay_routes(|address| addresses.contains(&address)),
        RegionPart::PublicAddresses => maker.add_public_addresses(),
        RegionPart::Vpcs(_) => maker.add_vpcs(),
        RegionPart::Whole => {
            maker.add_underlay();
            maker.add_vpcs();
        }
    }
}

/// Builder of entries.
struct EntryBuilder<'a> {
    region: &'a ResolvedRegion,
    api: &'a GatewayApi,
    numbers: &'a IdAssignments,
    part: &'a RegionPart,
    visitor: &'a mut EntryVisitor<'a>,
}

impl EntryBuilder<'_> {
    /// Adds the entries of tenants.
    fn add_vpcs(&mut self) {
        self.add_tenants();
        self.add_datagram_limits();
        self.add_subnet_gateways();
        self.add_acl();
        self.add_acl_transit();
        self.add_strict_sources();
        self.add_machines();
        self.add_nat_sources();
        self.add_ipv6_sources();
        self.add_nat64();
        self.add_public_addresses();
        self.add_own_subnets();
        self.add_security_groups();
        self.add_services();
    }

    /// Passes an entry to the visitor. `what` and `at` describe its origin.
    fn add_entry(&mut self, entry: TableEntry, at: SourcePos, what: fmt::Arguments<'_>) {
        (self.visitor)(entry, EntrySource { at, what });
    }
}
