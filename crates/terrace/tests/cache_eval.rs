//! Tests the pipelines with their rules and traffic on the interpreter, and the evaluation with a
//! trivially correct cache.

#[allow(dead_code)]
mod command;

use flowcache::SegmentCacheStats;
use interp::{Interp, Outputs, TraceEvent};
use packet::Verdict;
use std::collections::{HashMap, HashSet};
use terrace::cache_eval::cache::{Cache, CacheKind, CacheOccupancy, CacheSpec};
use terrace::cache_eval::chains::{self, RuleChains};
use terrace::cache_eval::flow_cache;
use terrace::cache_eval::flow_sizes::FlowSizes;
use terrace::cache_eval::flows::{self, Locality};
use terrace::cache_eval::frame::frame;
use terrace::cache_eval::suite::{EvaluationSuite, FlowSizeSource, LocalityName, interpreter};
use terrace::cache_eval::vswitch::{self, NAMES, TraversalEnd, Vswitch};
use terrace::cache_eval::{fields::Field, filter_sets};

/// Published properties of each pipeline: number of tables and of traversals.
const PUBLISHED: [(&str, usize, usize); 5] =
    [("ofd", 10, 5), ("psc", 7, 2), ("ols", 30, 23), ("ant", 22, 20), ("otl", 8, 11)];

const SEED: u64 = 11;

#[test]
fn pipelines_have_the_published_numbers_of_tables_and_traversals() {
    assert_eq!(PUBLISHED.map(|(name, ..)| name), NAMES);
    for (name, tables, traversals) in PUBLISHED {
        let vswitch = vswitch::load(name).unwrap();
        assert_eq!((vswitch.tables.len(), vswitch.pipeline.tables.len()), (tables, tables), "{name}");
        assert_eq!(vswitch.traversals.len(), traversals, "{name}");
        let walks: HashSet<Vec<u8>> =
            vswitch.traversals.iter().map(|t| t.steps.iter().map(|step| step.number).collect()).collect();
        assert_eq!(walks.len(), traversals, "{name}: two traversals are the same tables");
    }
    assert!(vswitch::load("ovs").unwrap_err().contains("there are ofd, psc, ols, ant, otl"));
}

/// Each flow passes exactly the tables of its traversal, hits where the traversal specifies it, and
/// has its outcome.
#[test]
fn flows_take_the_traversal_that_they_were_drawn_for() {
    let rules = filter_sets::generate(600, SEED);
    for name in NAMES {
        let vswitch = vswitch::load(name).unwrap();
        let chains = chains::build_chains(&vswitch, &rules, SEED).unwrap();
        let mut interp = interpreter(&vswitch, &chains).unwrap();
        let mut walked: HashMap<usize, usize> = HashMap::new();
        for exponent in [0.0, 1.2] {
            let locality = Locality { exponent, share: 1.0, variants: 3 };
            for flow in flows::draw(&vswitch, &chains.networks, &rules, 800, locality, SEED, 0) {
                let traversal = chains.networks[flow.network].traversal;
                let walk = walk(&mut interp, &flow);
                expect_walk(&vswitch, traversal, &walk);
                *walked.entry(traversal).or_default() += 1;
            }
        }
        assert_eq!(walked.len(), vswitch.traversals.len(), "{name}: {walked:?} (seed {SEED})");
    }
}

struct Walk {
    /// Names of the applied tables, and whether they were hit.
    tables: Vec<(String, bool)>,
    verdict: Verdict,
}

fn walk(interp: &mut Interp, flow: &flows::Flow) -> Walk {
    let port = flow.values[Field::InPort.index()] as u32;
    let (out, trace) = interp.trace(&frame(flow), port, 0);
    let table = |event: &TraceEvent| match event {
        TraceEvent::Table { table, hit, .. } => Some((table.clone(), hit.is_some())),
        _ => None,
    };
    Walk { tables: trace.events().filter_map(table).collect(), verdict: out.packets()[0].verdict }
}

fn expect_walk(vswitch: &Vswitch, traversal: usize, walk: &Walk) {
    let traversal = &vswitch.traversals[traversal];
    let name = |step: &vswitch::TraversalStep| vswitch.pipeline.tables[step.table].preamble.name.clone();
    let expected: Vec<_> = traversal.steps.iter().map(|step| (name(step), step.action.is_some())).collect();
    assert_eq!(walk.tables, expected, "{} {}", vswitch.name, traversal.name);
    let fits = match traversal.end {
        TraversalEnd::Forward | TraversalEnd::Reply => {
            matches!(walk.verdict, Verdict::Forward { port } if (1000..1008).contains(&port.0))
        }
        TraversalEnd::Deny => matches!(walk.verdict, Verdict::Drop(_)),
        TraversalEnd::Punt => matches!(walk.verdict, Verdict::ToCpu { .. }),
        TraversalEnd::Default => !matches!(walk.verdict, Verdict::Forward { .. }),
    };
    assert!(fits, "{} {} ends with {:?}", vswitch.name, traversal.name, walk.verdict);
}

