//! Compares rewrites with the interpreter: random programs, entries, updates, and packets of the
//! same flows with other payloads and lengths; and the gateway.

mod entries;
mod floods;
mod router;
mod subject;
mod ways;
mod workers;

use std::time::Instant;
use subject::{Sabotage, TOTALS, Totals};
use testkit::differ::agree::{agrees, repeat_packets};
use testkit::differ::case::{PacketIn, TestCase};
use testkit::differ::config::Config;
use testkit::differ::coverage::TestCoverage;
use testkit::differ::env_number;
use testkit::differ::run::Mismatch;
use testkit::differ::{plan, run};

/// Returns the first seed, which `DIFFER_SEED` overrides.
fn first_seed() -> u64 {
    env_number("DIFFER_SEED", 83_000)
}

/// Returns the packet with one bit changed, a longer or shorter payload, or other bytes at its end.
fn changed(packet: &PacketIn, rng: &mut fastrand::Rng) -> PacketIn {
    let mut packet = packet.clone();
    let bytes = &mut packet.bytes;
    let length = bytes.len();
    match rng.u8(0..6) {
        0 if length > 0 => bytes[rng.usize(0..length)] ^= 1 << rng.u8(0..8),
        1 => bytes.truncate(rng.usize(0..=length)),
        2 | 3 => bytes.extend((0..rng.usize(1..64)).map(|_| rng.u8(..))),
        4 if length > 40 => bytes.iter_mut().rev().take(16).for_each(|byte| *byte = rng.u8(..)),
        _ => {}
    }
    packet
}

