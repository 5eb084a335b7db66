//! Sailfish's tables (SIGCOMM 2021, Tables 2 and 3, Figure 17) from the gateway program and its table sizes, and the combination that the search finds.
//!
//! Nothing here is a result: entries and options are what the paper says, percentages are of one pipe's blocks.

use asic::demand::Program;
use asic::memory::{Estimate, estimate};
use asic::place::{Objective, Path as Folded, check, optimum};
use asic::rewrite::alpm::{self, alpm};
use asic::rewrite::digest::{self, digest};
use asic::rewrite::pool::{pool, pooled_name};
use asic::rewrite::{Rewritten, Sizes};
use asic::search::{Accept, LaidOut, Question, Scale, Step, blocks, demand_of, search};
use asic::target::Target;
use entries::{ActionSpec, State, TableEntry, Update, UpdateKind, WriteBatch};
use ir::{ActionCall, KeyMatch, Pipeline};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Entries of the paper's gateway: routes, and machines (1,000,000 in a table that is 87.5% full).
const ROUTES: u64 = 229_376;
const MACHINES: u64 = 1_146_880;
/// Entries in the table of conflicts that fit the paper's figure.
const CONFLICTS: u64 = 16_384;
/// Partitions of the paper's ALPM.
const PARTITIONS: u32 = 2048;

fn gateway() -> Arc<Pipeline> {
    static GATEWAY: OnceLock<Arc<Pipeline>> = OnceLock::new();
    let compile = || {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let options = p4::compile::Options { include_dirs: vec![root.join("programs/include")], ..Default::default() };
        let path = root.join("programs/gateway/gateway.p4");
        let compiled = p4::compile::compile(&p4::preprocess::DiskLoader, &path, &options);
        Arc::new(compiled.pipeline.expect("the gateway compiles"))
    };
    GATEWAY.get_or_init(compile).clone()
}

/// The full name of a table.
fn named(pipeline: &Pipeline, name: &str) -> String {
    let table = entries::find_table(pipeline, name).expect("the gateway has it");
    pipeline.tables[table].preamble.name.clone()
}

/// The two large tables with a share of IPv6 in percent; of all others no entries, as the paper's tables leave them out.
fn sizes(pipeline: &Pipeline, v6: u64) -> Sizes {
    let mut sizes: Sizes = pipeline.tables.values().map(|table| (table.preamble.name.clone(), 0)).collect();
    for (v4_name, v6_name, entries) in [("route_v4", "route_v6", ROUTES), ("vm_nc_v4", "vm_nc_v6", MACHINES)] {
        sizes.insert(named(pipeline, v4_name), entries * (100 - v6) / 100);
        sizes.insert(named(pipeline, v6_name), entries * v6 / 100);
    }
    sizes
}

fn percent(target: &Target, cost: Estimate) -> (f64, f64) {
    let all = |per_stage: u32| 100.0 / f64::from(per_stage * target.stages);
    (cost.sram * all(target.per_stage.sram), cost.tcam * all(target.per_stage.tcam))
}

/// Figures that are checked, printed as a table.
struct Figures(Vec<String>);

impl Figures {
    fn check(&mut self, what: &str, found: f64, paper: f64) {
        println!("{what:<46} {found:>8.2} {paper:>8.2}");
        if (found - paper).abs() > 1.0 {
            self.0.push(format!("{what}: {found:.2}, the paper has {paper}"));
        }
    }
}

/// Figure 17's last steps as the paper did them: digests, both families in one table, ALPM; on a pipe's share of the entries.
fn papers_way(pipeline: &Arc<Pipeline>, share: Sizes) -> [Rewritten; 2] {
    let [route_v4, route_v6, vm_v4, vm_v6] =
        ["route_v4", "route_v6", "vm_nc_v4", "vm_nc_v6"].map(|t| named(pipeline, t));
    let digests = digest::Options { conflicts: Some(CONFLICTS), ..digest::Options::new(1) };
    let routes = pooled_name(&route_v4, &route_v6);
    let pooled = || {
        Rewritten::unchanged(pipeline.clone(), share.clone())
            .then(|p, s| digest(p, s, &vm_v6, &digests))
            .and_then(|r| r.then(|p, s| pool(p, s, [&vm_v4, &vm_v6])))
            .and_then(|r| r.then(|p, s| pool(p, s, [&route_v4, &route_v6])))
            .expect("the gateway's tables can be pooled")
    };
    let entries = pooled().sizes[&routes];
    let parted = pooled().then(|p, s| alpm(p, s, &routes, &alpm::Options::even(entries, PARTITIONS)));
    [pooled(), parted.expect("routes can be parted")]
}

