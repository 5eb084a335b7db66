//! Compares each engine of a node, as the node configures it, with the interpreter: packets, state,
//! messages, counts.

use crate::support::chip;
use cache_engines::CachePlan;
use entries::{ControlState, Counter, EntryId, StateUpdate, WriteBatch};
use flowcache::SegmentCacheConfig;
use ir::{Arch, ExternId, Pipeline, TableId};
use node::engine::{EngineControl, EngineFactory, SharedEngineFactory, native, reference};
use num_bigint::BigUint;
use offload::partition::TableMode;
use packet::{Batch, BatchOutput, Engine};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch_engines::tiers::TiersPlan;
use testkit::differ::agree::repeat_packets;
use testkit::differ::case::{PacketIn, TestCase, TestEvent};
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::env_number;
use testkit::differ::run::{self, MismatchKind};
use testkit::differ::subject::{BatchResult, EngineInputs, EngineUnderTest, IdleReport, idle_entries, through_engine};
use testkit::differ::{plan, report};

/// Engine with one worker, or with two that get batches in turn.
struct Chosen {
    pipeline: Arc<Pipeline>,
    engine: Box<dyn EngineControl>,
    workers: Vec<Box<dyn Engine>>,
    batches: usize,
    /// Time of the latest packet. No worker gets an earlier one, because it alone might not treat
    /// it as late.
    latest: u64,
    batch: Batch,
    out: BatchOutput,
}

impl Chosen {
    fn new(choice: &SharedEngineFactory, build: &EngineInputs<'_>) -> Result<Chosen, String> {
        let engine = choice.load(build.pipeline, build.setup).map_err(|refusal| refusal.message)?;
        let workers = (0..1 + build.pipeline.tables.len() % 2).map(|_| engine.new_worker()).collect();
        let (batch, out) = (Batch::new(), BatchOutput::new());
        Ok(Chosen { pipeline: build.pipeline.clone(), engine, workers, batches: 0, latest: 0, batch, out })
    }
}

thread_local! {
    /// Packets that the flow caches of this thread's engines served.
    static BY_CACHES: Cell<u64> = const { Cell::new(0) };
    /// Packets that the switches of this thread's tiers served.
    static BY_SWITCH: Cell<u64> = const { Cell::new(0) };
    /// Packets that a second worker processed.
    static BY_SECOND: Cell<u64> = const { Cell::new(0) };
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let by_tier = self.engine.packets_by_tier();
        let served = |wanted: &str| by_tier.iter().find(|(tier, _)| *tier == wanted).map_or(0, |(_, packets)| *packets);
        BY_CACHES.set(BY_CACHES.get() + served("dpu"));
        BY_SWITCH.set(BY_SWITCH.get() + served("switch"));
    }
}

impl EngineUnderTest for Chosen {
    fn name(&self) -> String {
        self.engine.name().to_owned()
    }

    fn write(&mut self, batch: &WriteBatch) -> Result<(), String> {
        // As a node's workers do between two batches.
        self.workers.iter_mut().for_each(|worker| worker.on_idle());
        self.engine.write(batch).map_err(|error| error.to_string())
    }

    fn process(&mut self, packets: &[PacketIn]) -> BatchResult {
        let mut packets = packets.to_vec();
        for packet in packets.iter_mut().filter(|_| self.workers.len() > 1) {
            self.latest = self.latest.max(packet.at);
            packet.at = self.latest;
        }
        let worker = self.batches % self.workers.len();
        self.batches += 1;
        BY_SECOND.set(BY_SECOND.get() + if worker > 0 { packets.len() as u64 } else { 0 });
        let worker = &mut *self.workers[worker];
        let mut answer = through_engine(worker, &mut self.batch, &mut self.out, &packets, None);
        // Requests of the placement that no chip can fulfil.
        answer
            .faults
            .extend(self.engine.status_notes().into_iter().filter(|note| note.contains("packets were dropped")));
        answer
    }

    fn tick(&mut self, now: u64) -> Vec<IdleReport> {
        idle_entries(&self.pipeline, &self.engine.advance_time(now))
    }

