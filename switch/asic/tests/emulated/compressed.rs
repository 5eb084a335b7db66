//! The gateway as the plan's search compresses it, with results shared, on Tofino 1: written to through the map, and packets do what they do in the
//! interpreter.

use super::first_seed;
use asic::demand::Program;
use asic::emulate::{Mapped, Placed, Switch};
use asic::place::{Objective, Path, heuristic};
use asic::rewrite::pool::pooled_name;
use asic::rewrite::results::{Options, results, results_name, value_name};
use asic::rewrite::{Rewritten, Sizes, alpm, digest, pool};
use asic::target::Target;
use entries::{Counter, EntryId, State, WriteBatch};
use ir::{ExternId, TableId};
use num_bigint::BigUint;
use packet::{Batch, Engine, Output};
use std::cell::Cell;
use testkit::differ::case::PacketIn;
use testkit::differ::subject::{Answer, Build, Idle, Subject, through_engine};
use testkit::differ::tally::Tally;
use testkit::differ::{plan, run};

thread_local! {
    /// Results that were in the second table at most, and violations of the chip's rules.
    static SEEN: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

struct Compressed {
    mapped: Mapped,
    results: TableId,
    batch: Batch,
    out: Output,
}

const ROOM: u64 = 2048;

impl Compressed {
    fn new(build: &Build<'_>) -> Result<Compressed, String> {
        let target = Target::shipped("tofino1").ok_or("no such target")?;
        let pipeline = build.pipeline;
        let name = |end: &str| {
            let id = entries::find_table(pipeline, end).map_err(|_| format!("no table {end}"))?;
            Ok::<String, String>(pipeline.tables[id].preamble.name.clone())
        };
        let mut sizes: Sizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 512)).collect();
        for (id, action) in pipeline.actions.iter().map(|(id, action)| (id, &action.preamble.name)) {
            sizes.extend(pipeline.actions[id].params.iter().map(|p| (value_name(action, &p.name), ROOM / 2)));
        }
        let (v4, v6) = (name("vm_nc_v4")?, name("vm_nc_v6")?);
        let (machines, routes) = (pooled_name(&v4, &v6), [name("route_v4")?, name("route_v6")?]);
        // Tables of results that are addressed by their number, and the first one is soon full.
        let share = Options { each: Some(2), ..Options::one("server", Some(24)) };
        let shape = alpm::Options::new(28);
        let done = Rewritten::unchanged(pipeline.clone(), sizes)
            .then(|p, s| digest::digest(p, s, &v6, &digest::Options::new(0x5eed)))
            .and_then(|done| done.then(|p, s| pool::pool(p, s, [&v4, &v6])))
            .and_then(|done| done.then(|p, s| results(p, s, &machines, &share)))
            .and_then(|done| done.then(|p, s| alpm::alpm(p, s, &routes[0], &shape)))
            .and_then(|done| done.then(|p, s| alpm::alpm(p, s, &routes[1], &shape)))
            .map_err(|error| error.to_string())?;
        let mut program = Program::of(&done.pipeline, &done.sizes).map_err(|error| error.to_string())?;
        for attached in program.tables.iter_mut().flat_map(|table| &mut table.attached) {
            attached.size = attached.size.map(|size| size.min(512));
        }
        let path = Path::folded(&target, 4).map_err(|error| error.to_string())?;
        let placement = heuristic(&target, &program, &path, Objective::Fits).map_err(|error| error.to_string())?;
        let placed = Placed::of(&target, &program, &placement).map_err(|error| error.to_string())?;
        let results = entries::find_table(&done.pipeline, &format!("{}_1", results_name(&machines)));
        let results = results.map_err(|_| "no results in a second table")?;
        let switch = Switch::new(done.pipeline.clone(), placed, build.setup.clone()).map_err(|e| e.to_string())?;
        let mapped = Mapped::behind(pipeline, switch, done.map).map_err(|error| error.to_string())?;
        Ok(Compressed { mapped, results, batch: Batch::new(), out: Output::new() })
    }
}

impl Drop for Compressed {
    fn drop(&mut self) {
        let (most, violations) = SEEN.get();
        let here = self.mapped.switch().state().entry_high_water(self.results);
        let broken: u64 = self.mapped.switch().counts().violations.values().sum();
        SEEN.set((most.max(here), violations + broken));
    }
}

impl Subject for Compressed {
    fn name(&self) -> String {
        "asic, compressed".to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        self.mapped.write(batch).map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> Answer {
        through_engine(&mut self.mapped, &mut self.batch, &mut self.out, packets, None)
    }

    fn tick(&mut self, now: u64) -> Vec<Idle> {
        self.out.clear();
        Engine::tick(&mut self.mapped, now, &mut self.out);
        Vec::new()
    }

    fn state(&self) -> State {
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
        Some(self.mapped.applied(table)?.into_iter().map(|(_, counts)| counts).collect())
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        Vec::new()
    }
}

#[test]
fn the_compressed_gateway_runs_on_the_chip() {
    let mut tally = Tally::default();
    for seed in first_seed()..first_seed() + 6 {
        let case = plan::gateway(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let factory = |build: &Build<'_>| Ok(Box::new(Compressed::new(build)?) as Box<dyn Subject>);
        if let Err(difference) = run::run(&case, &factory, &mut tally) {
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
