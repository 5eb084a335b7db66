//! Compares native code's records of packets with the interpreter: their paths, table applications,
//! and counts. Uses random programs and the gateway, with updates between packets. Deferred counts
//! must have the same effect in both.

mod both;
mod by_hand;
mod noter;

use both::Seen;
use std::time::{Duration, Instant};
use testkit::differ::case::{ProgramSource, TestCase};
use testkit::differ::config::Config;
use testkit::differ::{env_number, plan, print};

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, more: Seen) {
        self.programs += more.programs;
        self.handed += more.handed;
        self.packets += more.packets;
        self.applications += more.applications;
        self.found += more.found;
        self.keyless += more.keyless;
        self.counts += more.counts;
        self.ways += more.ways;
        self.again += more.again;
        self.incomplete += more.incomplete;
        self.readers += more.readers;
        self.recirculated += more.recirculated;
        self.credits += more.credits;
        self.gone += more.gone;
        self.writes += more.writes;
    }
}

fn run(case: &TestCase) -> Seen {
    both::run(case).unwrap_or_else(|what| {
        let text = match &case.source {
            ProgramSource::Made(program) => print::print_program(program),
            ProgramSource::File(name) => name.clone(),
        };
        panic!("DIFFER_SEED={}: {what}\n{text}", case.seed)
    })
}

/// Random programs. `DIFFER_SECONDS` sets a minimum duration.
#[test]
fn records_are_what_the_interpreter_does() {
    let (first, cases) = (env_number("DIFFER_SEED", 70_000), env_number("DIFFER_CASES", 200));
    let until = Instant::now() + Duration::from_secs(env_number("DIFFER_SECONDS", 0));
    let (mut seen, mut seed) = (Seen::default(), first);
    while seed < first + cases || Instant::now() < until {
        let case = plan::generate_case(seed, &Config::small().plain());
        let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        seen += run(&case);
        seed += 1;
    }
    println!("seeds {first}..{seed}: {seen:?}");
    let cases = seed - first;
    assert!(seen.programs >= cases / 3, "few programs are native: {seen:?}");
    assert!(seen.packets >= seen.programs * 100, "few packets: {seen:?}");
    assert!(seen.applications >= seen.packets / 2 && seen.keyless > 0, "few tables were asked: {seen:?}");
    assert!(seen.found >= seen.packets / 20, "few entries were found: {seen:?}");
    assert!(seen.counts >= seen.packets / 100, "little was counted: {seen:?}");
    assert!(seen.ways >= seen.programs * 3 && seen.again >= seen.packets / 10, "few ways: {seen:?}");
    assert!(seen.incomplete <= seen.packets / 100, "too much is not complete: {seen:?}");
    assert!(seen.readers >= 100, "few packets have flow state: {seen:?}");
    assert!(seen.credits >= seen.programs && seen.gone > 0 && seen.writes >= seen.programs, "few changes: {seen:?}");
}

/// The gateway with random regions.
#[test]
fn records_of_the_gateway() {
    let first = env_number("DIFFER_SEED", 70_000);
    let until = Instant::now() + Duration::from_secs(env_number("DIFFER_SECONDS", 0));
    let (mut seen, mut seed) = (Seen::default(), first);
    while seed < first + 4 || Instant::now() < until {
        seen += run(&plan::gateway_case(seed, 600).unwrap_or_else(|error| panic!("seed {seed}: {error}")));
        seed += 1;
    }
    println!("seeds {first}..{seed}: {seen:?}");
    assert!(seen.handed == 0 && seen.packets == (seed - first) * 600, "{seen:?}");
    assert!(seen.incomplete == seen.recirculated && seen.recirculated > 100, "{seen:?}");
    assert!(seen.found >= seen.packets / 4 && seen.counts >= seen.packets / 20 && seen.ways >= 40, "{seen:?}");
}
