//! The line of the region file behind a session, for traces. Packets add sessions, so no entry of the region
//! has their key; the NAT of a session's public address is their source.

use super::names::NatNames;
use super::{SESSIONS, last_part};
use entries::{ActionSpec, StoredEntry};
use ir::{KeyMatch, Pipeline, TableId};
use num_bigint::BigUint;
use std::net::Ipv4Addr;

/// Returns `FILE:LINE: NAT NAME: session of VPC NAME, ADDRESS` for an entry of the table of sessions; `None` for
/// other tables, and if the region has no such NAT any more.
pub(crate) fn session_source(
    pipeline: &Pipeline,
    names: &NatNames,
    table: TableId,
    entry: &StoredEntry,
) -> Option<String> {
    let declared = pipeline.tables.get(table)?;
    if !declared.add_on_miss || last_part(&declared.preamble.name) != SESSIONS {
        return None;
    }
    let spec = entry.to_table_entry(pipeline, table);
    let ActionSpec::Call(call) = &spec.action else { return None };
    let keys = declared.match_keys().zip(&spec.keys).map(|((_, key), value)| (last_part(&key.name), value));
    let keys: Vec<(&str, &BigUint)> = keys
        .filter_map(|(name, value)| match value {
            KeyMatch::Exact(value) => Some((name, value)),
            _ => None,
        })
        .collect();
    let params = pipeline.actions.get(call.action)?.params.iter().map(|param| param.name.as_str());
    let args: Vec<(&str, &BigUint)> = params.zip(&call.args).collect();
    let number = |of: &[(&str, &BigUint)], name: &str| {
        let (_, value) = of.iter().find(|(known, _)| *known == name)?;
        u32::try_from(*value).ok()
    };
    // The machine is the key of what it sends, and the argument of what it gets.
    let (machine, public) = match number(&keys, "is_outbound")? {
        0 => (&args, &keys),
        _ => (&keys, &args),
    };
    let vpc = names.vpc(number(machine, "vpc")?)?;
    let address = Ipv4Addr::from_bits(number(machine, "address")?);
    let (nat, _) = names.nat_of(Ipv4Addr::from_bits(number(public, "address")?))?;
    Some(format!("{}: NAT {}: session of VPC {vpc}, {address}", nat.source, nat.name))
}
