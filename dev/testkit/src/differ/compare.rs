//! Whether two engines said the same.

use super::subject::{Answer, Emitted, Subject};
use entries::EntryId;
use ir::{ExternKind, Pipeline};
use packet::{Origin, Verdict};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// The most elements of an array that are compared one by one.
const MAX_ELEMENTS: u64 = 1 << 12;

/// Where packets leave: those of one place have an order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Exit {
    Port(u32),
    Cpu,
}

/// What is different in two answers to one batch; `None` if nothing is that the engine trait promises: packets in order per port, and
/// every drop with its reason.
pub fn answers(expected: &Answer, found: &Answer) -> Option<String> {
    if let Some(fault) = found.faults.first() {
        return Some(fault.clone());
    }
    let (left, right) = (exits(&expected.emitted), exits(&found.emitted));
    for exit in left.keys().chain(right.keys()) {
        let (a, b) = (left.get(exit), right.get(exit));
        let (a, b) = (a.map_or(&[][..], Vec::as_slice), b.map_or(&[][..], Vec::as_slice));
        if let Some(at) = (0..a.len().max(b.len())).find(|at| !same(a.get(*at), b.get(*at))) {
            let (a, b) = (describe(a.get(at).copied()), describe(b.get(at).copied()));
            return Some(format!("packet number {at} at {exit:?}:\n  expected {a}\n  found    {b}"));
        }
    }
    let (left, right) = (drops(&expected.emitted, false), drops(&found.emitted, false));
    if left != right {
        return Some(format!("drops of the batch:\n  expected {left:?}\n  found    {right:?}"));
    }
    let (left, right) = (drops(&expected.emitted, true), drops(&found.emitted, true));
    (left != right).then(|| format!("which received packets are dropped:\n  expected {left:?}\n  found    {right:?}"))
}

fn exits(emitted: &[Emitted]) -> BTreeMap<Exit, Vec<&Emitted>> {
    let mut all: BTreeMap<Exit, Vec<&Emitted>> = BTreeMap::new();
    for one in emitted {
        let exit = match one.verdict {
            Verdict::Forward { port } => Exit::Port(port.0),
            Verdict::ToCpu { .. } => Exit::Cpu,
            Verdict::Drop(_) => continue,
        };
        all.entry(exit).or_default().push(one);
    }
    all
}

fn same(a: Option<&&Emitted>, b: Option<&&Emitted>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.verdict == b.verdict && a.origin == b.origin && a.bytes == b.bytes,
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// The drops, sorted: of all packets, or of received ones with their numbers.
fn drops(emitted: &[Emitted], numbered: bool) -> Vec<String> {
    let mut all = Vec::new();
    for one in emitted {
        let Verdict::Drop(reason) = one.verdict else { continue };
        match (numbered, one.input) {
            (false, _) => all.push(format!("{reason} ({:?})", one.origin)),
            (true, Some(input)) if one.origin == Origin::Received => all.push(format!("{input}: {reason}")),
            (true, _) => {}
        }
    }
    all.sort();
    all
}

fn describe(one: Option<&Emitted>) -> String {
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

/// Bytes as digits; of many only the first.
pub fn hex(bytes: &[u8]) -> String {
    let digits = packet::hex(&bytes[..bytes.len().min(200)]);
    if bytes.len() > 200 { digits + "..." } else { digits }
}

/// What is different in the state that packets and the control plane made; digests are taken.
pub fn states(pipeline: &Pipeline, expected: &mut dyn Subject, found: &mut dyn Subject) -> Option<String> {
    digests(pipeline, expected, found)
        .or_else(|| entries(pipeline, expected, found))
        .or_else(|| applied(pipeline, expected, found))
        .or_else(|| objects(pipeline, expected, found))
}

/// Digest messages: in order for each digest.
pub fn digests(pipeline: &Pipeline, expected: &mut dyn Subject, found: &mut dyn Subject) -> Option<String> {
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

fn entries(pipeline: &Pipeline, expected: &dyn Subject, found: &dyn Subject) -> Option<String> {
    for (id, table) in pipeline.tables.iter() {
        let all = |subject: &dyn Subject| {
            let state = subject.state();
            let entries = state.entries(id);
            let mut all: Vec<_> = entries.map(|entry| entry.to_table_entry(pipeline, id)).collect();
            all.sort_by_cached_key(|entry| (entry.priority, format!("{:?}", entry.keys)));
            all
        };
        let (left, right) = (all(expected), all(found));
        let text = |entries: &[entries::TableEntry]| {
            entries.iter().map(|entry| entries::format_entry(pipeline, entry)).collect::<Vec<_>>()
        };
        let name = &table.preamble.name;
        let (shown_left, shown_right) = (text(&left), text(&right));
        if let Some(difference) = differs(&format!("entries of table {name}"), &shown_left, &shown_right) {
            return Some(difference);
        }
        // An entry of a table without keys is kept, but never hit: engines have no counter for it, or one that stays.
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

/// Which actions the packets took.
fn applied(pipeline: &Pipeline, expected: &dyn Subject, found: &dyn Subject) -> Option<String> {
    pipeline.tables.iter().find_map(|(id, table)| {
        let (left, right) = (expected.applied(id)?, found.applied(id)?);
        // A table that is applied nowhere has no place to count.
        let none = |counts: &[[entries::Counter; 2]]| counts.iter().flatten().all(|count| count.packets == 0);
        if none(&left) && none(&right) {
            return None;
        }
        differs(&format!("packets by action of table {}", table.preamble.name), &left, &right)
    })
}

fn objects(pipeline: &Pipeline, expected: &dyn Subject, found: &dyn Subject) -> Option<String> {
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
            _ => None,
        };
        if difference.is_some() {
            return difference;
        }
    }
    None
}

/// What is different between two values of the same thing.
pub fn differs<T: PartialEq + Debug>(what: &str, expected: &T, found: &T) -> Option<String> {
    (expected != found).then(|| format!("{what}:\n  expected {expected:x?}\n  found    {found:x?}"))
}
