//! Tests the gateway with random regions on the chip: one pipe, two and four folded ones, tables in
//! parts.

use super::{Sabotage, first_seed, subject};
use testkit::differ::coverage::TestCoverage;
use testkit::differ::{plan, run};

/// Verdicts, bytes, drop reasons and counters equal the interpreter's, and no packet violates the
/// chip's rules.
#[test]
fn the_gateway_runs_on_the_chip() {
    let mut tally = TestCoverage::default();
    let before = subject::totals();
    for seed in first_seed()..first_seed() + 12 {
        let case = plan::switch_gateway_case(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let factory = subject::factory(seed, Sabotage::None);
        if let Err(difference) = run::run_case(&case, &*factory, &mut tally) {
            panic!("DIFFER_SEED={seed}: {:?} in step {}: {}", difference.kind, difference.step, difference.what);
        }
    }
    let totals = subject::totals().since(&before);
    println!("DIFFER_SEED={}: {totals:?}\n{tally}", first_seed());
    assert!(tally.packets == 12 * 400 && tally.forwarded >= 100 && tally.hits >= 400, "{tally}");
    assert!(totals.folded >= 3 && totals.parts >= 3 && totals.crossings >= tally.packets / 10, "{totals:?}");
}
