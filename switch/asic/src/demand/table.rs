//! Memory demand of one table of the program.

use super::error::DemandError;
use super::{ActionDemand, AttachedKind, AttachedState, KeyDemand, MemoryMatchKind, TableDemand};
use crate::transform::TableSizes;
use crate::transform::{alpm, share_results};
use ir::{CounterUnit, ExternId, ExternKind, MatchKind, Pipeline, TableId};
use std::collections::{BTreeMap, HashSet};

/// Entries of a table without a declared size, as in the chip's compiler.
const DEFAULT_TABLE_ENTRIES: u64 = 1024;

/// Partitions of an ALPM table without a declared number.
const DEFAULT_PARTITIONS: u64 = 1024;

/// Bits of an entry's idle time, because six states from fresh to expired need three.
const IDLE_BITS: u32 = 3;

/// Bits of a packet count, and of a byte count.
const COUNT_BITS: u32 = 64;

/// Bits of a meter's state, one word of a chip's RAM: two buckets with their rates, bursts and
/// times.
const METER_BITS: u32 = 128;

/// Requested sizes, by table and by indexed object.
pub(super) struct RequestedSizes {
    tables: Vec<Option<u64>>,
    objects: BTreeMap<ExternId, u64>,
}

impl RequestedSizes {
    /// Matches each size with its table, or with its indexed counter, meter or register.
    pub fn new(pipeline: &Pipeline, sizes: &TableSizes) -> Result<RequestedSizes, DemandError> {
        let tables = pipeline.tables.values().map(|t| t.preamble.name.as_str());
        let indexed = pipeline.externs.iter().filter(|(_, o)| o.kind.is_indexed());
        let (objects, object_names): (Vec<ExternId>, Vec<&str>) =
            indexed.map(|(id, o)| (id, o.preamble.name.as_str())).unzip();
        let names: Vec<&str> = tables.chain(object_names).collect();
        let values: HashSet<String> = share_results::value_names(pipeline).collect();
        let count = pipeline.tables.len();
        let mut requested = RequestedSizes { tables: vec![None; count], objects: BTreeMap::new() };
        for (name, size) in sizes {
            match entries::find_name(names.iter().copied(), name) {
                Ok(n) if n < count => requested.tables[n] = Some(*size),
                Ok(n) => {
                    requested.objects.insert(objects[n - count], *size);
                }
                // The number of values of an argument does not affect unmodified tables.
                Err(_) if values.contains(name) => {}
                Err(_) => return Err(DemandError::UnknownTable { name: name.clone(), known: names.join(", ") }),
            }
        }
        Ok(requested)
    }
}

/// Returns the table's memory demand.
pub(super) fn table_demand(
    pipeline: &Pipeline,
    id: TableId,
    requested: &RequestedSizes,
    objects: &[ExternId],
) -> TableDemand {
    let table = &pipeline.tables[id];
    // The partition number is excluded from the key because it only addresses the entry.
    let partitioned = alpm::partition_dimensions(table);
    let keys: Vec<KeyDemand> = table
        .match_keys()
        .skip(usize::from(partitioned.is_some()))
        .map(|(_, k)| KeyDemand {
            name: k.name.clone(),
            bits: k.ty.width(),
            exact: k.kind == MatchKind::Exact,
            range: k.kind == MatchKind::Range,
        })
        .collect();
    let declared = if table.const_entries { Some(table.entries.len() as u64) } else { table.size };
    let kind = match partitioned {
        Some((partitions, depth)) => MemoryMatchKind::Partitioned { partitions: partitions.into(), depth },
        None => memory_match_kind(table),
    };
    let entries = match kind {
        MemoryMatchKind::None => 1,
        // Capacity of all partitions, filled or not.
        MemoryMatchKind::Partitioned { partitions, depth } => partitions.saturating_mul(depth.into()).max(1),
        _ => requested.tables[id.0 as usize].or(declared).unwrap_or(DEFAULT_TABLE_ENTRIES).max(1),
    };
    let actions = table.actions.iter().map(|a| {
        let action = &pipeline.actions[a.action];
        ActionDemand {
            name: action.preamble.name.clone(),
            params: action.params.iter().map(|p| p.ty.width()).collect(),
            default_only: a.default_only,
        }
    });
    let direct = table.direct_counter.into_iter().chain(table.direct_meter);
    let mut attached: Vec<AttachedState> = direct.filter_map(|o| attached_state(pipeline, o, None)).collect();
    attached.extend(objects.iter().filter_map(|o| self::attached_state(pipeline, *o, Some(requested))));
    if table.idle_timeout {
        let name = format!("{} idle time", table.preamble.name);
        attached.push(AttachedState { name, kind: AttachedKind::Idle, size: None, bits: IDLE_BITS });
    }
    TableDemand {
        name: table.preamble.name.clone(),
        id: Some(id),
        kind,
        keys,
        entries,
        actions: actions.collect(),
        attached,
    }
}

fn memory_match_kind(table: &ir::Table) -> MemoryMatchKind {
    let mut keys = table.match_keys().map(|(_, k)| k.kind).peekable();
    if keys.peek().is_none() {
        return MemoryMatchKind::None;
    }
    if keys.all(|k| k == MatchKind::Exact) {
        return MemoryMatchKind::Exact;
    }
    let lpm = table.match_keys().any(|(_, k)| k.kind == MatchKind::Lpm) && !table.has_priority();
    match alpm_partitions(table) {
        Some(partitions) if lpm => MemoryMatchKind::Alpm { partitions },
        _ => MemoryMatchKind::Ternary,
    }
}

/// Returns the number of partitions, if the table requests ALPM: a property `alpm = true`, or an
/// annotation `@alpm(1)`, with `@alpm_partitions(n)`.
fn alpm_partitions(table: &ir::Table) -> Option<u64> {
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

/// Returns the demand of an extern object attached to a table. Indexed objects have the requested
/// size, or their declared one.
pub(super) fn attached_state(
    pipeline: &Pipeline,
    id: ExternId,
    requested: Option<&RequestedSizes>,
) -> Option<AttachedState> {
    let object = pipeline.externs.get(id)?;
    let counter_bits = |unit: CounterUnit| if unit == CounterUnit::Both { 2 * COUNT_BITS } else { COUNT_BITS };
    let (kind, size, bits) = match &object.kind {
        ExternKind::Counter { size, unit, .. } => (AttachedKind::Counter, *size, counter_bits(*unit)),
        ExternKind::DirectCounter { unit } => (AttachedKind::Counter, 0, counter_bits(*unit)),
        ExternKind::Meter { size, .. } => (AttachedKind::Meter, *size, METER_BITS),
        ExternKind::DirectMeter { .. } => (AttachedKind::Meter, 0, METER_BITS),
        ExternKind::Register { size, elem, .. } => {
            (AttachedKind::Register, *size, elem.iter().map(|t| t.width()).sum())
        }
        _ => return None,
    };
    let size = requested.map(|w| w.objects.get(&id).copied().unwrap_or(size).max(1));
    Some(AttachedState { name: object.preamble.name.clone(), kind, size, bits })
}
