//! Tests the gateway as the placement's search places it: on Tofino 1, in one pipe, and in two and
//! four folded ones.

use super::first_seed;
use super::subject::{self, Emulated};
use asic::demand::ResourceDemand;
use asic::emulate::PlacementMap;
use asic::place::{Objective, PipePath, heuristic};
use asic::target::ChipTarget;
use asic::transform::TableSizes;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::subject::{EngineInputs, EngineUnderTest};
use testkit::differ::{plan, run};

/// The search's placement runs: no table is in an impossible stage, and packets, drop reasons and
/// counters equal the interpreter's.
#[test]
fn the_gateway_runs_where_it_is_placed() {
    let target = ChipTarget::shipped("tofino1").expect("it is shipped");
    let pipeline = testkit::gateway::switch_pipeline().expect("the gateway compiles");
    let sizes: TableSizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 512)).collect();
    let mut program = ResourceDemand::from_pipeline(&pipeline, &sizes).expect("a demand");
    // The program has counters for a million VPCs, which no stage can hold; one per tenant is
    // enough.
    for attached in program.tables.iter_mut().flat_map(|table| &mut table.attached) {
        attached.size = attached.size.map(|size| size.min(512));
    }
    for folds in [1, 2, 4] {
        let path = PipePath::folded(&target, folds).expect("pipes that can be folded");
        let placement = match heuristic(&target, &program, &path, Objective::Fits) {
            Ok(placement) => placement,
            // One pipe has too few stages for its longest chain of tables.
            Err(error) if folds == 1 => {
                println!("{folds} pipes: {error}");
                continue;
            }
            Err(error) => panic!("{folds} pipes: {error}"),
        };
        let placed = PlacementMap::from_placement(&target, &program, &placement).expect("of this program");
        let passes: std::collections::BTreeSet<u32> =
            placed.tables.values().flat_map(|table| &table.parts).map(|part| part.pass).collect();
        println!("{folds} pipes: tables in passes {passes:?}");
        let before = subject::totals();
        let mut tally = TestCoverage::default();
        for seed in first_seed()..first_seed() + 6 {
            let case = plan::switch_gateway_case(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let factory = |build: &EngineInputs<'_>| {
                Ok(Box::new(Emulated::new(build, placed.clone())?) as Box<dyn EngineUnderTest>)
            };
            if let Err(difference) = run::run_case(&case, &factory, &mut tally) {
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
