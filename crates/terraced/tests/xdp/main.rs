//! Compares the flow cache in the kernel, at XDP and at tc, with the interpreter, packet by packet, on veth pairs:
//! sent packets, counts, effects of writes, and a full map. Needs root; otherwise each test reports
//! that it was skipped.

mod lab;
mod router;
mod totals;

use cache_engines::{HookChoice, XdpPlan};
use entries::{Counter, StateUpdate, WriteBatch};
use io::xdp::REUSE_DELAY;
use ir::{ExternKind, Pipeline, TableId};
use lab::{HOOKS, Lab, Oracle};
use node::engine::EngineFactory;
use packet::{Batch, BatchOutput, MAX_LEN, PortId, Verdict};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::differ::case::{PacketIn, TestEvent};
use testkit::differ::plan;

/// Asserts that all indexed counters and all table statistics are equal.
pub fn same_counts(lab: &Lab, oracle: &Oracle, pipeline: &Arc<Pipeline>) {
    // Counts are fetched only periodically.
    std::thread::sleep(std::time::Duration::from_millis(5));
    for (id, object) in pipeline.externs.iter().filter(|(_, object)| matches!(object.kind, ExternKind::Counter { .. }))
    {
        let end = oracle.interp.array_len(id).unwrap_or(0);
        let expected: Vec<_> = (0..end)
            .filter_map(|index| Some((index, oracle.interp.counter(id, index).filter(|value| value.packets != 0)?)))
            .collect();
        assert_eq!(expected, lab.engine.counted(id, end), "{}", object.preamble.name);
    }
    // A table that later passes of a packet apply, too, has its counts in several places.
    let mut sums: BTreeMap<TableId, Vec<[Counter; 2]>> = BTreeMap::new();
    for tally in lab.engine.tallies().tables {
        let table = sums.entry(tally.table).or_default();
        table.resize(tally.actions.len(), Default::default());
        for (sum, action) in table.iter_mut().zip(&tally.actions) {
            sum[0] += action.misses;
            sum[1] += action.hits;
        }
    }
    for (table, found) in sums {
        for ((action, counts), found) in oracle.interp.action_counters(table).zip(found) {
            assert_eq!((action, counts), (action, found));
        }
    }
}

/// Writes the region's entries to both.
pub fn write(lab: &mut Lab, oracle: &mut Oracle, batch: &WriteBatch) {
    oracle.interp.write(batch).expect("the region's entries");
    lab.engine.write(batch).expect("the region's entries");
}

