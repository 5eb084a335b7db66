//! Which line of the region file an entry in the tables comes from.

use super::api::TenantKey;
use super::numbers::Way;
use super::{Api, Numbers, Part, visit};
use crate::check::Region;
use entries::{State, UpdateKind};
use ir::{KeyMatch, TableId};
use num_traits::ToPrimitive;
use std::collections::BTreeSet;

/// What an entry is found by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EntryKey<'a> {
    /// The table.
    pub table: TableId,
    /// The words of the keys, as the table lays them out.
    pub key: &'a [u64],
    /// The priority.
    pub priority: i32,
}

/// `FILE:LINE: WHAT` of an entry in the gateway's tables; none if `region` has no such entry. The
/// entries of its VPC, or those of the underlay, are made once more to find it, so that nothing has
/// to be kept beside a million entries, and lines are those of the newest file.
pub fn source_of(
    state: &State,
    (region, file): (&Region, &str),
    api: &Api,
    numbers: &Numbers,
    entry: EntryKey<'_>,
) -> Option<String> {
    let part = part_of(state, region, api, numbers, entry)?;
    let mut found = None;
    visit(region, api, numbers, &part, &mut |made, source| {
        if made.table != entry.table || made.priority != entry.priority || found.is_some() {
            return;
        }
        if state.pack(UpdateKind::Delete, &made).is_ok_and(|packed| packed.key() == entry.key) {
            found = Some(source.text(file));
        }
    });
    found
}

/// The part of the region that has the entry.
fn part_of(state: &State, region: &Region, api: &Api, numbers: &Numbers, entry: EntryKey<'_>) -> Option<Part> {
    let vpc_of = match api.tenant_key(entry.table) {
        None => return Some(Part::Underlay),
        Some(key) => key,
    };
    let KeyMatch::Exact(first) = state.layout(entry.table).unpack(entry.key).into_iter().next()? else { return None };
    let first = first.to_u32()?;
    let named = |name: &str| (0..).zip(&region.file.vpcs).find(|(_, vpc)| &*vpc.name.value == name).map(|(at, _)| at);
    let vpcs: BTreeSet<usize> = match vpc_of {
        TenantKey::Vni => {
            (0..).zip(&region.file.vpcs).filter(|(_, vpc)| vpc.vni.value == first).map(|(v, _)| v).collect()
        }
        TenantKey::RouteTable => {
            let of = numbers.instances.iter().find(|(_, number)| **number == first);
            of.and_then(|((vpc, _), _)| named(vpc)).into_iter().collect()
        }
        TenantKey::List => {
            let vpc = numbers.vpcs.iter().find(|(_, number)| **number == first).map(|(name, _)| name);
            let path = numbers.ways.keys().find(|path| numbers.list_of(path) == first);
            let passed = path.into_iter().flat_map(|Way { via, .. }| via);
            vpc.into_iter().chain(passed).filter_map(|name| named(name)).collect()
        }
    };
    Some(Part::Vpcs(vpcs))
}
