//! Numbers of the gateway's entries that a region needs, by tenant.

use asic::transform::share_results::value_name;
use entries::{ActionSpec, TableEntry};
use ir::{ActionId, KeyMatch, Pipeline};
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use offload::clusters::Tenant;
use std::collections::{BTreeMap, HashSet};

/// Entries of a region: those of each tenant, and those that belong to no tenant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionSizes {
    /// Entries of all tables, and numbers of distinct values of action arguments.
    pub total: BTreeMap<String, u64>,
    /// Entries that belong to no tenant, by table.
    pub shared: BTreeMap<String, u64>,
    /// Entries of each tenant, by VNI.
    pub tenants: Vec<Tenant>,
}

/// Counts the gateway's entries. A tenant is a VNI: the table `tenant` maps it to a VPC and a
/// routing instance.
/// An entry belongs to the tenant of the VNI, VPC or instance in its first key element, otherwise
/// to all (`shared`).
pub fn region_sizes(pipeline: &Pipeline, entries: &[TableEntry]) -> RegionSizes {
    let exact_number = |key: &KeyMatch| if let KeyMatch::Exact(value) = key { value.to_u64() } else { None };
    let mut tenant_of_key: BTreeMap<(&str, u64), u64> = BTreeMap::new();
    for entry in entries {
        let table = &pipeline.tables[entry.table];
        if !entries::matches_name(&table.preamble.name, "tenant") {
            continue;
        }
        let (Some(vni), ActionSpec::Call(call)) = (entry.keys.first().and_then(exact_number), &entry.action) else {
            continue;
        };
        tenant_of_key.insert(("vni", vni), vni);
        let params = &pipeline.actions[call.action].params;
        for (param, value) in params.iter().zip(&call.args) {
            let kind = if param.name == "vpc" { "vpc" } else { "instance" };
            if let Some(value) = value.to_u64() {
                tenant_of_key.entry((kind, value)).or_insert(vni);
            }
        }
    }
    let mut sizes = RegionSizes::default();
    for (name, count) in distinct_values(pipeline, entries) {
        sizes.total.insert(name.clone(), count);
        sizes.shared.insert(name, count);
    }
    let mut tenants: BTreeMap<u64, BTreeMap<String, u64>> = BTreeMap::new();
    for entry in entries {
        let table = &pipeline.tables[entry.table];
        let name = &table.preamble.name;
        *sizes.total.entry(name.clone()).or_default() += 1;
        let first_key = table.keys.first().map(|key| key.name.as_str()).zip(entry.keys.first().and_then(exact_number));
        match first_key.and_then(|key| tenant_of_key.get(&key)) {
            Some(vni) => *tenants.entry(*vni).or_default().entry(name.clone()).or_default() += 1,
            None => *sizes.shared.entry(name.clone()).or_default() += 1,
        }
    }
    let to_tenant = |(vni, entries): (u64, BTreeMap<String, u64>)| Tenant { name: format!("VNI {vni}"), entries };
    sizes.tenants = tenants.into_iter().map(to_tenant).collect();
    sizes
}

/// Returns the number of distinct values of each action argument.
fn distinct_values(pipeline: &Pipeline, entries: &[TableEntry]) -> BTreeMap<String, u64> {
    let mut values: BTreeMap<(ActionId, usize), HashSet<&BigUint>> = BTreeMap::new();
    for entry in entries {
        if let ActionSpec::Call(call) = &entry.action {
            for (at, value) in call.args.iter().enumerate() {
                values.entry((call.action, at)).or_default().insert(value);
            }
        }
    }
    let named = values.into_iter().filter_map(|((action, at), values)| {
        let action = pipeline.actions.get(action)?;
        Some((value_name(&action.preamble.name, &action.params.get(at)?.name), values.len() as u64))
    });
    named.collect()
}
