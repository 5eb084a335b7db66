//! Tests the native memif ports with each other, with DPDK's driver, with hostile peers, and across
//! take-overs.

use io::dpdk::{BUILT_IN, DpdkOptions, DpdkPort, EalOptions, HugePages};
use io::memif::MemifPort;
use io::{
    AttachedPort, IdlePolicy, Port, PortFault, PortKind, Readiness, RunStats, Runner, open_port, open_transferred,
};
use packet::*;
use std::ops::ControlFlow;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(10);
/// Number of times that DPDK's peer closes.
const ROUNDS: usize = 20;

fn socket(folder: &tempfile::TempDir) -> String {
    folder.path().join("a.sock").display().to_string()
}

fn open(socket: &str, role: &str, more: &str) -> MemifPort {
    MemifPort::open(&format!("memif:socket={socket},role={role}{more}")).expect("it can be opened")
}

fn frame(len: usize, number: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + number) as u8 ^ (index >> 8) as u8).collect()
}

fn until(what: &str, mut there: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < deadline, "{what}: in vain");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until two ports are connected.
fn meet(first: &mut dyn Port, second: &mut dyn Port) {
    until("they meet", || {
        let troubles = [first.port_fault(), second.port_fault()];
        let _ = (first.receive(PortId(1), &mut Batch::new()), second.receive(PortId(1), &mut Batch::new()));
        troubles == [None, None]
    });
}

fn send(port: &mut dyn Port, frames: &[Vec<u8>]) -> usize {
    let packets: Vec<Packet> = frames.iter().map(|frame| Packet::from_bytes(frame).expect("short")).collect();
    port.send_all(&mut packets.iter())
}

fn receive(port: &mut dyn Port, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    until("packets", || {
        let mut batch = Batch::new();
        port.receive(PortId(3), &mut batch).expect("it goes on");
        all.extend(batch.packets().iter().map(|packet| packet.bytes().to_vec()));
        all.len() >= count
    });
    all
}

/// Sends frames of many lengths in both directions.
fn many_lengths(first: &mut dyn Port, second: &mut dyn Port, step: usize) {
    let lengths: Vec<usize> = (15..=9216).step_by(step).collect();
    for chunk in lengths.chunks(32) {
        let frames: Vec<Vec<u8>> = chunk.iter().map(|len| frame(*len, *len)).collect();
        for _ in 0..2 {
            // DPDK's client provides buffers to its server when it receives.
            let _ = second.receive(PortId(1), &mut Batch::new());
            assert_eq!(send(first, &frames), frames.len(), "{chunk:?}: {:?}", first.counters());
            assert!(receive(second, frames.len()) == frames, "{chunk:?}");
            let _ = first.receive(PortId(1), &mut Batch::new());
            assert_eq!(send(second, &frames), frames.len(), "{chunk:?}: {:?}", second.counters());
            assert!(receive(first, frames.len()) == frames, "{chunk:?}");
        }
    }
    assert!(first.counters().drops.total().is_zero(), "{:?}", first.counters());
    assert_eq!(first.counters().sent, second.counters().received);
    assert_eq!(first.counters().received, second.counters().sent);
}

#[test]
fn two_ends_meet_whoever_comes_first_by_file_or_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = format!("@terrace-io-test-{}", std::process::id());
    for socket in [socket(&folder), name] {
        let mut client = open(&socket, "client", ",ring=8");
        assert!(matches!(client.port_fault(), Some(PortFault::NoPeer { .. })));
        assert!(matches!(client.readiness(), Readiness::Poll));
        assert_eq!(send(&mut client, &[frame(60, 0)]), 0);
        assert_eq!(client.counters().drops.get(PortReason::TxPortDown).packets, 1);
        drop(client);
        let (mut client, mut server) = (open(&socket, "client", ",ring=8"), open(&socket, "server", ""));
        meet(&mut client, &mut server);
        many_lengths(&mut client, &mut server, 97);
        assert!(server.counters().linearised.packets > 50, "long frames come as chains");
    }
    let kind = PortKind::default();
    let opened = open_port(&format!("memif:socket={},role=server", socket(&folder)), kind, &DpdkOptions::default());
    assert!(opened.expect("a memif").port.name().starts_with("memif:"));
}

#[test]
fn what_is_too_long_or_too_short_is_dropped_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut client, mut server) = (open(&socket(&folder), "client", ""), open(&socket(&folder), "server", ""));
    meet(&mut client, &mut server);
    assert_eq!(send(&mut client, &[frame(13, 0), frame(9217, 0), frame(60, 1)]), 1);
    assert_eq!(client.counters().drops.get(PortReason::TxRunt).packets, 1);
    assert_eq!(client.counters().drops.get(PortReason::TxMtu).packets, 1);
    assert_eq!(receive(&mut server, 1), [frame(60, 1)]);
}

