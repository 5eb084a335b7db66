//! Tests batches, outputs, drop reasons and counters through the public interface.

use packet::*;

const PORT: PortId = PortId(1);

fn batch_of(packets: &[&[u8]]) -> Batch {
    let mut batch = Batch::new();
    for bytes in packets {
        batch.push_bytes(bytes, PORT, 5).unwrap();
    }
    batch
}

#[test]
fn a_batch_is_bounded_and_keeps_its_buffers() {
    let mut batch = Batch::with_capacity(2);
    batch.push_bytes(b"a", PORT, 1).unwrap();
    let buffer = batch.packets()[0].bytes().as_ptr();
    batch.push_bytes(b"b", PORT, 2).unwrap();
    assert_eq!(batch.push().unwrap_err(), BatchFull { capacity: 2 });
    batch.clear();
    assert!(batch.is_empty());
    batch.push_bytes(b"c", PORT, 3).unwrap();
    assert_eq!(batch.packets()[0].bytes().as_ptr(), buffer);
    assert_eq!(batch.packets()[0].rx_time_ns, 3);
    assert_eq!(Batch::with_capacity(0).capacity(), 1);
    assert_eq!(Batch::with_capacity(usize::MAX).capacity(), MAX_BATCH);
}

#[test]
fn a_packet_that_is_too_long_leaves_the_batch_as_it_was() {
    let mut batch = batch_of(&[b"a"]);
    let long = vec![0; MAX_LEN + 1];
    assert_eq!(batch.push_bytes(&long, PORT, 0), Err(PushError::TooLong(PacketTooLong { wanted: MAX_LEN + 1 })));
    assert_eq!(batch.len(), 1);
    assert!(batch.push_bytes(&long[1..], PORT, 0).is_ok());
}

#[test]
fn push_swap_moves_the_buffer() {
    let mut batch = Batch::new();
    let mut packet = Packet::from_bytes(b"moved").unwrap();
    packet.ingress_port = PortId(9);
    let buffer = packet.bytes().as_ptr();
    batch.push_swap(&mut packet).unwrap();
    assert!(packet.is_empty());
    assert_eq!(batch.packets()[0].bytes().as_ptr(), buffer);
    assert_eq!(batch.packets()[0].ingress_port, PortId(9));
}

#[test]
fn emissions_keep_their_order_and_share_bytes() {
    let batch = batch_of(&[b"one", b"two"]);
    let mut out = BatchOutput::new();
    let refs: Vec<PacketRef> = batch.indexed().map(|(reference, _)| reference).collect();
    let copy = out.add_copy(&batch.packets()[0]).unwrap();
    out.generated_mut(copy).unwrap().prepend(1).unwrap()[0] = b'x';
    out.forward(refs[0], PortId(2));
    out.emit(PacketVerdict {
        packet: copy,
        origin: PacketOrigin::Clone { session: 4 },
        verdict: Verdict::Forward { port: PortId(3) },
    });
    out.forward(refs[0], PortId(3));
    assert_eq!(out.inputs_without_verdict(&batch).collect::<Vec<_>>(), [1]);
    out.drop(refs[1], EngineReason::ParserNoMatch.into());
    assert_eq!(out.inputs_without_verdict(&batch).count(), 0);

    let bytes: Vec<&[u8]> = out.iter(&batch).map(|(_, packet)| packet.bytes()).collect();
    assert_eq!(bytes, [b"one".as_slice(), b"xone", b"one", b"two"]);
    assert!(out.generated_mut(refs[0]).is_none());
    out.clear();
    assert!(out.packet(&batch, copy).is_none(), "references do not outlive the batch");
}

#[test]
fn replication_is_bounded_and_counted() {
    let batch = batch_of(&[b"bomb"]);
    let mut out = BatchOutput::new();
    for _ in 0..MAX_GENERATED {
        out.add_generated().unwrap();
    }
    assert!(out.add_generated().is_none());
    for _ in 0..MAX_VERDICTS + 3 {
        out.forward(PacketRef::Input(0), PORT);
    }
    let mut counters = EngineCounters::default();
    counters.count_batch(&batch, &out);
    assert_eq!(counters.forwarded_total().packets, MAX_VERDICTS as u64);
    assert_eq!(counters.drops.get(EngineReason::ReplicationLimit).packets, 3);
    assert_eq!(counters.generated, MAX_VERDICTS as u64 + 2);
}

