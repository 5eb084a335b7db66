//! The integer program against a search through all placements, on instances that are tiny enough for that.

use crate::random::program;
use asic::demand::{Match, Program};
use asic::memory;
use asic::place::{Objective, Path, check, optimum};
use asic::target::{Target, Usage};
use fastrand::Rng;
use std::time::Duration;

/// A chip with room for two small tables in a stage.
fn tiny() -> Target {
    let mut target = Target::shipped("tofino1").expect("a shipped target");
    target.stages = 4;
    target.per_stage.tables = 2;
    target
}

/// Five tables of a few entries: none gains from being split.
fn small(rng: &mut Rng) -> Program {
    let mut program = program(rng, 5, 3);
    for table in &mut program.tables {
        table.attached.clear();
        if table.kind == Match::Ternary {
            table.kind = Match::Exact;
        }
    }
    program.gateways.clear();
    program
}

/// The fewest stages over all placements; none if there is no placement.
fn exhaustive(target: &Target, program: &Program, path: &Path) -> Option<u32> {
    let positions = path.hops.len() * target.stages as usize;
    let count = program.tables.len();
    let mut best = None;
    for number in 0..positions.pow(count as u32) {
        let at: Vec<usize> = (0..count).map(|n| number / positions.pow(n as u32) % positions).collect();
        let stage = |n: usize| (at[n] % target.stages as usize) as u32;
        let highest = (0..count).map(stage).max().unwrap_or(0) + 1;
        if best.is_none_or(|b| highest < b) && allowed(target, program, path, &at) {
            best = Some(highest);
        }
    }
    best
}

fn allowed(target: &Target, program: &Program, path: &Path, at: &[usize]) -> bool {
    let stages = target.stages as usize;
    let ordered = program.dependencies.iter().all(|d| at[d.second] >= at[d.first] + d.kind.distance() as usize);
    let turned = program.ports.iter().all(|n| at[*n] / stages <= path.last_ingress());
    let mut free = vec![target.per_stage; path.pipes() as usize * stages];
    ordered
        && turned
        && program.tables.iter().zip(at).all(|(table, at)| {
            let pipe = path.hops[at / stages].pipe as usize;
            let slot: &mut Usage = &mut free[pipe * stages + at % stages];
            match memory::fit(target, table, table.entries, slot) {
                Some(part) if table.kind == Match::None || part.entries >= table.entries => {
                    *slot = slot.minus(part.usage);
                    true
                }
                _ => false,
            }
        })
}

#[test]
fn the_integer_program_finds_what_a_search_finds() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let (target, path) = (tiny(), Path::unfolded());
    let (mut found, mut none) = (0, 0);
    for round in 0..12 {
        let program = small(&mut rng);
        let wanted = exhaustive(&target, &program, &path);
        let solved = optimum(&target, &program, &path, Objective::FewestStages, Duration::from_secs(20), &mut |_| {});
        match (wanted, solved) {
            (Some(stages), Ok(solved)) => {
                assert_eq!(check(&target, &program, &solved.placement), Ok(()), "round {round}");
                assert_eq!(solved.placement.stages_used(), stages, "round {round}");
                assert_eq!((solved.bound, solved.gap), (f64::from(stages), 0.0), "round {round}: proven");
                found += 1;
            }
            (None, Err(_)) => none += 1,
            (wanted, solved) => panic!("round {round}: {wanted:?} by search, {solved:?} by the program"),
        }
    }
    assert!(found > 3, "{found} found, {none} none");
}