#[test]
fn tables_2_and_3_and_figure_17() {
    let (pipeline, target) = (gateway(), Target::shipped("tofino1").expect("it is shipped"));
    let mut figures = Figures(Vec::new());
    println!("{:<46} {:>8} {:>8}", "percent of a pipe", "found", "paper");

    let whole = |v6| percent(&target, blocks(&target, &pipeline, &sizes(&pipeline, v6)));
    let table_2 = [("IPv4", 0, 58.0, 311.0), ("75/25", 25, 102.0, 388.75), ("IPv6", 100, 233.0, 622.0)];
    for (what, v6, sram, tcam) in table_2 {
        figures.check(&format!("Table 2, {what}, VM-NC SRAM"), whole(v6).0, sram);
        figures.check(&format!("Table 2, {what}, routes TCAM"), whole(v6).1, tcam);
    }
    let mixed = sizes(&pipeline, 25);
    let share = |parts: u64| -> Sizes { mixed.iter().map(|(name, n)| (name.clone(), n.div_ceil(parts))).collect() };
    for (what, parts) in [("folding", 2), ("splitting", 4)] {
        let (sram, tcam) = percent(&target, blocks(&target, &pipeline, &share(parts)));
        figures.check(&format!("Figure 17, {what}, SRAM"), sram, 102.0 / parts as f64);
        figures.check(&format!("Figure 17, {what}, TCAM"), tcam, 388.75 / parts as f64);
    }
    let [pooled, parted] =
        papers_way(&pipeline, share(4)).map(|r| percent(&target, blocks(&target, &r.pipeline, &r.sizes)));
    figures.check("Figure 17, pooling, SRAM", pooled.0, 18.0);
    // The paper says that it grows, and the reference computes by how much.
    figures.check("Figure 17, pooling, TCAM", pooled.1, 155.6);
    assert!(pooled.1 > 388.75 / 4.0);
    figures.check("Table 3, VM-NC and routes, SRAM", parted.0, 36.0);
    figures.check("Table 3, routes, TCAM", parted.1, 11.0);
    // What is left depends on the number of entries alone, so each mix ends there.
    for (what, v6, sram, tcam) in [("IPv4", 0, 38.0, 96.0), ("mixed", 25, 65.0, 97.0), ("IPv6", 100, 85.0, 98.0)] {
        figures.check(&format!("saved, {what}, SRAM"), 100.0 * (1.0 - parted.0 / whole(v6).0), sram);
        figures.check(&format!("saved, {what}, TCAM"), 100.0 * (1.0 - parted.1 / whole(v6).1), tcam);
    }
    assert!(figures.0.is_empty(), "more than one point away:\n{}", figures.0.join("\n"));
}

/// Servers that the machines are on, which the paper does not say: some 17 machines each, three quarters with IPv4 addresses.
const SERVERS: u64 = 65_536;

