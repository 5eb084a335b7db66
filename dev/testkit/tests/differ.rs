//! The short differential run: engines against the interpreter on random programs, entries and packets, and the proof that the harness
//! sees faults. The long run is `cargo run --release -p testkit --example differ -- --minutes 30`.

use std::time::{Duration, Instant};
use testkit::differ::broken::Fault;
use testkit::differ::case::Source;
use testkit::differ::config::Config;
use testkit::differ::run::{Difference, Kind};
use testkit::differ::tally::Tally;
use testkit::differ::{case::Case, plan, print, report, run, shrink, subjects};

/// Cases of each short run. Their number is fixed, not their time: a slow machine must not compare less.
const CASES: u64 = 300;

/// The first seed: another one with `DIFFER_SEED`.
fn first_seed() -> u64 {
    std::env::var("DIFFER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_000)
}

/// Runs cases on a subject; the first difference, made small, is a panic.
fn compare(subject: &str, cases: u64) -> Tally {
    let factory = subjects::factory(subject).expect("an engine of that name");
    let mut tally = Tally::default();
    for seed in first_seed()..first_seed() + cases {
        let case = plan::case(seed, &Config::small());
        let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        if let Err(difference) = run::run(&case, &*factory, &mut tally) {
            let (case, difference) = shrink::shrink(case, difference, &*factory, Duration::from_secs(60));
            let rerun = format!(
                "cargo run --release -p testkit --example differ -- --small --cases 1 --subject {subject} --seed {seed}"
            );
            panic!("{}", report::report(&case, &difference, subject, &rerun));
        }
    }
    println!("{subject}: {tally}");
    tally
}

/// A harness that compares too little says nothing.
fn assert_enough(tally: &Tally, cases: u64) {
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

/// Native code does what the interpreter does, and most packets run on it.
#[test]
fn native_code_is_the_interpreter() {
    let tally = compare("jit", CASES);
    assert_enough(&tally, CASES);
    assert!(tally.native() >= tally.packets / 4, "few packets ran on native code: {tally}");
}

/// A program that has ended the process once: a selector's keys in a table without a profile.
#[test]
fn what_once_crashed_does_not() {
    let case = plan::case(700_393, &Config::small()).unwrap_or_else(|refused| panic!("{}", refused.text));
    let mut tally = Tally::default();
    let factory = subjects::factory("jit").expect("an engine of that name");
    if let Err(difference) = run::run(&case, &*factory, &mut tally) {
        panic!("{}", report::report(&case, &difference, "jit", "cargo test -p testkit --test differ"));
    }
    assert!(tally.native() > 0, "{tally}");
}

/// The gateway with random regions, on native code: not one packet is handed to the interpreter.
#[test]
fn native_code_serves_the_gateway() {
    let factory = subjects::factory("jit").expect("an engine of that name");
    let mut tally = Tally::default();
    for seed in first_seed()..first_seed() + 4 {
        let case = plan::gateway(seed, 600).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        if let Err(difference) = run::run(&case, &*factory, &mut tally) {
            let (case, difference) = shrink::shrink(case, difference, &*factory, Duration::from_secs(60));
            panic!(
                "{}",
                report::report(&case, &difference, "jit", "DIFFER_SEED=N cargo test -p testkit --test differ")
            );
        }
    }
    assert!(tally.packets == 2400 && tally.handed.is_empty(), "{tally}");
    assert!(
        tally.forwarded >= 50 && tally.hits >= 200 && tally.drops.len() + usize::from(tally.to_cpu > 0) >= 2,
        "{tally}"
    );
}

/// The IR's passes keep the meaning of programs.
#[test]
fn passes_change_nothing() {
    let tally = compare("interp-without-passes", CASES);
    assert_enough(&tally, CASES);
}

/// The first difference that a faulty subject shows, within so many cases.
fn find(fault: Fault) -> Option<(u64, Case, Difference)> {
    let factory = subjects::factory(&format!("broken:{fault:?}")).expect("a fault of that name");
    (0..150).find_map(|seed| {
        let case = plan::case(seed, &Config::small()).ok()?;
        let difference = run::run(&case, &*factory, &mut Tally::default()).err()?;
        Some((seed, case, difference))
    })
}

#[test]
fn every_fault_is_seen() {
    let blind: Vec<Fault> = Fault::ALL.into_iter().filter(|fault| find(*fault).is_none()).collect();
    assert!(blind.is_empty(), "the harness is blind for {blind:?}");
}

#[test]
fn the_kind_of_a_fault_is_known() {
    for (fault, kind) in [
        (Fault::Panic, Kind::Panic),
        (Fault::Bit, Kind::Output),
        (Fault::Counter, Kind::State),
        (Fault::Idle, Kind::State),
    ] {
        let (seed, _, difference) = find(fault).expect("a difference");
        assert_eq!(difference.kind, kind, "{fault:?}, seed {seed}: {}", difference.what);
    }
}

/// A wrong operator is brought down to few packets, and the small case still shows it. (How small the program becomes is a matter of
/// time, of which `examples/differ.rs` has more.)
#[test]
fn differences_are_made_small() {
    let (seed, case, difference) = find(Fault::Operator).expect("a difference");
    let factory = subjects::factory("broken:Operator").expect("a fault of that name");
    let lines = |case: &Case| match &case.source {
        Source::Made(program) => print::print(program).lines().count(),
        Source::File(_) => 0,
    };
    let before = (lines(&case), case.packets());
    let start = Instant::now();
    let (case, difference) = shrink::shrink(case, difference, &*factory, Duration::from_secs(20));
    let report = report::report(&case, &difference, "broken:Operator", "");
    println!("seed {seed}, in {:?}, from {before:?}:\n{report}", start.elapsed());
    assert!(case.packets() <= 2, "{} packets are left\n{report}", case.packets());
    assert!(lines(&case) <= before.0, "{} lines are left\n{report}", lines(&case));
    assert!(run::run(&case, &*factory, &mut Tally::default()).is_err(), "the small case shows nothing");
    let sound = subjects::factory("interp").expect("an engine of that name");
    assert!(run::run(&case, &*sound, &mut Tally::default()).is_ok(), "the small case is the harness's own fault");
}

/// The same seed makes the same case.
#[test]
fn cases_repeat() {
    let [a, b] = [0, 1].map(|_| plan::case(7, &Config::small()).expect("a program that compiles"));
    assert_eq!(a.steps, b.steps);
    assert_eq!(format!("{:?}", a.source), format!("{:?}", b.source));
}