#[test]
fn counters_account_for_each_packet() {
    let batch = batch_of(&[b"12", b"345", b"6789", b"forgotten"]);
    let mut out = BatchOutput::new();
    let reason = DropReason::Program(ReasonId(7));
    let mut batch = batch;
    let mut counters = EngineCounters::default();
    counters.count_received(&batch);
    batch.packets_mut()[0].prepend(10).unwrap();
    out.forward(PacketRef::Input(0), PORT);
    out.drop(PacketRef::Input(1), reason);
    out.to_cpu(PacketRef::Input(2), CpuReason::CpuPort);
    counters.count_batch(&batch, &out);
    assert_eq!(counters.received, Counter { packets: 4, bytes: 18 }, "as they came, not as they leave");
    assert_eq!(counters.generated, 0);
    assert_eq!(counters.forwarded[&PORT], Counter { packets: 1, bytes: 12 });
    assert_eq!(counters.drops.get(reason), Counter { packets: 1, bytes: 3 });
    assert_eq!(counters.to_cpu[&CpuReason::CpuPort], Counter { packets: 1, bytes: 4 });
    assert_eq!(counters.drops.get(EngineReason::EngineBug).packets, 1);
    assert_eq!(counters.drops.total().packets, 2);
}

#[test]
fn what_is_taken_out_of_a_counter_is_not_in_it() {
    let mut counter = Counter { packets: 3, bytes: 100 };
    assert_eq!(counter.take_packets(2), Counter { packets: 2, bytes: 66 });
    assert_eq!(counter.take_packets(9), Counter { packets: 1, bytes: 34 });
    assert_eq!((counter, counter.take_packets(1)), (Counter::default(), Counter::default()));
    let mut port = PortCounters { sent: Counter { packets: u64::MAX, bytes: u64::MAX }, ..PortCounters::default() };
    port.move_sent_to_drops(PortReason::TxError, u64::MAX - 1);
    assert_eq!((port.sent.packets, port.drops.get(PortReason::TxError).packets), (1, u64::MAX - 1));
}

#[test]
fn reason_names_are_unique_and_found_again() {
    let table = ReasonTable::new([(ReasonId(3), "acl_denied"), (ReasonId(1), "no_route")]).unwrap();
    let names: Vec<&str> = EngineReason::ALL
        .iter()
        .map(|reason| reason.name())
        .chain(PortReason::ALL.iter().map(|reason| reason.name()))
        .chain(table.iter().map(|(_, name)| name))
        .collect();
    for name in &names {
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        assert_eq!(table.drop_name(table.find(name).unwrap()), *name);
    }
    assert_eq!(table.drop_name(DropReason::Program(ReasonId(9))), "program_reason_9");
    assert_eq!(table.find("no_such_reason"), None);
    assert_eq!(table.cpu_name(CpuReason::Program(ReasonId(1))), "no_route");
}

#[test]
fn bad_declarations_of_reasons_are_refused() {
    let declare = |pairs: &[(u32, &str)]| {
        ReasonTable::new(pairs.iter().map(|(id, name)| (ReasonId(*id), *name))).unwrap_err().to_string()
    };
    assert!(declare(&[(1, "a"), (1, "b")]).contains("number 1 is declared twice, as `a` and as `b`"));
    assert!(declare(&[(1, "a"), (2, "a")]).contains("`a` is already taken"));
    assert!(declare(&[(1, "tx_mtu")]).contains("already taken"));
    assert!(declare(&[(1, "program_reason_2")]).contains("already taken"));
    for bad in ["", "Acl", "1a", "a-b", "a b", &"x".repeat(MAX_REASON_NAME + 1)] {
        assert!(declare(&[(1, bad)]).contains("cannot name a reason"), "{bad}");
    }
}

/// Verdicts set together or one by one, and at the limit.
#[test]
fn forwarding_many_is_forwarding_each() {
    let ports: Vec<u32> = (0..200).map(|at| at % 7).collect();
    let (mut together, mut each) = (BatchOutput::new(), BatchOutput::new());
    for _ in 0..MAX_VERDICTS / ports.len() + 2 {
        together.forward_consecutive(3, ports.iter().copied());
        for (port, at) in ports.iter().zip(3..) {
            each.forward(PacketRef::Input(at), PortId(*port));
        }
    }
    assert_eq!(together.verdicts(), each.verdicts());
    assert_eq!(together.verdicts().len(), MAX_VERDICTS);
    assert_eq!(together.overflow_count(), each.overflow_count());
    assert!(together.overflow_count() > 0);
}

/// With an owned buffer, and with none.
#[test]
fn a_packet_is_at_its_place() {
    let mut packet = Packet::from_bytes(b"at its place").unwrap();
    packet.trim_front(3).unwrap();
    let (start, len) = packet.as_mut_ptr_len();
    assert_eq!((start.cast_const(), len), (packet.bytes().as_ptr(), 9));
    assert_eq!(Packet::new().as_mut_ptr_len().1, 0);
}
