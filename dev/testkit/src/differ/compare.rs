//! Compares the outputs and states of two engines.

use super::subject::{BatchResult, EmittedPacket, EngineUnderTest};
use entries::EntryId;
use ir::{ExternKind, Pipeline};
use packet::{PacketOrigin, Verdict};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Maximum number of elements of an array that are compared individually.
const MAX_ELEMENTS: u64 = 1 << 12;

/// Destination of packets. Only packets with the same destination have an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PacketDestination {
    Port(u32),
    Cpu,
}

/// Compares the results of two engines for one batch, as far as the engine trait defines them:
/// packets in order per port, and every drop with its reason. Returns a description of the
/// difference.
pub fn compare_results(expected: &BatchResult, found: &BatchResult) -> Option<String> {
    if let Some(fault) = found.faults.first() {
        return Some(fault.clone());
    }
    let (expected_by_exit, found_by_exit) = (by_destination(&expected.emitted), by_destination(&found.emitted));
    for exit in expected_by_exit.keys().chain(found_by_exit.keys()) {
        let (a, b) = (expected_by_exit.get(exit), found_by_exit.get(exit));
        let (a, b) = (a.map_or(&[][..], Vec::as_slice), b.map_or(&[][..], Vec::as_slice));
        if let Some(position) =
            (0..a.len().max(b.len())).find(|position| !same_packet(a.get(*position), b.get(*position)))
        {
            let (a, b) = (describe_packet(a.get(position).copied()), describe_packet(b.get(position).copied()));
            return Some(format!("packet number {position} at {exit:?}:\n  expected {a}\n  found    {b}"));
        }
    }
    let (left, right) = (sorted_drops(&expected.emitted, false), sorted_drops(&found.emitted, false));
    if left != right {
        return Some(format!("drops of the batch:\n  expected {left:?}\n  found    {right:?}"));
    }
    let (left, right) = (sorted_drops(&expected.emitted, true), sorted_drops(&found.emitted, true));
    (left != right).then(|| format!("which received packets are dropped:\n  expected {left:?}\n  found    {right:?}"))
}

fn by_destination(emitted: &[EmittedPacket]) -> BTreeMap<PacketDestination, Vec<&EmittedPacket>> {
    let mut all: BTreeMap<PacketDestination, Vec<&EmittedPacket>> = BTreeMap::new();
    for one in emitted {
        let exit = match one.verdict {
            Verdict::Forward { port } => PacketDestination::Port(port.0),
            Verdict::ToCpu { .. } => PacketDestination::Cpu,
            Verdict::Drop(_) => continue,
        };
        all.entry(exit).or_default().push(one);
    }
    all
}

