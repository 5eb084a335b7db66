//! Tests a v1model router with checksums and a tunnel. Each flow has packets of many lengths,
//! payloads and identifications.

use crate::entries::entry;
use entries::{UpdateKind, WriteBatch};
use flowcache::NotRewritable;
use flowcache::rewrite::{CacheResult, RewriteCache};
use interp::{Config, Interp, Outputs};
use packet::Verdict;
use std::sync::Arc;
use testkit::differ::compile::compile;

fn sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Builds a UDP packet in IPv4 with `payload` bytes.
fn packet(destination: u32, ttl: u8, payload: usize, rng: &mut fastrand::Rng) -> Vec<u8> {
    let length = (28 + payload) as u16;
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    bytes.extend(length.to_be_bytes());
    bytes.extend(rng.u16(..).to_be_bytes());
    bytes.extend([0, 0, ttl, 17, 0, 0, 192, 0, 2, 7]);
    bytes.extend(destination.to_be_bytes());
    let checksum = !sum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend([0x10, 0, 0x20, 0]);
    bytes.extend((length - 20).to_be_bytes());
    bytes.extend((0..2 + payload).map(|_| rng.u8(..)));
    bytes
}

fn routes(pipeline: &ir::Pipeline) -> WriteBatch {
    let entry = |prefix: u32, name: &str, args: &[u64]| {
        let key = ir::KeyMatch::Lpm { value: prefix.into(), prefix_len: 24 };
        entry(pipeline, UpdateKind::Insert, key, name, args)
    };
    let mac = 0x0200_0000_00aa;
    [
        entry(0x0a01_0100, "forward", &[3, mac]),
        entry(0x0a01_0200, "encapsulate", &[4, mac, 0xc633_6401]),
        entry(0x0a01_0300, "drop_it", &[]),
    ]
    .into_iter()
    .collect()
}

#[test]
fn a_router_s_flows_share_rewrites() {
    let seed = std::env::var("ROUTER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(5);
    println!("ROUTER_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let pipeline = Arc::new(compile(include_str!("router.p4"), true).unwrap_or_else(|errors| panic!("{errors}")));
    let mut oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter takes it");
    let mut cache = RewriteCache::new(pipeline.clone(), Config::default(), 64).expect("the interpreter takes it");
    oracle.write(&routes(&pipeline)).expect("good entries");
    cache.write(&routes(&pipeline)).expect("good entries");
    let (mut rewritten, mut learned, mut wrong) = (0, 0, 0);
    for number in 0..2_000 {
        let destination = 0x0a01_0000 | rng.u32(1..4) << 8 | rng.u32(1..3);
        let payload = rng.usize(30..600);
        let mut bytes = packet(destination, 60 + rng.u8(0..2), payload, &mut rng);
        if number % 10 == 9 {
            bytes[18] ^= 1;
            wrong += 1;
        }
        let expected = oracle.process(&bytes, 1, number * 1_000);
        let [only] = expected.packets() else { panic!("{expected:?}") };
        let mut out = Vec::new();
        match cache.rewrite_packet(&bytes, 1, number * 1_000, &mut out) {
            CacheResult::Rewritten(_, verdict) => {
                rewritten += 1;
                assert_eq!(verdict, only.verdict, "{bytes:02x?}");
                if matches!(verdict, Verdict::Forward { .. }) {
                    assert_eq!(out, only.bytes, "from {bytes:02x?}");
                }
            }
            CacheResult::Missed => {
                let mut outputs = Outputs::new();
                match cache.learn_packet(&bytes, 1, number * 1_000, &mut outputs) {
                    Ok(placed) => placed.replaced.iter().for_each(|(place, _)| cache.release(*place)),
                    Err(why) => assert!(number % 10 == 9 && why == NotRewritable::Checksum, "{why:?}"),
                }
                learned += 1;
                assert_eq!(outputs, expected);
            }
        }
    }
    cache.flush_counters();
    for table in pipeline.tables.keys() {
        assert!(oracle.action_counters(table).eq(cache.engine().action_counters(table)));
        for entry in oracle.state().entries(table) {
            assert_eq!(oracle.entry_counter(table, entry), cache.engine().entry_counter(table, entry));
        }
    }
    for object in pipeline.externs.keys() {
        (0..16).for_each(|index| assert_eq!(oracle.counter(object, index), cache.engine().counter(object, index)));
    }
    // Twelve flows; longer packets into the tunnel take another path than shorter ones. All packets
    // with correct checksums are rewritten from the second one on.
    println!("{rewritten} rewritten, {learned} learned, {wrong} wrong");
    assert_eq!(cache.stats().faults, 0);
    assert!(rewritten > 1_400, "{rewritten} rewritten, {learned} learned, {wrong} wrong; {:?}", cache.stats());
    assert_eq!(cache.stats().refused.get(&NotRewritable::Checksum), Some(&wrong));
}
