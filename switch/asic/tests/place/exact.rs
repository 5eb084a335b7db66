//! Compares the integer program with an exhaustive search through all placements, on tiny
//! instances.

use crate::random::program;
use asic::demand::{MemoryMatchKind, ResourceDemand};
use asic::memory;
use asic::place::{Objective, PipePath, check_placement, optimum};
use asic::target::{ChipTarget, StageResources};
use fastrand::Rng;
use std::time::Duration;

/// Returns a chip that holds two small tables in a stage.
fn tiny() -> ChipTarget {
    let mut target = ChipTarget::shipped("tofino1").expect("a shipped target");
    target.stages = 4;
    target.per_stage.tables = 2;
    target
}

/// Returns five tables of a few entries, so that splitting has no benefit.
fn small(rng: &mut Rng) -> ResourceDemand {
    let mut program = program(rng, 5, 3);
    for table in &mut program.tables {
        table.attached.clear();
        if table.kind == MemoryMatchKind::Ternary {
            table.kind = MemoryMatchKind::Exact;
        }
    }
    program.gateways.clear();
    program
}

/// Returns the minimum number of stages over all placements; none if there is no placement.
fn exhaustive(target: &ChipTarget, program: &ResourceDemand, path: &PipePath) -> Option<u32> {
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

fn allowed(target: &ChipTarget, program: &ResourceDemand, path: &PipePath, at: &[usize]) -> bool {
    let stages = target.stages as usize;
    let ordered =
        program.dependencies.iter().all(|d| at[d.second] >= at[d.first] + d.kind.min_stage_distance() as usize);
    let turned = program.ports.iter().all(|n| at[*n] / stages <= path.last_ingress());
    let mut free = vec![target.per_stage; path.pipe_count() as usize * stages];
    ordered
        && turned
        && program.tables.iter().zip(at).all(|(table, at)| {
            let pipe = path.hops[at / stages].pipe as usize;
            let slot: &mut StageResources = &mut free[pipe * stages + at % stages];
            match memory::fit_in_stage(target, table, table.entries, slot) {
                Some(part) if table.kind == MemoryMatchKind::None || part.entries >= table.entries => {
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
    let (target, path) = (tiny(), PipePath::unfolded());
    let (mut found, mut none) = (0, 0);
    for round in 0..12 {
        let program = small(&mut rng);
        let wanted = exhaustive(&target, &program, &path);
        let solved = optimum(&target, &program, &path, Objective::FewestStages, Duration::from_secs(20), &mut |_| {});
        match (wanted, solved) {
            (Some(stages), Ok(solved)) => {
                assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()), "round {round}");
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
