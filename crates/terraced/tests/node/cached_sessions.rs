//! Sessions of `programs/nat` on tiers: the switch has copies of entries that packets add. A flow goes
//! down with its first packet, and with those that change its expire time; idle sessions end, and none
//! while the switch uses it.

use entries::{ActionSpec, StateUpdate, TableEntry, UpdateKind, WriteBatch};
use ir::{ActionCall, KeyMatch, Pipeline, TableId};
use node::engine::{EngineControl, EngineFactory, SharedEngineFactory, native, reference};
use num_bigint::BigUint;
use offload::partition::TableMode;
use packet::{Batch, BatchOutput, Engine, PortId, Verdict};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use switch_engines::tiers::TiersPlan;
use testkit::frame::{IpPacket, segment};

const INSIDE: u32 = 1;
const OUTSIDE: u32 = 2;
const FIRST_HOST: u32 = 0x0a00_0000;
const FIRST_PUBLIC: u32 = 0xc633_6400;
const SERVER: u32 = 0xcb00_7109;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// Expire time of all sessions.
const LIFE: u64 = 20 * SECOND;
/// Times of engines begin here.
const START: u64 = 1_000 * SECOND;
const FIN: u8 = 0x11;
const ACK: u8 = 0x10;
const SYN: u8 = 0x02;

fn table(pipeline: &Pipeline, name: &str) -> TableId {
    entries::find_table(pipeline, name).expect("the program has the table")
}

/// Returns the entries of `links` and the expire times.
fn configuration(pipeline: &Pipeline) -> WriteBatch {
    let links = table(pipeline, "links");
    let entry = |port: u32, action: usize, args: &[u32]| {
        let action = pipeline.tables[links].actions[action].action;
        let args = args.iter().map(|arg| BigUint::from(*arg)).collect();
        let call = ActionSpec::Call(ActionCall { action, args });
        let key = KeyMatch::Exact(BigUint::from(port));
        StateUpdate::Entry(UpdateKind::Insert, TableEntry::new(links, vec![key], call))
    };
    let inside = [OUTSIDE, 1, 2, FIRST_HOST, FIRST_PUBLIC, 2, 4, 0x5eed];
    let mut updates = vec![entry(INSIDE, 0, &inside), entry(OUTSIDE, 1, &[INSIDE, 3, 4])];
    updates.extend((0..4).map(|profile| StateUpdate::ExpireTime(profile, LIFE)));
    WriteBatch { updates }
}

/// Address and port.
type Endpoint = (u32, u16);

fn packet(protocol: u8, from: Endpoint, to: Endpoint, mut payload: Vec<u8>) -> Vec<u8> {
    payload[..4].copy_from_slice(&[from.1.to_be_bytes(), to.1.to_be_bytes()].concat());
    let [from, to] = [from.0, to.0].map(|address| IpAddr::V4(address.into()));
    [[0; 12].as_slice(), &[8, 0], &IpPacket::new(from, to, protocol, payload).bytes()].concat()
}

fn udp(from: Endpoint, to: Endpoint) -> Vec<u8> {
    let mut datagram = segment(from.1, to.1, 26);
    datagram[4..8].copy_from_slice(&[0, 26, 0, 0]);
    packet(17, from, to, datagram)
}

fn tcp(from: Endpoint, to: Endpoint, flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    (header[12], header[13]) = (0x50, flags);
    packet(6, from, to, header)
}

fn host(number: u32) -> Endpoint {
    (FIRST_HOST + number, 5_000)
}

/// The NAT on tiers, beside the whole program in native code, with the same packets and times.
struct Nat {
    pipeline: Arc<Pipeline>,
    tiers: Box<dyn EngineControl>,
    whole: Box<dyn EngineControl>,
    workers: [Box<dyn Engine>; 2],
    now: u64,
}

impl Nat {
    fn new(room: u64, below: &SharedEngineFactory) -> Nat {
        let path = testkit::gateway::root().join("programs/nat/nat.p4");
        let pipeline = Arc::new(testkit::gateway::compile(&path).expect("it compiles"));
        let modes = BTreeMap::from([("sessions".to_owned(), TableMode::Hot(room))]);
        let plan = TiersPlan {
            reselect_interval: Duration::from_millis(100),
            ..TiersPlan::in_one_process(native(), below.clone(), modes)
        };
        let load = |factory: &SharedEngineFactory| {
            let mut engine = factory.load(&pipeline, &interp::Config::default()).expect("it loads");
            engine.advance_time(START);
            engine.write(&configuration(&pipeline)).expect("the entries are valid");
            engine
        };
        let [tiers, whole] = [plan.shared(), native()].map(|factory| load(&factory));
        let workers = [&tiers, &whole].map(|engine| engine.new_worker());
        Nat { pipeline: pipeline.clone(), tiers, whole, workers, now: START }
    }