#[test]
fn one_table_decides_on_each_field() {
    let vswitch = vswitch::load("ofd").unwrap();
    let parts = |name: &str| {
        let traversal = vswitch.traversals.iter().find(|traversal| traversal.name == name).unwrap();
        let parts = chains::decided_fields(&vswitch.pipeline, traversal);
        parts.into_iter().map(|part| part.into_iter().map(Field::name).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    // The router's MAC is that of the termination table, the prefix that of the routing table. The
    // source MAC is already replaced when the policy matches.
    let routed: [&[&str]; 6] =
        [&["in_port"], &[], &["dl_dst"], &["nw_dst"], &["nw_src", "nw_proto", "tp_src", "tp_dst"], &["dl_src"]];
    assert_eq!(parts("routed"), routed);
    // Bridged packets keep it, so the policy matches on it and on the station's port.
    let bridged: [&[&str]; 6] =
        [&[], &[], &[], &["dl_dst"], &["in_port", "dl_src", "nw_src", "nw_dst", "nw_proto", "tp_src", "tp_dst"], &[]];
    assert_eq!(parts("bridged"), bridged);
}

#[test]
fn high_locality_shares_more() {
    let rules = filter_sets::generate(2000, SEED);
    let vswitch = vswitch::load("psc").unwrap();
    let chains = chains::build_chains(&vswitch, &rules, SEED).unwrap();
    let distinct = |exponent: f64, workload: u64| {
        let locality = Locality { exponent, share: 1.0, variants: 1 };
        let flows = flows::draw(&vswitch, &chains.networks, &rules, 3000, locality, SEED, workload);
        assert_eq!(flows.len(), 3000);
        assert_eq!(flows.iter().map(|flow| flow.values).collect::<HashSet<_>>().len(), 3000, "flows repeat");
        flows.iter().map(|flow| flow.values[Field::NwDst.index()]).collect::<HashSet<_>>()
    };
    let (high, low) = (distinct(1.2, 0), distinct(0.0, 0));
    assert!(high.len() * 2 < low.len(), "{} and {} destinations", high.len(), low.len());
    assert_ne!(high, distinct(1.2, 1), "another workload has other favourites");
}

/// Cache of outputs by packet bytes and port. Clears itself when full.
struct Remembers {
    interp: Interp,
    shape: CacheSpec,
    known: HashMap<(u32, Vec<u8>), Outputs>,
    stats: SegmentCacheStats,
    /// One of this number of hits returns wrong outputs.
    wrong_each: u64,
}

impl Cache for Remembers {
    fn process(&mut self, bytes: &[u8], port: u32, now: u64, out: &mut Outputs) {
        self.stats.packets += 1;
        if let Some(known) = self.known.get(&(port, bytes.to_vec())) {
            self.stats.hits += 1;
            *out = known.clone();
            if self.wrong_each > 0 && self.stats.hits.is_multiple_of(self.wrong_each) {
                out.clear();
            }
            return;
        }
        self.stats.misses += 1;
        self.interp.process_into(bytes, port, now, out);
        if self.known.len() == self.shape.entries {
            self.stats.evicted += self.known.len() as u64;
            self.known.clear();
        }
        self.stats.inserted += 1;
        self.known.insert((port, bytes.to_vec()), out.clone());
    }

    fn stats(&self) -> &SegmentCacheStats {
        &self.stats
    }

    fn tables(&self) -> Vec<CacheOccupancy> {
        vec![CacheOccupancy { entries: self.known.len(), masks: 1 }]
    }

    fn rule_space(&self) -> f64 {
        self.known.len() as f64
    }

    fn memory(&self) -> usize {
        self.known.keys().map(|(_, bytes)| bytes.len()).sum()
    }
}

fn remembers(
    vswitch: &Vswitch,
    chains: &RuleChains,
    shape: CacheSpec,
    wrong_each: u64,
) -> Result<Box<dyn Cache>, String> {
    let interp = interpreter(vswitch, chains)?;
    let (known, stats) = (HashMap::new(), SegmentCacheStats::default());
    Ok(Box::new(Remembers { interp, shape, known, stats, wrong_each }))
}

fn suite() -> EvaluationSuite {
    EvaluationSuite {
        pipelines: vec!["psc".to_owned()],
        localities: vec![LocalityName::High, LocalityName::Low],
        kinds: vec![CacheKind::Exact],
        tables: 4,
        total_entries: 500,
        swept_table_counts: Vec::new(),
        swept_entries: vec![20],
        change: true,
        rules: filter_sets::generate(200, SEED),
        flow_sizes: FlowSizeSource::Distribution(FlowSizes::built_in()),
        flows: 400,
        packets_per_flow: Some(3.0),
        high_locality: None,
        window_and_gap: (100.0, 0.5),
        compare_interval: 3,
        seed: SEED,
        source_names: ("generated".to_owned(), "built in".to_owned()),
    }
}

#[test]
fn an_evaluation_counts_every_packet_and_compares_some() {
    let suite = suite();
    assert_eq!(suite.run_count(), 4);
    let mut done = 0;
    let mut tell = |event: terrace::cache_eval::suite::EvaluationEvent<'_>| {
        done += usize::from(matches!(event, terrace::cache_eval::suite::EvaluationEvent::Done(_)))
    };
    let report = suite.run(&|v, c, s| remembers(v, c, s, 0), &mut tell).unwrap();
    assert_eq!((done, report.runs.len()), (4, 4));
    for run in &report.runs {
        assert_eq!(run.hits + run.misses, run.packets);
        assert_eq!(
            run.series.iter().map(|piece| (piece.packets, piece.hits)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (run.packets, run.hits)
        );
        assert!(run.compared * 3 >= run.packets && run.different == 0);
        assert!(run.packets > 1000, "{}", run.packets);
    }
    // With capacity for all flows, each is missed once; with less, more often.
    let by_room = |entries: usize| report.runs.iter().find(|run| run.cache.entries == entries && run.change.is_none());
    assert_eq!(by_room(500).unwrap().misses, 400);
    assert!(by_room(20).unwrap().misses > 400);
    let change = report.runs.iter().find_map(|run| run.change).unwrap();
    assert_eq!(change.at, 100.0);
    assert!(change.least < change.steady && change.back.is_some(), "{change:?}");
}

#[test]
fn a_cache_that_is_wrong_is_found() {
    let found = suite().run(&|v, c, s| remembers(v, c, s, 50), &mut |_| {});
    assert!(found.unwrap_err().contains("contradicts the interpreter"));
}

/// The real caches on all pipelines and both localities. They are small, but each kind hits and
/// misses, and all compared results are correct.
#[test]
fn the_caches_serve_all_pipelines_rightly() {
    let kinds = [CacheKind::Exact, CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive];
    let small = EvaluationSuite {
        pipelines: NAMES.map(str::to_owned).to_vec(),
        kinds: kinds.to_vec(),
        total_entries: 200,
        swept_entries: Vec::new(),
        change: false,
        flows: 250,
        compare_interval: 2,
        ..suite()
    };
    let report = small.run(&flow_cache::build_cache, &mut |_| {}).unwrap();
    assert_eq!(report.runs.len(), NAMES.len() * 2 * kinds.len());
    for run in &report.runs {
        let name = format!("{} {} {}", run.pipeline, run.locality, run.cache);
        assert!(run.packets >= 500 && run.compared * 2 >= run.packets, "{name}: {} of {}", run.compared, run.packets);
        assert_eq!(run.hits + run.misses, run.packets, "{name}");
        assert!(run.hits * 10 >= run.packets && run.misses > 0, "{name}: {} hits of {}", run.hits, run.packets);
        assert!(run.tables.len() == run.cache.tables && run.entries > 0, "{name}");
        assert!(run.tables.iter().all(|table| table.entries <= run.cache.entries), "{name}: {:?}", run.tables);
        assert!(run.masks > 0 && run.memory > 0 && run.inserted > 0 && run.rule_space >= 1.0, "{name}");
    }
    let of = |kind: CacheKind| report.runs.iter().filter(move |run| run.cache.kind == kind && run.locality == "high");
    let misses = |kind: CacheKind| of(kind).map(|run| run.misses).sum::<u64>();
    assert!(misses(CacheKind::SubTraversal) < misses(CacheKind::Megaflow), "pieces are shared at high locality");
    assert!(of(CacheKind::SubTraversal).any(|run| run.shared > 0.2));
}

/// The adaptive cache splits by measurements, uses two passes where one is not enough, and leaves
/// unsplit what is better unsplit. It has at most a few misses per thousand packets more than the
/// better of the two others, and fewer in total.
#[test]
fn the_adaptive_cache_is_not_much_worse_than_the_better_one() {
    let kinds = vec![CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive];
    let some = EvaluationSuite {
        pipelines: NAMES.map(str::to_owned).to_vec(),
        kinds,
        total_entries: 1_600,
        swept_entries: Vec::new(),
        change: false,
        rules: filter_sets::generate(600, SEED),
        flows: 3_000,
        packets_per_flow: None,
        compare_interval: 50,
        window_and_gap: (300.0, 2.0),
        ..suite()
    };
    let report = some.run(&flow_cache::build_cache, &mut |_| {}).unwrap();
    let (mut better, mut adaptive_in_all, mut by_fields_in_all) = (0, 0, 0);
    for runs in report.runs.chunks(3) {
        let [megaflow, by_fields, adaptive] = runs else { panic!("{} runs", runs.len()) };
        let name = format!("{} {}", adaptive.pipeline, adaptive.locality);
        let kinds = [megaflow, by_fields, adaptive].map(|run| run.cache.kind);
        assert_eq!(kinds, [CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive]);
        let least = megaflow.misses.min(by_fields.misses);
        println!(
            "{name}: {} packets; misses: {}, {}, {}",
            adaptive.packets, megaflow.misses, by_fields.misses, adaptive.misses
        );
        assert!(adaptive.misses <= least + adaptive.packets / 200, "{name}: {} of {least}", adaptive.misses);
        better += usize::from(adaptive.misses < least);
        adaptive_in_all += adaptive.misses;
        by_fields_in_all += by_fields.misses;
    }
    assert!(
        better >= 4 && adaptive_in_all * 20 < by_fields_in_all * 19,
        "{better}: {adaptive_in_all}, {by_fields_in_all}"
    );
}

#[test]
fn the_command_writes_a_page_plots_and_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (page, json, plots) = (path("eval.html"), path("eval.json"), path("plots"));
    let bars = path("bars.csv");
    std::fs::write(&bars, "figure,locality,pipeline,cache,value\nhit_rate_pct,high,PSC,MF,65.4\n").unwrap();
    let small = ["--flows", "200", "--rule-count", "100", "--entries", "32000", "--locality", "high", "--change"];
    let sweeps = ["--sweep-tables", "1,2", "--sweep-entries", "80,64000", "--published", &bars];
    let written = ["--html", &page, "--out", &json, "--svg", &plots];
    let (code, out, err) = command::run(&[&["cache-eval", "psc"], &small[..], &sweeps, &written].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("megaflow 1x32000") && out.contains("sub-traversal 2x16000") && out.contains("65.4 %"),
        "{out}"
    );
    assert!(out.contains("back above 90 %") && out.contains("fewer misses"), "{out}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("hit rate over K") && page.ends_with("</html>\n"));
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!outside.contains("http") && !outside.contains("src="), "the page asks for something outside of itself");
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    // Four caches; one of 1 and one of 2 tables; four each with 80 and with 64,000 entries; four
    // with a change.
    assert_eq!(report["runs"].as_array().unwrap().len(), 18);
    assert!(
        report["runs"]
            .as_array()
            .unwrap()
            .iter()
            .all(|run| run["different"] == 0 && run["packets"].as_u64() > Some(300))
    );
    let names = ["hit-rate-over-K.svg", "psc-hit-rate-over-size.svg", "psc-hit-rate-over-a-change.svg"];
    for name in names {
        let plot = std::fs::read_to_string(folder.path().join("plots").join(name)).unwrap();
        assert!(plot.starts_with("<svg") && plot.contains("<polyline"), "{name}");
    }
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad").display().to_string();
    std::fs::write(&bad, "no rules here\n").unwrap();
    let refused = |arguments: &[&str], says: &str| {
        let (code, _, err) = command::run(&[&["cache-eval", "psc"], arguments].concat());
        assert!(err.contains(says), "{arguments:?}: {err}");
        code
    };
    assert_eq!(refused(&["--rules", &bad], "bad: line 1: expected `@SOURCE/LEN"), 3);
    assert_eq!(refused(&["--flow-sizes", &bad], "bad: line 1: `no rules here` is not BYTES,SHARE"), 3);
    assert_eq!(refused(&["--capture", &bad], "give an uncompressed pcap file"), 3);
    assert_eq!(refused(&["--published", &bad], "it has no row `hit_rate_pct"), 3);
    assert_eq!(refused(&["--rules", "/nowhere"], "cannot read /nowhere"), 3);
    assert_eq!(refused(&["ovs"], "there is no pipeline `ovs`; there are ofd, psc, ols, ant, otl"), 2);
    assert_eq!(refused(&["--zipf", "1,2"], "--zipf is an exponent"), 2);
    assert_eq!(refused(&["--packets-per-flow", "0"], "--packets-per-flow is a number from 1"), 2);
    assert_eq!(refused(&["--tables", "9"], "9 is not in 1..=8"), 2);
}
