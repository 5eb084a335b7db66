//! Tests the path of a packet through v1model.

use crate::build::*;
use entries::{CloneSession, MulticastGroup, Replica, StateUpdate, UpdateKind};
use interp::Interp;
use ir::*;
use packet::{PacketOrigin, Verdict};

/// Packets of two bytes: the case for ingress, and a byte that records events. Egress adds the
/// instance type to its upper half and, for copies, the replica's instance to its lower half.
struct Simple {
    t: Build,
    h: HeaderId,
    what: VarId,
    mark: VarId,
}

fn simple() -> Simple {
    let mut t = Build::v1model();
    let h = t.header("h", &[("what", Type::Bit(8)), ("mark", Type::Bit(8))]);
    let (what, mark) = (t.field(h, 0), t.field(h, 1));
    t.parser(ControlKind::Parser, &[h]);
    Simple { t, h, what, mark }
}

/// Case of ingress.
type Act<'a> = &'a dyn Fn(&mut BodyBuilder, &Build);

/// Builds an ingress with one case for each value of `what`. It sends to port 1 unless the case
/// decides otherwise.
fn ingress(s: &Simple, cases: &[(u8, Act<'_>)]) -> BodyBuilder {
    let mut b = BodyBuilder::new();
    set(&mut b, &s.t.p, s.t.std("egress_spec"), 1);
    let value = b.load(&s.t.p, s.what);
    let blocks: Vec<Block> = cases.iter().map(|_| b.create_block()).collect();
    let end = b.create_block();
    let constants = cases.iter().zip(&blocks).map(|((n, _), block)| (Const::new(Type::Bit(8), *n), *block));
    b.switch(value, constants.collect(), end);
    for ((_, act), block) in cases.iter().zip(&blocks) {
        b.switch_to(*block);
        act(&mut b, &s.t);
        b.jump(end);
    }
    b.switch_to(end);
    b.ret();
    b
}

/// mark += instance_type << 4 | egress_rid
fn egress(s: &Simple) -> BodyBuilder {
    let mut b = BodyBuilder::new();
    let instance = b.load(&s.t.p, s.t.std("instance_type"));
    let rid = b.load(&s.t.p, s.t.std("egress_rid"));
    let instance = b.slice(instance, 3, 0);
    let rid = b.slice(rid, 3, 0);
    let both = b.concat(instance, rid);
    let mark = b.load(&s.t.p, s.mark);
    let sum = b.add(mark, both);
    b.store(s.mark, sum);
    b.ret();
    b
}

fn finish(mut s: Simple, ingress: BodyBuilder, egress: BodyBuilder) -> Interp {
    s.t.control(ControlKind::Ingress, ingress);
    s.t.control(ControlKind::Egress, egress);
    s.t.deparser(ControlKind::Deparser, &[s.h]);
    s.t.load()
}

fn group(id: u32, replicas: &[(u32, u16)]) -> StateUpdate {
    let replicas = replicas.iter().map(|(port, instance)| Replica { port: *port, instance: *instance }).collect();
    StateUpdate::Multicast(UpdateKind::Insert, MulticastGroup { id, replicas })
}

fn session(id: u32, port: u32) -> StateUpdate {
    let replicas = vec![Replica { port, instance: 0 }];
    StateUpdate::Clone(UpdateKind::Insert, CloneSession { id, replicas, ..CloneSession::default() })
}

fn preserve(b: &mut BodyBuilder, func: ExternFn, vars: &[VarId]) {
    b.call_extern(None, func, vec![ExternArg::Vars(vars.to_vec())], &[]);
}

fn clone(b: &mut BodyBuilder, session: u32, vars: &[VarId]) {
    let id = b.bits(32, session);
    b.call_extern(
        None,
        ExternFn::Clone,
        vec![ExternArg::Str("I2E".into()), ExternArg::Value(id), ExternArg::Vars(vars.to_vec())],
        &[],
    );
}

#[test]
fn unicast_drop_and_precedence() {
    let s = simple();
    let (spec, mcast) = (s.t.std("egress_spec"), s.t.std("mcast_grp"));
    let body = ingress(
        &s,
        &[
            (1, &|b, t| set(b, &t.p, spec, 9)),
            (2, &|b, _| {
                b.call_extern(None, ExternFn::MarkToDrop, vec![], &[]);
            }),
            // An assignment after mark_to_drop revokes the drop.
            (3, &|b, t| {
                b.call_extern(None, ExternFn::MarkToDrop, vec![], &[]);
                set(b, &t.p, spec, 4);
            }),
            // A multicast group has precedence over the drop port; mark_to_drop clears the group.
            (4, &|b, t| {
                set(b, &t.p, mcast, 7);
                set(b, &t.p, spec, 511);
            }),
            (5, &|b, t| {
                set(b, &t.p, mcast, 7);
                b.call_extern(None, ExternFn::MarkToDrop, vec![], &[]);
            }),
            (6, &|b, t| set(b, &t.p, mcast, 8)),
        ],
    );
    let e = egress(&s);
    let mut interp = finish(s, body, e);
    write(&mut interp, [group(7, &[(2, 3), (5, 4), (2, 1)])]);
    assert_eq!(sent(&interp.process(&[0, 0, 0xaa], 3, 0)), [(1, vec![0, 0, 0xaa])]);
    assert_eq!(sent(&interp.process(&[1, 0], 3, 0)), [(9, vec![1, 0])]);
    let out = interp.process(&[2, 0], 3, 0);
    assert_eq!((sent(&out), drops(&interp, &out)), (vec![], vec!["program_drop".to_owned()]));
    assert_eq!(sent(&interp.process(&[3, 0], 3, 0)), [(4, vec![3, 0])]);
    let out = interp.process(&[4, 0], 3, 0);
    assert_eq!(sent(&out), [(2, vec![4, 0x53]), (5, vec![4, 0x54]), (2, vec![4, 0x51])]);
    assert_eq!(out.packets()[1].origin, PacketOrigin::Multicast { group: 7, instance: 4 });
    let out = interp.process(&[5, 0], 3, 0);
    assert_eq!(drops(&interp, &out), ["program_drop"]);
    let out = interp.process(&[6, 0], 3, 0);
    assert_eq!(drops(&interp, &out), ["unknown_multicast_group"]);
}

/// A clone in ingress has the received bytes; of its metadata only the preserved fields remain.
#[test]
fn clone_ingress_to_egress() {
    let mut s = simple();
    let (kept, lost) = (s.t.meta("meta.kept", 8), s.t.meta("meta.lost", 8));
    let mark = s.mark;
    // Values that the parser writes are lost, too.
    let mut parser = BodyBuilder::new();
    parser.extract(s.h);
    set(&mut parser, &s.t.p, lost, 0x20);
    parser.ret();
    s.t.p.controls[ControlId(0)].body = parser.finish();
    let body = ingress(
        &s,
        &[(1, &|b, t| {
            set(b, &t.p, mark, 0x66);
            set(b, &t.p, kept, 1);
            set(b, &t.p, lost, 1);
            clone(b, 5, &[kept]);
            // The value at the end of the control is preserved.
            set(b, &t.p, kept, 2);
        })],
    );
    let mut e = BodyBuilder::new();
    let add = |e: &mut BodyBuilder, var| {
        let (a, b) = (e.load(&s.t.p, mark), e.load(&s.t.p, var));
        let sum = e.add(a, b);
        e.store(mark, sum);
    };
    add(&mut e, kept);
    add(&mut e, lost);
    let port = e.load(&s.t.p, s.t.std("ingress_port"));
    let port = e.cast(Type::Bit(8), port);
    e.store(s.what, port);
    e.ret();
    let mut interp = finish(s, body, e);
    // Without a session no clone is made.
    assert_eq!(sent(&interp.process(&[1, 0x10, 9], 3, 0)), [(1, vec![3, 0x69, 9])]);
    write(&mut interp, [session(5, 8)]);
    let out = interp.process(&[1, 0x10, 9], 3, 0);
    assert_eq!(sent(&out), [(8, vec![3, 0x12, 9]), (1, vec![3, 0x69, 9])]);
    assert_eq!(out.packets()[0].origin, PacketOrigin::Clone { session: 5 });
}

/// A clone in egress has the current bytes, and restarts egress with instance type 2.
#[test]
fn clone_egress_to_egress() {
    let s = simple();
    let body = ingress(&s, &[]);
    let (mark, spec, instance) = (s.mark, s.t.std("egress_spec"), s.t.std("instance_type"));
    let mut e = BodyBuilder::new();
    let (first, again) = (e.create_block(), e.create_block());
    let ty = e.load(&s.t.p, instance);
    let zero = e.bits(32, 0u8);
    let is_first = e.eq(ty, zero);
    e.branch(is_first, first, again);
    e.switch_to(first);
    set(&mut e, &s.t.p, mark, 0x42);
    clone(&mut e, 6, &[]);
    // The clone is made although the packet itself is dropped.
    set(&mut e, &s.t.p, spec, 511);
    e.ret();
    e.switch_to(again);
    let ty = e.slice(ty, 7, 0);
    e.store(s.what, ty);
    e.ret();
    let mut interp = finish(s, body, e);
    write(&mut interp, [session(6, 12)]);
    let out = interp.process(&[1, 0, 5], 3, 0);
    assert_eq!(sent(&out), [(12, vec![2, 0x42, 5])]);
    assert_eq!(drops(&interp, &out), ["program_drop"]);
}

#[test]
fn endless_clones_resubmits_and_recirculations_end() {
    let s = simple();
    let body = ingress(&s, &[(1, &|b, _| preserve(b, ExternFn::Resubmit, &[]))]);
    let mut e = BodyBuilder::new();
    let (recirculate, other, copy, end) = (e.create_block(), e.create_block(), e.create_block(), e.create_block());
    let what = e.load(&s.t.p, s.what);
    let two = e.bits(8, 2u8);
    let is = e.eq(what, two);
    e.branch(is, recirculate, other);
    e.switch_to(recirculate);
    preserve(&mut e, ExternFn::Recirculate, &[]);
    e.jump(end);
    e.switch_to(other);
    let three = e.bits(8, 3u8);
    let is = e.eq(what, three);
    e.branch(is, copy, end);
    e.switch_to(copy);
    clone(&mut e, 1, &[]);
    e.jump(end);
    e.switch_to(end);
    e.ret();
    let mut interp = finish(s, body, e);
    write(&mut interp, [session(1, 2)]);
    for what in [1, 2] {
        let out = interp.process(&[what, 0], 0, 0);
        assert_eq!((sent(&out).len(), drops(&interp, &out)), (0, vec!["recirculation_limit".to_owned()]));
    }
    let out = interp.process(&[3, 0], 0, 0);
    assert_eq!((sent(&out).len(), drops(&interp, &out)), (33, vec!["recirculation_limit".to_owned()]));
}

/// A resubmitted packet has the received bytes, a recirculated one the deparsed bytes. Preserved
/// metadata arrive.
#[test]
fn resubmit_and_recirculate() {
    let mut s = simple();
    let seen = s.t.meta("meta.seen", 8);
    let (mark, instance, length) = (s.mark, s.t.std("instance_type"), s.t.std("packet_length"));
    let mut b = BodyBuilder::new();
    let (first, later, end) = (b.create_block(), b.create_block(), b.create_block());
    set(&mut b, &s.t.p, s.t.std("egress_spec"), 1);
    let ty = b.load(&s.t.p, instance);
    let zero = b.bits(32, 0u8);
    let is_first = b.eq(ty, zero);
    b.branch(is_first, first, later);
    b.switch_to(first);
    set(&mut b, &s.t.p, mark, 0x77);
    set(&mut b, &s.t.p, seen, 3);
    preserve(&mut b, ExternFn::Resubmit, &[seen]);
    b.jump(end);
    b.switch_to(later);
    let was = b.load(&s.t.p, mark);
    let kept = b.load(&s.t.p, seen);
    let sum = b.add(was, kept);
    b.store(mark, sum);
    let ty = b.slice(ty, 7, 0);
    b.store(s.what, ty);
    b.jump(end);
    b.switch_to(end);
    b.ret();
    let mut e = BodyBuilder::new();
    let (loops, end) = (e.create_block(), e.create_block());
    let what = e.load(&s.t.p, s.what);
    let resubmitted = e.bits(8, 6u8);
    let is = e.eq(what, resubmitted);
    e.branch(is, loops, end);
    e.switch_to(loops);
    set(&mut e, &s.t.p, seen, 5);
    preserve(&mut e, ExternFn::Recirculate, &[seen]);
    e.jump(end);
    e.switch_to(end);
    let len = e.load(&s.t.p, length);
    let len = e.slice(len, 7, 0);
    let was = e.load(&s.t.p, mark);
    let sum = e.add(was, len);
    e.store(mark, sum);
    e.ret();
    let mut interp = finish(s, b, e);
    // Resubmitted: 0x10 + 3 (seen) + 4 (length) = 0x17; recirculated: + 5 (seen) + 4 = 0x20, type
    // 4.
    assert_eq!(sent(&interp.process(&[9, 0x10, 1, 2], 0, 0)), [(1, vec![4, 0x20, 1, 2])]);
}

/// packet_length in egress counts headers that were added.
#[test]
fn packet_length_and_truncate() {
    let mut s = simple();
    let extra = s.t.header("extra", &[("length", Type::Bit(32))]);
    let length = s.t.std("packet_length");
    let body = ingress(
        &s,
        &[
            (1, &|b, _| b.set_valid(extra)),
            (2, &|b, _| {
                let three = b.bits(32, 3u8);
                b.call_extern(None, ExternFn::Truncate, vec![ExternArg::Value(three)], &[]);
            }),
        ],
    );
    let mut e = BodyBuilder::new();
    let len = e.load(&s.t.p, length);
    e.store(s.t.field(extra, 0), len);
    e.ret();
    s.t.control(ControlKind::Ingress, body);
    s.t.control(ControlKind::Egress, e);
    s.t.deparser(ControlKind::Deparser, &[extra, s.h]);
    let mut interp = s.t.load();
    assert_eq!(sent(&interp.process(&[1, 0, 7], 0, 0)), [(1, vec![0, 0, 0, 7, 1, 0, 7])]);
    assert_eq!(sent(&interp.process(&[2, 0, 7, 8], 0, 0)), [(1, vec![2, 0, 7])]);
    assert_eq!(sent(&interp.process(&[2, 0], 0, 0)), [(1, vec![2, 0])]);
}

/// A rejected packet continues with the error; no field of a truncated header is extracted.
#[test]
fn parser_errors() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("x", Type::Bit(8))]);
    let long = t.header("long", &[("y", Type::Bit(32))]);
    let report = t.header("report", &[("error", Type::Bit(32)), ("valid", Type::Bit(8))]);
    t.parser(ControlKind::Parser, &[h, long]);
    let mut b = BodyBuilder::new();
    let error = b.load(&t.p, t.std("parser_error"));
    let error = b.cast(Type::Bit(32), error);
    let valid = b.is_valid(long);
    let valid = b.cast(Type::Bit(1), valid);
    let valid = b.cast(Type::Bit(8), valid);
    b.set_valid(report);
    b.store(t.field(report, 0), error);
    b.store(t.field(report, 1), valid);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[report, h, long]);
    let mut interp = t.load();
    assert_eq!(sent(&interp.process(&[1, 2, 3, 4, 5, 6], 0, 0)), [(0, vec![0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6])]);
    assert_eq!(sent(&interp.process(&[1, 2, 3], 0, 0)), [(0, vec![0, 0, 0, 1, 0, 1, 2, 3])]);
    assert_eq!(sent(&interp.process(&[], 0, 0)), [(0, vec![0, 0, 0, 1, 0])]);
}

