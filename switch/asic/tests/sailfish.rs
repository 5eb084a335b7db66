//! Computes Sailfish's tables (SIGCOMM 2021, Tables 2 and 3, Figure 17) from the gateway program
//! and its table sizes, and the combination that the search finds.
//!
//! Nothing here is a result: entries and options are the paper's, percentages are of one pipe's
//! blocks.

use asic::demand::ResourceDemand;
use asic::memory::{BlockEstimate, estimate};
use asic::place::{Objective, PipePath as Folded, check_placement, optimum};
use asic::search::{
    LayoutCost, LayoutCostCache, SearchLimits, SearchRequest, TransformStep, estimate_blocks, find_cheapest_steps,
    table_demand,
};
use asic::target::ChipTarget;
use asic::transform::alpm::{self, partition_table};
use asic::transform::digest::{self, digest_keys};
use asic::transform::pool::{pool_tables, pooled_name};
use asic::transform::{TableSizes, TransformedPipeline};
use entries::{ActionSpec, ControlState, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use ir::{ActionCall, KeyMatch, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Entries of the paper's gateway: routes, and VMs (1,000,000 in a table that is 87.5% full).
const ROUTES: u64 = 229_376;
const MACHINES: u64 = 1_146_880;
/// Entries in the conflict table that fit the paper's figure.
const CONFLICTS: u64 = 16_384;
/// Partitions of the paper's ALPM.
const PARTITIONS: u32 = 2048;

fn gateway() -> Arc<Pipeline> {
    static GATEWAY: OnceLock<Arc<Pipeline>> = OnceLock::new();
    let compile = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let options =
            p4::compile::CompileOptions { include_dirs: vec![root.join("programs/include")], ..Default::default() };
        let path = root.join("programs/gateway/gateway.p4");
        let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &path, &options);
        ir::passes::without_recirculation(&Arc::new(compiled.pipeline.expect("the gateway compiles")))
    };
    GATEWAY.get_or_init(compile).clone()
}

/// Returns the full name of a table.
fn named(pipeline: &Pipeline, name: &str) -> String {
    let table = entries::find_table(pipeline, name).expect("the gateway has it");
    pipeline.tables[table].preamble.name.clone()
}

/// Returns the sizes of the two large tables with a share of IPv6 in percent; other tables are
/// empty, because the paper omits them.
fn sizes(pipeline: &Pipeline, v6: u64) -> TableSizes {
    let mut sizes: TableSizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 0)).collect();
    for (v4_name, v6_name, entries) in [("route_v4", "route_v6", ROUTES), ("vm_nc_v4", "vm_nc_v6", MACHINES)] {
        sizes.insert(named(pipeline, v4_name), entries * (100 - v6) / 100);
        sizes.insert(named(pipeline, v6_name), entries * v6 / 100);
    }
    sizes
}

fn percent(target: &ChipTarget, cost: BlockEstimate) -> (f64, f64) {
    let all = |per_stage: u32| 100.0 / f64::from(per_stage * target.stages);
    (cost.sram * all(target.per_stage.sram), cost.tcam * all(target.per_stage.tcam))
}

/// Checked figures, printed as a table.
struct Figures(Vec<String>);

impl Figures {
    fn check(&mut self, what: &str, found: f64, paper: f64) {
        println!("{what:<46} {found:>8.2} {paper:>8.2}");
        if (found - paper).abs() > 1.0 {
            self.0.push(format!("{what}: {found:.2}, the paper has {paper}"));
        }
    }
}