fn same_packet(a: Option<&&EmittedPacket>, b: Option<&&EmittedPacket>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.verdict == b.verdict && a.origin == b.origin && a.bytes == b.bytes,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Returns the drops, sorted: those of all packets, or of received packets with their indices.
fn sorted_drops(emitted: &[EmittedPacket], numbered: bool) -> Vec<String> {
    let mut all = Vec::new();
    for one in emitted {
        let Verdict::Drop(reason) = one.verdict else { continue };
        match (numbered, one.input) {
            (false, _) => all.push(format!("{reason} ({:?})", one.origin)),
            (true, Some(input)) if one.origin == PacketOrigin::Received => all.push(format!("{input}: {reason}")),
            (true, _) => {}
        }
    }
    all.sort();
    all
}

fn describe_packet(one: Option<&EmittedPacket>) -> String {
    match one {
        None => "nothing".to_owned(),
        Some(one) => format!(
            "{:?}, {:?}, {} bytes, of packet {:?}: {}",
            one.verdict,
            one.origin,
            one.bytes.len(),
            one.input,
            hex(&one.bytes)
        ),
    }
}

/// Formats bytes as hex digits, at most the first 200.
pub fn hex(bytes: &[u8]) -> String {
    let digits = packet::hex(&bytes[..bytes.len().min(200)]);
    if bytes.len() > 200 { digits + "..." } else { digits }
}

/// Compares the state of two engines. Consumes their digests. Returns a description of the
/// difference.
pub fn compare_states(
    pipeline: &Pipeline,
    expected: &mut dyn EngineUnderTest,
    found: &mut dyn EngineUnderTest,
) -> Option<String> {
    compare_digests(pipeline, expected, found)
        .or_else(|| compare_entries(pipeline, expected, found))
        .or_else(|| compare_applied(pipeline, expected, found))
        .or_else(|| compare_objects(pipeline, expected, found))
}

/// Compares digest messages, in order for each digest.
pub fn compare_digests(
    pipeline: &Pipeline,
    expected: &mut dyn EngineUnderTest,
    found: &mut dyn EngineUnderTest,
) -> Option<String> {
    let mut left: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let mut right: BTreeMap<_, Vec<_>> = BTreeMap::new();
    expected.take_digests().into_iter().for_each(|(id, values)| left.entry(id).or_default().push(values));
    found.take_digests().into_iter().for_each(|(id, values)| right.entry(id).or_default().push(values));
    let ids = left.keys().chain(right.keys()).copied();
    let differing = ids.into_iter().find(|id| left.get(id) != right.get(id))?;
    let name = &pipeline.externs.get(differing)?.preamble.name;
    let (left, right) = (left.get(&differing), right.get(&differing));
    Some(format!("messages of digest {name}:\n  expected {left:x?}\n  found    {right:x?}"))
}

/// Compares the entries of all tables, and the direct counter of each. Entries are sorted, because
/// engines return them in different orders.
fn compare_entries(pipeline: &Pipeline, expected: &dyn EngineUnderTest, found: &dyn EngineUnderTest) -> Option<String> {
    for (id, table) in pipeline.tables.iter() {
        let sorted_entries = |subject: &dyn EngineUnderTest| {
            let state = subject.state();
            let entries = state.entries(id);
            let mut sorted_entries: Vec<_> = entries.map(|entry| entry.to_table_entry(pipeline, id)).collect();
            sorted_entries.sort_by_cached_key(|entry| (entry.priority, format!("{:?}", entry.keys)));
            sorted_entries
        };
        let (left, right) = (sorted_entries(expected), sorted_entries(found));
        let format_all = |entries: &[entries::TableEntry]| {
            entries.iter().map(|entry| entries::format_entry(pipeline, entry)).collect::<Vec<_>>()
        };
        let name = &table.preamble.name;
        let (shown_left, shown_right) = (format_all(&left), format_all(&right));
        if let Some(difference) = differs(&format!("entries of table {name}"), &shown_left, &shown_right) {
            return Some(difference);
        }
        // An entry of a table without keys is stored but never hit. Engines have no counter for it,
        // or one that does not change.
        if table.direct_counter.is_none() || table.keys.is_empty() {
            continue;
        }
        for (entry, shown) in left.into_iter().zip(shown_left) {
            let entry = EntryId { table: id, keys: entry.keys, priority: entry.priority };
            let (left, right) = (expected.direct_counter(&entry), found.direct_counter(&entry));
            if let Some(difference) = differs(&format!("direct counter of {shown}"), &left, &right) {
                return Some(difference);
            }
        }
    }
    None
}

/// Compares the counts of executed actions.
fn compare_applied(pipeline: &Pipeline, expected: &dyn EngineUnderTest, found: &dyn EngineUnderTest) -> Option<String> {
    pipeline.tables.iter().find_map(|(id, table)| {
        let (left, right) = (expected.applied(id)?, found.applied(id)?);
        // A table that is applied nowhere has no counts.
        let none = |counts: &[[entries::Counter; 2]]| counts.iter().flatten().all(|count| count.packets == 0);
        if none(&left) && none(&right) {
            return None;
        }
        differs(&format!("packets by action of table {}", table.preamble.name), &left, &right)
    })
}

/// Compares the elements of counters and registers, at most [`MAX_ELEMENTS`] of each object.
fn compare_objects(pipeline: &Pipeline, expected: &dyn EngineUnderTest, found: &dyn EngineUnderTest) -> Option<String> {
    for (id, object) in pipeline.externs.iter() {
        let name = &object.preamble.name;
        let difference = match object.kind {
            ExternKind::Counter { size, .. } => (0..size.min(MAX_ELEMENTS)).find_map(|index| {
                let (left, right) = (expected.counter(id, index), found.counter(id, index));
                differs(&format!("counter {name}[{index}]"), &left, &right)
            }),
            ExternKind::Register { size, .. } => (0..size.min(MAX_ELEMENTS)).find_map(|index| {
                let (left, right) = (expected.register(id, index), found.register(id, index));
                differs(&format!("register {name}[{index}]"), &left, &right)
            }),
            ExternKind::PortPool { .. } => {
                let usages = expected.port_usage(id).zip(found.port_usage(id));
                usages.and_then(|(left, right)| differs(&format!("ports of pool {name}"), &left, &right))
            }
            ExternKind::EntryQuota { owners } => (0..owners.min(16)).find_map(|owner| {
                let entries = expected.quota_entries(id, owner).zip(found.quota_entries(id, owner));
                entries.and_then(|(left, right)| differs(&format!("entries of owner {owner} in {name}"), &left, &right))
            }),
            _ => None,
        };
        if difference.is_some() {
            return difference;
        }
    }
    None
}

/// Describes the difference between two values of the same object.
pub fn differs<T: PartialEq + Debug>(what: &str, expected: &T, found: &T) -> Option<String> {
    (expected != found).then(|| format!("{what}:\n  expected {expected:x?}\n  found    {found:x?}"))
}
