//! Tests invalidation after table changes, match masks of cached lookups, and slow-path admission
//! under overload.

use entries::{StateUpdate, UpdateKind, WriteBatch};
use flowcache::admission::SlowPathBudget;
use flowcache::{SegmentCache, SegmentCacheConfig, SegmentCacheKind};
use packet::{DropReason, EngineReason, Verdict};
use std::sync::Arc;

const PROGRAM: &str = r#"
#include <core.p4>
#include <pna.p4>

header overlay_t {
    bit<32> vni;
    bit<32> destination;
    bit<32> source;
    bit<8> ttl;
}
struct headers_t {
    overlay_t overlay;
}
struct metadata_t {
    bit<32> instance;
}
parser parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.overlay);
        transition accept;
    }
}
control pre(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) {
    apply {
    }
}
control forward(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    action instance(bit<32> number) {
        meta.instance = number;
    }
    action leave(bit<32> port) {
        send_to_port((PortId_t) (PortIdUint_t) (InterfaceIdUint_t) port);
    }
    action refuse() {
        drop_packet();
    }
    table tenant {
        key = {
            hdr.overlay.vni: exact @name("vni");
        }
        actions = {
            instance;
        }
        default_action = instance(0);
    }
    table route {
        key = {
            meta.instance: exact @name("instance");
            hdr.overlay.destination: lpm @name("destination");
        }
        actions = {
            leave;
            refuse;
        }
        default_action = refuse();
    }
    apply {
        tenant.apply();
        if (hdr.overlay.ttl > 1) {
            hdr.overlay.ttl = hdr.overlay.ttl - 1;
            route.apply();
        } else {
            drop_packet();
        }
    }
}
control deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply {
        packet.emit(hdr.overlay);
    }
}
PNA_NIC(parse(), pre(), forward(), deparse()) main;
"#;

fn cache(config: SegmentCacheConfig) -> SegmentCache {
    let pipeline = testkit::differ::compile::compile(PROGRAM, true).unwrap_or_else(|error| panic!("{error}"));
    SegmentCache::new(Arc::new(pipeline), interp::Config::default(), config).expect("the program is accepted")
}

fn write(cache: &mut SegmentCache, kind: UpdateKind, lines: &[String]) {
    let pipeline = cache.interp().pipeline().clone();
    let parse = |line: &String| entries::parse_entry(&pipeline, line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let batch: WriteBatch = lines.iter().map(|line| StateUpdate::Entry(kind, parse(line))).collect();
    cache.write(&batch).unwrap_or_else(|error| panic!("{error}"));
}

/// Maps each tenant's VNI to the instance of the same number, with a route for 10.0.0.0/16 to the
/// port of that number.
fn tenants(cache: &mut SegmentCache, count: u32) {
    let lines = (1..=count).flat_map(|tenant| {
        let instance = format!("tenant: vni={tenant} -> instance(number={tenant})");
        [instance, format!("route: instance={tenant}, destination=10.0.0.0/16 -> leave(port={tenant})")]
    });
    write(cache, UpdateKind::Insert, &lines.collect::<Vec<_>>());
}

fn packet(vni: u32, destination: u32, source: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = [vni, destination, source].iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.push(64);
    bytes
}

fn verdict(cache: &mut SegmentCache, vni: u32, destination: u32, source: u32, now: u64) -> Verdict {
    cache.process(&packet(vni, destination, source), 0, now).packets()[0].verdict
}

fn port(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Forward { port } => port.0,
        other => panic!("{other:?}"),
    }
}

const ALL: [SegmentCacheKind; 4] = [
    SegmentCacheKind::Exact,
    SegmentCacheKind::Megaflow,
    SegmentCacheKind::SubTraversal { tables: 4 },
    SegmentCacheKind::Adaptive { tables: 4 },
];

/// An inserted, modified or deleted route of one tenant affects only that tenant's matching
/// packets, in every cache kind. Their next packet takes the slow path; all others hit.
#[test]
fn a_route_makes_one_tenants_segments_stale() {
    for kind in ALL {
        let mut cache = cache(SegmentCacheConfig { kind, max_segments: 100_000, ..SegmentCacheConfig::default() });
        tenants(&mut cache, 50);
        let send = |cache: &mut SegmentCache| {
            let before = cache.stats().misses;
            for tenant in 1..=50 {
                for host in [0x0a00_0101, 0x0a00_0102, 0x0a00_0901] {
                    verdict(cache, tenant, host, 1, 1);
                }
            }
            cache.stats().misses - before
        };
        assert!(send(&mut cache) >= 50, "{kind:?}");
        assert_eq!(send(&mut cache), 0, "{kind:?}");

        write(
            &mut cache,
            UpdateKind::Insert,
            &["route: instance=7, destination=10.0.1.0/24 -> leave(port=99)".to_owned()],
        );
        let stale = cache.stats().stale;
        assert!((1..=3).contains(&stale), "{kind:?}: {stale} stale");
        assert_eq!(port(verdict(&mut cache, 7, 0x0a00_0101, 1, 2)), 99, "{kind:?}");
        assert_eq!(port(verdict(&mut cache, 7, 0x0a00_0901, 1, 2)), 7, "{kind:?}");
        assert!(send(&mut cache) <= 2, "{kind:?}");
        assert_eq!(send(&mut cache), 0, "{kind:?}");

        write(
            &mut cache,
            UpdateKind::Modify,
            &["route: instance=7, destination=10.0.1.0/24 -> leave(port=98)".to_owned()],
        );
        assert_eq!(port(verdict(&mut cache, 7, 0x0a00_0102, 1, 3)), 98, "{kind:?}");
        write(
            &mut cache,
            UpdateKind::Delete,
            &["route: instance=7, destination=10.0.1.0/24 -> leave(port=98)".to_owned()],
        );
        assert_eq!(port(verdict(&mut cache, 7, 0x0a00_0102, 1, 4)), 7, "{kind:?}");
        assert!(cache.stats().stale <= stale + 2 + 2, "{kind:?}: {:?}", cache.stats());
        let before = cache.stats().misses;
        assert_eq!(port(verdict(&mut cache, 8, 0x0a00_0101, 1, 4)), 8, "{kind:?}");
        assert_eq!(cache.stats().misses, before, "{kind:?}: another tenant's flow was made stale");
    }
}

