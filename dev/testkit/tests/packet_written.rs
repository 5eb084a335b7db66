//! Tables to which packets add entries, in native code: random programs with such tables, timers and
//! idle times agree with the interpreter.

use std::collections::HashSet;
use std::time::Duration;
use testkit::differ::case::{PacketIn, TestCase, TestEvent};
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::subject::{EngineInputs, Oracle};
use testkit::differ::{plan, report, run, shrink, subjects};

/// Number of random programs.
const CASES: u64 = 120;

/// Returns a configuration in which most tables are written by packets, and little else keeps a program
/// from native code.
fn config() -> Config {
    Config {
        pna: 100,
        add_on_miss: 75,
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

#[test]
fn random_programs_that_add_entries_agree_with_the_interpreter() {
    let factory = subjects::factory("jit").expect("an engine of that name");
    let (mut tally, mut events) = (TestCoverage::default(), FlowEvents::default());
    let first = std::env::var("DIFFER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(30_000);
    // The generator leaves these features out of all programs but each third.
    for seed in (first..first + 3 * CASES).filter(|seed: &u64| seed.is_multiple_of(3)) {
        let case = plan::generate_case(seed, &config()).unwrap_or_else(|refused| panic!("{}", refused.diagnostics));
        if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
            let (case, difference) = shrink::shrink_case(case, difference, &*factory, Duration::from_secs(60));
            panic!("{}", report::render_report(&case, &difference, "jit", &format!("DIFFER_SEED={seed}")));
        }
        events.count(&case);
    }
    println!("{tally}\n{events:?}");
    let handed = |reason: &str| tally.handed.get(reason).copied().unwrap_or(0);
    assert_eq!([handed("add_on_miss"), handed("idle_timeout")], [0, 0], "{tally}");
    assert!(tally.native() >= tally.packets * 3 / 4, "few packets ran on native code: {tally}");
    let FlowEvents { misses, added, hit_in_batch, expired } = events;
    assert!(misses >= 10_000 && added >= 1_000 && hit_in_batch >= 1_000 && expired >= 300, "{events:?}");
    let uses = |feature: &str| tally.features.get(feature).copied().unwrap_or(0);
    for feature in ["add_entry", "allocate_flow_id", "restart_expire_timer", "set_entry_expire_time"] {
        assert!(uses(feature) >= CASES / 20, "{feature}: {}\n{:?}", uses(feature), tally.features);
    }
}