    fn state(&self) -> ControlState {
        self.engine.with_state(ControlState::clone)
    }

    fn counter(&self, counter: ExternId, index: u64) -> Option<Counter> {
        self.engine.counter(counter, index)
    }

    fn register(&self, register: ExternId, index: u64) -> Option<Vec<BigUint>> {
        self.engine.register(register, index)
    }

    fn direct_counter(&self, id: &EntryId) -> Option<Counter> {
        let state = self.state();
        let layout = state.layout(id.table);
        let mut entries = state.entries(id.table);
        let entry = entries.find(|e| e.priority() == id.priority && layout.unpack(e.key()) == id.keys)?;
        self.engine.entry_counter(id.table, entry)
    }

    fn applied(&self, table: TableId) -> Option<Vec<[Counter; 2]>> {
        // Packets that restart below are counted in both halves.
        if self.engine.status_notes().iter().any(|note| note.contains("restart below")) {
            return None;
        }
        let places = self.engine.tallies().tables;
        let mut sums: Option<Vec<[Counter; 2]>> = None;
        for place in places.iter().filter(|place| place.table == table) {
            let sums = sums.get_or_insert_default();
            sums.resize(place.actions.len(), Default::default());
            for (sum, action) in sums.iter_mut().zip(&place.actions) {
                for (sum, more) in sum.iter_mut().zip([action.misses, action.hits]) {
                    *sum += more;
                }
            }
        }
        sums
    }

    fn take_digests(&mut self) -> Vec<(ExternId, Vec<BigUint>)> {
        self.engine.take_digests().into_iter().map(|message| (message.digest, message.values)).collect()
    }
}

/// Small, so that rewrites are evicted.
fn rewrites() -> SharedEngineFactory {
    let cache = SegmentCacheConfig { max_segments: 12, ..SegmentCacheConfig::default() };
    CachePlan { cache, is_rewrite_cache: true, ..CachePlan::default() }.shared()
}

/// Compares a case on an engine. Returns whether the engine accepts the program.
fn agrees(case: &TestCase, choice: &SharedEngineFactory, tally: &mut TestCoverage) -> bool {
    let make = |build: &EngineInputs<'_>| {
        Chosen::new(choice, build).map(|chosen| Box::new(chosen) as Box<dyn EngineUnderTest>)
    };
    match run::run_case(case, &make, tally) {
        Ok(()) => true,
        Err(difference) if difference.kind == MismatchKind::Refused => false,
        Err(difference) => {
            let rerun = format!("DIFFER_SEED={} DIFFER_CASES=1 cargo test -p terraced --test node engines", case.seed);
            panic!("{}", report::render_report(case, &difference, choice.name(), &rerun));
        }
    }
}

#[test]
fn random_programs_do_the_same_on_each_engine() {
    let (first, cases) = (env_number("DIFFER_SEED", 77_000), env_number("DIFFER_CASES", 30));
    let cache = CachePlan::default().shared();
    let mut taken: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut tally = TestCoverage::default();
    for seed in first..first + cases {
        let case = plan::generate_case(seed, &Config::small());
        let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        for choice in [native(), reference(), cache.clone(), rewrites(), chip(128, "none")] {
            *taken.entry((choice.name(), choice.cache())).or_default() += u64::from(agrees(&case, &choice, &mut tally));
        }
    }
    println!("DIFFER_SEED={first}: {cases} programs, taken by {taken:?}\n{tally}");
    let all = [("jit", "none"), ("interp", "none"), ("interp", cache.cache()), ("jit", "rewrites")];
    assert_eq!(all.map(|choice| taken[&choice]), [cases; 4], "they take whatever compiles");
    assert!(taken[&("asic", "none")] >= cases / 2, "few programs run on the chip: {taken:?}");
    assert!(tally.packets >= cases * 100 && tally.forwarded >= tally.packets / 4, "{tally}");
    assert!(BY_SECOND.get() >= tally.packets / 10, "{} packets went to a second worker", BY_SECOND.get());
}