/// Varbits: too long, not whole bytes, past the end, and empty.
#[test]
fn varbit() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("bits", Type::Bit(8))]);
    let options = t.header("options", &[("kind", Type::Bit(8)), ("rest", Type::Varbit(80)), ("last", Type::Bit(8))]);
    let report = t.header("report", &[("error", Type::Bit(8))]);
    let mut b = BodyBuilder::new();
    b.extract(h);
    let bits = b.load(&t.p, t.field(h, 0));
    let bits = b.cast(Type::Bit(32), bits);
    b.extract_varbit(options, bits);
    b.ret();
    t.control(ControlKind::Parser, b);
    let mut b = BodyBuilder::new();
    let error = b.load(&t.p, t.std("parser_error"));
    let error = b.cast(Type::Bit(8), error);
    b.set_valid(report);
    b.store(t.field(report, 0), error);
    let last = b.load(&t.p, t.field(options, 2));
    let one = b.bits(8, 1u8);
    let more = b.add(last, one);
    b.store(t.field(options, 2), more);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[report, options]);
    let mut interp = t.load();
    let mut run = |packet: &[u8]| sent(&interp.process(packet, 0, 0)).remove(0).1;
    assert_eq!(run(&[16, 1, 2, 3, 4, 5]), [0, 1, 2, 3, 5, 5]);
    assert_eq!(run(&[0, 1, 2, 3]), [0, 1, 3, 3]);
    assert_eq!(run(&[80, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]), [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 4]);
    assert_eq!(run(&[88, 1, 2, 3]), [4, 1, 2, 3]); // HeaderTooShort
    assert_eq!(run(&[4, 1, 2, 3]), [6, 1, 2, 3]); // ParserInvalidArgument
    assert_eq!(run(&[16, 1, 2, 3]), [1, 1, 2, 3]); // PacketTooShort
}

