//! The flow cache in the kernel against the interpreter, packet by packet, on veth pairs: what leaves, what is counted, what a write changes, and what there is no room
//! for. Needs root; otherwise each test says that it was skipped.

mod lab;
mod router;
mod totals;

use cache_engines::XdpPlan;
use entries::{Update, WriteBatch};
use io::xdp::REST;
use ir::{ExternKind, Pipeline};
use lab::{Lab, Oracle};
use node::engine::EngineFactory;
use packet::{Batch, MAX_LEN, Output, PortId, Verdict};
use std::sync::Arc;
use testkit::differ::case::{PacketIn, Step};
use testkit::differ::plan;

/// All indexed counters and all tallies of tables are the same.
pub fn same_counts(lab: &Lab, oracle: &Oracle, pipeline: &Arc<Pipeline>) {
    // Counts are fetched now and then only.
    std::thread::sleep(std::time::Duration::from_millis(5));
    for (id, object) in pipeline.externs.iter().filter(|(_, object)| matches!(object.kind, ExternKind::Counter { .. }))
    {
        let end = oracle.interp.array_len(id).unwrap_or(0);
        let expected: Vec<_> = (0..end)
            .filter_map(|index| Some((index, oracle.interp.counter(id, index).filter(|value| value.packets != 0)?)))
            .collect();
        assert_eq!(expected, lab.engine.counted(id, end), "{}", object.preamble.name);
    }
    for tally in lab.engine.tallies().tables {
        for ((action, [misses, hits]), found) in oracle.interp.applied(tally.table).zip(&tally.actions) {
            assert_eq!((action, misses, hits), (found.action, found.misses, found.hits));
        }
    }
}

/// Both get the region's entries.
pub fn write(lab: &mut Lab, oracle: &mut Oracle, batch: &WriteBatch) {
    oracle.interp.write(batch).expect("the region's entries");
    lab.engine.write(batch).expect("the region's entries");
}

/// As it can be sent on the veth pairs.
pub fn fits(packet: &PacketIn) -> bool {
    (14..=3_400).contains(&packet.bytes.len()) && packet.bytes.len() <= MAX_LEN
}