/// Routes of both families in one table and partitioned, VM-NC of both in one with digests, ACLs
/// unchanged.
const SAILFISH: &str = "digest:vm_nc_v6,pool:vm_nc_v4+vm_nc_v6,alpm:route_v4*8,pieces:acl_in.v4*2";

#[test]
fn the_gateway_does_the_same_on_each_engine_and_rewritten() {
    let seed = env_number("DIFFER_SEED", 78_000);
    let mut tally = TestCoverage::default();
    let cache = CachePlan { tenant: Some("hdr.vxlan.vni".to_owned()), ..CachePlan::default() }.shared();
    let engines = [native(), cache, rewrites(), chip(512, "none"), chip(512, SAILFISH)];
    for (at, choice) in engines.into_iter().enumerate() {
        // A switch has no second pass, in which ICMP errors are made.
        let case = if choice.name() == "asic" { plan::switch_gateway_case } else { plan::gateway_case };
        let case = case(seed + at as u64, 300).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(agrees(&case, &choice, &mut tally), "{}: {:?}", choice.name(), refusal(&case, &choice));
    }
    println!("DIFFER_SEED={seed}:\n{tally}");
    assert!(tally.packets == 1_500 && tally.forwarded >= 30 && tally.hits >= 300, "{tally}");
}

/// Returns the mode of each table in a run, by seed.
fn table_modes(pipeline: &Pipeline, seed: u64) -> BTreeMap<String, TableMode> {
    let mut rng = fastrand::Rng::with_seed(seed);
    // Copies of entries that packets add restart timers later: tested without idle times, below.
    let written_by_controllers = pipeline.tables.values().filter(|table| !table.add_on_miss);
    written_by_controllers
        .map(|table| table.preamble.name.clone())
        .filter_map(|name| match rng.u8(0..4) {
            0 => Some((name, TableMode::Absent)),
            1 => Some((name, TableMode::Hot(rng.u64(0..12)))),
            _ => None,
        })
        .collect()
}

/// Returns tiers with these engines above. Hot entries are chosen whenever time passes.
fn tiers(pipeline: &Pipeline, seed: u64, above: SharedEngineFactory) -> SharedEngineFactory {
    let below = match seed % 4 {
        0 => native(),
        1 => reference(),
        2 => rewrites(),
        _ => CachePlan::default().shared(),
    };
    let plan = TiersPlan {
        reselect_interval: Duration::ZERO,
        ..TiersPlan::in_one_process(above, below, table_modes(pipeline, seed))
    };
    plan.shared()
}

#[test]
fn random_programs_do_the_same_on_tiers() {
    let (first, cases) = (env_number("DIFFER_SEED", 79_000), env_number("DIFFER_CASES", 90));
    let seconds = env_number("DIFFER_SECONDS", 0);
    let began = Instant::now();
    let (mut taken, mut all) = (BTreeMap::<&str, u64>::new(), 0);
    let mut tally = TestCoverage::default();
    let mut seed = first;
    while seed < first + cases || began.elapsed().as_secs() < seconds {
        let case = plan::generate_case(seed, &Config::small());
        let mut case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        if case.pipeline.arch == Arch::V1Model {
            // The port to the lower tier is not available to a program.
            let ports = case.setup.ports.get_or_insert_with(|| (0..512).collect());
            ports.remove(&node::config::LOWER_PORT);
        }
        let above = [reference(), native(), chip(128, "none")][seed as usize / 4 % 3].clone();
        let name = above.name();
        *taken.entry(name).or_default() += u64::from(agrees(&case, &tiers(&case.pipeline, seed, above), &mut tally));
        (seed, all) = (seed + 1, all + 1);
    }
    println!("DIFFER_SEED={first}: {all} programs, taken by tiers with {taken:?} above\n{tally}");
    let by_chip = taken.get("asic").copied().unwrap_or(0);
    assert!(
        taken["interp"] + taken["jit"] >= all / 3 && by_chip >= all / 12,
        "few programs could be divided: {taken:?}"
    );
    assert!(tally.packets >= all * 50 && tally.forwarded >= tally.packets / 5, "{tally}");
}