/// The search's answer at the paper's entries, folded and split as the paper does, and the paper's way: each by arithmetic and as laid out.
fn against_the_paper(servers: Option<u64>) -> (asic::search::Answer, [(Estimate, LaidOut); 2]) {
    let (pipeline, target) = (gateway(), Target::shipped("tofino1").expect("it is shipped"));
    let mut mixed = sizes(&pipeline, 25);
    if let Some(servers) = servers {
        for (action, share) in [("on_server_v4", 3), ("on_server_v6", 1)] {
            mixed.insert(format!("gateway.vm_nc.{action}.server"), servers * share / 4);
        }
    }
    let question = Question {
        target: &target,
        pipeline: &pipeline,
        sizes: &mixed,
        prefixes: BTreeMap::new(),
        tables: Vec::new(),
        fold: 2,
        split: 2,
        accept: Accept::new(7),
    };
    let started = std::time::Instant::now();
    let answer = search(&question).expect("the gateway can be searched");
    println!("{} combinations in {:?}", answer.candidates, started.elapsed());
    for report in &answer.reports {
        let ((sram, tcam), (sram_after, tcam_after)) =
            (percent(&target, report.before), percent(&target, report.after));
        println!("SRAM {sram:7.2} -> {sram_after:6.2}  TCAM {tcam:7.2} -> {tcam_after:6.2}  {}", report.step);
    }
    let [_, parted] = papers_way(&pipeline, question.share());
    let mut scale = Scale::new(&target);
    let both = [("found", &answer.rewritten), ("the paper's way", &parted)].map(|(what, done)| {
        println!("{what}:");
        for table in done.pipeline.tables.values() {
            let entries = done.sizes.get(&table.preamble.name).copied().or(table.size).unwrap_or(0);
            let demand = demand_of(&done.pipeline, table, entries);
            let (cost, laid_out) = (estimate(&target, &demand), scale.table(&demand).expect("it is on the chip"));
            if entries > 0 {
                println!(
                    "  {:<60} {entries:>8} entries, SRAM {}, TCAM {}; {laid_out:?}",
                    table.preamble.name, cost.sram, cost.tcam
                );
            }
        }
        let laid_out = scale.program(&done.pipeline, &done.sizes).expect("it is on the chip");
        (blocks(&target, &done.pipeline, &done.sizes), laid_out)
    });
    let fewer = |found: f64, paper: f64| 100.0 * (1.0 - found / paper);
    let [(found, found_out), (paper, paper_out)] = both;
    println!(
        "by arithmetic {} and {} blocks: {:.1}% fewer; laid out {found_out:?} and {paper_out:?}: {:.1}% fewer",
        found.sram + found.tcam,
        paper.sram + paper.tcam,
        fewer(found.sram + found.tcam, paper.sram + paper.tcam),
        fewer(found_out.blocks() as f64, paper_out.blocks() as f64)
    );
    (answer, both)
}

/// At most 85% of Table 3's blocks, by the paper's arithmetic and as a chip lays them out with all action data and all that steps add.
#[test]
fn the_search_is_more_frugal_than_the_paper() {
    let (answer, [(found, found_out), (paper, paper_out)]) = against_the_paper(Some(SERVERS));
    let (found, paper) = (found.sram + found.tcam, paper.sram + paper.tcam);
    assert!(found <= 0.85 * paper, "{found} blocks by arithmetic, and the paper has {paper}");
    assert!(found_out.blocks() * 100 <= 85 * paper_out.blocks(), "{found_out:?}, and the paper's way {paper_out:?}");
    for step in ["digest", "part", "share"] {
        assert!(answer.steps.iter().any(|made| made.to_string().starts_with(step)), "{step}: {:?}", answer.steps);
    }
}

/// Where nobody says how many servers there are, each entry may have its own: then their addresses lie by themselves, and it is as frugal.
#[test]
fn what_is_not_known_is_not_shared() {
    let (answer, [(found, found_out), (paper, paper_out)]) = against_the_paper(None);
    let entries = |table: &str| answer.rewritten.sizes[table];
    let results: Vec<&Step> = answer.steps.iter().filter(|step| matches!(step, Step::Results(..))).collect();
    for step in &results {
        let Step::Results(table, options) = step else { continue };
        assert!(
            options.values > Some(entries(table)),
            "there may be as many as entries, and one more for a change: {step}"
        );
    }
    assert!(!results.is_empty(), "{:?}", answer.steps);
    let (found, paper) = (found.sram + found.tcam, paper.sram + paper.tcam);
    assert!(found <= 0.85 * paper, "{found} blocks by arithmetic, and the paper has {paper}");
    assert!(found_out.blocks() * 100 <= 85 * paper_out.blocks(), "{found_out:?}, and the paper's way {paper_out:?}");
}

/// Without digests the answer has none, and costs more.
#[test]
fn what_is_not_accepted_is_not_used() {
    let (pipeline, target) = (gateway(), Target::shipped("tofino1").expect("it is shipped"));
    let mixed = sizes(&pipeline, 25);
    let accept = Accept { false_hits: 0.0, ..Accept::new(7) };
    let ask = |accept: Accept| {
        let tables = ["vm_nc_v4", "vm_nc_v6"].map(|table| named(&pipeline, table)).to_vec();
        let (target, pipeline, sizes, prefixes) = (&target, &pipeline, &mixed, BTreeMap::new());
        search(&Question { target, pipeline, sizes, prefixes, tables, fold: 4, split: 1, accept })
            .expect("it can be searched")
    };
    let (without, with) = (ask(accept), ask(Accept::new(7)));
    assert!(!without.steps.iter().any(|step| matches!(step, Step::Digest(..))));
    let sram =
        |answer: &asic::search::Answer| blocks(&target, &answer.rewritten.pipeline, &answer.rewritten.sizes).sram;
    assert!(sram(&without) > sram(&with));
}