#[test]
fn a_peer_that_goes_is_told_what_it_sent_is_received_and_another_can_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = open(&socket(&folder), "server", "");
    for round in 0..3 {
        let mut client = open(&socket(&folder), "client", "");
        meet(&mut client, &mut server);
        assert_eq!(send(&mut client, &[frame(100, round)]), 1);
        drop(client);
        assert_eq!(receive(&mut server, 1), [frame(100, round)], "it was sent before the end");
        until("it is noticed", || server.port_fault().is_some());
        assert_eq!(send(&mut server, &[frame(60, 0)]), 0);
    }
    assert!(server.last_fault().expect("it went").contains("disconnected"));
    let mut client = open(&socket(&folder), "client", "");
    meet(&mut client, &mut server);
    drop(server);
    until("it is noticed", || client.port_fault().is_some());
    let mut server = open(&socket(&folder), "server", "");
    meet(&mut client, &mut server);
    many_lengths(&mut client, &mut server, 901);
    assert!(
        MemifPort::open(&format!("memif:socket={},role=server", socket(&folder))).is_err(),
        "somebody listens there"
    );
}

#[test]
fn a_client_of_another_interface_is_told_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut server, mut client) =
        (open(&socket(&folder), "server", ",id=1"), open(&socket(&folder), "client", ",id=2"));
    until("it is told", || {
        let _ = (server.port_fault(), client.port_fault());
        client.last_fault().is_some_and(|fault| fault.contains("no Ethernet interface 2 here; there is 1"))
    });
    assert!(!server.is_connected());
}

/// A client that violates the protocol: the server continues and accepts a correct client
/// afterwards.
#[test]
fn noise_on_the_control_channel_ends_that_connection_and_nothing_else() {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket as unix_socket};
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = open(&socket(&folder), "server", "");
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..200 {
        let noise = unix_socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        connect(&noise, &SocketAddrUnix::new(socket(&folder)).expect("a path")).expect("it listens");
        let mut bytes = [0; 128];
        for _ in 0..random.usize(1..5) {
            bytes.fill_with(|| random.u8(..));
            (bytes[0], bytes[1]) = (random.u8(0..10), 0);
            let len = if round % 3 == 0 { random.usize(1..129) } else { 128 };
            let _ = send(&noise, &bytes[..len], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
        }
        let _ = (server.port_fault(), server.receive(PortId(1), &mut Batch::new()));
        assert!(!server.is_connected());
    }
    let mut client = open(&socket(&folder), "client", "");
    meet(&mut client, &mut server);
    many_lengths(&mut client, &mut server, 901);
}

/// The port waits on a descriptor that a packet makes readable. While it is busy, the peer sends no
/// signals.
#[test]
fn a_waiting_end_is_woken_by_a_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut client, mut server) = (open(&socket(&folder), "client", ""), open(&socket(&folder), "server", ""));
    meet(&mut client, &mut server);
    let readable = |port: &MemifPort| match port.readiness() {
        Readiness::Wait(descriptor) => {
            let mut polled = [rustix::event::PollFd::from_borrowed_fd(descriptor, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())).expect("polled") > 0
        }
        other => matches!(other, Readiness::Now),
    };
    for round in 0..10 {
        let _ = server.receive(PortId(1), &mut Batch::new());
        assert!(!readable(&server), "nothing has come in round {round}");
        assert_eq!(send(&mut client, &[frame(60, round)]), 1);
        assert!(readable(&server));
        assert_eq!(receive(&mut server, 1), [frame(60, round)]);
        let _ = client.receive(PortId(1), &mut Batch::new());
        assert!(!readable(&client));
        assert_eq!(send(&mut server, &[frame(60, round)]), 1);
        assert!(readable(&client));
        assert_eq!(receive(&mut client, 1), [frame(60, round)]);
    }
}

