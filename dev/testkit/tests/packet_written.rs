//! Tables to which packets add entries, in native code: random programs with such tables, timers
//! and idle times agree with the interpreter.

use jit::Jit;
use packet::{Batch, BatchOutput, Engine, PortId};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use testkit::differ::case::{PacketIn, TestCase, TestEvent};
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::env_number;
use testkit::differ::pair::{EnginePair, pna};
use testkit::differ::subject::{EngineInputs, Oracle};
use testkit::differ::{compile, plan, report, run, shrink, subjects};

/// Number of random programs.
const CASES: u64 = 120;

/// Returns a configuration in which most tables are written by packets, and little else keeps a
/// program from native code.
fn config() -> Config {
    Config {
        pna: 100,
        add_on_miss: 75,
        sessions: 50,
        idle: 60,
        loops: 0,
        passes: 0,
        ragged: 0,
        varbits: 0,
        multicast: 0,
        random: 2,
        packets: 400,
        ..Config::small()
    }
}

/// Events of tables that packets write, in the interpreter's run of a case.
#[derive(Default, Debug)]
struct FlowEvents {
    misses: u64,
    added: u64,
    /// Packets that hit an entry that an earlier packet of the same batch has added.
    hit_in_batch: u64,
    expired: u64,
}

impl FlowEvents {
    /// Counts the events of a case.
    fn count(&mut self, case: &TestCase) {
        let inputs = EngineInputs { text: None, pipeline: &case.pipeline, setup: &case.setup };
        let mut oracle = Oracle::new(&inputs).expect("the interpreter takes the program");
        for step in &case.steps {
            match step {
                TestEvent::Packets(packets) => self.count_batch(&mut oracle, packets),
                TestEvent::Write(batch) => drop(oracle.interp.write(batch)),
                TestEvent::Tick(now) => self.expired += oracle.interp.advance_time(*now).len() as u64,
            }
        }
    }

