//! What packets and time leave in meters and entries, from one engine to another: of another process that runs the same pipeline, or of another
//! pipeline, as far as it has the same meters and entries ([`Matching`]).

use crate::engine::Controlled;
use crate::reconcile::Matching;
use entries::State;
use interp::{EntryLevel, MeterLevel};
use ir::{ExternId, Pipeline, TableId};
use serde::{Deserialize, Serialize};

/// Elements and entries that go together.
const BATCH: usize = 4096;

/// How full a meter's buckets are: committed, peak (billionths of a unit), and when that was so (nanoseconds since 1970).
type Tokens = (u128, u128, u64);

/// Some of them. Numbers are those of the pipeline that is to have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Levels {
    /// The flow id that was given last.
    flow_id: Option<u32>,
    /// Indexed meters: object, index.
    meters: Vec<(u32, u64, Tokens)>,
    entries: Vec<OfEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OfEntry {
    table: u32,
    key: Vec<u64>,
    priority: i32,
    /// Of its direct meter, if that is not full.
    tokens: Option<Tokens>,
    /// When its idle time began (nanoseconds since 1970), and how long that is in nanoseconds.
    idle: [u64; 2],
}

fn tokens(level: MeterLevel) -> Tokens {
    (level.committed, level.peak, level.at)
}

fn level((committed, peak, at): Tokens) -> MeterLevel {
    MeterLevel { committed, peak, at }
}

/// Whether entries of a table have something that nobody writes: a direct meter, or an idle time.
fn has_levels(pipeline: &Pipeline, table: TableId) -> bool {
    let declared = &pipeline.tables[table];
    declared.direct_meter.is_some() || declared.idle_timeout || declared.add_on_miss
}

/// Gives what an engine's meters and entries have to `take`, a batch at a time, for those that the other pipeline has, too.
///
/// # Errors
/// That of `take`.
pub(crate) fn collect<E>(
    engine: &dyn Controlled,
    matching: &Matching<'_>,
    mut take: impl FnMut(Levels) -> Result<(), E>,
) -> Result<(), E> {
    let pipeline = engine.pipeline().clone();
    let mut batch = Levels { flow_id: Some(engine.flow_id()).filter(|id| *id != 0), ..Levels::default() };
    for old in pipeline.externs.keys() {
        let Some(new) = matching.meter(old) else { continue };
        for (index, level) in engine.meter_levels(old) {
            batch.meters.push((new.0, index, tokens(level)));
            hand_on(&mut batch, BATCH, &mut take)?;
        }
    }
    let state = engine.with_state(State::clone);
    for table in pipeline.tables.keys().filter(|table| has_levels(&pipeline, *table)) {
        let same_meter = matching.has_same_direct_meter(table);
        for entry in state.entries(table) {
            let (Some(there), Some(EntryLevel { meter, active, timeout })) =
                (matching.entry(table, entry), engine.entry_level(table, entry))
            else {
                continue;
            };
            let tokens = meter.filter(|_| same_meter).map(tokens);
            let (table, key, priority) = (there.table.0, there.key().to_vec(), there.priority);
            batch.entries.push(OfEntry { table, key, priority, tokens, idle: [active, timeout] });
            hand_on(&mut batch, BATCH, &mut take)?;
        }
    }
    hand_on(&mut batch, 1, &mut take)
}

/// Gives a batch to `take` if it has become so long.
fn hand_on<E>(batch: &mut Levels, least: usize, take: &mut impl FnMut(Levels) -> Result<(), E>) -> Result<(), E> {
    let length = batch.meters.len() + batch.entries.len() + usize::from(batch.flow_id.is_some());
    if length < least { Ok(()) } else { take(std::mem::take(batch)) }
}

/// Lets an engine's meters and entries go on with them. What it does not have is passed over.
pub(crate) fn put(engine: &dyn Controlled, levels: &Levels) {
    if let Some(id) = levels.flow_id {
        engine.set_flow_id(id);
    }
    for (meter, index, tokens) in &levels.meters {
        engine.set_meter_level(ExternId(*meter), *index, level(*tokens));
    }
    // Shares the tables' indices with the engine only until this returns, and nobody writes meanwhile.
    let state = engine.with_state(State::clone);
    for of in &levels.entries {
        let table = TableId(of.table);
        let Some(declared) = state.pipeline().tables.get(table) else { continue };
        // Somebody else's word: a key of another length is none of this table.
        if state.layout(table).len != of.key.len() {
            continue;
        }
        let Some(entry) = state.find(table, &of.key, of.priority) else { continue };
        let keeps_time = declared.idle_timeout || declared.add_on_miss;
        let (Some(own), [active, timeout]) = (engine.entry_level(table, entry), of.idle) else { continue };
        let (active, timeout) = if keeps_time { (active, timeout) } else { (own.active, own.timeout) };
        engine.set_entry_level(table, entry, EntryLevel { meter: of.tokens.map(level), active, timeout });
    }
}
