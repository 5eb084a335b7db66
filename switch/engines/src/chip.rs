//! Engine of the emulated switch: slow, but with the limits of a chip. It refuses entries that
//! exceed the chip's capacity.

use crate::plan::{PlacedProgram, SwitchPlan, SwitchPlanError};
use asic::emulate::MappedSwitch;
use entries::{ControlState, Counter, EntryError, StoredEntry, UpdateError, WriteBatch, WriteError};
use interp::{Config, DigestMessage, EntryRuntimeState, IdleEntry, MeterFill, Registers, RestingPort, SessionState};
use ir::{ExternId, Pipeline, TableId};
use jit::{ActionStats, EngineStats, TableStats};
use node::engine::{
    ChipSizing, EngineControl, EngineFactory, SharedEngine, SharedEngineFactory, scan_nonzero_elements,
};
use num_bigint::BigUint;
use p4runtime::{Code, P4RuntimeError};
use packet::Engine;
use std::sync::{Arc, OnceLock};

impl EngineFactory for SwitchPlan {
    fn name(&self) -> &'static str {
        "asic"
    }

    fn load(&self, pipeline: &Arc<Pipeline>, settings: &Config) -> Result<Box<dyn EngineControl>, P4RuntimeError> {
        let (switch, made) = self.place_program(pipeline, settings).map_err(|error| match error {
            SwitchPlanError::Full(why) => P4RuntimeError::new(Code::ResourceExhausted, why),
            SwitchPlanError::Impossible(why) => P4RuntimeError::unimplemented(why),
        })?;
        let engine = SharedEngine::new(switch);
        Ok(Box::new(ChipEngine { pipeline: pipeline.clone(), engine, placed: made, binds: OnceLock::new() }))
    }

    fn with_chip_sizing(&self, room: &ChipSizing) -> Option<SharedEngineFactory> {
        Some(Arc::new(SwitchPlan { room: room.clone(), ..self.clone() }))
    }
}

/// Engine of a program on a chip.
struct ChipEngine {
    pipeline: Arc<Pipeline>,
    engine: SharedEngine<MappedSwitch>,
    placed: PlacedProgram,
    /// Binding resource, computed at the first refused entry.
    binds: OnceLock<String>,
}

impl ChipEngine {
    /// Adds the binding resource to a refusal for lack of capacity.
    fn with_binding_resource(&self, refused: WriteError) -> WriteError {
        let WriteError { index, error: UpdateError::Entry(error) } = refused else { return refused };
        let error = match *error {
            EntryError::ChipFull { table, capacity, parts } => {
                let binds = self.binds.get_or_init(|| self.placed.binding_resource());
                EntryError::ChipFull { table, capacity, parts: format!("{parts}; {binds}") }
            }
            other => other,
        };
        WriteError { index, error: error.into() }
    }
}