    fn count_batch(&mut self, oracle: &mut Oracle, packets: &[PacketIn]) {
        let mut added_keys = HashSet::new();
        for (number, packet) in packets.iter().enumerate() {
            let trace = oracle.process_traced(number, packet, &mut Vec::new());
            let mut looked_up = String::new();
            for step in trace.steps {
                match step.event {
                    interp::TraceEvent::Table { table, keys, hit, .. } => {
                        looked_up = format!("{table} {keys:?}");
                        self.misses += u64::from(hit.is_none());
                        self.hit_in_batch += u64::from(hit.is_some() && added_keys.contains(&looked_up));
                    }
                    interp::TraceEvent::Extern { call, results, .. }
                        if call.contains("add_entry") && results.iter().any(|result| result == "1") =>
                    {
                        self.added += 1;
                        added_keys.insert(looked_up.clone());
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Compares native code with the interpreter by random programs, and passes each case to `count`.
fn compare_random_programs(first: u64, config: &Config, mut count: impl FnMut(&TestCase)) -> TestCoverage {
    let factory = subjects::factory("jit").expect("an engine of that name");
    let mut tally = TestCoverage::default();
    let first = std::env::var("DIFFER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(first);
    // The generator leaves these features out of all programs but each third.
    for seed in (first..first + 3 * CASES).filter(|seed: &u64| seed.is_multiple_of(3)) {
        let case = plan::generate_case(seed, config).unwrap_or_else(|refused| panic!("{}", refused.diagnostics));
        if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
            let (case, difference) = shrink::shrink_case(case, difference, &*factory, Duration::from_secs(60));
            panic!("{}", report::render_report(&case, &difference, "jit", &format!("DIFFER_SEED={seed}")));
        }
        count(&case);
    }
    tally
}

/// Programs in which packets that miss ask other tables, and then apply the table again, run in batches.
#[test]
fn random_programs_that_apply_a_table_twice_agree_with_the_interpreter() {
    let config = Config { applied_twice: 70, externs: 8, sessions: 12, ..config() };
    let (mut events, mut regions, mut serial) = (FlowEvents::default(), [0; 2], 0);
    let tally = compare_random_programs(60_000, &config, |case| {
        events.count(case);
        let engine = Jit::new(case.pipeline.clone(), interp::Config::default()).expect("it loads");
        let counts = engine.miss_region_counts();
        regions = [regions[0] + counts[0], regions[1] + counts[1]];
        serial += usize::from(engine.runs_packets_one_by_one());
    });
    println!("{tally}\n{events:?}\nregions: {regions:?}, one by one: {serial}");
    assert!(regions[0] >= 5 && regions[1] >= 20, "{regions:?}");
    assert!(events.added >= 1_000 && events.hit_in_batch >= 1_000, "{events:?}");
}

#[test]
fn random_programs_that_add_entries_agree_with_the_interpreter() {
    let mut events = FlowEvents::default();
    let tally = compare_random_programs(30_000, &config(), |case| events.count(case));
    println!("{tally}\n{events:?}");
    let handed = |reason: &str| tally.handed.get(reason).copied().unwrap_or(0);
    assert_eq!([handed("add_on_miss"), handed("idle_timeout")], [0, 0], "{tally}");
    assert!(tally.native() >= tally.packets * 3 / 4, "few packets ran on native code: {tally}");
    let FlowEvents { misses, added, hit_in_batch, expired } = events;
    assert!(misses >= 10_000 && added >= 1_000 && hit_in_batch >= 1_000 && expired >= 300, "{events:?}");
    let uses = |feature: &str| tally.features.get(feature).copied().unwrap_or(0);
    for feature in [
        "add_entry",
        "allocate_flow_id",
        "restart_expire_timer",
        "set_entry_expire_time",
        "add_entry pair",
        "port_pool.take",
    ] {
        assert!(uses(feature) >= CASES / 20, "{feature}: {}\n{:?}", uses(feature), tally.features);
    }
}

/// Adds an entry for each new value of the first two bytes; the third byte becomes 1 if the packet
/// added the entry, and 2 if it hit one.
const ADDS_ENTRIES: &str = r#"
#include <core.p4>
#include <pna.p4>
header data_h { bit<16> key; bit<8> result; bit<8> pad; }
struct headers_t { data_h data; }
struct metadata_t { }
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.data); transition accept; }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd,
            inout pna_pre_output_metadata_t ostd) { apply { } }
control main_control(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd,
                     inout pna_main_output_metadata_t ostd) {
    action known() { hdr.data.result = 2; }
    action learn() {
        bool added = add_entry(action_name = "known", action_params = {},
                               expire_time_profile_id = (ExpireTimeProfileId_t) 0);
        if (added) { hdr.data.result = 1; }
    }
    table flows {
        key = { hdr.data.key: exact; }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        size = 65536;
    }
    apply { flows.apply(); send_to_port((PortId_t) 2); }
}
control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr.data); }
}
PNA_NIC(parse(), pre(), main_control(), deparse()) main;
"#;

/// A third of the packets looks a flow table up between two tables of a controller.
const ADDS_ON_ONE_PATH: &str = "
    action mark(bit<8> mark) { hdr.data.mark = mark; }
    table kinds { key = { hdr.data.kind: exact; } actions = { mark; NoAction; } default_action = NoAction();
                  const entries = { 0: mark(10); 1: mark(11); } }
    action known() { hdr.data.result = 2; }
    action learn() {
        bool added = add_entry(action_name = \"known\", action_params = {},
                               expire_time_profile_id = (ExpireTimeProfileId_t) 0);
        if (added) { hdr.data.result = 1; }
    }
    table flows {
        key = { hdr.data.key: exact; hdr.data.mark: exact; }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        size = 256;
    }
    action end(bit<8> by) { hdr.data.end = hdr.data.result + by; }
    table ends { key = { hdr.data.mark: exact; hdr.data.key: exact; } actions = { end; NoAction; }
                 default_action = end(9); const entries = { (10, 3): end(20); (11, 4): end(30); } }
    apply {
        kinds.apply();
        if (hdr.data.kind == 1) { flows.apply(); }
        ends.apply();
        send_to_port((PortId_t) 2);
    }";

