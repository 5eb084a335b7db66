//! The line of the region file behind a session, for traces. Packets add sessions, so no entry of the region
//! has their key; the NAT of a session's public address is their source.

use super::names::NatNames;
use super::{SESSIONS, last_part};
use crate::sessions::NamedEntry;
use entries::StoredEntry;
use ir::{Pipeline, TableId};
use std::net::{IpAddr, Ipv4Addr};

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
    let entry = NamedEntry::new(pipeline, table, entry)?;
    // The machine is the key of what it sends, and the argument of what it gets.
    let is_outbound = entry.key("is_outbound")? != 0;
    let of_machine = |name: &str| if is_outbound { entry.key(name) } else { entry.argument(name) };
    let public = if is_outbound { entry.argument("address") } else { entry.key("address") };
    let vpc = names.vpc(of_machine("vpc")?)?;
    // A machine with NAT64 has a number in the place of an address.
    let number = of_machine(if is_outbound { "address" } else { "number" });
    let address = match number.and_then(|number| names.machine_v6(number)) {
        Some(address) => IpAddr::from(address),
        None => Ipv4Addr::from_bits(of_machine("address")?).into(),
    };
    let (nat, _) = names.nat_of(Ipv4Addr::from_bits(public?).into())?;
    Some(format!("{}: NAT {}: session of VPC {vpc}, {address}", nat.source, nat.name))
}
