//! Finds the line of the region file that a table entry comes from.

use super::gateway_tables::TenantKey;
use super::ids::TransitPath;
use super::{GatewayApi, IdAssignments, RegionPart, visit};
use crate::check::ResolvedRegion;
use entries::{ControlState, UpdateKind};
use ir::{KeyMatch, TableId};
use num_traits::ToPrimitive;
use std::collections::BTreeSet;

/// Key by which an entry is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EntryKey<'a> {
    /// The table.
    pub table: TableId,
    /// The words of the packed key, in the table's layout.
    pub key: &'a [u64],
    /// The priority.
    pub priority: i32,
}

/// Returns `FILE:LINE: WHAT` of an entry in the gateway's tables, or `None` if `region` has no such
/// entry. Rebuilds the entries of its VPC or of the underlay for the search, because sources of
/// millions of entries would need memory and become outdated with each version of the file.
pub fn source_of(
    state: &ControlState,
    (region, file): (&ResolvedRegion, &str),
    api: &GatewayApi,
    numbers: &IdAssignments,
    entry: EntryKey<'_>,
) -> Option<String> {
    let part = part_with_entry(state, region, api, numbers, entry)?;
    let find = |part| find_in(state, (region, file), api, numbers, (part, entry));
    // Own addresses are those of the gateway, and those that stand for machines.
    find(&part).or_else(|| api.has_public_addresses(entry.table).then(|| find(&RegionPart::PublicAddresses)).flatten())
}

/// Returns the source of an entry of a part of the region.
fn find_in(
    state: &ControlState,
    (region, file): (&ResolvedRegion, &str),
    api: &GatewayApi,
    numbers: &IdAssignments,
    (part, entry): (&RegionPart, EntryKey<'_>),
) -> Option<String> {
    let mut found = None;
    visit(region, api, numbers, part, &mut |made, source| {
        if made.table != entry.table || made.priority != entry.priority || found.is_some() {
            return;
        }
        if state.pack_entry(UpdateKind::Delete, &made).is_ok_and(|packed| packed.key() == entry.key) {
            found = Some(source.text(file));
        }
    });
    found
}

/// Returns the part of the region that contains the entry.
fn part_with_entry(
    state: &ControlState,
    region: &ResolvedRegion,
    api: &GatewayApi,
    numbers: &IdAssignments,
    entry: EntryKey<'_>,
) -> Option<RegionPart> {
    let vpc_of = match api.tenant_key(entry.table) {
        None => return Some(RegionPart::Underlay),
        Some(key) => key,
    };
    let KeyMatch::Exact(first) = state.layout(entry.table).unpack(entry.key).into_iter().next()? else { return None };
    let first = match vpc_of {
        TenantKey::Policy => super::security_groups::vni_of_policy(first.to_u64()?),
        TenantKey::Vni | TenantKey::RouteTable | TenantKey::List => first.to_u32()?,
    };
    let named = |name: &str| (0..).zip(&region.file.vpcs).find(|(_, vpc)| &*vpc.name.value == name).map(|(at, _)| at);
    let vpcs: BTreeSet<usize> = match vpc_of {
        TenantKey::Vni | TenantKey::Policy => {
            (0..).zip(&region.file.vpcs).filter(|(_, vpc)| vpc.vni.value == first).map(|(v, _)| v).collect()
        }
        TenantKey::RouteTable => {
            let of = numbers.instances.iter().find(|(_, number)| **number == first);
            of.and_then(|((vpc, _), _)| named(vpc)).into_iter().collect()
        }
        TenantKey::List => {
            let vpc = numbers.vpcs.iter().find(|(_, number)| **number == first).map(|(name, _)| name);
            let path = numbers.ways.keys().find(|path| numbers.list_of(path) == first);
            let passed = path.into_iter().flat_map(|TransitPath { via, .. }| via);
            vpc.into_iter().chain(passed).filter_map(|name| named(name)).collect()
        }
    };
    Some(RegionPart::Vpcs(vpcs))
}
