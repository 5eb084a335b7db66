//! Tests the path of a packet through PNA, and entries that the data plane adds.

use crate::build::*;
use entries::{CloneSession, EntryId, Replica, StateUpdate, UpdateKind};
use interp::{Config, Interp};
use ir::*;
use packet::{CpuReason, PacketOrigin, ReasonId, Verdict};
use std::collections::BTreeSet;

/// Case of the main control.
type Act<'a> = &'a dyn Fn(&mut BodyBuilder, &Build);

/// Builds a main control with one case for each value of the packet's first byte.
fn pna(cases: &[(u8, Act<'_>)], mut t: Build, h: HeaderId) -> Interp {
    t.parser(ControlKind::MainParser, &[h]);
    let mut b = BodyBuilder::new();
    let value = b.load(&t.p, t.field(h, 0));
    let blocks: Vec<Block> = cases.iter().map(|_| b.create_block()).collect();
    let end = b.create_block();
    let constants = cases.iter().zip(&blocks).map(|((n, _), block)| (Const::new(Type::Bit(8), *n), *block));
    b.switch(value, constants.collect(), end);
    for ((_, act), block) in cases.iter().zip(&blocks) {
        b.switch_to(*block);
        act(&mut b, &t);
        b.jump(end);
    }
    b.switch_to(end);
    b.ret();
    t.control(ControlKind::MainControl, b);
    t.deparser(ControlKind::MainDeparser, &[h]);
    let config = Config {
        ports: Some(BTreeSet::from([1, 2, 3])),
        host_ports: BTreeSet::from([2]),
        start_ns: 1000,
        ..Config::default()
    };
    t.load_with(config)
}

fn send(b: &mut BodyBuilder, port: u32) {
    let port = b.bits(32, port);
    b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
}

fn drop_packet(b: &mut BodyBuilder) {
    b.call_extern(None, ExternFn::DropPacket, vec![], &[]);
}

fn mirror(b: &mut BodyBuilder, slot: u8, session: u16) {
    let (slot, session) = (b.bits(8, slot), b.bits(16, session));
    b.call_extern(None, ExternFn::MirrorPacket, vec![ExternArg::Value(slot), ExternArg::Value(session)], &[]);
}

#[test]
fn destinations() {
    let mut t = Build::pna();
    let h = t.header("h", &[("what", Type::Bit(8)), ("mark", Type::Bit(8))]);
    let (reason, cpu) = (t.meta("meta.drop_reason", 8), t.meta("meta.punt_reason", 8));
    let named = |members: &[(&str, u8)]| {
        NamedType::SerializableEnum(8, members.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect())
    };
    t.p.named_types.push(("drop_reason_t".into(), named(&[("none", 0), ("no_route", 1), ("Bad-Name", 9)])));
    t.p.named_types.push(("punt_reason_t".into(), named(&[("none", 0), ("arp", 2)])));
    let (pass, direction) = (t.std("pass"), t.std("direction"));
    let mark = t.field(h, 1);
    let mut interp = pna(
        &[
            (1, &|b, _| send(b, 1)),
            (2, &|b, _| send(b, 9)),
            (3, &|b, _| drop_packet(b)),
            (4, &|b, t| {
                send(b, 1);
                set(b, &t.p, reason, 1);
                drop_packet(b);
            }),
            (5, &|b, _| {
                drop_packet(b);
                send(b, 2);
            }),
            (6, &|b, t| {
                set(b, &t.p, cpu, 2);
                send(b, 0xffff_fffd);
            }),
            (7, &|b, _| {
                b.call_extern(None, ExternFn::PnaRecirculate, vec![], &[]);
            }),
            (8, &|b, t| {
                let direction = b.load(&t.p, direction);
                let direction = b.cast(Type::Bit(32), direction);
                let direction = b.slice(direction, 7, 0);
                b.store(mark, direction);
                send(b, 3);
            }),
            (9, &|b, t| {
                let (again, done, end) = (b.create_block(), b.create_block(), b.create_block());
                let pass = b.load(&t.p, pass);
                let wide = b.cast(Type::Bit(8), pass);
                b.store(mark, wide);
                let three = b.bits(3, 3u8);
                let less = b.binary(BinaryOp::Lt, pass, three);
                b.branch(less, again, done);
                b.switch_to(again);
                b.call_extern(None, ExternFn::PnaRecirculate, vec![], &[]);
                drop_packet(b);
                b.jump(end);
                b.switch_to(done);
                send(b, 1);
                b.jump(end);
                b.switch_to(end);
            }),
        ],
        t,
        h,
    );
    let mut run = |what: u8, port: u32| {
        let out = interp.process(&[what, 0, 0xee], port, 5000);
        (sent(&out), drops(&interp, &out), out.packets()[0].verdict)
    };
    assert_eq!(run(1, 1).0, [(1, vec![1, 0, 0xee])]);
    assert_eq!(run(2, 1).1, ["unknown_port"]);
    assert_eq!(run(3, 1).1, ["program_drop"]);
    assert_eq!(run(4, 1).1, ["no_route"]);
    assert_eq!(run(5, 1).0, [(2, vec![5, 0, 0xee])]);
    assert_eq!(run(6, 1).2, Verdict::ToCpu { reason: CpuReason::Program(ReasonId(2)) });
    assert_eq!(run(7, 1).1, ["recirculation_limit"]);
    assert_eq!(run(8, 1).0, [(3, vec![8, 0, 0xee])]);
    assert_eq!(run(8, 2).0, [(3, vec![8, 1, 0xee])]);
    assert_eq!(run(9, 1).0, [(1, vec![9, 3, 0xee])]);
    // A dropped packet that recirculates counts as dropped, and another one enters the next pass.
    assert_eq!(run(9, 1).1, ["program_drop"; 3]);
    assert_eq!(run(0, 1).1, ["no_destination"]);
    assert_eq!(interp.reasons().cpu_name(CpuReason::Program(ReasonId(2))), "arp");
    assert_eq!(interp.reasons().get(ReasonId(9)), None);
}

/// Mirrored copies have the deparsed bytes, also for a dropped packet. Slots replace earlier
/// copies; sessions truncate.
#[test]
fn mirror_sessions() {
    let mut t = Build::pna();
    let h = t.header("h", &[("what", Type::Bit(8)), ("mark", Type::Bit(8))]);
    let mark = t.field(h, 1);
    let mut interp = pna(
        &[(1, &|b, t| {
            mirror(b, 0, 7);
            mirror(b, 1, 5);
            mirror(b, 0, 6);
            mirror(b, 4, 6);
            set(b, &t.p, mark, 0x55);
            drop_packet(b);
        })],
        t,
        h,
    );
    let session = |id, port, packet_length| {
        let replicas = vec![Replica { port, instance: 0 }];
        StateUpdate::Clone(UpdateKind::Insert, CloneSession { id, replicas, packet_length, ..CloneSession::default() })
    };
    write(&mut interp, [session(6, 3, 3), session(5, 2, 0), session(7, 1, 0)]);
    let out = interp.process(&[1, 0, 2, 3], 1, 0);
    assert_eq!(sent(&out), [(3, vec![1, 0x55, 2]), (2, vec![1, 0x55, 2, 3])]);
    assert_eq!(out.packets()[0].origin, PacketOrigin::Clone { session: 6 });
    assert_eq!(drops(&interp, &out), ["program_drop"]);
}

/// Flow table: the first packet of a key adds an entry with its second byte as data; later packets
/// hit it.
struct Flows {
    interp: Interp,
    table: TableId,
}

fn flows(auto_delete: bool, explicit_restart: bool) -> Flows {
    let mut t = Build::pna();
    let h = t.header("h", &[("key", Type::Bit(8)), ("data", Type::Bit(8)), ("added", Type::Bit(8))]);
    t.parser(ControlKind::MainParser, &[h]);
    let miss = t.action("miss", &[]);
    let hit = t.action("hit", &[8]);
    let table = t.table("flows", &[(Type::Bit(8), MatchKind::Exact)], &[miss, hit]);
    let declared = &mut t.p.tables[table];
    (declared.add_on_miss, declared.idle_timeout, declared.size) = (true, true, Some(2));
    let kind = if auto_delete { "PNA_IdleTimeout_t.AUTO_DELETE" } else { "PNA_IdleTimeout_t.NOTIFY_CONTROL" };
    declared.properties.push(("pna_idle_timeout".into(), kind.into()));
    let mut b = BodyBuilder::new();
    send(&mut b, 1);
    let key = b.load(&t.p, t.field(h, 0));
    let arms = b.apply_table(&t.p, table, vec![key]);
    b.switch_to(arms[0].block);
    let data = b.load(&t.p, t.field(h, 1));
    let profile = b.bits(8, 4u8);
    let args =
        vec![ExternArg::Table(table), ExternArg::Action(hit), ExternArg::Values(vec![data]), ExternArg::Value(profile)];
    let added = b.call_extern(None, ExternFn::AddEntry, args, &[Type::Bool])[0];
    let added = b.cast(Type::Bit(1), added);
    let added = b.cast(Type::Bit(8), added);
    b.store(t.field(h, 2), added);
    b.ret();
    b.switch_to(arms[1].block);
    b.store(t.field(h, 1), arms[1].params[0]);
    if explicit_restart {
        let (yes, end) = (b.create_block(), b.create_block());
        let flag = b.load(&t.p, t.field(h, 2));
        let one = b.bits(8, 1u8);
        let restart = b.eq(flag, one);
        b.branch(restart, yes, end);
        b.switch_to(yes);
        b.call_extern(None, ExternFn::RestartExpireTimer, vec![ExternArg::Table(table)], &[]);
        b.jump(end);
        b.switch_to(end);
    }
    b.ret();
    t.control(ControlKind::MainControl, b);
    t.deparser(ControlKind::MainDeparser, &[h]);
    let mut interp = t.load();
    write(&mut interp, [StateUpdate::ExpireTime(4, 1000 * MS)]);
    Flows { interp, table }
}

impl Flows {
    fn run(&mut self, packet: [u8; 3], now: u64) -> Vec<u8> {
        sent(&self.interp.process(&packet, 1, now)).remove(0).1
    }
}

#[test]
fn add_on_miss() {
    let mut f = flows(true, false);
    assert_eq!(f.run([1, 11, 0], 0), [1, 11, 1]);
    assert_eq!(f.run([1, 99, 0], 1), [1, 11, 0]);
    assert_eq!(f.run([2, 22, 0], 2), [2, 22, 1]);
    assert_eq!(f.run([3, 33, 0], 3), [3, 33, 0]); // the table is full
    assert_eq!(f.interp.state().entry_count(f.table), 2);
    // The control plane sees the entry and can change it.
    let hit = f.interp.pipeline().tables[f.table].actions[1].action;
    let mut changed = entry(f.table, vec![exact(1)], hit, &[77]);
    changed.idle_timeout_ns = 1000;
    write(&mut f.interp, [StateUpdate::Entry(UpdateKind::Modify, changed)]);
    assert_eq!(f.run([1, 0, 0], 4), [1, 77, 0]);
}

/// A millisecond in nanoseconds.
const MS: u64 = 1_000_000;

/// An idle time of a second counts from a tick of an eighth of a second after the hit, and the entry
/// ends at a half second.
#[test]
fn auto_delete() {
    let mut f = flows(true, false);
    f.run([1, 11, 0], 0);
    // The first hit is within the tick after the addition, so only the second restarts the idle time.
    f.run([1, 0, 0], 100 * MS);
    f.run([1, 0, 0], 900 * MS);
    assert!(f.interp.advance_time(2000 * MS - 1).is_empty());
    let idle = f.interp.advance_time(2000 * MS);
    assert_eq!((idle.len(), idle[0].deleted), (1, true));
    assert_eq!(f.interp.state().entry_count(f.table), 0);
    assert_eq!(f.run([1, 12, 0], 2100 * MS), [1, 12, 1]);
}

/// A hit within the slack of an entry writes nothing.
#[test]
fn slack_of_hits() {
    let mut f = flows(true, false);
    write(&mut f.interp, [StateUpdate::ExpireTime(4, 32_000 * MS)]);
    f.run([1, 11, 0], 0);
    f.run([1, 0, 0], 999 * MS);
    assert!(f.interp.advance_time(33_000 * MS - 1).is_empty());
    assert_eq!(f.interp.advance_time(33_000 * MS).len(), 1);
}

#[test]
fn notify_control() {
    let mut f = flows(false, false);
    f.run([1, 11, 0], 0);
    let idle = f.interp.advance_time(1500 * MS);
    assert_eq!((idle.len(), idle[0].deleted), (1, false));
    // Reported once for each expired idle time.
    assert!(f.interp.advance_time(2499 * MS).is_empty());
    assert_eq!(f.interp.advance_time(2500 * MS).len(), 1);
    assert_eq!(f.run([1, 0, 0], 2600 * MS), [1, 11, 0]);
    let id = EntryId { table: f.table, keys: vec![exact(1)], priority: 0 };
    assert_eq!(f.interp.idle_for(&id), Some(0));
}

/// Where an action restarts the timer, a hit alone does not.
#[test]
fn explicit_restart() {
    let mut f = flows(true, true);
    f.run([1, 11, 0], 0);
    f.run([1, 0, 1], 500 * MS);
    f.run([1, 0, 0], 1400 * MS);
    assert!(f.interp.advance_time(2000 * MS - 1).is_empty());
    assert_eq!(f.interp.advance_time(2000 * MS).len(), 1);
}

/// A change of a profile's time reaches the entries that have the profile, in both directions.
#[test]
fn changed_profile() {
    let mut f = flows(true, false);
    f.run([1, 11, 0], 0);
    write(&mut f.interp, [StateUpdate::ExpireTime(4, 500 * MS)]);
    assert!(f.interp.advance_time(999 * MS).is_empty());
    assert_eq!(f.interp.advance_time(1000 * MS).len(), 1);
    f.run([2, 22, 0], 1000 * MS);
    write(&mut f.interp, [StateUpdate::ExpireTime(4, 3000 * MS)]);
    assert!(f.interp.advance_time(4499 * MS).is_empty());
    assert_eq!(f.interp.advance_time(4500 * MS).len(), 1);
    // The control plane's own time does not follow the profile.
    f.run([3, 33, 0], 5000 * MS);
    let hit = f.interp.pipeline().tables[f.table].actions[1].action;
    let mut changed = entry(f.table, vec![exact(3)], hit, &[77]);
    changed.idle_timeout_ns = 100 * MS;
    write(&mut f.interp, [StateUpdate::Entry(UpdateKind::Modify, changed), StateUpdate::ExpireTime(4, 9000 * MS)]);
    assert_eq!(f.interp.advance_time(5500 * MS).len(), 1);
}

/// With a shorter time of its profile, an entry ends as if it was hit at the time of the change.
#[test]
fn shorter_profile() {
    let mut f = flows(true, false);
    write(&mut f.interp, [StateUpdate::ExpireTime(4, 7_200_000 * MS)]);
    f.run([1, 11, 0], 0);
    write(&mut f.interp, [StateUpdate::ExpireTime(4, 1000 * MS)]);
    assert_eq!(f.interp.advance_time(1500 * MS).len(), 1);
}

/// An unconfigured profile: the entry never expires.
#[test]
fn unknown_profile() {
    let mut f = flows(true, false);
    write(&mut f.interp, [StateUpdate::ExpireTime(4, 0)]);
    f.run([1, 11, 0], 0);
    assert!(f.interp.advance_time(u64::MAX).is_empty());
}

/// A port to another part of the device takes packets, but `is_net_port` and `is_host_port` do not
/// report it.
#[test]
fn a_port_within_the_device_takes_packets_and_is_not_told_of() {
    let ask = |inner: &[u32]| {
        let mut t = Build::pna();
        let h = t.header("h", &[("port", Type::Bit(32)), ("net", Type::Bit(8)), ("host", Type::Bit(8))]);
        t.parser(ControlKind::MainParser, &[h]);
        let mut b = BodyBuilder::new();
        let port = b.load(&t.p, t.field(h, 0));
        for (field, func) in [(1, ExternFn::IsNetPort), (2, ExternFn::IsHostPort)] {
            let is = b.call_extern(None, func, vec![ExternArg::Value(port)], &[Type::Bool])[0];
            let (yes, no) = (b.bits(8, 1u8), b.bits(8, 0u8));
            let value = b.select(is, yes, no);
            b.store(t.field(h, field), value);
        }
        b.call_extern(None, ExternFn::SendToPort, vec![ExternArg::Value(port)], &[]);
        b.ret();
        t.control(ControlKind::MainControl, b);
        t.deparser(ControlKind::MainDeparser, &[h]);
        let (ports, hosts) = (BTreeSet::from([1, 2, 9]), BTreeSet::from([2, 9]));
        let inner_ports = inner.iter().copied().collect();
        let mut interp =
            t.load_with(Config { ports: Some(ports), host_ports: hosts, tier_ports: inner_ports, ..Config::default() });
        [1u8, 2, 9].map(|port| {
            let run = interp.process(&[0, 0, 0, port, 7, 7], 1, 0);
            let sent = &run.packets()[0];
            assert_eq!(sent.verdict, Verdict::Forward { port: packet::PortId(port.into()) });
            [sent.bytes[4], sent.bytes[5]]
        })
    };
    assert_eq!(ask(&[]), [[1, 0], [0, 1], [0, 1]]);
    assert_eq!(ask(&[1, 9]), [[0, 0], [0, 1], [0, 0]]);
}
