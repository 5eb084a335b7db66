//! Tests that counts of packets that the kernel processed equal the interpreter's, including
//! packets that the kernel loses.

use crate::lab::{HOOKS, Lab, Oracle};
use crate::{fits, same_counts, write};
use cache_engines::HookChoice;
use packet::{Counter, DropReason, EngineCounters, Packet, PortId, PortReason};
use std::collections::BTreeMap;
use testkit::differ::case::{PacketIn, TestEvent};
use testkit::differ::plan;

const PORTS: u32 = 4;

/// Returns the counts of workers and kernel together.
fn totals(lab: &Lab) -> EngineCounters {
    // Counts are fetched only periodically.
    std::thread::sleep(std::time::Duration::from_millis(5));
    let mut all = lab.counted.clone();
    all += &lab.engine.bypass_counters();
    all
}

/// Returns packets by drop reason, without bytes, because the final length of a dropped packet
/// depends on the engine.
fn dropped(counters: &EngineCounters) -> BTreeMap<DropReason, u64> {
    counters.drops.iter().map(|(reason, counter)| (reason, counter.packets)).collect()
}

/// Checks that every packet is counted exactly once.
fn adds_up(lab: &mut Lab, counters: &EngineCounters) {
    let [mut received, mut sent, mut lost] = [0; 3];
    for port in 0..PORTS {
        let port = lab.port(port);
        received += port.received.packets;
        sent += port.sent.packets;
        lost += port.drops.total().packets;
    }
    assert_eq!(received, counters.received.packets);
    assert_eq!(sent + lost, counters.forwarded_total().packets);
    let known = counters.forwarded_total().packets + counters.to_cpu_total().packets + counters.drops.total().packets;
    assert_eq!(counters.received.packets + counters.generated, known);
}

#[test]
fn totals_ports_and_drops_are_the_interpreters() {
    HOOKS.into_iter().for_each(compare_totals);
}

fn compare_totals(hook: HookChoice) {
    let seed = std::env::var("XDP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(72);
    println!("XDP_SEED={seed}");
    let case = plan::gateway_case(seed, 400).expect("a case");
    let Some(mut lab) = Lab::new(hook, PORTS, 4_096, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let mut in_kernel = 0;
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => write(&mut lab, &mut oracle, batch),
            TestEvent::Packets(some) => {
                for packet in some.iter().chain(some).filter(|packet| fits(packet)) {
                    in_kernel += u32::from(oracle.compare(&mut lab, packet.port, &packet.bytes).in_kernel);
                }
            }
            TestEvent::Tick(_) => {}
        }
    }
    assert!(in_kernel > 50, "{in_kernel} by the kernel");
    let all = totals(&lab);
    let forwarded = |counters: &EngineCounters| counters.forwarded.clone();
    assert_eq!((all.received, forwarded(&all)), (oracle.counted.received, forwarded(&oracle.counted)));
    assert_eq!(all.to_cpu, oracle.counted.to_cpu);
    assert_eq!(dropped(&all), dropped(&oracle.counted));
    assert!(!lab.engine.bypass_counters().drops.total().is_zero(), "the kernel dropped some of them");
    for port in 0..PORTS {
        let found = lab.port(port);
        let came = oracle.came.get(&port).copied().unwrap_or_default();
        let left: Counter = oracle.counted.forwarded.get(&PortId(port)).copied().unwrap_or_default();
        assert_eq!((found.received, found.sent), (came, left), "port {port}");
        assert!(found.drops.total().is_zero(), "{:?}", found.drops);
    }
    adds_up(&mut lab, &all);
    same_counts(&lab, &oracle, &case.pipeline);
    // Another program starts without any of it.
    lab.engine.retire();
    assert_eq!(totals(&lab), all);
    assert_eq!(lab.plan.kernel().expect("it was there").installed_keys(), 0);
}

/// The far ends' programs are removed while packets of a flow arrive.
#[test]
fn what_the_kernel_loses_is_not_forwarded() {
    let Some(Forwarded { mut lab, flow, .. }) = forwarded_flow(HookChoice::Xdp) else { return };
    let before = totals(&lab);
    adds_up(&mut lab, &before);

    lab.passes.clear();
    let packets = vec![Packet::from_bytes(&flow.bytes).expect("short"); 100];
    lab.send_all(flow.port, &packets);
    let after = totals(&lab);
    assert_eq!(after.received.packets, before.received.packets + 100);
    assert_eq!(after.forwarded_total().packets, before.forwarded_total().packets + 100);
    adds_up(&mut lab, &after);
    let refused = |lab: &mut Lab| -> u64 {
        (0..PORTS).map(|port| lab.port(port).drops.get(PortReason::TxXdpRefused).packets).sum()
    };
    assert_eq!(refused(&mut lab), 100);
    let notes = lab.engine.status_notes().join("\n");
    assert!(notes.contains("its device refuses packets from XDP programs"), "{notes}");

    // From then on nothing is lost: packets leave through the process.
    lab.send_all(flow.port, &packets);
    let last = totals(&lab);
    assert_eq!(last.forwarded_total().packets, after.forwarded_total().packets + 100);
    adds_up(&mut lab, &last);
    assert_eq!(refused(&mut lab), 100);
    let served: BTreeMap<&str, u64> = lab.engine.packets_by_tier().into_iter().collect();
    assert!(served["dpu"] >= 100, "rewritten beside the kernel: {served:?}");
}

/// A lab, and a packet that the kernel forwards there.
struct Forwarded {
    lab: Lab,
    flow: PacketIn,
    /// Port by which it leaves.
    leaves: u32,
}

/// Returns a packet that the kernel forwards to another port.
fn forwarded_flow(hook: HookChoice) -> Option<Forwarded> {
    let case = plan::gateway_case(5, 400).expect("a case");
    let mut lab = Lab::new(hook, PORTS, 1_024, &case.pipeline)?;
    let mut oracle = Oracle::new(&case.pipeline);
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => write(&mut lab, &mut oracle, batch),
            TestEvent::Packets(some) => {
                for packet in some.iter().filter(|packet| fits(packet)) {
                    if !oracle.compare(&mut lab, packet.port, &packet.bytes).forwarded {
                        continue;
                    }
                    let seen = lab.send(packet.port, &packet.bytes, 1);
                    if seen.in_kernel && seen.sent[0].0 != packet.port {
                        return Some(Forwarded { lab, flow: packet.clone(), leaves: seen.sent[0].0 });
                    }
                }
            }
            TestEvent::Tick(_) => {}
        }
    }
    panic!("some packets are forwarded by the kernel")
}

/// At tc, the device of a link that is down drops what it gets.
#[test]
fn what_a_link_that_is_down_drops_is_not_sent() {
    let Some(Forwarded { mut lab, flow, leaves }) = forwarded_flow(HookChoice::Tc) else { return };
    let before = totals(&lab);
    adds_up(&mut lab, &before);
    lab.cut_off(leaves);
    let packets = vec![Packet::from_bytes(&flow.bytes).expect("short"); 100];
    lab.send_all(flow.port, &packets);
    let after = totals(&lab);
    assert_eq!(after.received.packets, before.received.packets + 100);
    assert_eq!(after.forwarded_total().packets, before.forwarded_total().packets + 100);
    let lost = lab.port(leaves).drops;
    assert_eq!(lost.get(PortReason::TxPortDown).packets, 100, "{lost:?}");
    adds_up(&mut lab, &after);
}
