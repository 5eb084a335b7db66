//! The emulated switch: slow, and strict where a chip is. An entry for which the chip has no room is refused.

use crate::plan::{Made, NoPlan, SwitchPlan};
use asic::emulate::Mapped;
use entries::{Counter, Entry, EntryError, State, UpdateError, WriteBatch, WriteError};
use interp::{Config, DigestMessage, EntryLevel, IdleEntry, MeterLevel, Registers};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionTally, TableTally, Tallies};
use node::engine::{Controlled, EngineFactory, Factory, Room, Turns, counted_one_by_one};
use num_bigint::BigUint;
use p4runtime::{Code, Refusal};
use packet::Engine;
use std::sync::{Arc, OnceLock};

impl EngineFactory for SwitchPlan {
    fn name(&self) -> &'static str {
        "asic"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn Controlled>, Refusal> {
        let (switch, made) = self.make(pipeline, settings).map_err(|error| match error {
            NoPlan::Full(why) => Refusal::new(Code::ResourceExhausted, why),
            NoPlan::Impossible(why) => Refusal::unimplemented(why),
        })?;
        let engine = Turns::new(switch);
        Ok(Box::new(Placed { pipeline: pipeline.clone(), engine, made, binds: OnceLock::new() }))
    }

    fn with_room(&self, room: &Room) -> Option<Factory> {
        Some(Arc::new(SwitchPlan { room: room.clone(), ..self.clone() }))
    }
}

/// A program on a chip.
struct Placed {
    pipeline: Arc<Pipeline>,
    engine: Turns<Mapped>,
    made: Made,
    /// What stands in the way of more entries, once it was asked for.
    binds: OnceLock<String>,
}

impl Placed {
    /// A refusal for want of room says what binds, too.
    fn explained(&self, refused: WriteError) -> WriteError {
        let WriteError { index, error: UpdateError::Entry(error) } = refused else { return refused };
        let error = match *error {
            EntryError::NoRoom { table, capacity, parts } => {
                let binds = self.binds.get_or_init(|| self.made.binds());
                EntryError::NoRoom { table, capacity, parts: format!("{parts}; {binds}") }
            }
            other => other,
        };
        WriteError { index, error: error.into() }
    }
}

impl Controlled for Placed {
    fn name(&self) -> &'static str {
        "asic"
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn worker(&self) -> Box<dyn Engine> {
        self.engine.worker()
    }

    fn look(&self, at: &mut dyn FnMut(&State)) {
        at(self.engine.turn().state());
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let outcome = self.engine.turn().write(batch);
        outcome.map_err(|refused| self.explained(refused))
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.engine.turn().switch().counter(counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let engine = self.engine.turn();
        let switch = engine.switch();
        counted_one_by_one(end.min(switch.array_len(counter).unwrap_or(0)), |index| switch.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.engine.turn().switch().array_len(object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.engine.turn().switch().register(register, index)
    }

    fn registers(&self) -> Registers {
        let engine = self.engine.clone();
        Registers::new(move |register, index| engine.turn().switch().register(register, index))
    }

    fn entry_counter(&self, table: TableId, entry: &Entry) -> Option<Counter> {
        self.engine.turn().entry_counter(table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &Entry) -> Option<u64> {
        self.engine.turn().entry_idle_for(table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.engine.turn().switch_mut().take_digests()
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        self.engine.turn().advance_time(now)
    }

    fn hold_idle(&self, hold: bool) {
        self.engine.turn().switch_mut().hold_idle(hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterLevel)> {
        self.engine.turn().switch().meter_levels(meter)
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterLevel) {
        self.engine.turn().switch_mut().set_meter_level(meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &Entry) -> Option<EntryLevel> {
        self.engine.turn().entry_level(table, entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &Entry, level: EntryLevel) {
        self.engine.turn().set_entry_level(table, entry, level);
    }

    fn flow_id(&self) -> u32 {
        self.engine.turn().switch().flow_id()
    }

    fn set_flow_id(&self, id: u32) {
        self.engine.turn().switch_mut().set_flow_id(id);
    }

    fn tallies(&self) -> Tallies {
        let engine = self.engine.turn();
        let at = |table: TableId| {
            let actions = engine.applied(table)?.into_iter();
            let actions = actions.map(|(action, [misses, hits])| ActionTally { action, hits, misses });
            Some(TableTally { table, actions: actions.collect() })
        };
        Tallies { stages: Vec::new(), tables: self.pipeline.tables.keys().filter_map(at).collect() }
    }

    fn without_code(&self) -> Option<String> {
        Some(format!("the program is on an emulated switch, {}", self.made.target.name))
    }

    fn notes(&self) -> Vec<String> {
        let engine = self.engine.turn();
        let mut notes = self.made.notes();
        let place = |(table, room, place): (String, u64, String)| format!("{table}: {room} entries in {place}");
        notes.extend(engine.places().into_iter().map(place));
        let uncounted = self.pipeline.tables.iter().filter(|(id, _)| engine.applied(*id).is_none());
        notes.extend(uncounted.map(|(_, table)| {
            format!(
                "{}: other tables of the chip stand for it, so its hits and misses are not counted",
                table.preamble.name
            )
        }));
        notes.extend(engine.figures().into_iter().map(|(what, value)| format!("{what}: {value}")));
        let switch = engine.switch();
        notes.extend(switch.violations().map(|(violation, packets)| {
            format!("{packets} packets were dropped: {}", violation.describe(switch.pipeline()))
        }));
        notes
    }
}
