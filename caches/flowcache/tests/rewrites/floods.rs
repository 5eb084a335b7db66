//! Tests the cache as a node uses it, with either backing engine: slow-path admission under
//! overload, idle expiry, memory for rows of many sizes, and traces of marked packets.

use crate::entries::entry;
use entries::{UpdateKind, WriteBatch};
use flowcache::admission::SlowPathBudget;
use flowcache::pacer::MinSlowPathShare;
use flowcache::rewrite::{BackingEngine, RewriteCache};
use interp::Config;
use packet::{Batch, BatchOutput, DropReason, Engine, EngineReason, Packet, PacketRef, PortId, Verdict};
use std::sync::Arc;
use testkit::differ::compile::compile;

pub const TENANTS: u32 = 10;

pub fn pipeline() -> Arc<ir::Pipeline> {
    Arc::new(compile(include_str!("floods.p4"), true).unwrap_or_else(|errors| panic!("{errors}")))
}

/// Returns entries that send each tenant's packets to the port of its number.
fn tenants(pipeline: &ir::Pipeline) -> WriteBatch {
    let entry = |tenant: u32| {
        let key = ir::KeyMatch::Exact(tenant.into());
        entry(pipeline, UpdateKind::Insert, key, "leave", &[u64::from(tenant)])
    };
    (1..=TENANTS).map(entry).collect()
}

/// Builds a packet; those of every other tenant have the shim.
fn packet(flow: (u32, u32, u32), now: u64) -> Packet {
    let shim: &[u8] = if flow.0.is_multiple_of(2) { &[2, 0xff, 0xff, 0xff, 0xff, 1] } else { &[1] };
    behind(shim, flow, now)
}

/// Builds a packet with the shim before the overlay header.
fn behind(shim: &[u8], (tenant, destination, source): (u32, u32, u32), now: u64) -> Packet {
    let words = [destination, source].into_iter().flat_map(u32::to_be_bytes);
    let bytes: Vec<u8> =
        shim.iter().copied().chain(tenant.to_be_bytes()[1..].to_vec()).chain(words).chain([64]).collect();
    let mut packet = Packet::from_bytes(&bytes).expect("short");
    (packet.ingress_port, packet.rx_time_ns) = (PortId(0), now);
    packet
}

/// Returns the verdicts of packets in one batch.
pub fn verdicts(cache: &mut dyn Engine, flows: &[(u32, u32, u32)], now: u64) -> Vec<Verdict> {
    let mut batch = Batch::with_capacity(flows.len());
    for flow in flows {
        batch.push().expect("a batch has room").copy_from(&packet(*flow, now));
    }
    let mut out = BatchOutput::new();
    cache.process(&mut batch, &mut out);
    let mut verdicts = vec![None; flows.len()];
    for emission in out.verdicts() {
        let PacketRef::Input(at) = emission.packet else { panic!("{emission:?}") };
        assert_eq!(verdicts[usize::from(at)].replace(emission.verdict), None, "two answers to one packet");
    }
    verdicts.into_iter().map(|verdict| verdict.expect("an answer")).collect()
}

fn leaves(tenant: u32) -> Verdict {
    Verdict::Forward { port: PortId(tenant) }
}

const SHED: Verdict = Verdict::Drop(DropReason::Engine(EngineReason::SlowPathLimit));

/// One tenant floods with new flows at ten times the slow path's rate. Established flows of other
/// tenants lose nothing, and neither do their few new flows.
fn flood<R: BackingEngine>(mut cache: RewriteCache<R>, pipeline: &ir::Pipeline, (floods, other): (u32, u32))
where
    RewriteCache<R>: Engine,
{
    assert!(cache.set_tenant_variable("hdr.overlay.vni") && !cache.set_tenant_variable("hdr.overlay.nothing"));
    assert!(cache.set_tenant_variable("hdr.overlay.vni"));
    cache.write(&tenants(pipeline)).expect("good entries");
    for tenant in 1..=TENANTS {
        assert_eq!(verdicts(&mut cache, &[(tenant, 1, 2)], 0), [leaves(tenant)]);
    }
    cache.admit_up_to(SlowPathBudget { packets_per_second: 100_000, window_ns: 1_000_000 });
    let (mut of_flood, mut flood) = (0, 0);
    for step in 0..2_000u32 {
        // One tenant opens ten flows each ten microseconds, another one now and then. All others
        // continue with their flows.
        let now = 1_000_000 + u64::from(step) * 10_000;
        let mut flows: Vec<(u32, u32, u32)> = (0..10).map(|more| (floods, 100 + step * 10 + more, 3)).collect();
        flows.push((5 + step % 6, 1, 2));
        if step.is_multiple_of(10) {
            flows.push((other, 1_000 + step, 1));
        }
        let became = verdicts(&mut cache, &flows, now);
        for (flow, verdict) in flows.iter().zip(became) {
            if flow.0 == floods && verdict == SHED {
                of_flood += 1;
            } else {
                assert_eq!(verdict, leaves(flow.0), "{flow:?} at {now}");
            }
        }
        flood += 10;
    }
    let admission = cache.admission().expect("there is one");
    assert_eq!((of_flood, cache.stats().refused_admission), (admission.refused_of(u64::from(floods)), of_flood));
    assert_eq!(admission.refused().0.count(), 1, "nobody else is refused");
    assert!(of_flood > flood * 8 / 10 && of_flood < flood * 95 / 100, "{of_flood} of {flood}");
    assert_eq!(cache.stats().faults, 0);
}

