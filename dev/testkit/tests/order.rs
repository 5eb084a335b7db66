//! Compares the evaluation order on every engine with a direct implementation of the specification,
//! on random programs full of side effects. `ORDER_SEED` sets the first seed, `ORDER_PROGRAMS` the
//! number of programs.

use std::ops::Range;
use std::time::Duration;
use testkit::differ::env_number;
use testkit::order::compare::{OrderCoverage, PACKETS, compare, packets};
use testkit::order::evaluate::WrongReading;
use testkit::order::{make_code, print, shrink};

/// Number of programs on the interpreter, and on native code, which takes longer to compile.
const PROGRAMS: [u64; 2] = [250, 100];

fn seeds(programs: u64) -> Range<u64> {
    let first = env_number("ORDER_SEED", 41_000);
    first..first + env_number("ORDER_PROGRAMS", programs)
}

/// Compares programs on an engine. Shrinks the first difference and panics with it.
fn run(engine: &str, programs: u64) -> OrderCoverage {
    let mut tally = OrderCoverage::default();
    for seed in seeds(programs) {
        let (program, packets) = (make_code::random_program(seed), packets(seed));
        match compare(&program, &packets, engine, None) {
            Ok(handed) => tally.add(&program, &packets, handed),
            Err(difference) => {
                let refused = |text: &str| text.starts_with("refused");
                let was_refused = refused(&difference);
                let fails = |smaller: &_| {
                    compare(smaller, &packets, engine, None).is_err_and(|text| refused(&text) == was_refused)
                };
                let small = shrink::shrink(program, fails, Duration::from_secs(60));
                let found = compare(&small, &packets, engine, None).expect_err("it still shows");
                panic!(
                    "{engine}, ORDER_SEED={seed}: {difference}\n\nmade small: {found}\n{}",
                    print::print_program(&small)
                );
            }
        }
    }
    println!("{engine}, seeds {:?}: {tally:#?}", seeds(programs));
    tally
}

/// Asserts that a misreading of the specification would have been visible.
fn assert_enough(tally: &OrderCoverage) {
    let programs = tally.programs;
    assert_eq!(tally.packets, programs * PACKETS as u64);
    for wrong in WrongReading::ALL {
        let [packets, shown] = tally.decided[&format!("{wrong:?}")];
        assert!(shown >= programs / 50 && packets >= programs / 10, "few programs decide on {wrong:?}: {tally:#?}");
    }
}

#[test]
fn the_interpreter_evaluates_in_order() {
    assert_enough(&run("interp", PROGRAMS[0]));
}

#[test]
fn programs_without_passes_evaluate_in_order() {
    assert_enough(&run("interp-without-passes", PROGRAMS[0]));
}

#[test]
fn native_code_evaluates_in_order() {
    let tally = run("jit", PROGRAMS[1]);
    assert_enough(&tally);
    let handed: u64 = tally.handed.values().sum();
    assert!(handed <= tally.packets / 2, "few packets ran on native code: {tally:#?}");
}

/// Each misreading is detected, so the comparison can fail.
#[test]
fn a_wrong_order_shows() {
    for wrong in WrongReading::ALL {
        let shows =
            |seed: u64| compare(&make_code::random_program(seed), &packets(seed), "interp", Some(wrong)).is_err();
        assert!(seeds(PROGRAMS[0]).any(shows), "{wrong:?} goes unnoticed");
    }
}