/// A program with a flow table has code for eight packets at once. Packets that look the table up
/// leave it there, in their order, and all others stay in it.
#[test]
fn packets_of_other_paths_run_eight_at_once() {
    let text = pna(
        "header data_h { bit<8> kind; bit<16> key; bit<8> mark; bit<8> result; bit<8> end; }
         struct headers_t { data_h data; } struct metadata_t { }",
        "state start { packet.extract(hdr.data); transition accept; }",
        ADDS_ON_ONE_PATH,
        "packet.emit(hdr.data);",
    );
    let mut both = EnginePair::new("flows on one path", &text, true);
    let seed = env_number("SEED", fastrand::u64(..1 << 32));
    println!("SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut results = [0; 3];
    for _ in 0..60 {
        let packets: Vec<Vec<u8>> = (0..200).map(|_| vec![rng.u8(..3), 0, rng.u8(..), 0, 0, 0]).collect();
        let sent = both.assert_same_packets(&packets);
        sent.iter().for_each(|bytes| results[usize::from(bytes[4])] += 1);
    }
    let [others, added, hits] = results;
    assert!(others >= 7000 && added >= 200 && hits >= 3000, "{results:?}");
    // Batches alternate between code for eight and for one.
    let [through, _] = both.vector_packet_counts();
    assert!(through >= others / 2 || !jit::supports_vector_path(), "{through} packets of {others}");
}

/// Packets with an unknown key ask `rules` before they add their entry. `known` and `learn` as above.
const ASKS_RULES: &str = "
    bool is_allowed;
    action known() { hdr.data.result = 2; }
    action learn() {
        if (is_allowed) {
            bool added = add_entry(action_name = \"known\", action_params = {},
                                   expire_time_profile_id = (ExpireTimeProfileId_t) 0);
            if (added) { hdr.data.result = 1; }
        }
    }
    table flows {
        key = { KEY: exact @name(\"key\"); }
        actions = { @tableonly known; @defaultonly learn; }
        const default_action = learn();
        add_on_miss = true;
        size = 128;
    }
    action allow() { is_allowed = true; }
    table rules { key = { hdr.data.key: ternary; } actions = { allow; NoAction; } default_action = NoAction();
                  const entries = { 0 &&& 1: allow(); } }
    apply {
        is_allowed = false;
        if (flows.apply().miss) {
            rules.apply();
            AFTER
            if (is_allowed) { flows.apply(); }
        }
        send_to_port((PortId_t) 2);
    }";

/// Returns engines with a program that looks a key up, and again after the statement `after`.
fn rules_program(name: &str, key: &str, after: &str) -> EnginePair {
    let text = pna(
        "header data_h { bit<16> key; bit<8> result; } struct headers_t { data_h data; } struct metadata_t { }",
        "state start { packet.extract(hdr.data); transition accept; }",
        &ASKS_RULES.replace("KEY", key).replace("AFTER", after),
        "packet.emit(hdr.data);",
    );
    EnginePair::new(name, &text, true)
}

/// Misses ask other tables before they add their entry. Packets run in batches all the same, and a
/// second packet with a key finds the entry of the first. If the second lookup may have another key, each miss
/// passes alone.
#[test]
fn packets_that_miss_ask_other_tables_in_batches() {
    let seed = env_number("SEED", fastrand::u64(..1 << 32));
    println!("SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for (key, after, regions) in [
        ("hdr.data.key", "", [1, 0]),
        ("hdr.data.key", "if (hdr.data.result == 7) { hdr.data.key = hdr.data.key + 2; }", [0, 1]),
        ("hdr.data.key + 1", "", [0, 1]),
    ] {
        let mut both = rules_program("rules for unknown flows", key, after);
        assert_eq!((both.native.miss_region_counts(), both.native.runs_packets_one_by_one()), (regions, false));
        let mut results = [0; 8];
        for _ in 0..20 {
            let result = |rng: &mut fastrand::Rng| if rng.u8(..4) == 0 { 7 } else { 0 };
            let packets: Vec<Vec<u8>> = (0..200).map(|_| vec![0, rng.u8(..), result(&mut rng)]).collect();
            let sent = both.assert_same_packets(&packets);
            sent.iter().for_each(|bytes| results[usize::from(bytes[2])] += 1);
        }
        let [denied, added, hits] = [results[0] + results[7], results[1], results[2]];
        assert!(denied >= 1_000 && added >= 100 && hits >= 1_000, "{results:?}");
    }
}

/// Sends packets of these keys and counts by key the packets that have added an entry.
fn count_additions(engine: &mut dyn Engine, keys: &[u16]) -> Vec<u16> {
    let mut added = Vec::new();
    for keys in keys.chunks(64) {
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        for key in keys {
            let [high, low] = key.to_be_bytes();
            batch.push_bytes(&[high, low, 0, 0], PortId(1), 1).expect("a batch has room");
        }
        engine.process(&mut batch, &mut out);
        let sent = out.iter(&batch).map(|(_, packet)| packet.bytes().to_vec());
        added.extend(sent.filter(|bytes| bytes[2] == 1).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])));
    }
    added
}

