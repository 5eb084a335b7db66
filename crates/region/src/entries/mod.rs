//! A checked region to entries of the gateway program.
//!
//! Which entries a packet needs is described in programs/gateway/TABLES.md; one file here for each group of tables.

mod acl;
mod acl_transit;
mod api;
mod diff;
mod numbers;
mod tenants;
mod underlay;

pub use api::{Api, NotAGateway};
pub use diff::diff;
pub use numbers::{Numbers, Way};
pub use underlay::DEFAULT_MTU;

use crate::check::Region;
use ir::Pipeline;
use tables::{ActionSpec, TableEntry};

/// All that a gateway has to be told to serve a region.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Entries {
    /// The entries, no two with the same table, keys and priority.
    pub entries: Vec<TableEntry>,
    /// Default actions.
    pub defaults: Vec<(ir::TableId, ActionSpec)>,
    /// Counter indices that mean another VPC than before: their counts have to start anew.
    pub reused: Vec<(ir::ExternId, u64)>,
}

/// Makes the entries of a region. `numbers` keeps what has a number in the tables (VPCs, route tables, remotes, next hops) at
/// that number from one version of the file to the next, so that counters keep their meaning.
///
/// # Errors
/// If the program lacks a table, action or parameter of the gateway.
pub fn entries(
    region: &Region,
    file: &str,
    pipeline: &Pipeline,
    numbers: &mut Numbers,
) -> Result<Entries, NotAGateway> {
    let api = Api::new(pipeline)?;
    let fresh = numbers.assign(region);
    let mut maker = Maker { region, file, api: &api, numbers, entries: Entries::default() };
    maker.entries.entries.reserve(region.file.vms.len());
    maker.entries.reused = api.vpc_counters.iter().flat_map(|c| fresh.iter().map(|n| (*c, u64::from(*n)))).collect();
    maker.underlay();
    maker.tenants();
    maker.acl();
    maker.acl_transit();
    maker.strict_sources();
    maker.machines();
    Ok(maker.entries)
}

/// Makes entries.
struct Maker<'a> {
    region: &'a Region,
    file: &'a str,
    api: &'a Api,
    numbers: &'a Numbers,
    entries: Entries,
}

impl Maker<'_> {
    /// Adds an entry; `what` and the position tell where it comes from.
    fn add(&mut self, entry: TableEntry, at: crate::position::Position, what: std::fmt::Arguments<'_>) {
        let provenance = format!("{}:{}: {what}", self.file, at.line);
        self.entries.entries.push(entry.with_provenance(provenance));
    }
}
