//! Random demands: a placement of the heuristic passes the check.

use asic::demand::{
    ActionDemand, AttachedKind, AttachedState, Dependency, DependencyKind, GatewayDemand, KeyDemand, MemoryMatchKind,
    ResourceDemand, TableDemand,
};
use asic::place::{Objective, PipePath, PlacementError, check_placement, heuristic, optimum};
use asic::target::ChipTarget;
use fastrand::Rng;
use std::time::Duration;

/// Returns a table of any kind.
fn table(rng: &mut Rng, n: usize, most: u64) -> TableDemand {
    let kind = *rng
        .choice(
            [MemoryMatchKind::None, MemoryMatchKind::Exact, MemoryMatchKind::Exact, MemoryMatchKind::Ternary]
                .as_slice()
                .iter(),
        )
        .expect("four kinds");
    let key = |rng: &mut Rng, k: usize| KeyDemand {
        name: format!("t{n}.k{k}"),
        bits: *rng.choice([8, 16, 32, 48, 128].as_slice().iter()).expect("some"),
        exact: kind == MemoryMatchKind::Exact || rng.bool(),
        range: false,
    };
    let keys =
        if kind == MemoryMatchKind::None { Vec::new() } else { (0..rng.usize(1..4)).map(|k| key(rng, k)).collect() };
    let params = (0..rng.usize(0..4)).map(|_| *rng.choice([8, 16, 32, 48].as_slice().iter()).expect("some")).collect();
    let actions = vec![ActionDemand { name: format!("t{n}.a"), params, default_only: kind == MemoryMatchKind::None }];
    let counter = AttachedState { name: format!("t{n}.c"), kind: AttachedKind::Counter, size: None, bits: 64 };
    let attached = if kind != MemoryMatchKind::None && rng.u8(..4) == 0 { vec![counter] } else { Vec::new() };
    let entries = if kind == MemoryMatchKind::None { 1 } else { rng.u64(1..most) };
    TableDemand { name: format!("t{n}"), id: None, kind, keys, entries, actions, attached }
}

/// Returns a program of some tables with random dependencies.
pub fn program(rng: &mut Rng, count: usize, most: u64) -> ResourceDemand {
    let tables = (0..count).map(|n| table(rng, n, most)).collect();
    let kinds = [DependencyKind::Match, DependencyKind::Action, DependencyKind::Control, DependencyKind::Reverse];
    let mut dependencies = Vec::new();
    for second in 1..count {
        for _ in 0..rng.usize(0..3) {
            let (first, kind) = (rng.usize(0..second), kinds[rng.usize(0..4)]);
            dependencies.push(Dependency { first, second, kind, through: format!("f{first}") });
        }
    }
    let gateway = |rng: &mut Rng| GatewayDemand {
        table: Some(rng.usize(0..count)),
        condition: "c".to_owned(),
        bits: rng.u32(1..64),
    };
    let gateways = (0..rng.usize(0..count)).map(|_| gateway(rng)).collect();
    let ports = (0..count).filter(|_| rng.u8(..8) == 0).collect();
    ResourceDemand { name: "random".to_owned(), tables, dependencies, gateways, ports, ..ResourceDemand::default() }
}

#[test]
fn what_is_placed_passes_the_check() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let targets = ["tofino1", "tofino2"].map(|n| ChipTarget::shipped(n).expect("a shipped target"));
    let (mut placed, mut refused) = (0, 0);
    for round in 0..60 {
        let (count, most) = (rng.usize(1..25), 1 << rng.u32(1..19));
        let program = program(&mut rng, count, most);
        let target = &targets[rng.usize(0..2)];
        let path = PipePath::folded(target, 1 << rng.u32(0..3)).expect("1, 2 or 4 of four");
        let objectives = [Objective::Fits, Objective::FewestStages, Objective::MostHeadroom, Objective::MostEntries];
        let objective = objectives[round % 4];
        match heuristic(target, &program, &path, objective) {
            Ok(placement) => {
                placed += 1;
                assert_eq!(check_placement(target, &program, &placement), Ok(()), "round {round}, {objective:?}");
            }
            Err(PlacementError::Full { nearest: Some(nearest), .. }) => {
                refused += 1;
                assert!(nearest.scale < 1.0, "round {round}");
                assert_eq!(check_placement(target, &program, &nearest), Ok(()), "round {round}: the nearest");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(placed > 10 && placed + refused == 60, "{placed} placed, {refused} refused: the test has gone inert");
}

#[test]
fn the_optimum_is_no_worse_than_the_heuristic() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let target = ChipTarget::shipped("tofino1").expect("a shipped target");
    let mut compared = 0;
    for round in 0..12 {
        let program = program(&mut rng, 8, 6_000);
        let path = PipePath::unfolded();
        let objective = [Objective::FewestStages, Objective::MostHeadroom, Objective::MostEntries][round % 3];
        let Ok(quick) = heuristic(&target, &program, &path, objective) else { continue };
        let limit = Duration::from_secs(2);
        let solved = optimum(&target, &program, &path, objective, limit, &mut |_| {}).expect("the heuristic has one");
        assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()), "round {round}, {objective:?}");
        let (better, within) = match objective {
            Objective::MostEntries => (solved.value >= quick.scale, solved.value <= solved.bound + 1e-6),
            Objective::MostHeadroom => {
                (solved.value <= quick.max_utilization(&target), solved.value >= solved.bound - 1e-6)
            }
            _ => (solved.placement.stages_used() <= quick.stages_used(), solved.value >= solved.bound),
        };
        assert!(
            better && within,
            "round {round}, {objective:?}: {} in {}, gap {}",
            solved.value,
            solved.bound,
            solved.gap
        );
        assert!((0.0..=1.0).contains(&solved.gap));
        compared += 1;
    }
    assert!(compared > 2, "only {compared} programs fit: the test has gone inert");
}