/// The upper half has some entries of the tables to which packets add entries, and gets new ones
/// whenever time passes. Entries do not end.
#[test]
fn random_programs_with_entries_of_packets_do_the_same_on_tiers() {
    let (first, cases) = (env_number("DIFFER_SEED", 81_000), env_number("DIFFER_CASES", 120));
    let config = Config {
        pna: 100,
        stacks: 10,
        externs: 10,
        unions: 1,
        varbits: 1,
        passes: 0,
        multicast: 0,
        ragged: 0,
        idle: 0,
        add_on_miss: 60,
        sessions: 40,
        applied_twice: 30,
        plain_packets: true,
        ..Config::small()
    };
    let mut tally = TestCoverage::default();
    BY_SWITCH.set(0);
    let mut taken = 0;
    for seed in first..first + cases {
        // Other seeds have few of these tables.
        let case = plan::generate_case(3 * seed, &config);
        let mut case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        let batches = case.steps.iter_mut().filter_map(|step| match step {
            TestEvent::Write(batch) => Some(batch),
            _ => None,
        });
        batches.for_each(|batch| batch.updates.retain(|update| !matches!(update, StateUpdate::ExpireTime(..))));
        // Flows have several packets.
        let case = repeat_packets(case, seed, 3, |packet, _| packet.clone());
        let written = case.pipeline.tables.values().filter(|table| table.add_on_miss);
        let modes = written.map(|table| (table.preamble.name.clone(), TableMode::Hot(seed % 20))).collect();
        let above = [reference(), native()][seed as usize % 2].clone();
        let below = [native(), reference(), rewrites()][seed as usize / 2 % 3].clone();
        let plan = TiersPlan { reselect_interval: Duration::ZERO, ..TiersPlan::in_one_process(above, below, modes) };
        taken += u64::from(agrees(&case, &plan.shared(), &mut tally));
    }
    println!(
        "DIFFER_SEED={first}: {cases} programs, taken {taken}; {} packets by the switch\n{tally}",
        BY_SWITCH.get()
    );
    assert!(taken >= cases * 3 / 4 && BY_SWITCH.get() * 20 >= tally.packets, "{tally}");
}

#[test]
fn the_gateway_does_the_same_on_tiers() {
    let seed = env_number("DIFFER_SEED", 80_000);
    let mut tally = TestCoverage::default();
    let cache = CachePlan::default().shared();
    let rewrites = CachePlan { is_rewrite_cache: true, ..CachePlan::default() }.shared();
    for (at, below) in [native(), cache, rewrites].into_iter().enumerate() {
        let case = plan::switch_gateway_case(seed + at as u64, 300);
        let case = case.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // Each packet is repeated.
        let case = repeat_packets(case, seed, 1, |packet, _| packet.clone());
        let tables = case.pipeline.tables.values().map(|table| table.preamble.name.as_str());
        let hot = tables.filter(|name| ["route_v4", "route_v6", "vm_nc"].iter().any(|large| name.contains(large)));
        let held: BTreeMap<String, TableMode> = hot.map(|name| (name.to_owned(), TableMode::Hot(40))).collect();
        assert!(held.len() >= 3, "{held:?}");
        let plan = TiersPlan {
            reselect_interval: Duration::ZERO,
            ..TiersPlan::in_one_process(chip(512, "none"), below, held)
        };
        let choice = plan.shared();
        BY_CACHES.set(0);
        assert!(agrees(&case, &choice, &mut tally), "{:?}", refusal(&case, &choice));
        let by_caches = BY_CACHES.get();
        assert!((at > 0) == (by_caches >= 20), "{by_caches} packets by the cache below, the {at}th");
    }
    println!("DIFFER_SEED={seed}:\n{tally}");
    assert!(tally.packets >= 900 && tally.forwarded >= 15 && tally.hits >= 150, "{tally}");
}

fn refusal(case: &TestCase, choice: &SharedEngineFactory) -> Option<String> {
    choice.load(&case.pipeline, &case.setup).err().map(|refusal| refusal.message)
}