/// Under a sleeping runner, single packets arrive, each with a wake-up.
#[test]
fn a_runner_forwards_between_memifs_and_sleeps() {
    struct Across;
    impl Engine for Across {
        fn name(&self) -> &str {
            "across"
        }

        fn reasons(&self) -> &ReasonTable {
            &ReasonTable::EMPTY
        }

        fn process(&mut self, batch: &mut Batch, out: &mut BatchOutput) {
            for (packet, contents) in batch.indexed() {
                out.forward(packet, PortId(3 - contents.ingress_port.0));
            }
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let sockets = ["1", "2"].map(|name| folder.path().join(name).display().to_string());
    let ports = vec![
        AttachedPort::new(1, open(&sockets[0], "server", "")),
        AttachedPort::new(2, open(&sockets[1], "client", "")),
    ];
    let stop = AtomicBool::new(false);
    let mut ends = [open(&sockets[0], "client", ""), open(&sockets[1], "server", "")];
    std::thread::scope(|scope| {
        let tick = Duration::from_millis(20);
        let idle = IdlePolicy { poll_time: Duration::ZERO, ..IdlePolicy::default() };
        let mut runner = Runner::new(ports).expect("two ports").with_tick(tick).with_idle(idle);
        let stop = &stop;
        let running = scope.spawn(move || {
            runner
                .run(&mut Across, stop, &mut |_: &mut Across, _: &RunStats| ControlFlow::Continue(()))
                .expect("it runs");
            runner.report().clone()
        });
        until("both are there", || ends.iter_mut().all(|end| end.port_fault().is_none()));
        for number in 0..300 {
            let [first, second] = &mut ends;
            let long = 60 + number % 5 * 1000;
            assert_eq!(send(first, &[frame(long, number)]), 1);
            assert_eq!(receive(second, 1), [frame(long, number)]);
            assert_eq!(send(second, &[frame(long, number + 1)]), 1);
            assert_eq!(receive(first, 1), [frame(long, number + 1)]);
        }
        stop.store(true, Ordering::Relaxed);
        let report = running.join().expect("the runner");
        assert_eq!(report.sent().packets, 600);
        assert!(report.drops().total().is_zero(), "{:?}", report.drops());
    });
}

#[test]
fn a_port_goes_from_hand_to_hand_while_the_other_end_sends() {
    let folder = tempfile::tempdir().expect("a folder");
    for (role, other) in [("server", "client"), ("client", "server")] {
        let mut port: Box<dyn Port> = Box::new(open(&socket(&folder), role, ",ring=8"));
        let mut peer = open(&socket(&folder), other, ",ring=8");
        meet(&mut port, &mut peer);
        for number in 0..100 {
            let frames: Vec<Vec<u8>> = (0..20).map(|index| frame(60 + 150 * index, number + index)).collect();
            assert_eq!(send(&mut peer, &frames), 20);
            assert_eq!(send(&mut *port, &frames[..3]), 3);
            let given = port.begin_transfer().expect("it can be handed over");
            if number % 3 == 0 {
                // Nothing took it over.
                drop(given);
                port.cancel_transfer();
            } else {
                let taken = open_transferred(given).expect("it can be taken over");
                assert_eq!(taken.name(), port.name());
                port = taken;
            }
            assert_eq!(receive(&mut *port, 20), frames);
            assert_eq!(receive(&mut peer, 3), frames[..3]);
        }
        assert_eq!((port.counters().received.packets, port.counters().sent.packets), (2000, 300));
        assert!(peer.is_connected() && peer.last_fault().is_none(), "{:?}", peer.last_fault());
        // The last owner can end the connection.
        drop(port);
        until("it is noticed", || peer.port_fault().is_some());
    }
}

#[test]
fn a_server_that_was_handed_over_still_listens() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = open(&socket(&folder), "server", "");
    let mut taken = open_transferred(server.begin_transfer().expect("given")).expect("taken");
    drop(server);
    let mut client = open(&socket(&folder), "client", "");
    meet(&mut client, &mut taken);
    many_lengths(&mut client, &mut taken, 901);
}

/// Opens a DPDK device without huge pages, because a test must not depend on free ones.
fn dpdk(device: &str) -> DpdkPort {
    let options =
        DpdkOptions { eal: EalOptions { huge_pages: HugePages::Avoid, memory_mb: 384 }, ..DpdkOptions::default() };
    DpdkPort::open(device, &options).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn both_ends_get_on_with_dpdks_driver() {
    if !BUILT_IN {
        println!("SKIPPED: built without DPDK");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (number, (ours, theirs)) in [("server", "client"), ("client", "server")].into_iter().enumerate() {
        for (kind, socket) in [("no", socket(&folder)), ("yes", format!("@io-test-{}-{number}", std::process::id()))] {
            let mut ours = open(&socket, ours, "");
            let name = socket.trim_start_matches('@');
            let device = format!("net_memif{theirs}{number}{kind},role={theirs},socket={name},socket-abstract={kind}");
            let mut theirs = dpdk(&device);
            meet(&mut ours, &mut theirs);
            many_lengths(&mut ours, &mut theirs, 61);
            // The peer stays connected while our end is handed over.
            let given = ours.begin_transfer().expect("given");
            let mut taken = open_transferred(given).expect("taken");
            drop(ours);
            let frames: Vec<Vec<u8>> = (0..30).map(|index| frame(60 + 100 * index, index)).collect();
            assert_eq!(send(&mut theirs, &frames), 30);
            assert_eq!(receive(&mut *taken, 30), frames);
            assert_eq!(send(&mut *taken, &frames), 30);
            assert_eq!(receive(&mut theirs, 30), frames);
            drop(taken);
            until("it is noticed", || theirs.port_fault().is_some());
        }
    }
}

fn device(device: &str) -> io::OpenedPort {
    open_port(device, PortKind::default(), &DpdkOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_memif_by_dpdks_name_is_a_port_of_our_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let string = format!("net_memif3,role=server,socket={},socket-abstract=no", socket(&folder));
    let io::OpenedPort { port: mut server, note, .. } = device(&string);
    assert_eq!((server.name(), note), ("net_memif3", None));
    let mut client = open(&socket(&folder), "client", "");
    meet(&mut client, &mut *server);
    many_lengths(&mut client, &mut *server, 901);
    assert!(server.begin_transfer().is_some(), "which DPDK's cannot");
}

/// Duration of connects and disconnects.
const BUSTLE: Duration = Duration::from_secs(3);

/// DPDK 22.11's own driver fails this test: it unmaps rings from which a worker is receiving, most
/// easily where the worker is preempted within them.
#[test]
fn peers_come_and_go_while_a_worker_receives() {
    let folder = tempfile::tempdir().expect("a folder");
    let string = format!("net_memif0,role=server,socket={},socket-abstract=no,rsize=11", socket(&folder));
    let mut server = device(&string).port;
    let over = AtomicBool::new(false);
    let (mut sent, mut peers) = (0, 0);
    let received = std::thread::scope(|scope| {
        // More threads than processors, so that each is preempted at any point.
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            });
        }
        let worker = scope.spawn(|| {
            let mut batch = Batch::new();
            let (mut received, mut last) = (0, Instant::now());
            while !over.load(Ordering::Acquire) || last.elapsed() < Duration::from_millis(500) {
                batch.clear();
                if server.receive(PortId(1), &mut batch).expect("it goes on") > 0 {
                    last = Instant::now();
                }
                assert!(batch.packets().iter().all(|packet| packet.bytes() == frame(1400, 7)));
                received += batch.len();
            }
            received
        });
        let frames = vec![frame(1400, 7); 64];
        let end = Instant::now() + BUSTLE;
        while Instant::now() < end {
            let mut client = open(&socket(&folder), "client", ",ring=11");
            until("it connects", || client.port_fault().is_none());
            for _ in 0..200 {
                sent += send(&mut client, &frames);
                let _ = client.receive(PortId(1), &mut Batch::new());
            }
            peers += 1;
        }
        over.store(true, Ordering::Release);
        worker.join().expect("the worker goes on")
    });
    println!("{peers} peers, {sent} packets");
    assert_eq!(received, sent, "what was sent before its end");
    assert!(peers >= 3 && sent > 10_000, "{peers} peers, {sent} packets: too few to tell");
}

/// Environment variable of the process in which DPDK's interrupt thread is slow.
const IS_SLOW: &str = "MEMIF_TEST_IS_SLOW";

/// DPDK's interrupt thread drops a closed peer while a worker restarts or closes the port. No
/// descriptor may be closed twice, because its number can belong to another file the second time.
/// Runs in its own process, in which that thread is slow.
#[test]
fn nobody_elses_descriptors_are_closed_when_dpdks_peer_goes() {
    if !BUILT_IN {
        println!("SKIPPED: built without DPDK");
        return;
    }
    if std::env::var_os(IS_SLOW).is_some() {
        return peers_go_and_files_stay();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let slow = folder.path().join("slow_close.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slow_close.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&slow).arg(source).status().expect("cc runs");
    assert!(built.success(), "{source} does not compile");
    let mut again = Command::new(std::env::current_exe().expect("a program"));
    again.args(["--exact", "nobody_elses_descriptors_are_closed_when_dpdks_peer_goes", "--nocapture"]);
    let output = again.env("LD_PRELOAD", &slow).env(IS_SLOW, "1").output().expect("it runs");
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}{errors}");
}

/// A second close of one of our descriptors ends the process (std's `OwnedFd` checks, in builds
/// with assertions).
fn peers_go_and_files_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    // It ends with the process.
    std::thread::spawn(|| {
        loop {
            let files: Vec<_> = (0..16).map(|_| std::fs::File::open("/dev/null").expect("a file")).collect();
            assert!(files.iter().all(|file| file.metadata().is_ok()));
        }
    });
    for round in 0..ROUNDS {
        let socket = socket(&folder);
        let mut ours = open(&socket, "server", "");
        let mut theirs = dpdk(&format!("net_memifgone{round},role=client,socket={socket},socket-abstract=no"));
        meet(&mut ours, &mut theirs);
        drop(ours);
        if round % 2 == 0 {
            // The port is restarted as soon as it misses the peer.
            until("it is noticed", || theirs.port_fault().is_some());
        }
        drop(theirs);
    }
}
