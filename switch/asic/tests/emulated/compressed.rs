//! Compares the gateway, as the plan's search compresses it, with shared results, on Tofino 1, with
//! the interpreter. Writes pass the translation map.

use super::first_seed;
use asic::demand::ResourceDemand;
use asic::emulate::{EmulatedSwitch, MappedSwitch, PlacementMap};
use asic::place::{Objective, PipePath, heuristic};
use asic::target::ChipTarget;
use asic::transform::pool::pooled_name;
use asic::transform::share_results::{ResultOptions, results_name, share_results, value_name};
use asic::transform::{TableSizes, TransformedPipeline, alpm, digest, pool};
use entries::{ControlState, Counter, EntryId, WriteBatch};
use ir::{ExternId, TableId};
use num_bigint::BigUint;
use packet::{Batch, BatchOutput, Engine};
use std::cell::Cell;
use testkit::differ::case::PacketIn;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::subject::{BatchResult, EngineInputs, EngineUnderTest, IdleReport, through_engine};
use testkit::differ::{plan, run};

thread_local! {
    /// Maximum number of results in the second table, and number of violations of the chip's rules.
    static SEEN: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

struct Compressed {
    mapped: MappedSwitch,
    results: TableId,
    batch: Batch,
    out: BatchOutput,
}

const ROOM: u64 = 2048;

impl Compressed {
    fn new(build: &EngineInputs<'_>) -> Result<Compressed, String> {
        let target = ChipTarget::shipped("tofino1").ok_or("no such target")?;
        let pipeline = build.pipeline;
        let name = |end: &str| {
            let id = entries::find_table(pipeline, end).map_err(|_| format!("no table {end}"))?;
            Ok::<String, String>(pipeline.tables[id].preamble.name.clone())
        };
        let mut sizes: TableSizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 512)).collect();
        for (id, action) in pipeline.actions.iter().map(|(id, action)| (id, &action.preamble.name)) {
            sizes.extend(pipeline.actions[id].params.iter().map(|p| (value_name(action, &p.name), ROOM / 2)));
        }
        let (v4, v6) = (name("vm_nc_v4")?, name("vm_nc_v6")?);
        let (machines, routes) = (pooled_name(&v4, &v6), [name("route_v4")?, name("route_v6")?]);
        // Result tables that are indexed; the first one is soon full.
        let share = ResultOptions { results_per_table: Some(2), ..ResultOptions::for_argument("server", Some(24)) };
        let shape = alpm::AlpmOptions::new(28);
        let done = TransformedPipeline::unchanged(pipeline.clone(), sizes)
            .then(|p, s| digest::digest_keys(p, s, &v6, &digest::DigestOptions::new(0x5eed)))
            .and_then(|done| done.then(|p, s| pool::pool_tables(p, s, [&v4, &v6])))
            .and_then(|done| done.then(|p, s| share_results(p, s, &machines, &share)))
            .and_then(|done| done.then(|p, s| alpm::partition_table(p, s, &routes[0], &shape)))
            .and_then(|done| done.then(|p, s| alpm::partition_table(p, s, &routes[1], &shape)))
            .map_err(|error| error.to_string())?;
        let mut program =
            ResourceDemand::from_pipeline(&done.pipeline, &done.sizes).map_err(|error| error.to_string())?;
        for attached in program.tables.iter_mut().flat_map(|table| &mut table.attached) {
            attached.size = attached.size.map(|size| size.min(512));
        }
        let path = PipePath::folded(&target, 4).map_err(|error| error.to_string())?;
        let placement = heuristic(&target, &program, &path, Objective::Fits).map_err(|error| error.to_string())?;
        let placed = PlacementMap::from_placement(&target, &program, &placement).map_err(|error| error.to_string())?;
        let results = entries::find_table(&done.pipeline, &format!("{}_1", results_name(&machines)));
        let results = results.map_err(|_| "no results in a second table")?;
        let switch =
            EmulatedSwitch::new(done.pipeline.clone(), placed, build.setup.clone()).map_err(|e| e.to_string())?;
        let mapped = MappedSwitch::behind_map(pipeline, switch, done.map).map_err(|error| error.to_string())?;
        Ok(Compressed { mapped, results, batch: Batch::new(), out: BatchOutput::new() })
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        let (most, violations) = SEEN.get();
        let here = self.mapped.switch().state().peak_entries(self.results);
        let broken: u64 = self.mapped.switch().stats().violations.values().sum();
        SEEN.set((most.max(here), violations + broken));
    }
}

impl EngineUnderTest for Compressed {
    fn name(&self) -> String {
        "asic, compressed".to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.mapped.write(batch).map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        through_engine(&mut self.mapped, &mut self.batch, &mut self.out, packets, None)
    }

    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        self.out.clear();
        Engine::tick(&mut self.mapped, now, &mut self.out);
        Vec::new()
    }

    fn state(&self) -> ControlState {
        self.mapped.state().clone()
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.mapped.switch().counter(counter, index)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.mapped.switch().register(register, index)
    }

    fn direct_counter(&self, _: &EntryId) -> Option<Counter> {
        None
    }

    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        Some(self.mapped.action_counters(table)?.into_iter().map(|(_, counts)| counts).collect())
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        Vec::new()
    }
}

#[test]
fn the_compressed_gateway_runs_on_the_chip() {
    let mut tally = TestCoverage::default();
    for seed in first_seed()..first_seed() + 6 {
        let case = plan::switch_gateway_case(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let factory = |build: &EngineInputs<'_>| Ok(Box::new(Compressed::new(build)?) as Box<dyn EngineUnderTest>);
        if let Err(difference) = run::run_case(&case, &factory, &mut tally) {
            panic!("DIFFER_SEED={seed}: {:?} in step {}: {}", difference.kind, difference.step, difference.what);
        }
    }
    let (most, violations) = SEEN.get();
    println!("DIFFER_SEED={}: {most} results at most\n{tally}", first_seed());
    assert!(tally.packets == 6 * 400 && tally.forwarded >= 50 && tally.hits >= 200, "{tally}");
    assert!(
        most >= 1 && violations == 0,
        "{most} results in the second table, {violations} packets broke the chip's rules"
    );
}