/// Corrects the checksum of an IPv4 header.
fn fix_ipv4(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = header.chunks(2).fold(0u32, |sum, pair| sum + u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

fn add(field: &mut [u8], more: i32) {
    let value = i32::from(u16::from_be_bytes([field[0], field[1]])) + more;
    field[..2].copy_from_slice(&(value as u16).to_be_bytes());
}

/// Returns a packet of the same flow. IPv4 in VXLAN over IPv4 gets a longer or shorter payload,
/// other identifications and correct checksums; other packets change as by [`changed`].
fn same_flow(packet: &PacketIn, rng: &mut fastrand::Rng) -> PacketIn {
    let tunnelled = packet.bytes.len() >= 88
        && packet.bytes[12..14] == [8, 0]
        && packet.bytes[23] == 17
        && packet.bytes[62..64] == [8, 0];
    if !tunnelled || rng.u8(0..8) == 0 {
        return changed(packet, rng);
    }
    let mut packet = packet.clone();
    let bytes = &mut packet.bytes;
    let more = rng.i32(-((bytes.len() as i32 - 88).min(40))..60);
    bytes.resize((bytes.len() as i32 + more) as usize, rng.u8(..));
    bytes[84..].iter_mut().skip(8).for_each(|byte| *byte ^= 0x5a);
    for at in [16, 38, 66] {
        add(&mut bytes[at..at + 2], more);
    }
    bytes[68..70].copy_from_slice(&rng.u16(..).to_be_bytes());
    bytes[18..20].copy_from_slice(&rng.u16(..).to_be_bytes());
    let whole = rng.u8(0..10) != 0;
    if whole {
        fix_ipv4(&mut bytes[14..34]);
        fix_ipv4(&mut bytes[64..84]);
    }
    packet
}

/// Two of three programs rarely use features that prevent rewrites.
fn config(seed: u64) -> Config {
    let calm = Config {
        externs: 3,
        random: 0,
        passes: 0,
        multicast: 0,
        profiles: 0,
        add_on_miss: 0,
        idle: 30,
        varbits: 10,
        ..Config::small()
    };
    if seed.is_multiple_of(3) { Config::small() } else { calm }
}

fn random(seed: u64) -> TestCase {
    let case = plan::generate_case(seed, &config(seed));
    let case = case.unwrap_or_else(|refused| panic!("seed {seed}: {}\n{}", refused.text, refused.diagnostics));
    repeat_packets(case, seed, 2, changed)
}

fn run_case(case: &TestCase, seed: u64, sabotage: Sabotage, tally: &mut TestCoverage) -> Result<(), Mismatch> {
    run::run_case(case, &*subject::factory(seed, sabotage), tally)
}

fn checked(case: TestCase, seed: u64, tally: &mut TestCoverage) {
    let rerun = format!("DIFFER_SEED={seed} DIFFER_CASES=1 cargo test -p flowcache --test rewrites");
    agrees(case, &*subject::factory(seed, Sabotage::None), ("rewrites", &rerun), tally);
}

fn totals() -> Totals {
    TOTALS.lock().expect("nobody panics with it").take().unwrap_or_default()
}

/// Random programs, then the gateway with random regions, equal the interpreter. `DIFFER_SECONDS`
/// sets a minimum duration. This is one test, because the totals are shared.
#[test]
fn rewrites_are_the_interpreter() {
    let (cases, seconds) = (env_number("DIFFER_CASES", 240), env_number("DIFFER_SECONDS", 0));
    let mut tally = TestCoverage::default();
    let start = Instant::now();
    // Regression cases: a checksum wider than a word that is not updated after all; times that go
    // backwards; a length and a value that does not fit in 16 bits.
    for seed in [700_365, 701_120, 701_883, 902_528] {
        checked(random(seed), seed, &mut TestCoverage::default());
    }
    let mut seed = first_seed();
    while seed < first_seed() + cases || start.elapsed().as_secs() < seconds {
        checked(random(seed), seed, &mut tally);
        seed += 1;
    }
    let found = totals();
    println!("DIFFER_SEED={} {} cases\n{found:?}\n{tally}", first_seed(), seed - first_seed());
    assert_eq!(found.faults, 0, "a rewrite does not do what was done to the packet that it was made from");
    if cases >= 100 {
        assert!(tally.packets >= cases * 200, "{tally}");
        assert!(found.native >= found.packets / 20 && found.native_by_way >= found.native / 20, "{found:?}");
        assert!(found.by_workers >= found.packets / 400, "{found:?}");
        assert!(found.passed >= 300, "{found:?}");
        assert!(found.by_native_code >= found.together / 20, "{found:?}");
        assert!(found.together >= found.batched / 20 && found.batched >= found.packets / 4, "{found:?}");
        assert!(found.rewritten >= found.packets / 20 && found.forwarded >= found.rewritten / 10, "{found:?}");
        assert!(found.other_lengths >= found.rewritten / 20 && found.grown > 0, "{found:?}");
        assert!(found.from_template > found.kept / 6 && found.refused_by_path > found.packets / 5, "{found:?}");
        assert!(found.stale > 0 && found.evicted > 0 && found.refused.len() >= 8, "{found:?}");
    }
    let mut tally = TestCoverage::default();
    for seed in first_seed()..first_seed() + env_number("DIFFER_GATEWAYS", 20) {
        // So many packets that most paths of the gateway occur again.
        let case = plan::gateway_case(seed, 1_600).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        checked(repeat_packets(case, seed, 2, same_flow), seed, &mut tally);
    }
    let found = totals();
    println!("the gateway\n{found:?}\n{tally}");
    assert_eq!(found.faults, 0, "a rewrite does not do what was done to the packet that it was made from");
    assert!(tally.packets >= 16 * 4_800 && tally.forwarded > tally.packets / 20, "{tally}");
    assert!(found.forwarded > found.packets / 40, "{found:?}");
    assert!(found.from_template > found.kept / 6, "{found:?}");
    // A packet that causes an ICMP error is dropped and recirculated. It always takes the slow path.
    assert!(found.native_copies >= 400, "{found:?}");
    let native = found.native - found.native_copies;
    assert!(native >= 4_000 && found.native_by_way > native / 20, "{found:?}");
    assert!(found.by_workers > 100, "{found:?}");
    assert!(found.by_native_code > found.together / 10, "{found:?}");
    assert!(found.together > found.batched / 40 && found.batched >= found.packets / 4, "{found:?}");
    assert!(found.sums > found.forwarded / 2 && found.lengths > found.forwarded / 2, "{found:?}");
    assert!(found.other_lengths > found.rewritten / 20, "{found:?}");
}

/// The harness detects table changes that bypass the rewrites, and unchecked lengths and checksums.
#[test]
fn faults_are_seen() {
    let found = (first_seed()..first_seed() + 160)
        .filter(|seed| run_case(&random(*seed), *seed, Sabotage::Stale, &mut TestCoverage::default()).is_err())
        .count();
    assert!(found >= 5, "only {found} of 160 programs differ when nothing is ever stale");
    let found = (first_seed()..first_seed() + 160)
        .filter(|seed| run_case(&random(*seed), *seed, Sabotage::Unchecked, &mut TestCoverage::default()).is_err())
        .count();
    assert!(found >= 5, "only {found} of 160 programs differ when lengths and sums are not checked");
}
