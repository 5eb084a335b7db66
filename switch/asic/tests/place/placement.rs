//! Tests placements of the gateway, and of a program that does not fit.

use crate::{compile, corpus, gateway};
use asic::demand::{DependencyKind, MemoryMatchKind, ResourceDemand};
use asic::phv;
use asic::place::{
    Objective, PipePath, Placement, PlacementError, PlacementViolation, bridged_fields, check_placement, find_binding,
    heuristic, optimum,
};
use asic::target::ChipTarget;
use asic::transform::TableSizes;
use std::time::{Duration, Instant};

fn tofino() -> ChipTarget {
    ChipTarget::shipped("tofino1").expect("a shipped target")
}

/// Returns the gateway with these numbers of routes and VMs; all tables that grow with tenants are
/// in proportion.
fn sized(routes: u64, vms: u64, rules: u64, tenants: u64) -> ResourceDemand {
    let sizes = [
        ("tenant", tenants),
        ("vpc_received", tenants),
        ("vpc_forwarded", tenants),
        ("own_mac", 64),
        ("tunnel_v4", 1024),
        ("tunnel_v6", 256),
        ("source_v4", 64),
        ("source_v6", 64),
        ("vpc_source_v4", 256),
        ("vpc_source_v6", 64),
        ("policy_route_v4", 512),
        ("policy_route_v6", 512),
        ("route_v4", routes),
        ("route_v6", routes / 4),
        ("acl_out.v4", rules),
        ("acl_out.v6", rules / 4),
        ("acl_in.v4", rules),
        ("acl_in.v6", rules / 4),
        ("vm_nc_v4", vms),
        ("vm_nc_v6", vms / 4),
        ("remote", 1024),
        ("underlay_route_v4", 1024),
        ("underlay_route_v6", 512),
        ("next_hop", 4096),
    ];
    let sizes: TableSizes = sizes.iter().map(|(n, s)| ((*n).to_owned(), (*s).max(1))).collect();
    ResourceDemand::from_pipeline(&gateway(), &sizes).expect("the gateway's tables")
}

#[test]
fn the_gateway_fits_in_sizes_and_ways() {
    let target = tofino();
    let sets = [(1, 256, 256, 16, 512), (2, 2048, 8192, 256, 1024), (4, 4096, 65_536, 512, 4096)];
    for (pipes, routes, vms, rules, tenants) in sets {
        let program = sized(routes, vms, rules, tenants);
        let path = PipePath::folded(&target, pipes).expect("a divisor of four");
        for objective in [Objective::Fits, Objective::FewestStages, Objective::MostHeadroom, Objective::MostEntries] {
            let start = Instant::now();
            let placed = heuristic(&target, &program, &path, objective);
            let placement = placed.unwrap_or_else(|e| panic!("{pipes} pipes, {objective:?}: {e}"));
            println!("{pipes} pipes {objective:?}: {:?} {} stages", start.elapsed(), placement.stages_used());
            assert_eq!(check_placement(&target, &program, &placement), Ok(()), "{pipes} pipes, {objective:?}");
            println!("  {}", find_binding(&target, &program, &placement).sentence);
        }
    }
}

#[test]
fn every_program_of_the_corpus_is_placed_or_refused() {
    let target = tofino();
    let (mut placed, mut refused) = (0, Vec::new());
    for path in corpus() {
        let Some(pipeline) = compile(&path) else { continue };
        // Another test places the gateway with tables of its size.
        if pipeline.tables.len() > 15 {
            continue;
        }
        let program = ResourceDemand::from_pipeline(&pipeline, &TableSizes::new()).expect("a demand");
        match heuristic(&target, &program, &PipePath::unfolded(), Objective::Fits) {
            Ok(placement) => {
                assert_eq!(check_placement(&target, &program, &placement), Ok(()), "{}", path.display());
                assert_eq!(bridged_fields(&program, &placement).len(), 1);
                assert!(phv::phv_of_pipe(&target, &program, &placement, 0).field_bits > 0, "{}", path.display());
                placed += 1;
            }
            Err(unplaced) => refused.push(format!("{}: {unplaced}", path.display())),
        }
    }
    assert!(placed > 60, "{placed} placed; refused: {}", refused.join("\n"));
}