    /// Advances the time as a node does: in steps of 10 ms.
    fn pass(&mut self, time: u64) {
        let end = self.now + time;
        while self.now < end {
            self.now += 10 * MS;
            self.workers.iter_mut().for_each(|worker| worker.on_idle());
            self.tiers.advance_time(self.now);
            self.whole.advance_time(self.now);
        }
    }

    /// Sends packets, and compares the results. Returns what is sent on.
    fn send(&mut self, port: u32, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let now = self.now;
        let [found, expected] = self.workers.each_mut().map(|worker| process(&mut **worker, port, packets, now));
        assert_eq!(found, expected);
        found
    }

    /// Returns the packets that the switch and the processor served since the last call of `f`.
    fn by_tier(&mut self, f: impl FnOnce(&mut Nat)) -> [u64; 2] {
        let count = |nat: &Nat| {
            let all = nat.tiers.packets_by_tier();
            ["switch", "cpu"].map(|tier| all.iter().find(|(name, _)| *name == tier).map_or(0, |(_, count)| *count))
        };
        let before = count(self);
        f(self);
        let after = count(self);
        [after[0] - before[0], after[1] - before[1]]
    }

    fn set_expire_time(&mut self, profile: u8, time: u64) {
        self.workers.iter_mut().for_each(|worker| worker.on_idle());
        for engine in [&mut self.tiers, &mut self.whole] {
            let batch = WriteBatch { updates: vec![StateUpdate::ExpireTime(profile, time)] };
            engine.write(&batch).expect("a good time");
        }
    }

    fn sessions(&self) -> [usize; 2] {
        let sessions = table(&self.pipeline, "sessions");
        [&self.tiers, &self.whole].map(|engine| engine.with_state(|state| state.entries(sessions).count()))
    }

    fn notes(&self) -> String {
        self.tiers.status_notes().join("\n")
    }
}

fn process(worker: &mut dyn Engine, port: u32, packets: &[Vec<u8>], now: u64) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for packets in packets.chunks(64) {
        let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
        packets.iter().for_each(|bytes| batch.push_bytes(bytes, PortId(port), now).expect("a batch has room"));
        worker.process(&mut batch, &mut out);
        let sent = out.iter(&batch).filter(|(entry, _)| matches!(entry.verdict, Verdict::Forward { .. }));
        all.extend(sent.map(|(_, packet)| packet.bytes().to_vec()));
    }
    all
}

/// Returns the public side of a translated packet.
fn public_side(bytes: &[u8]) -> Endpoint {
    let address = u32::from_be_bytes(bytes[26..30].try_into().expect("four bytes"));
    (address, u16::from_be_bytes([bytes[34], bytes[35]]))
}

#[test]
fn a_flow_goes_down_with_its_first_packet_only() {
    let mut nat = Nat::new(1_000, &native());
    let first: Vec<Vec<u8>> = (0..100).map(|n| udp(host(n), (SERVER, 53))).collect();
    let mut translated = Vec::new();
    let count = nat.by_tier(|nat| translated = nat.send(INSIDE, &first));
    assert_eq!((count, translated.len()), ([0, 100], 100));
    nat.pass(50 * MS);
    let answers: Vec<Vec<u8>> = translated.iter().map(|bytes| udp((SERVER, 53), public_side(bytes))).collect();
    let count = nat.by_tier(|nat| {
        for _ in 0..50 {
            assert_eq!((nat.send(INSIDE, &first).len(), nat.send(OUTSIDE, &answers).len()), (100, 100));
            nat.pass(10 * MS);
        }
    });
    assert_eq!(count, [10_000, 0], "{}", nat.notes());
    assert!(nat.notes().contains("200 of 1000 entries of packets are above; 200 added"), "{}", nat.notes());
}

#[test]
fn sessions_that_only_the_switch_sees_live_and_idle_ones_end() {
    for below in [native(), reference()] {
        let mut nat = Nat::new(1_000, &below);
        let [used, idle] = [0, 1].map(|n| udp(host(n), (SERVER, 53)));
        let translated = nat.send(INSIDE, &[used.clone(), idle]);
        nat.pass(200 * MS);
        let answers: Vec<Vec<u8>> = translated.iter().map(|bytes| udp((SERVER, 53), public_side(bytes))).collect();
        let count = nat.by_tier(|nat| {
            for _ in 0..100 {
                nat.pass(SECOND);
                assert_eq!(nat.send(INSIDE, std::slice::from_ref(&used)).len(), 1);
            }
        });
        assert_eq!(count, [100, 0], "{}", nat.notes());
        assert_eq!(nat.sessions(), [2, 2], "the idle session has ended, in both directions");
        assert_eq!(nat.send(OUTSIDE, &answers).len(), 1, "the switch has the idle session no more");
        // It ends at most half an expire time later than without a switch, though not earlier.
        nat.pass(LIFE - 2 * SECOND);
        assert_eq!(nat.sessions(), [2, 2]);
        nat.pass(LIFE / 2 + 4 * SECOND);
        assert_eq!(nat.sessions(), [0, 0]);
        assert!(nat.notes().contains("0 of 1000 entries of packets are above"), "{}", nat.notes());
    }
}

