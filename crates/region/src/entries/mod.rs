//! A checked region to entries of the gateway program.
//!
//! Which entries a packet needs is described in programs/gateway/TABLES.md; one file here for each group of tables.

mod acl;
mod acl_transit;
mod api;
mod changes;
mod diff;
mod numbers;
mod sources;
mod tenants;
mod underlay;

pub use api::{Api, NotAGateway};
pub use changes::{Changes, changes};
pub use diff::diff;
pub use numbers::{Numbers, Way};
pub use sources::{EntryKey, source_of};
pub use underlay::{DEFAULT_MTU, defaults};

use crate::check::Region;
use crate::position::Position;
use entries::{ActionSpec, TableEntry};
use ir::Pipeline;
use std::collections::BTreeSet;
use std::fmt;

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

/// Makes the entries of a region, each with its line of `file` as provenance. `numbers` keeps what
/// has a number in the tables (VPCs, route tables, remotes, next hops) at that number from one
/// version of the file to the next, so that counters keep their meaning.
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
    let reused = api.counters_of(&numbers.assign(region));
    let mut all = Entries { entries: Vec::new(), defaults: defaults(region, &api), reused };
    all.entries.reserve(region.file.vms.len());
    visit(region, &api, numbers, &Part::Whole, &mut |entry, source| {
        all.entries.push(entry.with_provenance(source.text(file)));
    });
    Ok(all)
}

/// A part of a region whose entries are made together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// The gateway's addresses, uplinks, servers, remotes.
    Underlay,
    /// VPCs by index, with their machines, and the lists of paths that pass through one of them.
    Vpcs(BTreeSet<usize>),
}

impl Part {
    fn has_underlay(&self) -> bool {
        matches!(self, Part::Whole | Part::Underlay)
    }

    fn has_vpc(&self, vpc: usize) -> bool {
        match self {
            Part::Whole => true,
            Part::Underlay => false,
            Part::Vpcs(vpcs) => vpcs.contains(&vpc),
        }
    }
}

/// Where in the region file an entry comes from, and from what.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The place in the file.
    pub at: Position,
    what: fmt::Arguments<'a>,
}

impl Source<'_> {
    /// `FILE:LINE: WHAT`, as traces show it.
    pub fn text(&self, file: &str) -> String {
        format!("{file}:{}: {}", self.at.line, self.what)
    }
}

/// Takes each entry that is made.
pub type Visitor<'a> = dyn FnMut(TableEntry, Source<'_>) + 'a;

/// Makes the entries of a part one after the other. `numbers` must have been assigned for `region`.
pub fn visit(region: &Region, api: &Api, numbers: &Numbers, part: &Part, visitor: &mut Visitor<'_>) {
    let mut maker = Maker { region, api, numbers, part, visitor };
    if part.has_underlay() {
        maker.underlay();
    }
    if *part != Part::Underlay {
        maker.tenants();
        maker.acl();
        maker.acl_transit();
        maker.strict_sources();
        maker.machines();
    }
}

/// Makes entries.
struct Maker<'a> {
    region: &'a Region,
    api: &'a Api,
    numbers: &'a Numbers,
    part: &'a Part,
    visitor: &'a mut Visitor<'a>,
}

impl Maker<'_> {
    /// Adds an entry; `what` and the position tell where it comes from.
    fn add(&mut self, entry: TableEntry, at: Position, what: fmt::Arguments<'_>) {
        (self.visitor)(entry, Source { at, what });
    }
}
