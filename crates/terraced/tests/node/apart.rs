//! Tests a switch's half and the lower halves as separate engines, as in several processes: the
//! paths of packets, and the records of marked packets.

use crate::support::{named, program};
use cache_engines::CachePlan;
use entries::WriteBatch;
use interp::Config;
use ir::Pipeline;
use node::engine::{EngineControl, EngineFactory, native};
use node::explain::{MAX_RECORDS, TraceSource};
use offload::partition::{RETURNED, TableMode, bridge_wire};
use packet::{Batch, BatchOutput, Engine, MAX_BATCH, PortId, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use switch_engines::tiers::TiersPlan;

/// Ports to the lower tiers, and the port to the upper tier.
const DOWN: [u32; 3] = [301, 302, 303];
const UP: u32 = 401;
/// Ethertypes of three tenants: numbers 100, 101, 102.
const KINDS: [u16; 3] = [0x9000, 0x9001, 0x9002];

fn pipeline() -> Arc<Pipeline> {
    Arc::new(ir::text::parse(&program("spread.p4", &[])).expect("the compiler's own text"))
}

fn plan(spread: Option<&str>) -> TiersPlan {
    let held: BTreeMap<String, TableMode> = [("below".to_owned(), TableMode::Absent)].into();
    let silence = Duration::from_secs(3600);
    let affinity_object = spread.map(str::to_owned);
    TiersPlan {
        link_timeout: silence,
        affinity_object,
        ..TiersPlan::in_one_process(native(), CachePlan::default().shared(), held)
    }
}

fn load(plan: TiersPlan, pipeline: &Arc<Pipeline>) -> Box<dyn EngineControl> {
    let mut engine = plan.shared().load(pipeline, &Config::default()).expect("it is divided there");
    let mut batch = WriteBatch::new();
    for (number, kind) in (100..).zip(KINDS) {
        batch.insert(named(pipeline, "tenants", kind.into(), "belongs_to", &[number]));
    }
    engine.write(&batch).expect("good entries");
    engine
}

fn switch(spread: Option<&str>) -> Box<dyn EngineControl> {
    load(TiersPlan { below: None, down: DOWN.to_vec(), ..plan(spread) }, &pipeline())
}

fn below() -> Box<dyn EngineControl> {
    load(TiersPlan { above: None, up: vec![UP], ..plan(None) }, &pipeline())
}

fn frame(kind: u16, flow: u64) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[..6].copy_from_slice(&flow.to_be_bytes()[2..]);
    bytes[6..12].copy_from_slice(&(flow * 7).to_be_bytes()[2..]);
    bytes[12..14].copy_from_slice(&kind.to_be_bytes());
    bytes
}

/// Runs packets, each with its mark. Returns verdict and bytes of each.
fn run(worker: &mut dyn Engine, port: u32, packets: &[(Vec<u8>, u16)]) -> Vec<(Verdict, Vec<u8>)> {
    let (mut batch, mut out, mut all) = (Batch::new(), BatchOutput::new(), Vec::new());
    for some in packets.chunks(MAX_BATCH) {
        batch.clear();
        out.clear();
        for (bytes, mark) in some {
            batch.push_bytes(bytes, PortId(port), io::now()).expect("room");
            batch.packets_mut().last_mut().expect("it was added").trace_id = *mark;
        }
        worker.process(&mut batch, &mut out);
        all.extend(out.iter(&batch).map(|(emission, packet)| (emission.verdict, packet.bytes().to_vec())));
    }
    all
}

fn port(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Forward { port } => port.0,
        other => panic!("{other:?}"),
    }
}

/// Returns the output ports of each tenant's packets, for many flows.
fn output_ports(engine: &dyn EngineControl) -> HashMap<u16, BTreeSet<u32>> {
    let mut worker = engine.new_worker();
    let mut ways: HashMap<u16, BTreeSet<u32>> = HashMap::new();
    for kind in KINDS {
        let packets: Vec<(Vec<u8>, u16)> = (0..200).map(|flow| (frame(kind, flow), 0)).collect();
        ways.entry(kind).or_default().extend(run(&mut *worker, 1, &packets).into_iter().map(|(v, _)| port(v)));
    }
    ways
}

#[test]
fn what_shares_a_meter_goes_one_way() {
    let by_flow = switch(None);
    assert!(output_ports(&*by_flow).values().all(|ports| ports.len() == 3), "flows of a tenant are spread");
    let says = |engine: &dyn EngineControl, what: &str| engine.status_notes().iter().any(|note| note.contains(what));
    assert!(says(&*by_flow, "Decide.limit of its own; give `affinity_object`"), "{:#?}", by_flow.status_notes());
    // The assignment depends on a seed; among this number of switches, at least one separates the
    // tenants.
    let mut different = false;
    for _ in 0..16 {
        let by_tenant = switch(Some("limit"));
        let ways = output_ports(&*by_tenant);
        assert!(ways.values().all(|ports| ports.len() == 1), "{ways:?}");
        different |= ways.values().collect::<BTreeSet<_>>().len() > 1;
        assert!(!says(&*by_tenant, "of its own"));
    }
    assert!(different, "tenants are spread");
    let refused = |plan: TiersPlan| {
        let plan = TiersPlan { below: None, down: DOWN.to_vec(), ..plan };
        match plan.shared().load(&pipeline(), &Config::default()) {
            Ok(_) => panic!("it is divided all the same"),
            Err(refused) => refused.message,
        }
    };
    let message = refused(plan(Some("tenant")));
    assert!(
        message.contains("`affinity_object`: `tenant` names no meter or register, or several; known are: Decide.limit"),
        "{message}"
    );
    let mut plan = plan(Some("limit"));
    plan.table_modes.insert("tenants".to_owned(), TableMode::Absent);
    let message = refused(plan);
    assert!(message.contains("the switch does not know the index of Decide.limit: "), "{message}");
}