/// Endless loops in parsers and controls end with a named drop reason.
#[test]
fn endless_loops() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("x", Type::Bit(8))]);
    let mut b = BodyBuilder::new();
    let state = b.create_block();
    b.add_state("again", state, SourceLoc::default());
    b.jump(state);
    b.switch_to(state);
    let next = b.lookahead(Type::Bit(8));
    let (accept, one) = (b.create_block(), b.bits(8, 1u8));
    let is = b.eq(next, one);
    b.branch(is, state, accept);
    b.switch_to(accept);
    b.extract(h);
    b.ret();
    t.control(ControlKind::Parser, b);
    let mut b = BodyBuilder::new();
    let (head, end) = (b.create_block(), b.create_block());
    b.jump(head);
    b.switch_to(head);
    let x = b.load(&t.p, t.field(h, 0));
    let two = b.bits(8, 2u8);
    let is = b.eq(x, two);
    b.branch(is, head, end);
    b.switch_to(end);
    b.ret();
    t.control(ControlKind::Ingress, b);
    t.deparser(ControlKind::Deparser, &[h]);
    let mut interp = t.load();
    let mut run = |packet: &[u8]| {
        let out = interp.process(packet, 0, 0);
        drops(&interp, &out)
    };
    assert_eq!(run(&[1]), ["parser_timeout"]);
    assert_eq!(run(&[2]), ["instruction_limit"]);
    assert!(run(&[3]).is_empty());
}

/// A deparser that emits more than a packet can hold.
#[test]
fn too_long() {
    let mut t = Build::v1model();
    let h = t.header("h", &[("x", Type::Bit(8 * 1000))]);
    t.parser(ControlKind::Parser, &[h]);
    t.deparser(ControlKind::Deparser, &[h; 66]);
    let mut interp = t.load();
    let out = interp.process(&[1; 1000], 0, 0);
    assert_eq!(drops(&interp, &out), ["packet_too_long"]);
    assert!(matches!(out.packets(), [only] if matches!(only.verdict, Verdict::Drop(_))));
}
