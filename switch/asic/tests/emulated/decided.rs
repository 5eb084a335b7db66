//! The gateway where the placement's search has put it: on Tofino 1, in one pipe, two and four behind each other.

use super::first_seed;
use super::subject::{self, Emulated};
use asic::demand::Program;
use asic::emulate::Placed;
use asic::place::{Objective, Path, heuristic};
use asic::rewrite::Sizes;
use asic::target::Target;
use testkit::differ::subject::{Build, Subject};
use testkit::differ::tally::Tally;
use testkit::differ::{plan, run};

/// What the search decides runs: no table is where the chip could not have it, and packets, drop reasons and counters are the interpreter's.
#[test]
fn the_gateway_runs_where_it_is_placed() {
    let target = Target::shipped("tofino1").expect("it is shipped");
    let pipeline = testkit::gateway::pipeline().expect("the gateway compiles");
    let sizes: Sizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 512)).collect();
    let mut program = Program::of(&pipeline, &sizes).expect("a demand");
    // The program has counters for a million of VPCs, which no stage holds: as many as there are tenants are enough.
    for attached in program.tables.iter_mut().flat_map(|table| &mut table.attached) {
        attached.size = attached.size.map(|size| size.min(512));
    }
    for folds in [1, 2, 4] {
        let path = Path::folded(&target, folds).expect("pipes that can be folded");
        let placement = match heuristic(&target, &program, &path, Objective::Fits) {
            Ok(placement) => placement,
            // One pipe has not enough stages for its longest chain of tables.
            Err(error) if folds == 1 => {
                println!("{folds} pipes: {error}");
                continue;
            }
            Err(error) => panic!("{folds} pipes: {error}"),
        };
        let placed = Placed::of(&target, &program, &placement).expect("of this program");
        let passes: std::collections::BTreeSet<u32> =
            placed.tables.values().flat_map(|table| &table.parts).map(|part| part.pass).collect();
        println!("{folds} pipes: tables in passes {passes:?}");
        let before = subject::totals();
        let mut tally = Tally::default();
        for seed in first_seed()..first_seed() + 6 {
            let case = plan::gateway(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let factory = |build: &Build<'_>| Ok(Box::new(Emulated::new(build, placed.clone())?) as Box<dyn Subject>);
            if let Err(difference) = run::run(&case, &factory, &mut tally) {
                panic!(
                    "{folds} pipes, DIFFER_SEED={seed}: {:?} in step {}: {}",
                    difference.kind, difference.step, difference.what
                );
            }
        }
        let totals = subject::totals().since(&before);
        println!("{folds} pipes: {totals:?}\n{tally}");
        assert!(tally.packets == 6 * 400 && tally.forwarded >= 50 && tally.hits >= 200, "{tally}");
        assert_eq!(totals.violations, 0, "{totals:?}");
        assert!(totals.crossings >= 2400 / 2 && totals.bits > 0, "{totals:?}");
    }
}
