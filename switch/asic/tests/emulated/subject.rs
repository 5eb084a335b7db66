//! The emulated switch as a subject of the differential harness.

use super::placing;
use asic::emulate::{EmulatedSwitch, PlacementMap};
use entries::{ControlState, Counter, EntryId, WriteBatch};
use ir::{ExternId, Pipeline, TableId};
use num_bigint::BigUint;
use packet::{Batch, BatchOutput, Engine};
use std::cell::Cell;
use std::sync::Arc;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{BatchResult, EngineInputs, EngineUnderTest, IdleReport, idle_entries, through_engine};
use testkit::differ::subjects::OwnedFactory;

/// Injected fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// No fault.
    None,
    /// Bridges omit live state.
    Forget,
    /// All tables of a pass are in its first stage.
    OneStage,
}

/// Counts summed over all switches.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    pub crossings: u64,
    pub bits: u64,
    pub violations: u64,
    pub folded: u64,
    pub split: u64,
    pub parts: u64,
    /// Switches that run tables in another order than the program's.
    pub backwards: u64,
}

thread_local! {
    /// Each test has its own thread.
    static TOTALS: Cell<[u64; 7]> = const { Cell::new([0; 7]) };
}

fn add(at: usize, more: u64) {
    let mut all = TOTALS.get();
    all[at] += more;
    TOTALS.set(all);
}

/// Returns the totals of this test so far.
pub fn totals() -> Totals {
    let [crossings, bits, violations, folded, split, parts, backwards] = TOTALS.get();
    Totals { crossings, bits, violations, folded, split, parts, backwards }
}

impl Totals {
    pub fn since(&self, before: &Totals) -> Totals {
        Totals {
            crossings: self.crossings - before.crossings,
            bits: self.bits - before.bits,
            violations: self.violations - before.violations,
            folded: self.folded - before.folded,
            split: self.split - before.split,
            parts: self.parts - before.parts,
            backwards: self.backwards - before.backwards,
        }
    }
}

/// Returns a factory of emulated switches with the random placement of a seed.
pub fn factory(seed: u64, sabotage: Sabotage) -> OwnedFactory {
    Box::new(move |build: &EngineInputs<'_>| {
        // Half of the placements have tables in any passes, if the program's order allows one of a
        // few such.
        let wild = (1..9).filter(|_| seed.is_multiple_of(2) && sabotage == Sabotage::None).find_map(|more| {
            let placed = placing::random(build.pipeline, seed + (more << 32), true).ok()?;
            Emulated::new(build, placed).ok()
        });
        if let Some(subject) = wild {
            add(6, u64::from(backwards(&subject.switch)));
            return Ok(Box::new(subject) as Box<dyn EngineUnderTest>);
        }
        let mut placed = placing::random(build.pipeline, seed, false)?;
        if sabotage == Sabotage::OneStage {
            for part in placed.tables.values_mut().flat_map(|table| &mut table.parts) {
                part.stage = 0;
            }
            placed.tables.values_mut().for_each(|table| table.parts.dedup_by_key(|part| part.pass));
            placed
                .tables
                .values_mut()
                .flat_map(|table| table.parts.last_mut())
                .for_each(|part| part.capacity = 1 << 40);
        }
        let mut subject = Emulated::new(build, placed)?;
        if sabotage == Sabotage::Forget {
            subject.switch.sabotage();
        }
        Ok(Box::new(subject) as Box<dyn EngineUnderTest>)
    })
}

/// Returns whether a table is in a pass before that of a table which the program names earlier.
fn backwards(switch: &EmulatedSwitch) -> bool {
    let pass = |table: &TableId| switch.placed().tables[table].parts[0].pass;
    let orders = switch.pipeline().controls.values().filter_map(|control| placing::tables(control).ok());
    orders.into_iter().any(|tables| !tables.is_sorted_by_key(pass))
}

/// Emulated switch under test.
pub struct Emulated {
    switch: EmulatedSwitch,
    pipeline: Arc<Pipeline>,
    batch: Batch,
    out: BatchOutput,
}

impl Emulated {
    pub fn new(build: &EngineInputs<'_>, placed: PlacementMap) -> Result<Emulated, String> {
        add(3, u64::from(placed.passes.len() > 2));
        add(4, u64::from(placed.tables.values().any(|table| table.split.is_some())));
        add(5, u64::from(placed.tables.values().any(|table| table.parts.len() > 1)));
        let switch = EmulatedSwitch::new(build.pipeline.clone(), placed, build.setup.clone())
            .map_err(|error| error.to_string())?;
        Ok(Emulated { switch, pipeline: build.pipeline.clone(), batch: Batch::new(), out: BatchOutput::new() })
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let counts = self.switch.stats();
        add(0, counts.crossings.iter().map(|c| c.packets).sum());
        add(1, counts.crossings.iter().map(|c| c.bits).sum());
        add(2, counts.violations.values().sum());
    }
}

impl EngineUnderTest for Emulated {
    fn name(&self) -> String {
        "asic".to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.switch.write(batch).map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        let mut answer = through_engine(&mut self.switch, &mut self.batch, &mut self.out, packets, None);
        let found = self.switch.violations().map(|(violation, _)| violation.describe(&self.pipeline));
        answer.faults.extend(found);
        answer
    }

    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        self.out.clear();
        Engine::tick(&mut self.switch, now, &mut self.out);
        let idle = self.switch.take_idle();
        idle_entries(&self.pipeline, &idle)
    }

    fn state(&self) -> ControlState {
        self.switch.state().clone()
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.switch.counter(counter, index)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.switch.register(register, index)
    }

    fn direct_counter(&self, entry: &EntryId) -> Option<Counter> {
        self.switch.direct_counter(entry)
    }

    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        Some(self.switch.action_counters(table).into_iter().map(|(_, counts)| counts).collect())
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        self.switch.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
    }
}
