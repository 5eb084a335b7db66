//! Compares flow caches with the interpreter: random programs, entries, updates and packets, and
//! the gateway. Covers every cache kind; most caches are so small that they evict constantly.

mod subject;

use std::time::Instant;
use subject::{Sabotage, TOTALS};
use testkit::differ::agree::{agrees, repeat_packets};
use testkit::differ::case::{PacketIn, TestCase};
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::env_number;
use testkit::differ::run::Mismatch;
use testkit::differ::{plan, run};

/// Returns the first seed, which `DIFFER_SEED` overrides.
fn first_seed() -> u64 {
    env_number("DIFFER_SEED", 61_000)
}

/// Returns the packet with one byte changed.
fn changed(packet: &PacketIn, rng: &mut fastrand::Rng) -> PacketIn {
    let mut packet = packet.clone();
    if let Some(byte) = (!packet.bytes.is_empty()).then(|| rng.usize(0..packet.bytes.len())) {
        packet.bytes[byte] ^= 1 << rng.u8(0..8);
    }
    packet
}

fn random(seed: u64) -> TestCase {
    let case = plan::generate_case(seed, &Config::small());
    let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
    repeat_packets(case, seed, 1, changed)
}

fn run_case(case: &TestCase, seed: u64, sabotage: Sabotage, tally: &mut TestCoverage) -> Result<(), Mismatch> {
    run::run_case(case, &*subject::factory(seed, sabotage), tally)
}

fn checked(case: TestCase, seed: u64, tally: &mut TestCoverage) {
    let name = format!("flowcache, {:?},", subject::config(seed));
    let rerun = format!("DIFFER_SEED={seed} DIFFER_CASES=1 cargo test -p flowcache --test differ");
    agrees(case, &*subject::factory(seed, Sabotage::None), (&name, &rerun), tally);
}

/// Random programs behave as without a cache. `DIFFER_SECONDS` sets a minimum duration.
#[test]
fn a_cache_is_the_interpreter() {
    let (cases, seconds) = (env_number("DIFFER_CASES", 240), env_number("DIFFER_SECONDS", 0));
    let mut tally = TestCoverage::default();
    let start = Instant::now();
    let mut seed = first_seed();
    while seed < first_seed() + cases || start.elapsed().as_secs() < seconds {
        checked(random(seed), seed, &mut tally);
        seed += 1;
    }
    let totals = TOTALS.lock().expect("nobody panics with it").clone().unwrap_or_default();
    println!("DIFFER_SEED={} {} cases\n{totals:?}\n{tally}", first_seed(), seed - first_seed());
    if cases >= 100 {
        assert!(tally.packets >= cases * 200 && tally.forwarded >= tally.packets / 4, "{tally}");
        assert!(totals.hits >= totals.packets / 5, "{totals:?}");
        assert!(totals.misses > 0 && totals.partial > 0 && totals.diverged > 0, "{totals:?}");
        assert!(totals.evicted > 0 && totals.stale > 0 && totals.shared > 0 && totals.expired > 0, "{totals:?}");
        // Measurements determine the splits, and some packets pass the tables twice.
        assert!(totals.split_by_samples > cases && totals.second_passes > 0, "{totals:?}");
        assert!(totals.split_traversals > 0 && !totals.uncacheable.is_empty(), "{totals:?}");
    }
}

/// Regression cases. Values computed for only one outcome of a decision; keys of one table compared
/// with entries of another; union members that a copy leaves unchanged; a synthetic packet with
/// fields of a header that it did not have.
#[test]
fn what_once_differed() {
    for seed in [900_871, 2_001_077, 5_000_762, 702_524] {
        checked(random(seed), seed, &mut TestCoverage::default());
    }
}

/// Compares on the gateway with random regions.
#[test]
fn a_cache_is_the_gateway() {
    let mut tally = TestCoverage::default();
    for seed in first_seed()..first_seed() + env_number("DIFFER_GATEWAYS", 8) {
        let case = plan::gateway_case(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        checked(repeat_packets(case, seed, 1, changed), seed, &mut tally);
    }
    println!("{tally}");
    assert!(tally.packets >= 8 * 1_200 && tally.forwarded > tally.packets / 20, "{tally}");
}

/// The harness detects table changes that bypass the cache.
#[test]
fn what_is_stale_is_seen() {
    let found = (first_seed()..first_seed() + 60)
        .filter(|seed| run_case(&random(*seed), *seed, Sabotage::Stale, &mut TestCoverage::default()).is_err())
        .count();
    assert!(found >= 5, "only {found} of 60 programs differ when nothing is ever stale");
}