/// The gateway with a random region: each packet twice, so that the kernel has a chance.
#[test]
fn the_gateway_on_veth_is_the_interpreter() {
    let seed = std::env::var("XDP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(71);
    println!("XDP_SEED={seed}");
    let case = plan::gateway(seed, 500).expect("a case");
    let Some(mut lab) = Lab::new(4, 4_096, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let (mut packets, mut in_kernel, mut forwarded) = (0, 0, 0);
    for step in &case.steps {
        match step {
            Step::Write(batch) => write(&mut lab, &mut oracle, batch),
            Step::Packets(some) => {
                for packet in some.iter().chain(some).filter(|packet| fits(packet)) {
                    let compared = oracle.compare(&mut lab, packet.port, &packet.bytes);
                    packets += 1;
                    in_kernel += u32::from(compared.in_kernel);
                    forwarded += u32::from(compared.in_kernel && compared.forwarded);
                }
            }
            Step::Tick(_) => {}
        }
    }
    lab.nothing_more();
    same_counts(&lab, &oracle, &case.pipeline);
    let served = lab.engine.served();
    assert_eq!(served[0], ("kernel", u64::from(in_kernel)));
    assert_eq!(served.iter().map(|(_, count)| count).sum::<u64>(), u64::from(packets), "{served:?}");
    assert_eq!(lab.engine.without_code(), None, "the gateway's misses are native code's");
    println!(
        "{packets} packets, {in_kernel} of them by the kernel, {forwarded} of these forwarded\n{:#?}",
        lab.engine.notes()
    );
    assert!(in_kernel >= packets / 5 && forwarded >= 10, "{in_kernel} of {packets}, {forwarded} forwarded");
}

/// A tenant's flow, and then the table that it depends on changes: the next packet sees it.
#[test]
fn a_write_is_seen_by_the_next_packet() {
    let mut changed = 0;
    for seed in 0..4 {
        let case = plan::gateway(seed, 400).expect("a case");
        let Some(mut lab) = Lab::new(4, 1_024, &case.pipeline) else { return };
        let mut oracle = Oracle::new(&case.pipeline);
        let mut entries = WriteBatch::default();
        for step in &case.steps {
            match step {
                Step::Write(batch) => {
                    write(&mut lab, &mut oracle, batch);
                    entries.updates.extend(batch.updates.iter().cloned());
                }
                Step::Packets(some) => {
                    for packet in some.iter().filter(|packet| fits(packet)) {
                        oracle.compare(&mut lab, packet.port, &packet.bytes);
                        let again = oracle.compare(&mut lab, packet.port, &packet.bytes);
                        if !(again.in_kernel && again.forwarded) {
                            continue;
                        }
                        // Everything that can go goes, one entry after the other, and comes back.
                        changed += without(&mut lab, &mut oracle, packet, &entries);
                        assert!(!oracle.compare(&mut lab, packet.port, &packet.bytes).in_kernel || changed > 0);
                        break;
                    }
                }
                Step::Tick(_) => {}
            }
        }
        same_counts(&lab, &oracle, &case.pipeline);
    }
    assert!(changed >= 4, "{changed} writes changed what became of a packet");
}

/// Takes entries away and puts them back; how many changed what became of the packet.
fn without(lab: &mut Lab, oracle: &mut Oracle, packet: &PacketIn, entries: &WriteBatch) -> u32 {
    let mut changed = 0;
    let one = |kind: entries::UpdateKind, update: &Update| match update {
        Update::Entry(_, entry) => Some(Update::Entry(kind, entry.clone())),
        Update::Packed(_, entry) => Some(Update::Packed(kind, entry.clone())),
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

/// Room for few flows: the others are the interpreter's, and new ones get their turn.
#[test]
fn a_full_map_is_named_and_packets_go_on() {
    let case = plan::gateway(3, 300).expect("a case");
    let Some(mut lab) = Lab::new(4, 8, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let mut in_kernel = 0;
    for step in &case.steps {
        match step {
            Step::Write(batch) => write(&mut lab, &mut oracle, batch),
            Step::Packets(some) => {
                for packet in some.iter().chain(some).filter(|packet| fits(packet)) {
                    in_kernel += u32::from(oracle.compare(&mut lab, packet.port, &packet.bytes).in_kernel);
                }
                std::thread::sleep(REST);
            }
            Step::Tick(_) => {}
        }
    }
    same_counts(&lab, &oracle, &case.pipeline);
    let notes = lab.engine.notes().join("\n");
    println!("{in_kernel} by the kernel\n{notes}");
    assert!(notes.contains("left no flow: there is no room for more flows"), "{notes}");
    assert!(!notes.contains(" 0 evicted"), "{notes}");
    assert!(lab.plan.kernel().expect("it was there").held() <= 8);
}

/// Without XDP the engine does the same, beside the interpreter, and says why it is not in the kernel.
#[test]
fn without_xdp_packets_go_on_and_a_note_says_why() {
    let case = plan::gateway(9, 300).expect("a case");
    let plan = XdpPlan::without("this kernel has none");
    let engine = plan.clone().shared().load(&case.pipeline, &interp::Config::default());
    let mut engine = engine.unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let mut worker = engine.worker();
    let mut oracle = Oracle::new(&case.pipeline);
    let (mut batch, mut out) = (Batch::new(), Output::new());
    for step in &case.steps {
        match step {
            Step::Write(entries) => {
                oracle.interp.write(entries).expect("the region's entries");
                engine.write(entries).expect("the region's entries");
            }
            Step::Packets(some) => {
                for packet in some.iter().chain(some) {
                    batch.clear();
                    out.clear();
                    batch.push_bytes(&packet.bytes, PortId(packet.port), packet.at).expect("a packet");
                    worker.process(&mut batch, &mut out);
                    let expected = oracle.interp.process(&packet.bytes, packet.port, packet.at);
                    let verdicts: Vec<Verdict> = out.emissions().iter().map(|emission| emission.verdict).collect();
                    assert_eq!(expected.packets().iter().map(|packet| packet.verdict).collect::<Vec<_>>(), verdicts);
                    if let Some((_, bytes)) = expected.sent().next() {
                        assert_eq!(bytes, batch.packets()[0].bytes());
                    }
                }
            }
            Step::Tick(_) => {}
        }
    }
    let notes = engine.notes().join("\n");
    assert!(notes.contains("xdp: not in the kernel: this kernel has none"), "{notes}");
    assert!(!notes.contains(" 0 rewritten beside it"), "{notes}");
    let opened = plan.open("lo", 1);
    let note = opened.map(|opened| opened.note.unwrap_or_default());
    assert!(note.as_ref().is_ok_and(|note| note.contains("this kernel has none")), "{:?}", note.err());
}

/// Another program takes over the kernel's maps when the first one is gone, and finds nothing of it.
#[test]
fn programs_follow_each_other() {
    let case = plan::gateway(5, 200).expect("a case");
    let Some(mut lab) = Lab::new(4, 512, &case.pipeline) else { return };
    let mut oracle = Oracle::new(&case.pipeline);
    let Some(Step::Write(entries)) = case.steps.first() else { panic!("the region comes first") };
    oracle.interp.write(entries).expect("the region's entries");
    lab.engine.write(entries).expect("the region's entries");
    let packets: Vec<&PacketIn> =
        case.steps.iter().flat_map(|step| if let Step::Packets(some) = step { &some[..] } else { &[] }).collect();
    for packet in packets.iter().filter(|packet| fits(packet)) {
        oracle.compare(&mut lab, packet.port, &packet.bytes);
    }
    let kernel = lab.plan.kernel().expect("it was there").clone();
    assert!(kernel.held() > 10, "{}", kernel.held());
    lab.another(&case.pipeline);
    assert_eq!(kernel.held(), 0);
    // Without the region, all is dropped or goes to the CPU.
    let mut oracle = Oracle::new(&case.pipeline);
    std::thread::sleep(REST);
    for packet in packets.iter().chain(&packets).filter(|packet| fits(packet)) {
        assert!(!oracle.compare(&mut lab, packet.port, &packet.bytes).forwarded);
    }
    assert!(kernel.held() > 0);
    same_counts(&lab, &oracle, &case.pipeline);
}
