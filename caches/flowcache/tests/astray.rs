//! A packet that leaves a segment in the middle, because a meter gives it another color, and finds
//! no segment to continue with. The segment stays cached, because other packets match it to its
//! end.

use entries::{MeterConfig, StateUpdate, WriteBatch};
use flowcache::{SegmentCache, SegmentCacheConfig, SegmentCacheKind};
use interp::{Config, Interp};
use ir::Pipeline;
use std::sync::Arc;

const PROGRAM: &str = r#"#include <core.p4>
#include <pna.p4>
header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t { }
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start { packet.extract(hdr.h); transition accept; }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {
    apply { }
}
control forward(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    Meter<bit<8>>(1, PNA_MeterType_t.PACKETS) rate;
    action add(bit<8> more) { hdr.h.b = hdr.h.b + more; }
    table first {
        key = { hdr.h.a: exact @name("a"); }
        actions = { add; NoAction; }
        default_action = add(1);
    }
    table second {
        key = { hdr.h.a: ternary @name("a"); }
        actions = { add; NoAction; }
        default_action = add(2);
    }
    apply {
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) 32w1);
        first.apply();
        if (rate.execute(0) == PNA_MeterColor_t.RED) {
            hdr.h.b = 0;
        }
        second.apply();
    }
}
control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr.h); }
}
PNA_NIC(parse(), pre(), forward(), deparse()) main;
"#;

/// One packet a second; further packets are red.
const RATE: MeterConfig = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1 };
const SECOND: u64 = 1_000_000_000;

fn both(kind: SegmentCacheKind) -> (SegmentCache, Interp) {
    let pipeline = testkit::differ::compile::compile(PROGRAM, true).unwrap_or_else(|error| panic!("{error}"));
    let pipeline: Arc<Pipeline> = Arc::new(pipeline);
    let meter = pipeline.externs.keys().next().expect("the meter");
    let config = SegmentCacheConfig { kind, ..SegmentCacheConfig::default() };
    let mut cache = SegmentCache::new(pipeline.clone(), Config::default(), config).expect("the program is accepted");
    let mut interp = Interp::new(pipeline, Config::default()).expect("the program is accepted");
    let batch: WriteBatch = [StateUpdate::Meter(meter, 0, Some(RATE))].into_iter().collect();
    cache.write(&batch).expect("the meter is there");
    interp.write(&batch).expect("the meter is there");
    (cache, interp)
}

#[test]
fn who_leaves_a_segment_does_not_take_it_from_others() {
    for kind in [
        SegmentCacheKind::SubTraversal { tables: 1 },
        SegmentCacheKind::SubTraversal { tables: 2 },
        SegmentCacheKind::Adaptive { tables: 1 },
    ] {
        let (mut cache, mut interp) = both(kind);
        let mut send = |flow: u8, now: u64| {
            let misses = cache.stats().misses;
            let out = cache.process(&[flow, 40], 0, now);
            assert_eq!(out, interp.process(&[flow, 40], 0, now), "{kind:?}, {now}");
            (cache.stats().misses - misses, out.packets()[0].bytes[1])
        };
        // With two tables the last table serves the third flow.
        let (mut now, mut red) = (0, 0);
        for round in 0..10 {
            for flow in [7, 8, 9] {
                now += 10 * SECOND;
                assert_eq!(
                    send(flow, now),
                    (u64::from(round == 0), 43),
                    "{kind:?}: flow {flow} is green, round {round}"
                );
                let (_, second) = send(flow, now + 1);
                red += u64::from(second == 2);
            }
        }
        let stats = cache.stats();
        assert!(red == 30 && stats.diverged == 30 && stats.evicted == 0, "{kind:?}: {red} red, {stats:?}");
    }
}