#[test]
fn a_mark_goes_down_and_back_and_each_half_remembers_its_packet() {
    let (above, below) = (switch(None), below());
    let (mut up, mut down) = (above.new_worker(), below.new_worker());
    let key = node::config::TIERS_KEY;
    let went = run(&mut *up, 1, &[(frame(KINDS[0], 1), 77), (frame(KINDS[0], 1), 0)]);
    let marks: Vec<u16> =
        went.iter().map(|(_, bytes)| bridge_wire::read_header(bytes, key).expect("a bridge header").trace_id).collect();
    assert_eq!(marks, [77, 0]);
    let frames: Vec<(Vec<u8>, u16)> = went.iter().map(|(_, bytes)| (bytes.clone(), 0)).collect();
    let came = run(&mut *down, UP, &frames);
    let told: Vec<bridge_wire::BridgeFields> =
        came.iter().map(|(_, bytes)| bridge_wire::read_header(bytes, key).expect("a bridge header")).collect();
    let wanted = |mark| bridge_wire::BridgeFields { cut_point: RETURNED, port: 1, length_bytes: 0, trace_id: mark };
    assert_eq!(told, [wanted(77), wanted(0)]);
    let frames: Vec<(Vec<u8>, u16)> = came.iter().map(|(_, bytes)| (bytes.clone(), 0)).collect();
    let left = run(&mut *up, port(went[0].0), &frames);
    assert!(left.iter().all(|(verdict, bytes)| port(*verdict) == 1 && bytes[..14] == frame(KINDS[0], 1)[..14]));

    let records = below.trace_records(77);
    let [record] = &records[..] else { panic!("{records:?}") };
    assert_eq!((record.came, &record.bytes, &record.outcomes[0].bytes), (TraceSource::Above, &went[0].1, &came[0].1));
    let told = record.engine_spans[0].engine_note.as_ref().expect("the cache says what it did");
    assert_eq!(
        (record.engine_spans.len(), &*record.engine_spans[0].engine, record.engine_spans[0].is_lower_half),
        (1, "flowcache", true)
    );
    assert!(told.starts_with("not in the flow cache: the slow path decided; ") && told.contains(" cached"), "{told}");
    let records = above.trace_records(77);
    let came: Vec<TraceSource> = records.iter().map(|record| record.came).collect();
    assert_eq!(came, [TraceSource::Front, TraceSource::Below]);
    assert!(records[0].bytes.is_empty() && records[0].engine_spans.len() == 1);
    assert!(
        above.trace_records(0).is_empty() && below.trace_records(0).is_empty(),
        "without a mark nothing is remembered"
    );

    // The next one is in the cache.
    run(&mut *down, UP, &[(run(&mut *up, 1, &[(frame(KINDS[0], 1), 78)])[0].1.clone(), 0)]);
    let told = below.trace_records(78)[0].engine_spans[0].engine_note.clone();
    assert_eq!(told.as_deref(), Some("offloaded: the flow cache handled its whole path"));
}

/// Frames of a front port have no mark but the node's own. A forged switch header makes a lower
/// tier record a bounded number of packets.
#[test]
fn marks_that_somebody_makes_up_are_bounded_or_not_heard() {
    let (above, below) = (switch(None), below());
    let (mut up, mut down) = (above.new_worker(), below.new_worker());
    let key = node::config::TIERS_KEY;
    let frames: Vec<(Vec<u8>, u16)> = (1..=5_000u16)
        .map(|mark| {
            let mut bytes = run(&mut *up, 1, &[(frame(KINDS[0], 1), 0)])[0].1.clone();
            bridge_wire::complete_header(&mut bytes, key, 1, 60, mark).expect("a bridge header");
            (bytes, 0)
        })
        .collect();
    let forged = run(&mut *up, 1, &frames);
    assert!(forged.iter().all(|(verdict, _)| matches!(verdict, Verdict::Drop(_))), "{:?}", forged[0]);
    let remembered =
        |engine: &dyn EngineControl| (1..=5_000).filter(|mark| !engine.trace_records(*mark).is_empty()).count();
    assert_eq!(remembered(&*above), 0);
    let went = run(&mut *down, UP, &frames);
    assert!(went.iter().all(|(verdict, _)| port(*verdict) == UP), "they are served all the same");
    assert_eq!(remembered(&*below), MAX_RECORDS);
    // On a port other than the one to the switch, the same frames are not valid.
    let refused = run(&mut *down, 1, &frames[..1]);
    assert!(matches!(refused[0].0, Verdict::Drop(_)));
}