/// Applies the last steps of Figure 17 as in the paper: digests, both families in one table, ALPM;
/// on a pipe's share of the entries.
fn papers_way(pipeline: &Arc<Pipeline>, share: TableSizes) -> [TransformedPipeline; 2] {
    let [route_v4, route_v6, vm_v4, vm_v6] =
        ["route_v4", "route_v6", "vm_nc_v4", "vm_nc_v6"].map(|t| named(pipeline, t));
    let digests = digest::DigestOptions { conflicts: Some(CONFLICTS), ..digest::DigestOptions::new(1) };
    let routes = pooled_name(&route_v4, &route_v6);
    let pooled = || {
        TransformedPipeline::unchanged(pipeline.clone(), share.clone())
            .then(|p, s| digest_keys(p, s, &vm_v6, &digests))
            .and_then(|r| r.then(|p, s| pool_tables(p, s, [&vm_v4, &vm_v6])))
            .and_then(|r| r.then(|p, s| pool_tables(p, s, [&route_v4, &route_v6])))
            .expect("the gateway's tables can be pooled")
    };
    let entries = pooled().sizes[&routes];
    let parted =
        pooled().then(|p, s| partition_table(p, s, &routes, &alpm::AlpmOptions::with_partitions(entries, PARTITIONS)));
    [pooled(), parted.expect("routes can be parted")]
}

#[test]
fn tables_2_and_3_and_figure_17() {
    let (pipeline, target) = (gateway(), ChipTarget::shipped("tofino1").expect("it is shipped"));
    let mut figures = Figures(Vec::new());
    println!("{:<46} {:>8} {:>8}", "percent of a pipe", "found", "paper");

    let whole = |v6| percent(&target, estimate_blocks(&target, &pipeline, &sizes(&pipeline, v6)));
    let table_2 = [("IPv4", 0, 58.0, 311.0), ("75/25", 25, 102.0, 388.75), ("IPv6", 100, 233.0, 622.0)];
    for (what, v6, sram, tcam) in table_2 {
        figures.check(&format!("Table 2, {what}, VM-NC SRAM"), whole(v6).0, sram);
        figures.check(&format!("Table 2, {what}, routes TCAM"), whole(v6).1, tcam);
    }
    let mixed = sizes(&pipeline, 25);
    let share =
        |parts: u64| -> TableSizes { mixed.iter().map(|(name, n)| (name.clone(), n.div_ceil(parts))).collect() };
    for (what, parts) in [("folding", 2), ("splitting", 4)] {
        let (sram, tcam) = percent(&target, estimate_blocks(&target, &pipeline, &share(parts)));
        figures.check(&format!("Figure 17, {what}, SRAM"), sram, 102.0 / parts as f64);
        figures.check(&format!("Figure 17, {what}, TCAM"), tcam, 388.75 / parts as f64);
    }
    let [pooled, parted] =
        papers_way(&pipeline, share(4)).map(|r| percent(&target, estimate_blocks(&target, &r.pipeline, &r.sizes)));
    figures.check("Figure 17, pooling, SRAM", pooled.0, 18.0);
    // The paper only states that it grows; the reference computes by how much.
    figures.check("Figure 17, pooling, TCAM", pooled.1, 155.6);
    assert!(pooled.1 > 388.75 / 4.0);
    figures.check("Table 3, VM-NC and routes, SRAM", parted.0, 36.0);
    figures.check("Table 3, routes, TCAM", parted.1, 11.0);
    // The remainder depends only on the number of entries, so each mix ends there.
    for (what, v6, sram, tcam) in [("IPv4", 0, 38.0, 96.0), ("mixed", 25, 65.0, 97.0), ("IPv6", 100, 85.0, 98.0)] {
        figures.check(&format!("saved, {what}, SRAM"), 100.0 * (1.0 - parted.0 / whole(v6).0), sram);
        figures.check(&format!("saved, {what}, TCAM"), 100.0 * (1.0 - parted.1 / whole(v6).1), tcam);
    }
    assert!(figures.0.is_empty(), "more than one point away:\n{}", figures.0.join("\n"));
}

/// Servers of the VMs, which the paper does not give: about 17 VMs each, three quarters with IPv4
/// addresses.
const SERVERS: u64 = 65_536;