/// Returns whether a packet can be sent on the veth pairs. The kernel loses frames that end within
/// their VLAN tag or within the two bytes behind it.
pub fn fits(packet: &PacketIn) -> bool {
    let is_tagged = matches!(packet.bytes.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
    let least = if is_tagged { 20 } else { 14 };
    (least..=3_400).contains(&packet.bytes.len()) && packet.bytes.len() <= MAX_LEN
}

/// The gateway with a random region. Each packet is sent twice, so that the kernel's cache can hit.
#[test]
fn the_gateway_on_veth_is_the_interpreter() {
    HOOKS.into_iter().for_each(compare_gateway);
}

fn compare_gateway(hook: HookChoice) {
    let seed = std::env::var("XDP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(71);
    println!("XDP_SEED={seed}");
    let case = plan::gateway_case(seed, 500).expect("a case");
    let Some(mut lab) = Lab::new(hook, 4, 4_096, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let (mut packets, mut in_kernel, mut forwarded) = (0, 0, 0);
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => write(&mut lab, &mut oracle, batch),
            TestEvent::Packets(some) => {
                for packet in some.iter().chain(some).filter(|packet| fits(packet)) {
                    let compared = oracle.compare(&mut lab, packet.port, &packet.bytes);
                    packets += 1;
                    in_kernel += u32::from(compared.in_kernel);
                    forwarded += u32::from(compared.in_kernel && compared.forwarded);
                }
            }
            TestEvent::Tick(_) => {}
        }
    }
    lab.nothing_more();
    same_counts(&lab, &oracle, &case.pipeline);
    let served = lab.engine.packets_by_tier();
    assert_eq!(served[0], ("kernel", u64::from(in_kernel)));
    assert_eq!(served.iter().map(|(_, count)| count).sum::<u64>(), u64::from(packets), "{served:?}");
    assert_eq!(lab.engine.fallback_reason(), None, "the gateway's misses are native code's");
    println!(
        "{packets} packets, {in_kernel} of them by the kernel, {forwarded} of these forwarded\n{:#?}",
        lab.engine.status_notes()
    );
    assert!(in_kernel >= packets / 5 && forwarded >= 10, "{in_kernel} of {packets}, {forwarded} forwarded");
}

/// A write to a table that a tenant's flow depends on affects the next packet.
#[test]
fn a_write_is_seen_by_the_next_packet() {
    HOOKS.into_iter().for_each(write_between_packets);
}

fn write_between_packets(hook: HookChoice) {
    let mut changed = 0;
    for seed in 0..4 {
        let case = plan::gateway_case(seed, 400).expect("a case");
        let Some(mut lab) = Lab::new(hook, 4, 1_024, &case.pipeline) else { return };
        let mut oracle = Oracle::new(&case.pipeline);
        let mut entries = WriteBatch::default();
        for step in &case.steps {
            match step {
                TestEvent::Write(batch) => {
                    write(&mut lab, &mut oracle, batch);
                    entries.updates.extend(batch.updates.iter().cloned());
                }
                TestEvent::Packets(some) => {
                    for packet in some.iter().filter(|packet| fits(packet)) {
                        oracle.compare(&mut lab, packet.port, &packet.bytes);
                        let again = oracle.compare(&mut lab, packet.port, &packet.bytes);
                        if !(again.in_kernel && again.forwarded) {
                            continue;
                        }
                        // Every removable entry is deleted, one after the other, and restored.
                        changed += without(&mut lab, &mut oracle, packet, &entries);
                        assert!(!oracle.compare(&mut lab, packet.port, &packet.bytes).in_kernel || changed > 0);
                        break;
                    }
                }
                TestEvent::Tick(_) => {}
            }
        }
        same_counts(&lab, &oracle, &case.pipeline);
    }
    assert!(changed >= 4, "{changed} writes changed what became of a packet");
}

/// Deletes entries and restores them. Returns how many of them affected the packet's outcome.
fn without(lab: &mut Lab, oracle: &mut Oracle, packet: &PacketIn, entries: &WriteBatch) -> u32 {
    let mut changed = 0;
    let one = |kind: entries::UpdateKind, update: &StateUpdate| match update {
        StateUpdate::Entry(_, entry) => Some(StateUpdate::Entry(kind, entry.clone())),
        StateUpdate::Packed(_, entry) => Some(StateUpdate::Packed(kind, entry.clone())),
        _ => None,
    };
    for update in entries.updates.iter().take(60) {
        let (Some(delete), Some(insert)) =
            (one(entries::UpdateKind::Delete, update), one(entries::UpdateKind::Insert, update))
        else {
            continue;
        };
        for update in [delete, insert] {
            let batch: WriteBatch = std::iter::once(update).collect();
            let expected = oracle.interp.write(&batch).is_ok();
            assert_eq!(lab.engine.write(&batch).is_ok(), expected);
            let compared = oracle.compare(lab, packet.port, &packet.bytes);
            changed += u32::from(!compared.forwarded);
        }
    }
    changed
}

/// A map for few flows: the interpreter serves the others, and new flows replace old ones.
#[test]
fn a_full_map_is_named_and_packets_go_on() {
    HOOKS.into_iter().for_each(fill_map);
}

fn fill_map(hook: HookChoice) {
    let case = plan::gateway_case(3, 300).expect("a case");
    let Some(mut lab) = Lab::new(hook, 4, 8, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let mut in_kernel = 0;
    for step in &case.steps {
        match step {
            TestEvent::Write(batch) => write(&mut lab, &mut oracle, batch),
            TestEvent::Packets(some) => {
                for packet in some.iter().chain(some).filter(|packet| fits(packet)) {
                    in_kernel += u32::from(oracle.compare(&mut lab, packet.port, &packet.bytes).in_kernel);
                }
                std::thread::sleep(REUSE_DELAY);
            }
            TestEvent::Tick(_) => {}
        }
    }
    same_counts(&lab, &oracle, &case.pipeline);
    let notes = lab.engine.status_notes().join("\n");
    println!("{in_kernel} by the kernel\n{notes}");
    assert!(notes.contains("without a rewrite: the cache is full"), "{notes}");
    assert!(!notes.contains(" 0 evicted"), "{notes}");
    assert!(lab.plan.kernel().expect("it was there").installed_keys() <= 8);
}

/// Without XDP the engine runs beside the interpreter with the same results, and a note names the
/// reason.
#[test]
fn without_xdp_packets_go_on_and_a_note_says_why() {
    let case = plan::gateway_case(9, 300).expect("a case");
    let plan = XdpPlan::without("this kernel has none");
    let engine = plan.clone().shared().load(&case.pipeline, &interp::Config::default());
    let mut engine = engine.unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let mut worker = engine.new_worker();
    let mut oracle = Oracle::new(&case.pipeline);
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    for step in &case.steps {
        match step {
            TestEvent::Write(entries) => {
                oracle.interp.write(entries).expect("the region's entries");
                engine.write(entries).expect("the region's entries");
            }
            TestEvent::Packets(some) => {
                for packet in some.iter().chain(some) {
                    batch.clear();
                    out.clear();
                    batch.push_bytes(&packet.bytes, PortId(packet.port), packet.at).expect("a packet");
                    worker.process(&mut batch, &mut out);
                    let expected = oracle.interp.process(&packet.bytes, packet.port, packet.at);
                    let verdicts: Vec<Verdict> = out.verdicts().iter().map(|emission| emission.verdict).collect();
                    assert_eq!(expected.packets().iter().map(|packet| packet.verdict).collect::<Vec<_>>(), verdicts);
                    if let Some((_, bytes)) = expected.sent().next() {
                        assert_eq!(bytes, batch.packets()[0].bytes());
                    }
                }
            }
            TestEvent::Tick(_) => {}
        }
    }
    let notes = engine.status_notes().join("\n");
    assert!(notes.contains("xdp: not in the kernel: this kernel has none"), "{notes}");
    assert!(!notes.contains(" 0 rewritten beside it"), "{notes}");
    let opened = plan.open("lo", 1);
    let note = opened.map(|opened| opened.note.unwrap_or_default());
    assert!(note.as_ref().is_ok_and(|note| note.contains("this kernel has none")), "{:?}", note.err());
}

/// Another program takes over the kernel's maps after the first one has ended, and finds none of
/// its flows.
#[test]
fn programs_follow_each_other() {
    HOOKS.into_iter().for_each(replace_program);
}

fn replace_program(hook: HookChoice) {
    let case = plan::gateway_case(5, 200).expect("a case");
    let Some(mut lab) = Lab::new(hook, 4, 512, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let Some(TestEvent::Write(entries)) = case.steps.first() else { panic!("the region comes first") };
    oracle.interp.write(entries).expect("the region's entries");
    lab.engine.write(entries).expect("the region's entries");
    let packets: Vec<&PacketIn> =
        case.steps.iter().flat_map(|step| if let TestEvent::Packets(some) = step { &some[..] } else { &[] }).collect();
    for packet in packets.iter().filter(|packet| fits(packet)) {
        oracle.compare(&mut lab, packet.port, &packet.bytes);
    }
    let kernel = lab.plan.kernel().expect("it was there").clone();
    assert!(kernel.installed_keys() > 10, "{}", kernel.installed_keys());
    lab.another(&case.pipeline);
    assert_eq!(kernel.installed_keys(), 0);
    // Without the region, all packets are dropped or go to the CPU.
    let mut oracle = Oracle::new(&case.pipeline);
    std::thread::sleep(REUSE_DELAY);
    for packet in packets.iter().chain(&packets).filter(|packet| fits(packet)) {
        assert!(!oracle.compare(&mut lab, packet.port, &packet.bytes).forwarded);
    }
    assert!(kernel.installed_keys() > 0);
    same_counts(&lab, &oracle, &case.pipeline);
}