/// A changed default action affects misses only.
#[test]
fn a_default_action_makes_misses_stale() {
    for kind in ALL {
        let mut cache = cache(SegmentCacheConfig { kind, ..SegmentCacheConfig::default() });
        tenants(&mut cache, 2);
        let nowhere = 0x0b00_0001;
        assert!(matches!(verdict(&mut cache, 1, nowhere, 1, 1), Verdict::Drop(_)), "{kind:?}");
        assert_eq!(port(verdict(&mut cache, 2, 0x0a00_0001, 1, 1)), 2);
        let like = entries::parse_entry(
            cache.interp().pipeline(),
            "route: instance=1, destination=10.0.0.0/8 -> leave(port=77)",
        );
        let like = like.unwrap_or_else(|error| panic!("{error}"));
        let batch: WriteBatch = [StateUpdate::DefaultAction(like.table, Some(like.action))].into_iter().collect();
        cache.write(&batch).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(port(verdict(&mut cache, 1, nowhere, 1, 2)), 77, "{kind:?}");
        let misses = cache.stats().misses;
        assert_eq!(port(verdict(&mut cache, 2, 0x0a00_0001, 1, 2)), 2);
        assert_eq!(cache.stats().misses, misses, "{kind:?}: a flow that found its route was made stale");
    }
}

/// A megaflow is as wide as the tables allow. It matches on a route's prefix, and where a longer
/// prefix is close, on enough further bits to exclude it.
#[test]
fn a_megaflow_asks_for_few_bits() {
    let mut cache = cache(SegmentCacheConfig { kind: SegmentCacheKind::Megaflow, ..SegmentCacheConfig::default() });
    tenants(&mut cache, 1);
    for host in 0..1_000 {
        verdict(&mut cache, 1, 0x0a00_0000 + host * 60, host, 1);
    }
    assert_eq!((cache.stats().misses, cache.stats().hits), (1, 999));
    // 10.0.0.0 shares all but one of the first 17 bits with 10.0.64.0/18, so half of the /16, and a
    // quarter, must be distinguished from it.
    write(&mut cache, UpdateKind::Insert, &["route: instance=1, destination=10.0.64.0/18 -> leave(port=2)".to_owned()]);
    for host in 0..1_000 {
        let destination = 0x0a00_0000 + host * 60;
        let expected = if destination & 0xffff_c000 == 0x0a00_4000 { 2 } else { 1 };
        assert_eq!(port(verdict(&mut cache, 1, destination, host, 2)), expected);
    }
    assert_eq!(cache.stats().inserted, 1 + 3, "{:?}", cache.stats());
}

/// One tenant floods with new flows at ten times the slow path's rate. Established flows of other
/// tenants lose nothing, and neither do their few new flows.
#[test]
fn a_flood_is_its_tenants_loss() {
    let budget = SlowPathBudget { packets_per_second: 100_000, window_ns: 1_000_000 };
    let config = SegmentCacheConfig {
        kind: SegmentCacheKind::Exact,
        max_segments: 1 << 20,
        slow_path: Some(budget),
        ..SegmentCacheConfig::default()
    };
    let mut cache = cache(config);
    assert!(cache.set_tenant_variable("hdr.overlay.vni") && !cache.set_tenant_variable("hdr.overlay.nothing"));
    assert!(cache.set_tenant_variable("hdr.overlay.vni"));
    tenants(&mut cache, 10);
    (1..=10).for_each(|tenant| assert_eq!(port(verdict(&mut cache, tenant, 0x0a00_0001, 1, 0)), tenant));
    let shed = |verdict| verdict == Verdict::Drop(DropReason::Engine(EngineReason::SlowPathLimit));
    let (mut of_flood, mut flood) = (0, 0);
    for step in 0..20_000u32 {
        // The first tenant opens a flow each microsecond, the second one each hundredth. All others
        // continue with their flows.
        let now = 1_000_000 + u64::from(step) * 1_000;
        flood += 1;
        of_flood += u32::from(shed(verdict(&mut cache, 1, 0x0a00_0100 + step % 60_000, 1_000 + step, now)));
        if step.is_multiple_of(100) {
            assert_eq!(port(verdict(&mut cache, 2, 0x0a00_1000 + step, 1, now)), 2, "a new flow at {now}");
        }
        let tenant = 3 + step % 8;
        assert_eq!(port(verdict(&mut cache, tenant, 0x0a00_0001, 1, now)), tenant, "an established flow at {now}");
    }
    let admission = cache.admission().expect("there is one");
    assert_eq!(u64::from(of_flood), admission.refused_of(1));
    assert_eq!(cache.stats().refused, u64::from(of_flood));
    assert!(of_flood > flood * 8 / 10 && of_flood < flood * 95 / 100, "{of_flood} of {flood}");
}
