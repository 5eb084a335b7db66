//! A table of the program, as memories see it.

use super::error::DemandError;
use super::{Action, Attached, AttachedKind, Key, Match, Table};
use crate::rewrite::Sizes;
use crate::rewrite::{alpm, results};
use ir::{CounterUnit, ExternId, ExternKind, MatchKind, Pipeline, TableId};
use std::collections::{BTreeMap, HashSet};

/// Entries of a table whose program does not say: what the chip's compiler takes, too.
const DEFAULT_SIZE: u64 = 1024;

/// Partitions of an ALPM table whose program does not say.
const DEFAULT_PARTITIONS: u64 = 1024;

/// Bits of an entry's idle time: six states from fresh to expired need three.
const IDLE_BITS: u32 = 3;

/// Bits of a counter's packets, and of its bytes.
const COUNT_BITS: u32 = 64;

/// Bits of a meter's state: two buckets with their rates, bursts and times are one word of a chip's RAM.
const METER_BITS: u32 = 128;

/// What was asked for, by table and by indexed object.
pub(super) struct Wanted {
    tables: Vec<Option<u64>>,
    objects: BTreeMap<ExternId, u64>,
}

impl Wanted {
    /// Finds whose each size is: a table's, or that of counters, meters or registers with an index.
    pub fn new(pipeline: &Pipeline, sizes: &Sizes) -> Result<Wanted, DemandError> {
        let tables = pipeline.tables.values().map(|t| t.preamble.name.as_str());
        let indexed = pipeline.externs.iter().filter(|(_, o)| o.kind.is_indexed());
        let (objects, object_names): (Vec<ExternId>, Vec<&str>) =
            indexed.map(|(id, o)| (id, o.preamble.name.as_str())).unzip();
        let names: Vec<&str> = tables.chain(object_names).collect();
        let values: HashSet<String> = results::value_names(pipeline).collect();
        let count = pipeline.tables.len();
        let mut wanted = Wanted { tables: vec![None; count], objects: BTreeMap::new() };
        for (name, size) in sizes {
            match entries::find_name(names.iter().copied(), name) {
                Ok(n) if n < count => wanted.tables[n] = Some(*size),
                Ok(n) => {
                    wanted.objects.insert(objects[n - count], *size);
                }
                // How many values an argument has says nothing of the tables as they are.
                Err(_) if values.contains(name) => {}
                Err(_) => return Err(DemandError::UnknownTable { name: name.clone(), known: names.join(", ") }),
            }
        }
        Ok(wanted)
    }
}

/// The table as it is asked of a chip.
pub(super) fn table(pipeline: &Pipeline, id: TableId, wanted: &Wanted, objects: &[ExternId]) -> Table {
    let table = &pipeline.tables[id];
    // The number of a partition is no key: it is where the entry lies.
    let partitioned = alpm::partitioned(table);
    let keys: Vec<Key> = table
        .match_keys()
        .skip(usize::from(partitioned.is_some()))
        .map(|(_, k)| Key {
            name: k.name.clone(),
            bits: k.ty.width(),
            exact: k.kind == MatchKind::Exact,
            range: k.kind == MatchKind::Range,
        })
        .collect();
    let declared = if table.const_entries { Some(table.entries.len() as u64) } else { table.size };
    let kind = match partitioned {
        Some((partitions, depth)) => Match::Partitioned { partitions: partitions.into(), depth },
        None => kind(table),
    };
    let entries = match kind {
        Match::None => 1,
        // All places of all partitions, filled or not.
        Match::Partitioned { partitions, depth } => partitions.saturating_mul(depth.into()).max(1),
        _ => wanted.tables[id.0 as usize].or(declared).unwrap_or(DEFAULT_SIZE).max(1),
    };
    let actions = table.actions.iter().map(|a| {
        let action = &pipeline.actions[a.action];
        Action {
            name: action.preamble.name.clone(),
            params: action.params.iter().map(|p| p.ty.width()).collect(),
            default_only: a.default_only,
        }
    });
    let direct = table.direct_counter.into_iter().chain(table.direct_meter);
    let mut attached: Vec<Attached> = direct.filter_map(|o| attached(pipeline, o, None)).collect();
    attached.extend(objects.iter().filter_map(|o| self::attached(pipeline, *o, Some(wanted))));
    if table.idle_timeout {
        let name = format!("{} idle time", table.preamble.name);
        attached.push(Attached { name, kind: AttachedKind::Idle, size: None, bits: IDLE_BITS });
    }
    Table { name: table.preamble.name.clone(), id: Some(id), kind, keys, entries, actions: actions.collect(), attached }
}

fn kind(table: &ir::Table) -> Match {
    let mut keys = table.match_keys().map(|(_, k)| k.kind).peekable();
    if keys.peek().is_none() {
        return Match::None;
    }
    if keys.all(|k| k == MatchKind::Exact) {
        return Match::Exact;
    }
    let lpm = table.match_keys().any(|(_, k)| k.kind == MatchKind::Lpm) && !table.has_priority();
    match partitions(table) {
        Some(partitions) if lpm => Match::Alpm { partitions },
        _ => Match::Ternary,
    }
}

/// Partitions, if the table asks for ALPM: a property `alpm = true`, or an annotation `@alpm(1)`, with `@alpm_partitions(n)`.
fn partitions(table: &ir::Table) -> Option<u64> {
    let inside = |text: &str, name: &str| {
        let rest = text.trim().strip_prefix('@')?.strip_prefix(name)?.trim_start().strip_prefix('(')?;
        rest.strip_suffix(')').map(|t| t.trim().trim_matches('"').to_owned())
    };
    let annotation = |name: &str| table.preamble.annotations.iter().find_map(|a| inside(a, name));
    let property =
        |name: &str| table.properties.iter().find(|(n, _)| n == name).map(|(_, text)| text.trim().to_owned());
    let asked = property("alpm").or_else(|| annotation("alpm"))?;
    if matches!(asked.as_str(), "0" | "false") {
        return None;
    }
    let number = property("alpm_partitions").or_else(|| annotation("alpm_partitions"));
    Some(number.and_then(|n| n.parse().ok()).unwrap_or(DEFAULT_PARTITIONS))
}

/// An extern object beside a table. Indexed ones have the size that was asked for, or their own.
pub(super) fn attached(pipeline: &Pipeline, id: ExternId, wanted: Option<&Wanted>) -> Option<Attached> {
    let object = pipeline.externs.get(id)?;
    let count = |unit: CounterUnit| if unit == CounterUnit::Both { 2 * COUNT_BITS } else { COUNT_BITS };
    let (kind, size, bits) = match &object.kind {
        ExternKind::Counter { size, unit, .. } => (AttachedKind::Counter, *size, count(*unit)),
        ExternKind::DirectCounter { unit } => (AttachedKind::Counter, 0, count(*unit)),
        ExternKind::Meter { size, .. } => (AttachedKind::Meter, *size, METER_BITS),
        ExternKind::DirectMeter { .. } => (AttachedKind::Meter, 0, METER_BITS),
        ExternKind::Register { size, elem, .. } => {
            (AttachedKind::Register, *size, elem.iter().map(|t| t.width()).sum())
        }
        _ => return None,
    };
    let size = wanted.map(|w| w.objects.get(&id).copied().unwrap_or(size).max(1));
    Some(Attached { name: object.preamble.name.clone(), kind, size, bits })
}
