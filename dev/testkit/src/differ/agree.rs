//! Asserts that a test case shows no mismatch, and builds cases that exercise caches of the engine
//! under test.

use super::case::{PacketIn, TestCase, TestEvent};
use super::coverage::TestCoverage;
use super::report::render_report;
use super::run::run_case;
use super::shrink::shrink_case;
use super::subject::Factory;
use fastrand::Rng;
use std::time::Duration;

/// Time limit for shrinking a case.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a case. On a mismatch, panics with a report on a shrunk case. `subject` is the name of the
/// engine under test, `rerun` the command that reproduces the case.
pub fn agrees(case: TestCase, factory: Factory<'_>, (subject, rerun): (&str, &str), tally: &mut TestCoverage) {
    if let Err(difference) = run_case(&case, factory, tally) {
        let (case, difference) = shrink_case(case, difference, factory, PATIENCE);
        panic!("{}", render_report(&case, &difference, subject, rerun));
    }
}

/// Repeats the packets of each step: `times` times as modified by `near`, and then once unmodified.
/// Cached state must be used for packets that match it, and for no others.
pub fn repeat_packets(
    mut case: TestCase,
    seed: u64,
    times: usize,
    near: impl Fn(&PacketIn, &mut Rng) -> PacketIn,
) -> TestCase {
    let mut rng = Rng::with_seed(seed);
    let mut steps = Vec::new();
    for step in case.steps {
        let mut repeats = Vec::new();
        if let TestEvent::Packets(packets) = &step {
            let mut modified = || TestEvent::Packets(packets.iter().map(|packet| near(packet, &mut rng)).collect());
            repeats.extend((0..times).map(|_| modified()));
            repeats.push(step.clone());
        }
        steps.push(step);
        steps.extend(repeats);
    }
    case.steps = steps;
    case
}
