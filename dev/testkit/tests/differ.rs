//! Short differential run: compares engines with the interpreter on random programs, entries and
//! packets, and proves that the harness detects faults. The long run is `cargo run --release -p
//! testkit --example differ -- --minutes 30`.

use std::time::{Duration, Instant};
use testkit::differ::case::ProgramSource;
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::injected_faults::InjectedFault;
use testkit::differ::run::{Mismatch, MismatchKind};
use testkit::differ::{case::TestCase, plan, print, report, run, shrink, subjects};

/// Cases of each short run. Their number is fixed, not their time, because a slow machine must not
/// compare less.
const CASES: u64 = 300;

/// Returns the first seed, which `DIFFER_SEED` overrides.
fn first_seed() -> u64 {
    std::env::var("DIFFER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_000)
}

/// Runs cases on a subject. Shrinks the first difference and panics with it.
fn compare(subject: &str, cases: u64) -> TestCoverage {
    let factory = subjects::factory(subject).expect("an engine of that name");
    let mut tally = TestCoverage::default();
    for seed in first_seed()..first_seed() + cases {
        let case = plan::generate_case(seed, &Config::small());
        let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
            let (case, difference) = shrink::shrink_case(case, difference, &*factory, Duration::from_secs(60));
            let rerun = format!(
                "cargo run --release -p testkit --example differ -- --small --cases 1 --subject {subject} --seed {seed}"
            );
            panic!("{}", report::render_report(&case, &difference, subject, &rerun));
        }
    }
    println!("{subject}: {tally}");
    tally
}

/// Asserts that the harness compared enough to be meaningful.
fn assert_enough(tally: &TestCoverage, cases: u64) {
    let drops: u64 = tally.drops.values().sum();
    assert!(tally.programs >= cases * 9 / 10, "{tally}");
    assert!(tally.packets >= cases * 100, "{tally}");
    assert!(tally.forwarded >= tally.packets / 3, "{tally}");
    assert!(drops >= tally.packets / 100 && tally.drops.len() >= 3, "{tally}");
    assert!(tally.to_cpu > 0 && tally.copies > 0 && tally.messages > 0, "{tally}");
    assert!(tally.hits >= tally.packets / 100 && tally.misses >= tally.packets / 100, "{tally}");
    assert!(tally.writes >= cases && tally.refused_writes > 0, "{tally}");
    assert!(tally.states >= cases * 2, "{tally}");
    assert!(tally.features.len() >= 220, "{tally}\n{:?}", tally.features);
}

#[test]
fn the_interpreter_in_batches_is_the_interpreter() {
    assert_enough(&compare("interp", CASES), CASES);
}

/// Native code agrees with the interpreter, and most packets run on it.
#[test]
fn native_code_is_the_interpreter() {
    let tally = compare("jit", CASES);
    assert_enough(&tally, CASES);
    assert!(tally.native() >= tally.packets / 4, "few packets ran on native code: {tally}");
}

/// The same with a stage at each node at which one can start: programs of this size have none otherwise.
#[test]
fn native_code_with_stages_at_joins_is_the_interpreter() {
    jit::set_max_copied_insts(0);
    let with_joins = |seed: &u64| {
        let case = plan::generate_case(*seed, &Config::small()).unwrap_or_else(|refused| panic!("{}", refused.text));
        jit::Jit::new(case.pipeline, case.setup).is_ok_and(|engine| engine.join_stage_count() > 0)
    };
    // Most of the others have a register or a counter of an entry behind each point where paths meet.
    let joined = (first_seed()..first_seed() + CASES).filter(with_joins).count();
    assert!(joined >= 10, "{joined} of {CASES} programs have joins");
    let tally = compare("jit", CASES);
    assert_enough(&tally, CASES);
    assert!(tally.native() >= tally.packets / 4, "few packets ran on native code: {tally}");
}

/// Regression: a selector's keys in a table without a profile once ended the process.
#[test]
fn what_once_crashed_does_not() {
    let case = plan::generate_case(700_393, &Config::small()).unwrap_or_else(|refused| panic!("{}", refused.text));
    let mut tally = TestCoverage::default();
    let factory = subjects::factory("jit").expect("an engine of that name");
    if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
        panic!("{}", report::render_report(&case, &difference, "jit", "cargo test -p testkit --test differ"));
    }
    assert!(tally.native() > 0, "{tally}");
}