/// Returns the search's answer at the paper's entries, folded and split as in the paper, and the
/// paper's combination: each by arithmetic and as laid out.
fn against_the_paper(servers: Option<u64>) -> (asic::search::SearchResult, [(BlockEstimate, LayoutCost); 2]) {
    let (pipeline, target) = (gateway(), ChipTarget::shipped("tofino1").expect("it is shipped"));
    let mut mixed = sizes(&pipeline, 25);
    if let Some(servers) = servers {
        for (action, share) in [("on_server_v4", 3), ("on_server_v6", 1)] {
            mixed.insert(format!("gateway.vm_nc.{action}.server"), servers * share / 4);
        }
    }
    let question = SearchRequest {
        target: &target,
        pipeline: &pipeline,
        sizes: &mixed,
        prefixes: BTreeMap::new(),
        tables: Vec::new(),
        fold: 2,
        split: 2,
        limits: SearchLimits::new(7),
    };
    let started = std::time::Instant::now();
    let answer = find_cheapest_steps(&question).expect("the gateway can be searched");
    println!("{} combinations in {:?}", answer.candidates, started.elapsed());
    for report in &answer.step_costs {
        let ((sram, tcam), (sram_after, tcam_after)) =
            (percent(&target, report.before), percent(&target, report.after));
        println!("SRAM {sram:7.2} -> {sram_after:6.2}  TCAM {tcam:7.2} -> {tcam_after:6.2}  {}", report.step);
    }
    let [_, parted] = papers_way(&pipeline, question.sizes_per_pipe());
    let mut scale = LayoutCostCache::new(&target);
    let both = [("found", &answer.rewritten), ("the paper's way", &parted)].map(|(what, done)| {
        println!("{what}:");
        for table in done.pipeline.tables.values() {
            let entries = done.sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
            let demand = table_demand(&done.pipeline, table, entries);
            let (cost, laid_out) = (estimate(&target, &demand), scale.table_cost(&demand).expect("it is on the chip"));
            if entries > 0 {
                println!(
                    "  {:<60} {entries:>8} entries, SRAM {}, TCAM {}; {laid_out:?}",
                    table.preamble.name, cost.sram, cost.tcam
                );
            }
        }
        let laid_out = scale.program_cost(&done.pipeline, &done.sizes).expect("it is on the chip");
        (estimate_blocks(&target, &done.pipeline, &done.sizes), laid_out)
    });
    let fewer = |found: f64, paper: f64| 100.0 * (1.0 - found / paper);
    let [(found, found_out), (paper, paper_out)] = both;
    println!(
        "by arithmetic {} and {} blocks: {:.1}% fewer; laid out {found_out:?} and {paper_out:?}: {:.1}% fewer",
        found.sram + found.tcam,
        paper.sram + paper.tcam,
        fewer(found.sram + found.tcam, paper.sram + paper.tcam),
        fewer(found_out.total_blocks() as f64, paper_out.total_blocks() as f64)
    );
    (answer, both)
}

/// At most 85% of Table 3's blocks, by the paper's arithmetic and as laid out on a chip with all
/// action data and all added tables.
#[test]
fn the_search_is_more_frugal_than_the_paper() {
    let (answer, [(found, found_out), (paper, paper_out)]) = against_the_paper(Some(SERVERS));
    let (found, paper) = (found.sram + found.tcam, paper.sram + paper.tcam);
    assert!(found <= 0.85 * paper, "{found} blocks by arithmetic, and the paper has {paper}");
    assert!(
        found_out.total_blocks() * 100 <= 85 * paper_out.total_blocks(),
        "{found_out:?}, and the paper's way {paper_out:?}"
    );
    for step in ["digest", "part", "share"] {
        assert!(answer.steps.iter().any(|made| made.to_string().starts_with(step)), "{step}: {:?}", answer.steps);
    }
}