#[test]
fn a_flood_is_its_tenants_loss() {
    let pipeline = pipeline();
    let (room, config) = (1 << 15, Config::default);
    // The number of both tenants is at the same position.
    for who in [(1, 3), (4, 2)] {
        flood(RewriteCache::new(pipeline.clone(), config(), room).expect("it is loaded"), &pipeline, who);
        flood(RewriteCache::native(pipeline.clone(), config(), room).expect("it is made native"), &pipeline, who);
    }
}

/// With pacing, the slow path gets the time that hits leave, and always a minimum.
#[test]
fn a_pace_is_kept() {
    let pipeline = pipeline();
    let mut cache = RewriteCache::native(pipeline.clone(), Config::default(), 1 << 15).expect("it is made native");
    cache.write(&tenants(&pipeline)).expect("good entries");
    assert!(!cache.enable_pacing(MinSlowPathShare::default()), "there is no budget");
    cache.admit_up_to(SlowPathBudget { packets_per_second: 1 << 40, window_ns: 10_000 });
    assert!(cache.enable_pacing(MinSlowPathShare { percent: 1 }));
    let mut made = 0;
    for step in 0..100u32 {
        let flows: Vec<_> = (0..200).map(|more| (1, 100 + step * 200 + more, 3)).collect();
        let became = verdicts(&mut cache, &flows, u64::from(step) * 10_000);
        made += became.iter().filter(|verdict| **verdict == leaves(1)).count();
    }
    // No machine learns 200 flows in 10 us. All of the first batch are admitted, because nothing
    // was measured before it.
    assert!((200..10_000).contains(&made), "{made} of 20,000 were let in");
    assert_eq!(cache.stats().refused_admission, 20_000 - made as u64);
}

/// An idle rewrite expires; one with traffic stays.
#[test]
fn what_is_idle_goes() {
    let pipeline = pipeline();
    let mut cache = RewriteCache::native(pipeline.clone(), Config::default(), 1 << 15).expect("it is made native");
    cache.write(&tenants(&pipeline)).expect("good entries");
    cache.set_idle_timeout_ns(Some(1_000));
    verdicts(&mut cache, &[(1, 1, 2), (2, 1, 2), (3, 1, 2)], 10_000);
    verdicts(&mut cache, &[(2, 1, 2)], 10_900);
    let tick = |cache: &mut RewriteCache<jit::Jit>, now: u64| {
        // Each tick scans part of the slots.
        (0..1 << 4).for_each(|_| cache.tick(now, &mut BatchOutput::new()));
        cache.flows().len()
    };
    assert_eq!(tick(&mut cache, 11_000), 3);
    assert_eq!(tick(&mut cache, 11_500), 1);
    assert_eq!(verdicts(&mut cache, &[(2, 1, 2)], 11_600), [leaves(2)]);
    assert_eq!(tick(&mut cache, 12_000), 1);
    assert_eq!((tick(&mut cache, 12_601), cache.stats().expired), (0, 3));
    assert_eq!(verdicts(&mut cache, &[(2, 1, 2)], 12_700), [leaves(2)]);
    assert_eq!((cache.flows().len(), cache.stats().faults), (1, 0));
}

