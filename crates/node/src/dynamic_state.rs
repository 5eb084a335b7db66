//! State that packets and time leave in meters and entries, transferred to another engine: of
//! another process with the same pipeline, or of another pipeline with the same meters and entries
//! ([`PipelineMapping`]).

use crate::engine::EngineControl;
use crate::migrate::PipelineMapping;
use entries::ControlState;
use interp::{EntryRuntimeState, MeterFill};
use ir::{ExternId, Pipeline, TableId};
use serde::{Deserialize, Serialize};

/// Meter elements and entries in one batch.
const BATCH: usize = 4096;

/// Fill level of a meter's buckets: committed, peak (billionths of a unit), and the time of
/// measurement (ns since the Unix epoch).
type MeterTokens = (u128, u128, u64);

/// A batch of dynamic state. Object and table numbers are those of the receiving pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DynamicState {
    /// The last flow id that was allocated.
    flow_id: Option<u32>,
    /// Levels of indexed meters: object, index, level.
    meters: Vec<(u32, u64, MeterTokens)>,
    entries: Vec<EntryDynamicState>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EntryDynamicState {
    table: u32,
    key: Vec<u64>,
    priority: i32,
    /// Level of the entry's direct meter; `None` if its buckets are full.
    tokens: Option<MeterTokens>,
    /// Start of the idle time (ns since the Unix epoch), and the idle timeout (ns).
    idle: [u64; 2],
}

fn meter_tokens(level: MeterFill) -> MeterTokens {
    (level.committed, level.peak, level.time_ns)
}

fn meter_level((committed, peak, at): MeterTokens) -> MeterFill {
    MeterFill { committed, peak, time_ns: at }
}

/// Whether entries of a table have state that the control plane does not write: a direct meter or
/// an idle time.
fn has_dynamic_state(pipeline: &Pipeline, table: TableId) -> bool {
    let declared = &pipeline.tables[table];
    declared.direct_meter.is_some() || declared.idle_timeout || declared.add_on_miss
}

/// Passes the dynamic state of an engine to `take` in batches, for all meters and entries that the
/// other pipeline also has. `state` has the engine's entries.
///
/// # Errors
/// Returns the error of `take`.
pub(crate) fn collect_dynamic_state<E>(
    engine: &dyn EngineControl,
    state: &ControlState,
    matching: &PipelineMapping<'_>,
    mut take: impl FnMut(DynamicState) -> Result<(), E>,
) -> Result<(), E> {
    let pipeline = engine.pipeline().clone();
    let mut batch = DynamicState { flow_id: Some(engine.flow_id()).filter(|id| *id != 0), ..DynamicState::default() };
    for old in pipeline.externs.keys() {
        let Some(new) = matching.map_meter(old) else { continue };
        for (index, level) in engine.meter_levels(old) {
            batch.meters.push((new.0, index, meter_tokens(level)));
            flush_batch(&mut batch, BATCH, &mut take)?;
        }
    }
    for table in pipeline.tables.keys().filter(|table| has_dynamic_state(&pipeline, *table)) {
        let same_meter = matching.has_same_direct_meter(table);
        for entry in state.entries(table) {
            let (Some(there), Some(EntryRuntimeState { meter, idle_since_ns: active, idle_timeout_ns: timeout })) =
                (matching.map_entry(table, entry), engine.entry_level(table, entry))
            else {
                continue;
            };
            let tokens = meter.filter(|_| same_meter).map(meter_tokens);
            let (table, key, priority) = (there.table.0, there.key().to_vec(), there.priority);
            batch.entries.push(EntryDynamicState { table, key, priority, tokens, idle: [active, timeout] });
            flush_batch(&mut batch, BATCH, &mut take)?;
        }
    }
    flush_batch(&mut batch, 1, &mut take)
}

/// Passes a batch to `take` if it has at least `least` elements.
fn flush_batch<E>(
    batch: &mut DynamicState,
    least: usize,
    take: &mut impl FnMut(DynamicState) -> Result<(), E>,
) -> Result<(), E> {
    let length = batch.meters.len() + batch.entries.len() + usize::from(batch.flow_id.is_some());
    if length < least { Ok(()) } else { take(std::mem::take(batch)) }
}

/// Sets the dynamic state of an engine's meters and entries. Ignores meters and entries that the
/// engine does not have.
pub(crate) fn restore_dynamic_state(engine: &dyn EngineControl, levels: &DynamicState) {
    if let Some(id) = levels.flow_id {
        engine.set_flow_id(id);
    }
    for (meter, index, tokens) in &levels.meters {
        engine.set_meter_level(ExternId(*meter), *index, meter_level(*tokens));
    }
    // The clone shares the tables' indices with the engine only during this function, and there are
    // no writes meanwhile. It has all entries, because another engine's were loaded into it.
    let state = engine.with_written_state(ControlState::clone);
    for of in &levels.entries {
        let table = TableId(of.table);
        let Some(declared) = state.pipeline().tables.get(table) else { continue };
        // The key comes from another process: a key of another length cannot be in this table.
        if state.layout(table).len != of.key.len() {
            continue;
        }
        let Some(entry) = state.get_entry(table, &of.key, of.priority) else { continue };
        let keeps_time = declared.idle_timeout || declared.add_on_miss;
        let (Some(own), [active, timeout]) = (engine.entry_level(table, entry), of.idle) else { continue };
        let (active, timeout) = if keeps_time { (active, timeout) } else { (own.idle_since_ns, own.idle_timeout_ns) };
        engine.set_entry_level(
            table,
            entry,
            EntryRuntimeState { meter: of.tokens.map(meter_level), idle_since_ns: active, idle_timeout_ns: timeout },
        );
    }
}