/// The expire time of a TCP session changes with the answer to its SYN and at its end: these packets go
/// down.
#[test]
fn packets_that_change_an_expire_time_go_down() {
    let mut nat = Nat::new(1_000, &native());
    let server = (SERVER, 80);
    let mut public = (0, 0);
    let count = nat.by_tier(|nat| {
        public = public_side(&nat.send(INSIDE, &[tcp(host(0), server, SYN)])[0]);
        nat.pass(50 * MS);
        assert_eq!(nat.send(OUTSIDE, &[tcp(server, public, SYN | ACK)]).len(), 1);
    });
    assert_eq!(count, [0, 2]);
    let count = nat.by_tier(|nat| {
        for _ in 0..20 {
            assert_eq!(nat.send(INSIDE, &[tcp(host(0), server, ACK)]).len(), 1);
            assert_eq!(nat.send(OUTSIDE, &[tcp(server, public, ACK)]).len(), 1);
        }
    });
    assert_eq!(count, [40, 0], "{}", nat.notes());
    let count = nat.by_tier(|nat| assert_eq!(nat.send(INSIDE, &[tcp(host(0), server, FIN)]).len(), 1));
    assert_eq!(count, [0, 1]);
}

/// <https://github.com/openwrt/openwrt/issues/17915>: an offloaded UDP session ended while packets
/// flowed in one direction only.
#[test]
fn packets_of_either_direction_keep_a_session() {
    let mut nat = Nat::new(1_000, &native());
    let request = udp(host(0), (SERVER, 53));
    let public = public_side(&nat.send(INSIDE, std::slice::from_ref(&request))[0]);
    let answer = udp((SERVER, 53), public);
    nat.pass(200 * MS);
    for (port, packet) in [(OUTSIDE, &answer), (INSIDE, &request)] {
        let count = nat.by_tier(|nat| {
            for _ in 0..60 {
                nat.pass(SECOND);
                assert_eq!(nat.send(port, std::slice::from_ref(packet)).len(), 1);
            }
        });
        assert!(count[0] >= 58 && count[0] + count[1] == 60, "{count:?}\n{}", nat.notes());
    }
    assert_eq!(nat.sessions(), [2, 2]);
}

/// <https://github.com/ironcore-dev/dpservice/pull/245>: offloaded TCP sessions have the expire time of
/// their state, and end soon after a FIN.
#[test]
fn a_closed_session_ends_after_its_shorter_time() {
    let mut nat = Nat::new(1_000, &native());
    let (established, transitory) = (3, 2);
    nat.set_expire_time(established, 20 * LIFE);
    nat.set_expire_time(transitory, LIFE);
    let server = (SERVER, 80);
    let public = public_side(&nat.send(INSIDE, &[tcp(host(0), server, SYN)])[0]);
    assert_eq!(nat.send(OUTSIDE, &[tcp(server, public, SYN | ACK)]).len(), 1);
    // Silent for longer than the transitory time, above and below.
    for _ in 0..3 {
        nat.pass(3 * LIFE);
        assert_eq!(nat.send(INSIDE, &[tcp(host(0), server, ACK)]).len(), 1);
        assert_eq!(nat.send(OUTSIDE, &[tcp(server, public, ACK)]).len(), 1);
    }
    assert_eq!(nat.send(OUTSIDE, &[tcp(server, public, FIN)]).len(), 1);
    assert_eq!(nat.sessions(), [2, 2]);
    nat.pass(LIFE / 2);
    assert_eq!(nat.send(INSIDE, &[tcp(host(0), server, FIN)]).len(), 1);
    nat.pass(LIFE * 2);
    assert_eq!(nat.sessions(), [0, 0]);
    assert!(nat.notes().contains("0 of 1000 entries of packets are above"), "{}", nat.notes());
    assert_eq!(nat.send(OUTSIDE, &[tcp(server, public, ACK)]).len(), 0);
}