/// Packets of one new flow in the same batch create one rewrite.
fn together<R: BackingEngine>(mut cache: RewriteCache<R>, pipeline: &ir::Pipeline) -> u64
where
    RewriteCache<R>: Engine,
{
    cache.write(&tenants(pipeline)).expect("good entries");
    // The first packet of a path behaves differently, so it is sent before.
    verdicts(&mut cache, &[(2, 1, 2)], 0);
    assert_eq!(verdicts(&mut cache, &[(2, 7, 9), (2, 7, 9), (2, 7, 9)], 1), [leaves(2); 3]);
    let stats = cache.stats();
    assert_eq!((stats.inserted, stats.replaced, stats.faults, cache.flows().len()), (2, 0, 0, 2));
    stats.rewritten
}

#[test]
fn packets_that_come_together_leave_one_rewrite() {
    let pipeline = pipeline();
    let reference = RewriteCache::new(pipeline.clone(), Config::default(), 64).expect("it is loaded");
    assert_eq!(together(reference, &pipeline), 2);
    let native = RewriteCache::native(pipeline.clone(), Config::default(), 64).expect("it is made native");
    assert_eq!(together(native, &pipeline), 0, "they are run together");
}

/// Traces of marked packets, which keep their mark.
fn marked<R: BackingEngine>(mut cache: RewriteCache<R>, pipeline: &ir::Pipeline)
where
    RewriteCache<R>: Engine,
{
    cache.write(&tenants(pipeline)).expect("good entries");
    let mut tell = |flows: &[(u32, u32, u32)], marks: &[u16], now: u64| {
        let mut batch = Batch::with_capacity(flows.len());
        for (flow, mark) in flows.iter().zip(marks) {
            let room = batch.push().expect("a batch has room");
            room.copy_from(&packet(*flow, now));
            room.trace_id = *mark;
        }
        let mut out = BatchOutput::new();
        cache.process(&mut batch, &mut out);
        assert_eq!(out.verdicts().len(), flows.len());
        assert!(out.verdicts().iter().enumerate().all(|(at, e)| e.packet == PacketRef::Input(at as u16)));
        assert!(
            batch.packets().iter().map(|packet| packet.trace_id).eq(marks.iter().copied()),
            "they keep their marks"
        );
        if now == 1 {
            cache.admit_up_to(SlowPathBudget { packets_per_second: 1, window_ns: 1 });
        }
        cache.take_trace_notes()
    };
    let slow = |what: &str| format!("not in the flow cache: the slow path decided; {what}");
    let kept = slow("its rewrite is cached for the next packets");
    let offloaded = "offloaded: a cached rewrite was applied".to_owned();
    assert_eq!(tell(&[(2, 1, 2), (2, 1, 3)], &[7, 0], 0), [(7, kept.clone())]);
    assert_eq!(tell(&[(2, 1, 2)], &[0], 0), []);
    assert_eq!(tell(&[(2, 1, 3), (2, 1, 2), (3, 1, 2)], &[0, 8, 9], 1), [(8, offloaded.clone()), (9, kept)]);
    let shed = "not in the flow cache, and its tenant has used up its share of the slow path".to_owned();
    let told = tell(&[(2, 9, 1), (2, 9, 2), (2, 9, 3), (2, 1, 2)], &[0, 0, 4, 5], 2);
    assert_eq!(told, [(4, shed), (5, offloaded)]);
}

#[test]
fn what_was_done_is_told_of_marked_packets() {
    let pipeline = pipeline();
    marked(RewriteCache::new(pipeline.clone(), Config::default(), 64).expect("it is loaded"), &pipeline);
    marked(RewriteCache::native(pipeline.clone(), Config::default(), 64).expect("it is made native"), &pipeline);
}

/// Number of packets of a flow, each in its own batch. Enough that the flow is cached however small
/// the capacity is.
const OFTEN: u64 = 24;

/// Sends [`OFTEN`] packets with this number of pads before their header.
fn often(cache: &mut dyn Engine, pads: usize, flow: (u32, u32, u32)) {
    let mut front = vec![if pads == 0 { 1 } else { 2 + pads as u8 }];
    front.resize(1 + 64 * pads, 0xee);
    for _ in 0..OFTEN {
        let mut batch = Batch::with_capacity(1);
        batch.push().expect("a batch has room").copy_from(&behind(&front, flow, 1));
        let mut out = BatchOutput::new();
        cache.process(&mut batch, &mut out);
        assert!(out.verdicts().iter().all(|emission| emission.verdict == leaves(flow.0)), "{flow:?}");
        let left = &batch.packets()[0];
        assert_eq!((left.len(), left.bytes().last()), (front.len() + 12, Some(&63)));
    }
}