/// Prefixes that are known are measured: they fit into what the search proposes, and half of them take half the room.
#[test]
fn known_prefixes_fit_into_the_proposed_shape() {
    let (pipeline, target) = (gateway(), Target::shipped("tofino1").expect("it is shipped"));
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
    let rows: Vec<_> = keys.iter().map(|keys| alpm::row(declared, keys).expect("it can be parted")).collect();
    let sizes: Sizes = [(name.clone(), keys.len() as u64)].into();
    let ask = |prefixes| {
        let (target, pipeline, sizes, tables) = (&target, &pipeline, &sizes, vec![name.clone()]);
        search(&Question { target, pipeline, sizes, prefixes, tables, fold: 1, split: 1, accept: Accept::new(1) })
    };
    let mut found = ask(BTreeMap::from([(name.clone(), rows)])).expect("it can be searched");
    println!("{}", found.steps[0]);
    assert!(matches!(found.steps[0], Step::Alpm(_, alpm::Options::Given(_))), "{:?}", found.steps);
    let action = declared.actions.iter().find(|listed| pipeline.actions[listed.action].params.is_empty());
    let call = ActionCall { action: action.expect("a route without arguments").action, args: Vec::new() };
    let entry = |keys: &Vec<KeyMatch>| TableEntry::new(id, keys.clone(), ActionSpec::Call(call.clone()));
    let batch: WriteBatch = keys.iter().map(|keys| Update::Entry(UpdateKind::Insert, entry(keys))).collect();
    let translated = found.rewritten.map.translate(&batch).expect("there is room for all that was given");
    let mut state = State::new(found.rewritten.pipeline.clone()).expect("it is verified");
    state.apply(&translated).expect("what was proposed holds all");
    let pivots = entries::find_table(&found.rewritten.pipeline, &format!("{name}_pivots")).expect("pivots");
    let room = found.rewritten.pipeline.tables[pivots].size.expect("pivots have a size") as usize;
    let used = state.entry_count(pivots);
    assert!(used > 300 && used * 10 > room * 8, "{used} pivots, and room for {room}");
}

/// Entries of `programs/gateway/sailfish.toml`.
fn whole_gateway(pipeline: &Pipeline, servers: u64) -> Sizes {
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
    let mut sizes: Sizes = entries.map(|(name, n)| (named(pipeline, name), n)).into();
    let objects = pipeline.externs.values().filter(|inst| inst.kind.is_indexed());
    sizes.extend(objects.map(|inst| (inst.preamble.name.clone(), 8192)));
    for (action, share) in [("on_server_v4", 3), ("on_server_v6", 1)] {
        sizes.insert(format!("gateway.vm_nc.{action}.server"), servers * share / 4);
    }
    sizes
}

/// The whole gateway with the sizes of `programs/gateway/sailfish.toml`, compressed as the search finds it, on four pipes folded: the fewest stages
/// that there can be, and proven to be that.
#[test]
fn the_whole_gateway_takes_the_fewest_stages() {
    let (pipeline, target) = (gateway(), Target::shipped("tofino1").expect("it is shipped"));
    let sizes = whole_gateway(&pipeline, SERVERS);
    let question = Question {
        target: &target,
        pipeline: &pipeline,
        sizes: &sizes,
        prefixes: BTreeMap::new(),
        tables: Vec::new(),
        fold: 1,
        split: 1,
        accept: Accept::new(7),
    };
    let answer = search(&question).expect("the gateway can be searched");
    let program = Program::of(&answer.rewritten.pipeline, &answer.rewritten.sizes).expect("a demand");
    let path = Folded::folded(&target, 4).expect("4 pipes");
    let started = std::time::Instant::now();
    let limit = std::time::Duration::from_secs(120);
    let solved = optimum(&target, &program, &path, Objective::FewestStages, limit, &mut |_| {}).expect("it fits");
    println!("{} stages, none with less than {}, in {:?}", solved.value, solved.bound, started.elapsed());
    assert_eq!(check(&target, &program, &solved.placement), Ok(()));
    assert!(solved.gap <= 0.03, "{} stages, and the bound is {}", solved.value, solved.bound);
}