/// Without a given number of servers, each entry may have its own. Then their addresses are stored
/// separately, and the result is as frugal.
#[test]
fn what_is_not_known_is_not_shared() {
    let (answer, [(found, found_out), (paper, paper_out)]) = against_the_paper(None);
    let entries = |table: &str| answer.rewritten.sizes[table];
    let results: Vec<&TransformStep> =
        answer.steps.iter().filter(|step| matches!(step, TransformStep::ShareResults(..))).collect();
    for step in &results {
        let TransformStep::ShareResults(table, options) = step else { continue };
        assert!(
            options.values > Some(entries(table)),
            "there may be as many as entries, and one more for a change: {step}"
        );
    }
    assert!(!results.is_empty(), "{:?}", answer.steps);
    let (found, paper) = (found.sram + found.tcam, paper.sram + paper.tcam);
    assert!(found <= 0.85 * paper, "{found} blocks by arithmetic, and the paper has {paper}");
    assert!(
        found_out.total_blocks() * 100 <= 85 * paper_out.total_blocks(),
        "{found_out:?}, and the paper's way {paper_out:?}"
    );
}

/// Without digests the answer has none, and costs more.
#[test]
fn what_is_not_accepted_is_not_used() {
    let (pipeline, target) = (gateway(), ChipTarget::shipped("tofino1").expect("it is shipped"));
    let mixed = sizes(&pipeline, 25);
    let accept = SearchLimits { max_false_hit_probability: 0.0, ..SearchLimits::new(7) };
    let ask = |accept: SearchLimits| {
        let tables = ["vm_nc_v4", "vm_nc_v6"].map(|table| named(&pipeline, table)).to_vec();
        let (target, pipeline, sizes, prefixes) = (&target, &pipeline, &mixed, BTreeMap::new());
        find_cheapest_steps(&SearchRequest {
            target,
            pipeline,
            sizes,
            prefixes,
            tables,
            fold: 4,
            split: 1,
            limits: accept,
        })
        .expect("it can be searched")
    };
    let (without, with) = (ask(accept), ask(SearchLimits::new(7)));
    assert!(!without.steps.iter().any(|step| matches!(step, TransformStep::Digest(..))));
    let sram = |answer: &asic::search::SearchResult| {
        estimate_blocks(&target, &answer.rewritten.pipeline, &answer.rewritten.sizes).sram
    };
    assert!(sram(&without) > sram(&with));
}

/// Known prefixes are measured: they fit into the proposed shape, and half of them take half the
/// space.
#[test]
fn known_prefixes_fit_into_the_proposed_shape() {
    let (pipeline, target) = (gateway(), ChipTarget::shipped("tofino1").expect("it is shipped"));
    let seed = 71;
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let name = named(&pipeline, "route_v4");
    let id = entries::find_table(&pipeline, "route_v4").expect("the gateway has it");
    let declared = &pipeline.tables[id];
    let mut keys = BTreeSet::new();
    while keys.len() < 20_000 {
        let (tenant, len) = (rng.u32(..300), rng.u32(10..=28));
        let address = (0x0a00_0000 | rng.u32(..1 << 24)) & (u32::MAX << (32 - len));
        keys.insert(vec![KeyMatch::Exact(tenant.into()), KeyMatch::Lpm { value: address.into(), prefix_len: len }]);
    }
    let rows: Vec<_> = keys.iter().map(|keys| alpm::entry_prefix(declared, keys).expect("it can be parted")).collect();
    let sizes: TableSizes = [(name.clone(), keys.len() as u64)].into();
    let ask = |prefixes| {
        let (target, pipeline, sizes, tables) = (&target, &pipeline, &sizes, vec![name.clone()]);
        find_cheapest_steps(&SearchRequest {
            target,
            pipeline,
            sizes,
            prefixes,
            tables,
            fold: 1,
            split: 1,
            limits: SearchLimits::new(1),
        })
    };
    let mut found = ask(BTreeMap::from([(name.clone(), rows)])).expect("it can be searched");
    println!("{}", found.steps[0]);
    assert!(matches!(found.steps[0], TransformStep::Alpm(_, alpm::AlpmOptions::Given(_))), "{:?}", found.steps);
    let action = declared.actions.iter().find(|listed| pipeline.actions[listed.action].params.is_empty());
    let call = ActionCall { action: action.expect("a route without arguments").action, args: Vec::new() };
    let entry = |keys: &Vec<KeyMatch>| TableEntry::new(id, keys.clone(), ActionSpec::Call(call.clone()));
    let batch: WriteBatch = keys.iter().map(|keys| StateUpdate::Entry(UpdateKind::Insert, entry(keys))).collect();
    let translated = found.rewritten.map.translate(&batch).expect("there is room for all that was given");
    let mut state = ControlState::new(found.rewritten.pipeline.clone()).expect("it is verified");
    state.apply(&translated).expect("what was proposed holds all");
    let pivots = entries::find_table(&found.rewritten.pipeline, &format!("{name}_pivots")).expect("pivots");
    let room = found.rewritten.pipeline.tables[pivots].size.expect("pivots have a size") as usize;
    let used = state.entry_count(pivots);
    assert!(used > 300 && used * 10 > room * 8, "{used} pivots, and room for {room}");
}

