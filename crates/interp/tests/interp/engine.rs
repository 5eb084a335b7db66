//! Tests the interpreter through the trait that all engines share.

use crate::build::*;
use entries::{MulticastGroup, Replica, StateUpdate, UpdateKind};
use ir::*;
use packet::{Batch, BatchOutput, Engine, EngineCounters, PacketOrigin, PortId, Verdict};

/// Copies of one packet: the first replaces the received packet, the others are extra. Each packet
/// gets a verdict.
#[test]
fn batch() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("port", Type::Bit(8))]);
    t.parser(ControlKind::Parser, &[h]);
    let mut b = BodyBuilder::new();
    let port = b.load(&t.p, t.field(h, 0));
    let (copy, single, end) = (b.create_block(), b.create_block(), b.create_block());
    let limit = b.bits(8, 200u8);
    let many = b.eq(port, limit);
    b.branch(many, copy, single);
    b.switch_to(copy);
    set(&mut b, &t.p, t.std("mcast_grp"), 1);
    b.jump(end);
    b.switch_to(single);
    let (port, high) = (b.load(&t.p, t.field(h, 0)), b.bits(1, 0u8));
    let spec = b.concat(high, port);
    let drop = b.bits(9, 511u32);
    let (zero, is) = (b.bits(8, 0u8), b.load(&t.p, t.field(h, 0)));
    let is_zero = b.eq(is, zero);
    let spec = b.select(is_zero, drop, spec);
    b.store(t.std("egress_spec"), spec);
    b.jump(end);
    b.switch_to(end);
    b.ret();
    t.control(ControlKind::Ingress, b);
    let mut e = BodyBuilder::new();
    let rid = e.load(&t.p, t.std("egress_rid"));
    let rid = e.slice(rid, 7, 0);
    e.store(t.field(h, 0), rid);
    e.ret();
    t.control(ControlKind::Egress, e);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    let replicas = [(4, 1), (5, 2), (6, 3)].map(|(port, instance)| Replica { port, instance }).to_vec();
    write(&mut interp, [StateUpdate::Multicast(UpdateKind::Insert, MulticastGroup { id: 1, replicas })]);
    let mut engine: Box<dyn Engine> = Box::new(interp);
    let (mut batch, mut out, mut counters) = (Batch::new(), BatchOutput::new(), EngineCounters::default());
    for _ in 0..2 {
        batch.clear();
        out.clear();
        for first in [7, 0, 200] {
            batch.push_bytes(&[first, 9], PortId(3), 0).unwrap();
        }
        counters.count_received(&batch);
        engine.process(&mut batch, &mut out);
        counters.count_batch(&batch, &out);
        let got: Vec<_> = out.iter(&batch).map(|(e, packet)| (e.verdict, packet.bytes().to_vec())).collect();
        let forward = |port| Verdict::Forward { port: PortId(port) };
        let dropped = Verdict::Drop(packet::EngineReason::ProgramDrop.into());
        assert_eq!(
            got,
            [
                (forward(7), vec![0, 9]),
                (dropped, vec![0, 9]),
                (forward(4), vec![1, 9]),
                (forward(5), vec![2, 9]),
                (forward(6), vec![3, 9]),
            ]
        );
        assert_eq!(out.inputs_without_verdict(&batch).count(), 0);
        assert_eq!(out.verdicts()[3].origin, PacketOrigin::Multicast { group: 1, instance: 2 });
    }
    assert_eq!(counters.forwarded_total().packets, 8);
    assert_eq!((counters.received.packets, counters.generated, counters.drops.total().packets), (6, 4, 2));
    assert_eq!(engine.name(), "interp");
}
