//! A case that must show no difference, and cases that use what a subject remembers.

use super::case::{Case, PacketIn, Step};
use super::report::report;
use super::run::run;
use super::shrink::shrink;
use super::subject::Factory;
use super::tally::Tally;
use fastrand::Rng;
use std::time::Duration;

/// For so long a case is made smaller.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a case, and panics with a report on a small one if there is a difference. `subject` is what it is called there, `rerun` the command that makes it again.
pub fn agrees(case: Case, factory: Factory<'_>, (subject, rerun): (&str, &str), tally: &mut Tally) {
    if let Err(difference) = run(&case, factory, tally) {
        let (case, difference) = shrink(case, difference, factory, PATIENCE);
        panic!("{}", report(&case, &difference, subject, rerun));
    }
}

/// The packets of each step once more so many times with what `near` makes of each, and once more as they are: what is remembered must be used, and must not be
/// used for others.
pub fn again(mut case: Case, seed: u64, times: usize, near: impl Fn(&PacketIn, &mut Rng) -> PacketIn) -> Case {
    let mut rng = Rng::with_seed(seed);
    let mut steps = Vec::new();
    for step in case.steps {
        let mut more = Vec::new();
        if let Step::Packets(packets) = &step {
            let mut like = || Step::Packets(packets.iter().map(|packet| near(packet, &mut rng)).collect());
            more.extend((0..times).map(|_| like()));
            more.push(step.clone());
        }
        steps.push(step);
        steps.extend(more);
    }
    case.steps = steps;
    case
}