impl EngineControl for ChipEngine {
    fn name(&self) -> &'static str {
        "asic"
    }

    fn pipeline(&self) -> &Arc<Pipeline> {
        &self.pipeline
    }

    fn new_worker(&self) -> Box<dyn Engine> {
        self.engine.new_worker()
    }

    fn visit_state(&self, at: &mut dyn FnMut(&ControlState)) {
        at(self.engine.lock_engine().state());
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), WriteError> {
        let outcome = self.engine.lock_engine().write(batch);
        outcome.map_err(|refused| self.with_binding_resource(refused))
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.engine.lock_engine().switch().counter(counter, index)
    }

    fn counted(&self, counter: ExternId, end: u64) -> Vec<(u64, Counter)> {
        let engine = self.engine.lock_engine();
        let switch = engine.switch();
        scan_nonzero_elements(end.min(switch.array_len(counter).unwrap_or(0)), |index| switch.counter(counter, index))
    }

    fn array_len(&self, object: ExternId) -> Option<u64> {
        self.engine.lock_engine().switch().array_len(object)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.engine.lock_engine().switch().register(register, index)
    }

    fn registers(&self) -> Registers {
        let engine = self.engine.clone();
        Registers::new(move |register, index| engine.lock_engine().switch().register(register, index))
    }

    fn entry_counter(&self, table: TableId, entry: &StoredEntry) -> Option<Counter> {
        self.engine.lock_engine().entry_counter(table, entry)
    }

    fn entry_idle_for(&self, table: TableId, entry: &StoredEntry) -> Option<u64> {
        self.engine.lock_engine().entry_idle_for(table, entry)
    }

    fn take_digests(&mut self) -> Vec<DigestMessage> {
        self.engine.lock_engine().switch_mut().take_digests()
    }

    fn advance_time(&mut self, now: u64) -> Vec<IdleEntry> {
        self.engine.lock_engine().advance_time(now)
    }

    fn hold_idle(&self, hold: bool) {
        self.engine.lock_engine().switch_mut().hold_idle(hold);
    }

    fn meter_levels(&self, meter: ExternId) -> Vec<(u64, MeterFill)> {
        self.engine.lock_engine().switch().meter_levels(meter)
    }

    fn set_meter_level(&self, meter: ExternId, index: u64, level: MeterFill) {
        self.engine.lock_engine().switch_mut().set_meter_level(meter, index, level);
    }

    fn entry_level(&self, table: TableId, entry: &StoredEntry) -> Option<EntryRuntimeState> {
        self.engine.lock_engine().entry_level(table, entry)
    }

    fn set_entry_level(&self, table: TableId, entry: &StoredEntry, level: EntryRuntimeState) {
        self.engine.lock_engine().set_entry_level(table, entry, level);
    }

    // A chip has no tables that packets write, and no pools.
    fn entry_session(&self, _table: TableId, _entry: &StoredEntry) -> Option<SessionState> {
        None
    }

    fn restore_session(&self, _table: TableId, _entry: &StoredEntry, _session: &SessionState) -> bool {
        false
    }

    fn resting_ports(&self) -> Vec<RestingPort> {
        Vec::new()
    }

    fn restore_resting_port(&self, _resting: &RestingPort) {}

    fn flow_id(&self) -> u32 {
        self.engine.lock_engine().switch().flow_id()
    }

    fn set_flow_id(&self, id: u32) {
        self.engine.lock_engine().switch_mut().set_flow_id(id);
    }

    fn tallies(&self) -> EngineStats {
        let engine = self.engine.lock_engine();
        let at = |table: TableId| {
            let actions = engine.action_counters(table)?.into_iter();
            let actions = actions.map(|(action, [misses, hits])| ActionStats { action, hits, misses });
            Some(TableStats { table, actions: actions.collect() })
        };
        EngineStats { stages: Vec::new(), tables: self.pipeline.tables.keys().filter_map(at).collect() }
    }

    fn fallback_reason(&self) -> Option<String> {
        Some(format!("the program is on an emulated switch, {}", self.placed.target.name))
    }

    fn status_notes(&self) -> Vec<String> {
        let engine = self.engine.lock_engine();
        let mut notes = self.placed.notes();
        let place = |(table, room, place): (String, u64, String)| format!("{table}: {room} entries in {place}");
        notes.extend(engine.table_locations().into_iter().map(place));
        let uncounted = self.pipeline.tables.iter().filter(|(id, _)| engine.action_counters(*id).is_none());
        notes.extend(uncounted.map(|(_, table)| {
            format!(
                "{}: other tables of the chip replace it, so its hits and misses are not counted",
                table.preamble.name
            )
        }));
        notes.extend(engine.stats().into_iter().map(|(what, value)| format!("{what}: {value}")));
        let switch = engine.switch();
        notes.extend(switch.violations().map(|(violation, packets)| {
            format!("{packets} packets were dropped: {}", violation.describe(switch.pipeline()))
        }));
        notes
    }
}