#[test]
fn flows_for_which_the_switch_has_no_room_go_down() {
    let mut nat = Nat::new(20, &native());
    let packets: Vec<Vec<u8>> = (0..100).map(|n| udp(host(n), (SERVER, 53))).collect();
    nat.send(INSIDE, &packets);
    nat.pass(200 * MS);
    let [above, below] = nat.by_tier(|nat| assert_eq!(nat.send(INSIDE, &packets).len(), 100));
    assert!((1..=20).contains(&above) && below == 100 - above, "{above} {below}\n{}", nat.notes());
    assert!(nat.notes().contains("20 of 20 entries of packets are above"), "{}", nat.notes());
    assert!(!nat.notes().contains(" 0 without room"), "{}", nat.notes());
    // Room of sessions that end is used by others.
    let [first, last] = [&packets[..1], &packets[99..]];
    for _ in 0..LIFE / SECOND * 2 {
        nat.pass(SECOND);
        assert_eq!((nat.send(INSIDE, first).len(), nat.send(INSIDE, last).len()), (1, 1));
    }
    let count = nat.by_tier(|nat| assert_eq!(nat.send(INSIDE, last).len(), 1));
    assert_eq!(count, [1, 0], "{}", nat.notes());
}

#[test]
fn a_session_that_a_controller_deletes_is_gone_at_once_and_others_stay() {
    let mut nat = Nat::new(1_000, &native());
    let packets: Vec<Vec<u8>> = (0..2).map(|n| udp(host(n), (SERVER, 53))).collect();
    let translated = nat.send(INSIDE, &packets);
    nat.pass(200 * MS);
    let answers: Vec<Vec<u8>> = translated.iter().map(|bytes| udp((SERVER, 53), public_side(bytes))).collect();
    assert_eq!(nat.send(OUTSIDE, &answers).len(), 2);
    let sessions = table(&nat.pipeline, "sessions");
    nat.workers.iter_mut().for_each(|worker| worker.on_idle());
    for engine in [&mut nat.tiers, &mut nat.whole] {
        let mut batch = WriteBatch::new();
        engine.with_state(|state| {
            let of_host = |entry: &&entries::StoredEntry| {
                let keys = state.layout(sessions).unpack(entry.key());
                keys.contains(&KeyMatch::Exact(BigUint::from(FIRST_HOST)))
            };
            let entry = state.entries(sessions).find(of_host).expect("it has a session");
            batch.push_stored(UpdateKind::Delete, sessions, entry);
        });
        engine.write(&batch).expect("the entry is there");
    }
    assert_eq!(nat.sessions()[0], nat.sessions()[1]);
    assert_eq!(nat.send(OUTSIDE, &answers[1..]).len(), 1);
    // Its twin has ended with it, above as well.
    assert_eq!(nat.send(OUTSIDE, &answers[..1]).len(), 0);
}

/// Counters read the length of a dropped packet from its slot, whichever half drops it.
#[test]
fn dropped_packets_keep_their_length() {
    let mut nat = Nat::new(1_000, &native());
    let unasked = udp((SERVER, 53), (FIRST_PUBLIC, 4_000));
    let packets = [&unasked[..], &unasked[..20]];
    let (mut batch, mut out) = (Batch::new(), BatchOutput::new());
    for bytes in packets {
        batch.push_bytes(bytes, PortId(OUTSIDE), nat.now).expect("a batch has room");
    }
    nat.workers[0].process(&mut batch, &mut out);
    let dropped = out.iter(&batch).filter(|(entry, _)| matches!(entry.verdict, Verdict::Drop(_)));
    let lengths: Vec<usize> = dropped.map(|(_, packet)| packet.len()).collect();
    assert_eq!(lengths, packets.map(<[u8]>::len));
}

/// Without flow tables, entries of the lower half may end while nothing checks leases: packets pass the
/// switch by.
#[test]
fn packets_pass_the_switch_by_while_leases_are_not_checked() {
    let mut nat = Nat::new(1_000, &reference());
    let packets: Vec<Vec<u8>> = (0..10).map(|n| udp(host(n), (SERVER, 53))).collect();
    nat.send(INSIDE, &packets);
    nat.pass(200 * MS);
    let count = nat.by_tier(|nat| assert_eq!(nat.send(INSIDE, &packets).len(), 10));
    assert_eq!(count, [10, 0], "{}", nat.notes());
    nat.now += LIFE * 4 / 5;
    let count = nat.by_tier(|nat| assert_eq!(nat.send(INSIDE, &packets).len(), 10));
    assert_eq!(count, [0, 10], "{}", nat.notes());
    assert!(nat.notes().contains("10 packets passed the switch by"), "{}", nat.notes());
    nat.pass(200 * MS);
    let count = nat.by_tier(|nat| assert_eq!(nat.send(INSIDE, &packets).len(), 10));
    assert_eq!(count, [10, 0], "{}", nat.notes());
}