/// Returns the entries of `programs/gateway/sailfish.toml`.
fn whole_gateway(pipeline: &Pipeline, servers: u64) -> TableSizes {
    let entries = [
        ("vm_nc_v4", 750_000),
        ("vm_nc_v6", 250_000),
        ("route_v4", ROUTES * 3 / 4),
        ("route_v6", ROUTES / 4),
        ("tenant", 8192),
        ("policy_route_v4", 512),
        ("policy_route_v6", 512),
        ("acl_out.v4", 768),
        ("acl_out.v6", 256),
        ("acl_in.v4", 768),
        ("acl_in.v6", 256),
        ("own_mac", 64),
        ("tunnel_v4", servers * 3 / 4),
        ("tunnel_v6", servers / 4),
        ("source_v4", 64),
        ("source_v6", 64),
        ("vpc_source_v4", 512),
        ("vpc_source_v6", 512),
        ("own_address_v4", 64),
        ("own_address_v6", 64),
        ("remote", 2048),
        ("underlay_route_v4", 1024),
        ("underlay_route_v6", 512),
        ("next_hop", 4096),
    ];
    let mut sizes: TableSizes = entries.map(|(name, n)| (named(pipeline, name), n)).into();
    let objects = pipeline.externs.values().filter(|inst| inst.kind.is_indexed());
    sizes.extend(objects.map(|inst| (inst.preamble.name.clone(), 8192)));
    for (action, share) in [("on_server_v4", 3), ("on_server_v6", 1)] {
        sizes.insert(format!("gateway.vm_nc.{action}.server"), servers * share / 4);
    }
    sizes
}

/// The whole gateway with the sizes of `programs/gateway/sailfish.toml`, compressed by the search,
/// on four folded pipes, takes the proven minimum number of stages.
#[test]
fn the_whole_gateway_takes_the_fewest_stages() {
    let (pipeline, target) = (gateway(), ChipTarget::shipped("tofino1").expect("it is shipped"));
    let sizes = whole_gateway(&pipeline, SERVERS);
    let question = SearchRequest {
        target: &target,
        pipeline: &pipeline,
        sizes: &sizes,
        prefixes: BTreeMap::new(),
        tables: Vec::new(),
        fold: 1,
        split: 1,
        limits: SearchLimits::new(7),
    };
    let answer = find_cheapest_steps(&question).expect("the gateway can be searched");
    let program = ResourceDemand::from_pipeline(&answer.rewritten.pipeline, &answer.rewritten.sizes).expect("a demand");
    let path = Folded::folded(&target, 4).expect("4 pipes");
    let started = std::time::Instant::now();
    let limit = std::time::Duration::from_secs(120);
    let solved = optimum(&target, &program, &path, Objective::FewestStages, limit, &mut |_| {}).expect("it fits");
    println!("{} stages, none with less than {}, in {:?}", solved.value, solved.bound, started.elapsed());
    assert_eq!(check_placement(&target, &program, &solved.placement), Ok(()));
    assert!(solved.gap <= 0.03, "{} stages, and the bound is {}", solved.value, solved.bound);
}