#[test]
fn a_table_with_alpm_is_two() {
    let source = crate::root().join("tests/corpus/tables/lpm_longest_prefix.p4");
    let mut pipeline = compile(&source).expect("it compiles");
    let alpm = ("alpm".to_owned(), "true".to_owned());
    pipeline.tables.values_mut().for_each(|t| t.properties.push(alpm.clone()));
    let sizes: TableSizes = pipeline.tables.values().map(|t| (t.preamble.name.clone(), 200_000)).collect();
    let program = ResourceDemand::from_pipeline(&pipeline, &sizes).expect("a demand");
    let pivots = program.tables.iter().position(|t| t.name.ends_with(".pivots")).expect("pivots");
    assert!(matches!(program.tables[pivots + 1].kind, MemoryMatchKind::Partitioned { .. }));
    let target = tofino();
    let placement = heuristic(&target, &program, &PipePath::unfolded(), Objective::FewestStages).expect("it fits");
    assert_eq!(check_placement(&target, &program, &placement), Ok(()));
    let at = |n: usize| placement.tables[n].pieces.iter().map(|p| p.position());
    assert!(at(pivots).max() < at(pivots + 1).min(), "partitions are behind pivots");
}

#[test]
fn what_does_not_fit_is_told_with_the_nearest_that_does() {
    let target = tofino();
    let program = sized(400_000, 65_536, 512, 4096);
    let refused =
        heuristic(&target, &program, &PipePath::unfolded(), Objective::Fits).expect_err("far too many routes");
    println!("{refused}");
    let PlacementError::Full { binding, nearest } = refused else { panic!("{refused}") };
    assert_eq!(binding.resource, "tcam", "{}", binding.sentence);
    assert!(binding.tables[0].0.contains("route_v"), "{}", binding.sentence);
    assert!(binding.sentence.contains("ALPM"), "{}", binding.sentence);
    let nearest = nearest.expect("a part fits");
    assert!(nearest.scale < 0.5);
    assert_eq!(check_placement(&target, &program, &nearest), Ok(()));
}

#[test]
fn a_search_without_time_gives_what_it_has() {
    let (target, program) = (tofino(), sized(2048, 8192, 256, 1024));
    let path = PipePath::folded(&target, 2).expect("two of four");
    for objective in [Objective::FewestStages, Objective::MostHeadroom, Objective::MostEntries] {
        let mut told = 0;
        let solved = optimum(&target, &program, &path, objective, Duration::ZERO, &mut |p| {
            told += 1;
            assert_eq!(p.limit, Duration::ZERO);
        });
        let solved = solved.expect("the heuristic needs no time");
        assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()));
        assert!(solved.out_of_time && told > 0 && (0.0..=1.0).contains(&solved.gap), "{objective:?}");
    }
}

#[test]
fn the_check_sees_what_is_broken() {
    let (target, program) = (tofino(), sized(256, 256, 16, 512));
    let good = heuristic(&target, &program, &PipePath::unfolded(), Objective::Fits).expect("it fits");
    let broken = |change: &dyn Fn(&mut Placement)| {
        let mut placement = good.clone();
        change(&mut placement);
        check_placement(&target, &program, &placement).expect_err("it is broken")
    };
    // A table that reads another one's result is moved into that one's stage.
    let matches =
        program.dependencies.iter().find(|d| d.kind == DependencyKind::Match).expect("tables depend on tables");
    let found = broken(&|p| {
        let (hop, stage) = p.tables[matches.first].pieces.last().expect("a piece").position();
        let piece = &mut p.tables[matches.second].pieces[0];
        (piece.hop, piece.stage) = (hop, stage);
    });
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Order { distance: 1, .. })), "{found:?}");
    let keyed =
        (0..program.tables.len()).find(|n| program.tables[*n].kind == MemoryMatchKind::Exact).expect("an exact table");
    let found = broken(&|p| p.tables[keyed].pieces.clear());
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Entries { .. })), "{found:?}");
    let found = broken(&|p| p.tables[keyed].pieces[0].usage.sram = 0);
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Understated { .. })), "{found:?}");
    let found = broken(&|p| p.tables[keyed].pieces[0].entries *= 1000);
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Understated { .. })), "{found:?}");
    let found = broken(&|p| p.tables[keyed].pieces[0].usage.tables = 99);
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Capacity { resource: "tables", .. })), "{found:?}");
    let found = broken(&|p| p.stages.clear());
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Total { .. })), "{found:?}");
    let port = program.ports[0];
    let found = broken(&|p| p.tables[port].pieces[0].hop = 1);
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Side { .. })), "{found:?}");
    let found = broken(&|p| p.tables[port].pieces[0].stage = 12);
    assert!(found.iter().any(|v| matches!(v, PlacementViolation::Outside { .. })), "{found:?}");
    assert!(broken(&|p| p.tables.clear()).iter().all(|v| matches!(v, PlacementViolation::Tables { .. })));
}

