//! Tests flows that share a path but have other values. The path's template must be correct for
//! each of them, or not be used.

use crate::entries::entry;
use entries::{UpdateKind, WriteBatch};
use flowcache::rewrite::{CacheResult, RewriteCache};
use interp::{Config, Interp, Outputs};
use packet::Verdict;
use std::sync::Arc;
use testkit::differ::compile::compile;

/// Returns entries for all tags but the last few, with rotating actions and random arguments.
fn entries(pipeline: &ir::Pipeline, rng: &mut fastrand::Rng) -> WriteBatch {
    let of_tag = |tag: u32| {
        let port = rng.u64(1..8);
        let (name, args) = match tag % 5 {
            0 | 1 => ("plain", vec![port, rng.u64(0..256), rng.u64(60..400), rng.u64(0..16)]),
            // They differ so little that many packets look as if the other action had run.
            2 => ("masked", vec![port, rng.u64(0xfc..0x100), rng.u64(0..4)]),
            3 => ("shifted", vec![port, rng.u64(0..3)]),
            _ => ("chosen", vec![port, rng.u64(0..2)]),
        };
        entry(pipeline, UpdateKind::Insert, ir::KeyMatch::Exact(tag.into()), name, &args)
    };
    (0..250).map(of_tag).collect()
}

#[test]
fn a_way_does_for_all_of_its_flows() {
    let seed = std::env::var("WAYS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("WAYS_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let pipeline = Arc::new(compile(include_str!("ways.p4"), true).unwrap_or_else(|errors| panic!("{errors}")));
    let mut oracle = Interp::new(pipeline.clone(), Config::default()).expect("the interpreter takes it");
    let mut cache = RewriteCache::new(pipeline.clone(), Config::default(), 4_096).expect("the interpreter takes it");
    let batch = entries(&pipeline, &mut rng);
    oracle.write(&batch).expect("good entries");
    cache.write(&batch).expect("good entries");
    let (mut rewritten, mut changed, mut dropped) = (0, 0, 0);
    for number in 0..20_000 {
        let payload = rng.usize(40..500);
        // The moved bytes are part of the key, so they take few values.
        let mut bytes: Vec<u8> = (0..6).map(|at| if at < 3 { rng.u8(..) } else { rng.u8(..) & 0x41 }).collect();
        bytes.extend((payload as u16).to_be_bytes());
        bytes.extend((0..payload).map(|_| rng.u8(..)));
        let expected = oracle.process(&bytes, 1, number);
        let [only] = expected.packets() else { panic!("{expected:?}") };
        let mut out = Vec::new();
        match cache.rewrite_packet(&bytes, 1, number, &mut out) {
            CacheResult::Rewritten(_, verdict) => {
                rewritten += 1;
                assert_eq!(verdict, only.verdict, "tag {}, {payload} bytes", bytes[0]);
                match verdict {
                    Verdict::Forward { .. } => assert_eq!(out, only.bytes, "tag {}", bytes[0]),
                    _ => dropped += 1,
                }
                changed += u64::from(out != bytes);
            }
            CacheResult::Missed => {
                let mut outputs = Outputs::new();
                let learned = cache.learn_packet(&bytes, 1, number, &mut outputs);
                let placed = learned.unwrap_or_else(|why| panic!("tag {}: {}", bytes[0], why.description()));
                placed.replaced.iter().for_each(|(place, _)| cache.release(*place));
                assert_eq!(outputs, expected);
            }
        }
    }
    cache.flush_counters();
    for object in pipeline.externs.keys() {
        (0..16).for_each(|index| assert_eq!(oracle.counter(object, index), cache.engine().counter(object, index)));
    }
    let stats = cache.stats();
    println!(
        "{rewritten} rewritten, {changed} of them changed, {dropped} dropped; {} ways, {stats:?}",
        cache.path_count()
    );
    assert_eq!(stats.faults, 0);
    assert!(rewritten > 10_000 && changed > rewritten / 2 && dropped > rewritten / 20);
    assert!(stats.from_template > 100 && stats.symbolic_runs > 100 && cache.path_count() >= 7, "{stats:?}");
}

/// Values decide the path of tag 0, so the next packet gets its shadow at once. The path of tag 1
/// has more decisions before the table than are recorded.
const LONG: &str = "
#include <core.p4>
#include <v1model.p4>
header item_h { bit<8> tag; bit<8> a; }
struct headers_t { item_h item; }
struct metadata_t { bit<16> n; }
parser pars(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.item); transition select(hdr.item.tag) { 1: turn; default: accept; } }
    state turn { meta.n = meta.n + 1; transition select(meta.n) { 17000: accept; default: turn; } }
}
control check(inout headers_t hdr, inout metadata_t meta) { apply { } }
control ing(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action plain(bit<9> port) { std.egress_spec = port; }
    action masked(bit<8> mask) { std.egress_spec = 1; hdr.item.a = hdr.item.a & mask; }
    table items { key = { hdr.item.tag: exact; } actions = { plain; masked; NoAction; } default_action = NoAction(); }
    apply { items.apply(); }
}
control eg(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control dep(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.item); } }
V1Switch(pars(), check(), ing(), eg(), compute(), dep()) main;
";

/// A flow records its table dependencies however long its path is.
#[test]
fn a_long_way_is_fresh() {
    let pipeline = Arc::new(compile(LONG, true).unwrap_or_else(|errors| panic!("{errors}")));
    let mut cache = RewriteCache::new(pipeline.clone(), Config::default(), 16).expect("the interpreter takes it");
    let entry =
        |kind, tag: u32, name: &str, arg: u64| entry(&pipeline, kind, ir::KeyMatch::Exact(tag.into()), name, &[arg]);
    let entries = [entry(UpdateKind::Insert, 0, "masked", 0x0f), entry(UpdateKind::Insert, 1, "plain", 2)];
    cache.write(&entries.into_iter().collect()).expect("good entries");
    let mut out = Outputs::new();
    for tag in 0..2 {
        cache
            .learn_packet(&[tag, 7, 0, 0], 1, 1, &mut out)
            .unwrap_or_else(|why| panic!("tag {tag}: {}", why.description()));
    }
    let mut bytes = Vec::new();
    assert!(matches!(cache.rewrite_packet(&[1, 9, 0, 0], 1, 2, &mut bytes), CacheResult::Rewritten(..)));
    let gone = cache.write(&[entry(UpdateKind::Modify, 1, "plain", 3)].into_iter().collect()).expect("a good entry");
    assert_eq!(gone.len(), 1, "what found the entry is stale");
    assert!(matches!(cache.rewrite_packet(&[1, 9, 0, 0], 1, 3, &mut bytes), CacheResult::Missed));
}