/// Several workers add the same keys at the same time: each key has one entry, and one packet is
/// told that it has added it.
#[test]
fn workers_that_add_the_same_keys_share_one_entry() {
    const KEYS: u16 = 20_000;
    let pipeline = Arc::new(compile::compile(ADDS_ENTRIES, true).unwrap_or_else(|errors| panic!("{errors}")));
    let control = Jit::new(pipeline, interp::Config::default()).expect("it loads");
    assert_eq!(control.fallback_reason(), None);
    let mut workers: Vec<Jit> = (0..3).map(|_| control.new_worker()).collect();
    let keys: Vec<u16> = (0..KEYS).flat_map(|key| [key, key]).collect();
    let mut added: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers.iter_mut().map(|worker| scope.spawn(|| count_additions(worker, &keys))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("the worker ends")).collect()
    });
    added.sort_unstable();
    assert_eq!(added, (0..KEYS).collect::<Vec<_>>());
    assert_eq!(control.with_state(|state| state.entry_count(ir::TableId(0))), usize::from(KEYS));
}

/// A worker that the table has no place for adds nothing, and each refusal is counted.
#[test]
fn a_worker_that_is_no_member_is_refused_and_counted() {
    let pipeline = Arc::new(compile::compile(ADDS_ENTRIES, true).unwrap_or_else(|errors| panic!("{errors}")));
    let control = Jit::new(pipeline, interp::Config::default()).expect("it loads");
    let mut workers: Vec<Jit> = (0..260).map(|_| control.new_worker()).collect();
    let refused = |engine: &Jit| {
        let counts = engine.flow_tables().expect("native code").info(ir::TableId(0)).expect("the table").counts;
        counts.refused.into_iter().find(|(reason, _)| *reason == "no_member").expect("a reason").1
    };
    assert_eq!((count_additions(&mut workers[0], &[1, 2]), refused(&control)), (vec![1, 2], 0));
    let last = workers.last_mut().expect("a worker");
    assert_eq!((count_additions(last, &[3, 4, 5]), refused(&control)), (vec![], 3));
}

/// The control plane removes entries that a worker is adding at this moment, and whose records are
/// used again at once. The table of packets and the control state have the same entries at the end.
#[test]
fn entries_that_are_removed_while_packets_add_them_leave_nothing_behind() {
    let pipeline = Arc::new(compile::compile(ADDS_ENTRIES, true).unwrap_or_else(|errors| panic!("{errors}")));
    let control = Jit::new(pipeline, interp::Config::default()).expect("it loads");
    let (mut worker, table) = (control.new_worker(), ir::TableId(0));
    let flows = control.flow_tables().expect("native code");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let removed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let keys: Vec<u16> = (0..u16::MAX).collect();
            (0..12).for_each(|_| drop(count_additions(&mut worker, &keys)));
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut removed = 0;
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            let mut cursor = Some(1);
            while let Some(next) = cursor {
                let page = flows.remove_page(table, &jit::FlowQuery::default(), next).expect("a flow table");
                (cursor, removed) = (page.next, removed + page.removed);
            }
        }
        removed
    });
    let info = flows.info(table).expect("a flow table");
    let in_state = control.with_state(|state| state.entry_count(table)) as u64;
    assert_eq!((in_state, info.counts.removed), (info.entries, removed));
    assert_eq!(info.counts.added_by_packets, removed + info.entries);
    assert!(removed > u64::from(u16::MAX), "entries were added again: {removed}");
}