#[test]
fn folding_costs_packets_and_carries_metadata() {
    let (target, program) = (tofino(), sized(2048, 8192, 256, 1024));
    let paths = [1, 2, 4].map(|n| PipePath::folded(&target, n).expect("a divisor of four"));
    let packets = paths.each_ref().map(|p| p.packets_per_second(&target));
    assert_eq!([packets[0] / packets[1], packets[0] / packets[2]], [2, 4]);
    assert_eq!(packets[0], target.clock_hz * 4);
    assert_eq!(paths[1].latency_ns(&target), 2 * paths[0].latency_ns(&target));
    assert!(PipePath::folded(&target, 3).is_err());
    let placement = heuristic(&target, &program, &paths[1], Objective::Fits).expect("two pipes suffice");
    let crossings = bridged_fields(&program, &placement);
    assert_eq!(crossings.len(), 3);
    let used = placement.tables.iter().flat_map(|t| &t.pieces).map(|p| p.hop).max().expect("pieces");
    assert!(used == 0 || crossings[0].bits > 0, "metadata is read later");
    assert!(crossings.iter().skip(used).all(|c| c.bits == 0), "nothing is read behind the last hop");
    assert!(crossings.iter().all(|c| c.fields.iter().all(|f| !f.starts_with("hdr."))));
}

#[test]
fn the_packet_fits_containers_and_parser() {
    let (target, program) = (tofino(), sized(256, 256, 16, 512));
    let whole = phv::phv_of_program(&target, &program);
    println!("{whole:?}");
    assert!(whole.fits());
    assert!(whole.containers.iter().all(|c| c.used <= c.has));
    let bits: u32 = whole.containers.iter().map(|c| c.used * c.bits).sum();
    assert!(bits > 1000, "the headers alone are more");
    let parser = phv::parser_use(&target, &program);
    println!("{parser:?}");
    assert!(parser.fits());
    // Ethernet, IPv6, UDP, VXLAN, Ethernet, IPv6.
    assert_eq!(parser.depth_bytes.0, 14 + 40 + 8 + 8 + 14 + 40);
    let mut small = target.clone();
    small.phv.iter_mut().for_each(|c| c.count = 4);
    let pressed = phv::phv_of_program(&small, &program);
    assert!(!pressed.fits() && pressed.missing_bits > 0);
    let placement = heuristic(&target, &program, &PipePath::unfolded(), Objective::Fits).expect("it fits");
    assert!(phv::phv_of_pipe(&target, &program, &placement, 0).field_bits > 0);
}

#[test]
fn the_gateways_optimum_is_bounded() {
    let (target, program) = (tofino(), sized(2048, 8192, 256, 1024));
    let path = PipePath::folded(&target, 2).expect("two of four");
    for objective in [Objective::FewestStages, Objective::MostHeadroom, Objective::MostEntries] {
        let start = Instant::now();
        let mut bounds = Vec::new();
        let limit = Duration::from_secs(3);
        let solved = optimum(&target, &program, &path, objective, limit, &mut |p| bounds.push(p.bound));
        let solved = solved.expect("it fits");
        let (value, bound, gap) = (solved.value, solved.bound, solved.gap);
        println!("{objective:?}: {value} of {bound}, gap {gap}, {:?}", start.elapsed());
        assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()));
        let grows =
            bounds.windows(2).all(|w| if objective == Objective::MostEntries { w[1] <= w[0] } else { w[1] >= w[0] });
        assert!(grows, "bounds only get better");
        assert!((0.0..=1.0).contains(&gap), "{objective:?}");
    }
}

#[test]
fn a_regions_gateway_goes_on_four_pipes_with_alpm() {
    let target = tofino();
    let mut program = sized(172_032, 780_000, 1024, 16_384);
    for table in program.tables.iter_mut().filter(|t| t.name.contains("routing.route_v")) {
        table.kind = MemoryMatchKind::Alpm { partitions: 2048 };
    }
    let program = program.with_pivots();
    let path = PipePath::folded(&target, 4).expect("all four");
    let start = Instant::now();
    let placement = heuristic(&target, &program, &path, Objective::Fits).unwrap_or_else(|e| panic!("{e}"));
    println!("{:?}, {}", start.elapsed(), find_binding(&target, &program, &placement).sentence);
    assert_eq!(check_placement(&target, &program, &placement), Ok(()));
    let mut pieces = placement.tables.iter().filter(|t| t.name.ends_with("vm_nc_v4")).map(|t| t.pieces.len());
    assert!(pieces.next() > Some(4), "no stage holds so many VMs");
    let limit = Duration::from_secs(3);
    let solved = optimum(&target, &program, &path, Objective::FewestStages, limit, &mut |_| {}).expect("it fits");
    println!("{} stages of {}, gap {}, {:?}", solved.value, solved.bound, solved.gap, start.elapsed());
    assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()));
    assert!(solved.value >= solved.bound);
}