/// Rewrites of many sizes free memory that other sizes cannot use. Memory stays bounded and no
/// count is lost.
fn sizes<R: BackingEngine>(mut cache: RewriteCache<R>, pipeline: &ir::Pipeline, hits: impl Fn(&R) -> u64)
where
    RewriteCache<R>: Engine,
{
    cache.write(&tenants(pipeline)).expect("good entries");
    let (mut sent, mut held) = (0u64, 0);
    for round in 0..6u32 {
        for pads in 0..4 {
            // Twice the number of flows that fit.
            (0..32).for_each(|number| often(&mut cache, pads, (3, number + 100, round)));
            sent += 32 * OFTEN;
            if (round + pads as u32).is_multiple_of(3) {
                cache.flush_counters();
                assert_eq!(hits(cache.engine()), sent);
            }
        }
        held = held.max(cache.flows().memory());
    }
    assert!(cache.stats().fragmentation_flushes > 1 && held < 1 << 20, "{held} bytes, {:?}", cache.stats());
    // Rows of another size take the memory of rows that have just counted packets.
    cache.flush_counters();
    for pads in [0, 3, 1, 2] {
        (0..8).for_each(|number| often(&mut cache, pads, (3, number + 100, 50)));
        sent += 8 * OFTEN;
        if pads != 2 {
            cache.clear();
        }
    }
    cache.flush_counters();
    let stats = cache.stats();
    assert_eq!(
        (hits(cache.engine()), stats.slow_path_packets + stats.rewritten, stats.faults),
        (sent, sent, 0),
        "{stats:?}"
    );
    assert!(stats.rewritten >= sent / 10 && stats.inserted > 400, "{stats:?}");
}

/// Flows of one packet displace no established flow when the cache is full; a second packet admits
/// its flow.
#[test]
fn who_comes_once_takes_nobodys_place() {
    let pipeline = pipeline();
    let mut cache = RewriteCache::native(pipeline.clone(), Config::default(), 64).expect("it is made native");
    cache.write(&tenants(&pipeline)).expect("good entries");
    let established: Vec<(u32, u32, u32)> = (0..60).map(|number| (1 + number % TENANTS, 77, number)).collect();
    let of = |flows: &[(u32, u32, u32)]| flows.iter().map(|flow| leaves(flow.0)).collect::<Vec<_>>();
    (0..2).for_each(|now| assert_eq!(verdicts(&mut cache, &established, now), of(&established)));
    let before = cache.stats().clone();
    assert!(cache.flows().len() >= 58, "{before:?}");
    for step in 0..500u32 {
        let scan: Vec<(u32, u32, u32)> = (0..10).map(|more| (1 + step % TENANTS, 100 + step * 10 + more, 3)).collect();
        let all: Vec<(u32, u32, u32)> = established.iter().chain(&scan).copied().collect();
        assert_eq!(verdicts(&mut cache, &all, 10 + u64::from(step)), of(&all));
    }
    let stats = cache.stats().clone();
    assert!(stats.not_inserted - before.not_inserted > 4_900 && stats.evicted < 50, "{stats:?}");
    assert!(stats.rewritten - before.rewritten > 60 * 490, "{stats:?}");
    let newcomers: Vec<(u32, u32, u32)> = (0..30).map(|number| (2, 900_000 + number, 1)).collect();
    (0..60).for_each(|now| assert_eq!(verdicts(&mut cache, &newcomers, 1_000 + now), of(&newcomers)));
    // Admission samples one of eight batches. After two sampled batches a flow is cached, and then
    // all of its packets are rewritten.
    assert!(cache.stats().rewritten - stats.rewritten >= 25 * 40, "{:?}", cache.stats());
    assert_eq!(cache.stats().faults, 0);
}

#[test]
fn rewrites_of_all_sizes_have_bounded_memory() {
    let pipeline = pipeline();
    let table = pipeline.tables.keys().next().expect("a table");
    let reference = RewriteCache::new(pipeline.clone(), Config::default(), 16).expect("it is loaded");
    sizes(reference, &pipeline, |interp| interp.action_counters(table).map(|(_, [_, hits])| hits.packets).sum());
    let native = RewriteCache::native(pipeline.clone(), Config::default(), 16).expect("it is made native");
    sizes(native, &pipeline, |jit| {
        let tallies = jit.stats().tables;
        let of_table = tallies.iter().filter(|tally| tally.table == table).flat_map(|tally| &tally.actions);
        of_table.map(|action| action.hits.packets).sum()
    });
}
