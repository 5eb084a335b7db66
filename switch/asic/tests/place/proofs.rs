//! Tests that lower bounds hold: no placement is better than its bound. Instances are small enough
//! to enumerate all of their placements, including split tables. Many bounds must be reached, so
//! that a bound that is slightly too high is detected.

use asic::demand::{ActionDemand, Dependency, DependencyKind, KeyDemand, MemoryMatchKind, ResourceDemand, TableDemand};
use asic::memory;
use asic::place::{Objective, PipePath, PlacementError, check_placement, is_possible, optimum};
use asic::target::{ChipTarget, StageResources};
use fastrand::Rng;
use std::time::Duration;

/// SRAM blocks per stage of these instances.
const SRAM: u32 = 9;

fn tiny(stages: u32) -> ChipTarget {
    let mut target = ChipTarget::shipped("tofino1").expect("a shipped target");
    target.stages = stages;
    target.per_stage.sram = SRAM;
    target
}

/// Returns three ordered tables of some blocks, all in SRAM.
fn small(rng: &mut Rng) -> ResourceDemand {
    let table = |n: usize, rng: &mut Rng| TableDemand {
        name: format!("t{n}"),
        id: None,
        kind: MemoryMatchKind::Exact,
        keys: vec![KeyDemand {
            name: format!("t{n}.k"),
            bits: [32, 64, 128][rng.usize(0..3)],
            exact: true,
            range: false,
        }],
        entries: rng.u64(1..15_000),
        actions: vec![ActionDemand { name: format!("t{n}.a"), params: vec![16], default_only: false }],
        attached: Vec::new(),
    };
    let tables: Vec<TableDemand> = (0..3).map(|n| table(n, rng)).collect();
    let mut dependencies = Vec::new();
    for (first, second) in [(0, 1), (0, 2), (1, 2)] {
        let kind = [DependencyKind::Match, DependencyKind::Control][rng.usize(0..2)];
        if rng.u8(..3) > 0 {
            dependencies.push(Dependency { first, second, kind, through: "f".to_owned() });
        }
    }
    let ports = (0..3).filter(|_| rng.u8(..4) == 0).collect();
    ResourceDemand { name: "small".to_owned(), tables, dependencies, ports, ..ResourceDemand::default() }
}

/// Enumerator of all placements.
struct Walk<'a> {
    program: &'a ResourceDemand,
    path: &'a PipePath,
    stages: usize,
    /// For each table and number of blocks, the maximum number of entries of a part in these
    /// blocks; 0 if none.
    parts: Vec<Vec<u64>>,
    taken: Vec<u32>,
    ends: Vec<usize>,
    /// Minimum number of stages, and minimum number of blocks in the fullest stage.
    best: (usize, u32),
}

impl Walk<'_> {
    fn of(target: &ChipTarget, program: &ResourceDemand, path: &PipePath) -> (usize, u32) {
        let most = |table: &TableDemand, sram: u32| {
            let free = StageResources { sram, ..target.per_stage };
            memory::fit_in_stage(target, table, u64::from(u32::MAX), &free).map_or(0, |part| part.entries)
        };
        let parts = program.tables.iter().map(|table| (0..=SRAM).map(|sram| most(table, sram)).collect()).collect();
        let stages = target.stages as usize;
        let taken = vec![0; path.pipe_count() as usize * stages];
        let mut walk = Walk { program, path, stages, parts, taken, ends: vec![0; 3], best: (usize::MAX, u32::MAX) };
        walk.table(0);
        walk.best
    }

    fn table(&mut self, n: usize) {
        if n == self.program.tables.len() {
            let highest = (0..self.taken.len()).filter(|at| self.taken[*at] > 0).map(|at| at % self.stages + 1).max();
            let fullest = self.taken.iter().copied().max();
            self.best = (self.best.0.min(highest.unwrap_or(0)), self.best.1.min(fullest.unwrap_or(0)));
            return;
        }
        let before = self.program.dependencies.iter().filter(|d| d.second == n);
        let first = before.map(|d| self.ends[d.first] + d.kind.min_stage_distance() as usize).max().unwrap_or(0);
        let turned = self.program.ports.contains(&n);
        let halves = if turned { self.path.last_ingress() + 1 } else { self.path.hops.len() };
        self.place(n, first, halves * self.stages, self.program.tables[n].entries);
    }

    fn place(&mut self, n: usize, at: usize, end: usize, left: u64) {
        if at >= end {
            return;
        }
        self.place(n, at + 1, end, left);
        let slot = self.path.hops[at / self.stages].pipe as usize * self.stages + at % self.stages;
        for sram in 1..=SRAM - self.taken[slot] {
            let entries = self.parts[n][sram as usize];
            if entries <= self.parts[n][sram as usize - 1] {
                continue;
            }
            self.taken[slot] += sram;
            if entries >= left {
                self.ends[n] = at;
                self.table(n + 1);
            } else {
                self.place(n, at + 1, end, left - entries);
            }
            self.taken[slot] -= sram;
            if entries >= left {
                break;
            }
        }
    }
}

#[test]
fn no_placement_is_better_than_the_bound() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let (mut placed, mut reached, mut proven, mut none, mut tight, mut late) = (0, 0, 0, 0, 0, 0);
    for round in 0..24 {
        let target = tiny(rng.u32(2..4));
        let path = PipePath::folded(&target, if target.stages == 2 { 2 } else { 1 }).expect("1 or 2 of four");
        let program = small(&mut rng);
        let (stages, fullest) = Walk::of(&target, &program, &path);
        for objective in [Objective::FewestStages, Objective::MostHeadroom] {
            let best = match objective {
                Objective::FewestStages => stages as f64,
                _ => f64::from(fullest) / f64::from(SRAM),
            };
            // The largest bound of the search, which must not exceed the best placement.
            let mut said: f64 = 0.0;
            let mut listen = |progress: &asic::place::SearchProgress| said = said.max(progress.bound);
            let solved = optimum(&target, &program, &path, objective, Duration::from_millis(800), &mut listen);
            let what = format!("round {round}, {objective:?}: {stages} stages, {fullest} blocks, {program:?}");
            let solved = match solved {
                Ok(solved) => solved,
                Err(_) if stages == usize::MAX => {
                    none += 1;
                    continue;
                }
                // On a busy machine, the integer program may reach its time limit before it finds a
                // placement.
                Err(PlacementError::Full { .. }) => {
                    late += 1;
                    continue;
                }
                Err(error) => panic!("{what}: {error}"),
            };
            assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()), "{what}");
            let possible = |value: f64| is_possible(&target, &program, &path, objective, value).expect("tables fit");
            assert!(possible(best), "{what}: said to be impossible");
            let better = best - if objective == Objective::FewestStages { 1.0 } else { 1.0 / f64::from(SRAM) };
            tight += u32::from(!possible(better));
            assert!(said <= best + 1e-9, "{what}: the bound is {said}");
            assert!(solved.value >= best - 1e-9, "{what}: {} is better than all there is", solved.value);
            placed += 1;
            reached += u32::from((solved.bound - best).abs() < 1e-9);
            proven += u32::from(solved.gap == 0.0);
        }
    }
    println!("{placed} placed, {reached} bounds reached, {proven} proven, {none} with none, {late} not found in time");
    assert!(placed > 20, "{placed} placed, {none} with none, {late} late: the test has gone inert");
    assert!(tight * 4 > placed, "{tight} of {placed}: what is better than the best is hardly ever denied");
    assert!(
        reached * 4 > placed,
        "{reached} of {placed} bounds are reached: the others would not show that they are too good"
    );
}
