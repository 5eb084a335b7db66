//! Compares the emulated switch with the interpreter: random programs with random placements,
//! entries, updates and packets; the gateway with random regions, folded and not; and rejections.

mod compressed;
mod decided;
mod gateway;
mod placing;
mod refuses;
mod subject;

use std::time::Duration;
use subject::Sabotage;
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::env_number;
use testkit::differ::run::{Mismatch, MismatchKind};
use testkit::differ::{case::TestCase, plan, report, run, shrink};

/// Returns the first seed, which `DIFFER_SEED` overrides.
fn first_seed() -> u64 {
    env_number("DIFFER_SEED", 41_000)
}

/// Amounts compared.
#[derive(Default, Debug)]
struct Seen {
    tally: TestCoverage,
    /// Programs that no chip can run, by reason.
    refused: std::collections::BTreeMap<String, u64>,
    programs: u64,
}

fn run_case(case: &TestCase, seed: u64, sabotage: Sabotage, seen: &mut Seen) -> Result<(), Box<(TestCase, Mismatch)>> {
    let factory = subject::factory(seed, sabotage);
    match run::run_case(case, &*factory, &mut seen.tally) {
        Err(Mismatch { kind: MismatchKind::Refused, what, .. }) => {
            let kind = what.split(':').next().unwrap_or_default().to_owned();
            *seen.refused.entry(kind).or_default() += 1;
            Ok(())
        }
        Err(difference) => Err(Box::new((case.clone(), difference))),
        Ok(()) => {
            seen.programs += 1;
            Ok(())
        }
    }
}

/// Random programs on random placements agree with the interpreter.
#[test]
fn the_emulated_switch_is_the_interpreter() {
    let cases = env_number("DIFFER_CASES", 300);
    let mut seen = Seen::default();
    let before = subject::totals();
    for seed in first_seed()..first_seed() + cases {
        let case = plan::generate_case(seed, &Config::small());
        let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
        if let Err(found) = run_case(&case, seed, Sabotage::None, &mut seen) {
            let (case, difference) = *found;
            let factory = subject::factory(seed, Sabotage::None);
            let (case, difference) = shrink::shrink_case(case, difference, &*factory, Duration::from_secs(30));
            let rerun = format!("DIFFER_SEED={seed} DIFFER_CASES=1 cargo test -p asic --test emulated");
            panic!("{}", report::render_report(&case, &difference, "asic", &rerun));
        }
    }
    let totals = subject::totals().since(&before);
    println!(
        "DIFFER_SEED={} {} cases, {} on the chip; {totals:?}; refused {:?}\n{}",
        first_seed(),
        cases,
        seen.programs,
        seen.refused,
        seen.tally
    );
    let tally = &seen.tally;
    assert!(seen.programs >= cases * 7 / 10, "few programs run on the chip: {:?}", seen.refused);
    assert!(tally.packets >= cases * 80 && tally.forwarded >= tally.packets / 4, "{tally}");
    assert!(tally.hits > 0 && tally.misses > 0 && tally.copies > 0, "{tally}");
    assert!(totals.crossings >= tally.packets / 2, "{totals:?}");
    assert!(totals.bits > totals.crossings * 8, "{totals:?}");
    assert!(totals.backwards >= cases / 30, "{totals:?}");
    assert!(totals.folded >= cases / 10 && totals.split >= cases / 50 && totals.parts >= cases / 5, "{totals:?}");
}

/// The harness detects a live value that is not carried.
#[test]
fn a_hole_in_the_bridge_is_seen() {
    let mut found = 0;
    for seed in first_seed()..first_seed() + 40 {
        let Ok(case) = plan::generate_case(seed, &Config::small()) else { continue };
        found += u32::from(run_case(&case, seed, Sabotage::Forget, &mut Seen::default()).is_err());
    }
    assert!(found >= 5, "only {found} of 40 programs differ when bridges have holes");
}

/// The harness detects tables in stages that are too early: the chip rejects packets with a reason.
#[test]
fn a_wrong_stage_is_seen() {
    let (mut found, before) = (0, subject::totals());
    for seed in first_seed()..first_seed() + 60 {
        let Ok(case) = plan::generate_case(seed, &Config::small()) else { continue };
        found += u32::from(run_case(&case, seed, Sabotage::OneStage, &mut Seen::default()).is_err());
    }
    let violations = subject::totals().since(&before).violations;
    assert!(found >= 3 && violations > 0, "only {found} of 60 programs differ when all tables are in one stage");
}