/// The gateway with random regions on native code: no packet falls back to the interpreter.
#[test]
fn native_code_serves_the_gateway() {
    let factory = subjects::factory("jit").expect("an engine of that name");
    let mut tally = TestCoverage::default();
    for seed in first_seed()..first_seed() + 4 {
        let case = plan::gateway_case(seed, 600).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
            let (case, difference) = shrink::shrink_case(case, difference, &*factory, Duration::from_secs(60));
            panic!(
                "{}",
                report::render_report(&case, &difference, "jit", "DIFFER_SEED=N cargo test -p testkit --test differ")
            );
        }
    }
    assert!(tally.packets == 2400 && tally.handed.is_empty(), "{tally}");
    assert!(
        tally.forwarded >= 50 && tally.hits >= 200 && tally.drops.len() + usize::from(tally.to_cpu > 0) >= 2,
        "{tally}"
    );
}

/// The IR's passes preserve the meaning of programs.
#[test]
fn passes_change_nothing() {
    let tally = compare("interp-without-passes", CASES);
    assert_enough(&tally, CASES);
}

/// Returns the first difference of a faulty subject within this number of cases.
fn find(fault: InjectedFault) -> Option<(u64, TestCase, Mismatch)> {
    let factory = subjects::factory(&format!("broken:{fault:?}")).expect("a fault of that name");
    (0..150).find_map(|seed| {
        let case = plan::generate_case(seed, &Config::small()).ok()?;
        let difference = run::run_case(&case, &*factory, &mut TestCoverage::default()).err()?;
        Some((seed, case, difference))
    })
}

#[test]
fn every_fault_is_seen() {
    let blind: Vec<InjectedFault> = InjectedFault::ALL.into_iter().filter(|fault| find(*fault).is_none()).collect();
    assert!(blind.is_empty(), "the harness is blind for {blind:?}");
}

#[test]
fn the_kind_of_a_fault_is_known() {
    for (fault, kind) in [
        (InjectedFault::Panic, MismatchKind::Panic),
        (InjectedFault::Bit, MismatchKind::Output),
        (InjectedFault::Counter, MismatchKind::State),
        (InjectedFault::Idle, MismatchKind::State),
    ] {
        let (seed, _, difference) = find(fault).expect("a difference");
        assert_eq!(difference.kind, kind, "{fault:?}, seed {seed}: {}", difference.what);
    }
}

/// A case with a wrong operator shrinks to few packets and still fails. (The size of the program
/// depends on the time, of which `examples/differ.rs` has more.)
#[test]
fn differences_are_made_small() {
    let (seed, case, difference) = find(InjectedFault::Operator).expect("a difference");
    let factory = subjects::factory("broken:Operator").expect("a fault of that name");
    let lines = |case: &TestCase| match &case.source {
        ProgramSource::Made(program) => print::print_program(program).lines().count(),
        ProgramSource::File(_) => 0,
    };
    let before = (lines(&case), case.packets());
    let start = Instant::now();
    let (case, difference) = shrink::shrink_case(case, difference, &*factory, Duration::from_secs(20));
    let report = report::render_report(&case, &difference, "broken:Operator", "");
    println!("seed {seed}, in {:?}, from {before:?}:\n{report}", start.elapsed());
    assert!(case.packets() <= 2, "{} packets are left\n{report}", case.packets());
    assert!(lines(&case) <= before.0, "{} lines are left\n{report}", lines(&case));
    assert!(run::run_case(&case, &*factory, &mut TestCoverage::default()).is_err(), "the small case shows nothing");
    let sound = subjects::factory("interp").expect("an engine of that name");
    assert!(
        run::run_case(&case, &*sound, &mut TestCoverage::default()).is_ok(),
        "the small case is the harness's own fault"
    );
}

/// The same seed generates the same case.
#[test]
fn cases_repeat() {
    let [a, b] = [0, 1].map(|_| plan::generate_case(7, &Config::small()).expect("a program that compiles"));
    assert_eq!(a.steps, b.steps);
    assert_eq!(format!("{:?}", a.source), format!("{:?}", b.source));
}
