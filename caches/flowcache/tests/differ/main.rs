//! Flow caches against the interpreter: random programs, entries, updates and packets, with every kind of cache, most of them so small that segments
//! go all the time; and the gateway.

mod subject;

use std::time::Instant;
use subject::{Sabotage, TOTALS};
use testkit::differ::agree::{again, agrees};
use testkit::differ::case::{Case, PacketIn};
use testkit::differ::config::Config;
use testkit::differ::number;
use testkit::differ::run::Difference;
use testkit::differ::tally::Tally;
use testkit::differ::{plan, run};

/// The first seed: another one with `DIFFER_SEED`.
fn first_seed() -> u64 {
    number("DIFFER_SEED", 61_000)
}

/// A byte changed.
fn changed(packet: &PacketIn, rng: &mut fastrand::Rng) -> PacketIn {
    let mut packet = packet.clone();
    if let Some(byte) = (!packet.bytes.is_empty()).then(|| rng.usize(0..packet.bytes.len())) {
        packet.bytes[byte] ^= 1 << rng.u8(0..8);
    }
    packet
}

fn random(seed: u64) -> Case {
    let case = plan::case(seed, &Config::small());
    let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
    again(case, seed, 1, changed)
}

fn one(case: &Case, seed: u64, sabotage: Sabotage, tally: &mut Tally) -> Result<(), Difference> {
    run::run(case, &*subject::factory(seed, sabotage), tally)
}

fn checked(case: Case, seed: u64, tally: &mut Tally) {
    let name = format!("flowcache, {:?},", subject::config(seed));
    let rerun = format!("DIFFER_SEED={seed} DIFFER_CASES=1 cargo test -p flowcache --test differ");
    agrees(case, &*subject::factory(seed, Sabotage::None), (&name, &rerun), tally);
}

/// Random programs do what they do without a cache. `DIFFER_SECONDS` makes it as long as wanted.
#[test]
fn a_cache_is_the_interpreter() {
    let (cases, seconds) = (number("DIFFER_CASES", 240), number("DIFFER_SECONDS", 0));
    let mut tally = Tally::default();
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
        assert!(totals.misses > 0 && totals.partial > 0 && totals.left > 0, "{totals:?}");
        assert!(totals.evicted > 0 && totals.stale > 0 && totals.shared > 0 && totals.expired > 0, "{totals:?}");
        // Ways are cut by what was measured, and some packets go through the tables twice.
        assert!(totals.measured > cases && totals.passed_again > 0, "{totals:?}");
        assert!(totals.cut > 0 && !totals.uncacheable.is_empty(), "{totals:?}");
    }
}

/// Programs that have shown a fault once: values that were made for one way out of a decision only; keys of one table held to entries of another; members
/// of a union that a copy leaves alone; a packet that was imagined with fields of a header that it did not have.
#[test]
fn what_once_differed() {
    for seed in [900_871, 2_001_077, 5_000_762, 702_524] {
        checked(random(seed), seed, &mut Tally::default());
    }
}

/// The gateway, with random regions.
#[test]
fn a_cache_is_the_gateway() {
    let mut tally = Tally::default();
    for seed in first_seed()..first_seed() + number("DIFFER_GATEWAYS", 8) {
        let case = plan::gateway(seed, 400).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        checked(again(case, seed, 1, changed), seed, &mut tally);
    }
    println!("{tally}");
    assert!(tally.packets >= 8 * 1_200 && tally.forwarded > tally.packets / 20, "{tally}");
}

/// The harness sees it when tables change behind the cache's back.
#[test]
fn what_is_stale_is_seen() {
    let found = (first_seed()..first_seed() + 60)
        .filter(|seed| one(&random(*seed), *seed, Sabotage::Stale, &mut Tally::default()).is_err())
        .count();
    assert!(found >= 5, "only {found} of 60 programs differ when nothing is ever stale");
}
