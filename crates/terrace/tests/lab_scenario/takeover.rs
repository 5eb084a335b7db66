//! A new process takes over from the lab's gateway, and the region file changes, under connections of the
//! kernel's TCP: through the NAT, through a service in its VPC and in public, to an elastic address, and tracked
//! by security groups. No connection ends, and no packet is lost.

use crate::place::{Gateway, TERRACE, Turn, json, lab_up, packets_by_reason, region_text, terrace, turn};
use crate::text_edits::edited;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Time for a take-over on a busy machine: the new process compiles its program meanwhile.
const TAKEOVER_PATIENCE: Duration = Duration::from_secs(60);
const HOST: &str = "203.0.113.200";
const HOST_V6: &str = "2001:db8:ffff::200";
/// Backends of the service `web`.
const BACKENDS: [&str; 2] = ["          - {vm: 10.0.0.12, port: 8080}\n", "          - {vm: 10.0.1.13, port: 8080}\n"];
/// Places with an end of a connection.
const PLACES: [&str; 6] = ["red-a", "red-b", "red-c", "red-d", "green-b", "internet"];

/// Returns the gateway that the lab's state names.
fn recorded_gateway(turn: &Turn) -> u32 {
    ::terrace::lab::LabState::load(&turn.lab).unwrap().gateway.unwrap().id
}

/// Returns the process that answers at the lab's control socket.
fn serving_process(turn: &Turn) -> Option<u64> {
    let shown = terrace(&["--json", "show", "version", "--lab", &turn.lab]);
    serde_json::from_slice::<Value>(&shown.stdout).ok()?["pid"].as_u64()
}

/// Starts a process that is to take over from the lab's gateway.
fn start_successor(turn: &Turn, file: &str, engine: &str) -> Gateway {
    let mut command = Command::new(TERRACE);
    command.args(["gateway", "run", "--quiet", "--lab", &turn.lab, "--region", file, "--engine", engine, "--takeover"]);
    Gateway(command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
}

/// Starts a process that takes over from the lab's gateway. Waits until it serves and the old one has ended.
fn take_over(turn: &Turn, file: &str, engine: &str) -> Gateway {
    let old = recorded_gateway(turn);
    let mut new = start_successor(turn, file, engine);
    let began = Instant::now();
    while serving_process(turn) != Some(new.0.id().into()) {
        assert!(new.0.try_wait().unwrap().is_none(), "it does not take over");
        assert!(began.elapsed() < TAKEOVER_PATIENCE, "it does not take over in time");
        sleep(Duration::from_millis(50));
    }
    // So that `lab down` ends the new one.
    while recorded_gateway(turn) != new.0.id() {
        assert!(began.elapsed() < TAKEOVER_PATIENCE, "the old process does not end");
        sleep(Duration::from_millis(20));
    }
    println!("{} took over from {old} after {:?}", new.0.id(), began.elapsed());
    new
}

/// Sends back the bytes of all connections to an address.
fn echo(turn: &Turn, place: &str, address: &str) {
    let listener = turn.namespace(place).run(|| TcpListener::bind(address).unwrap()).unwrap();
    spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Connects, and exchanges numbered messages until stopped: each after the answer to the one before. Returns
/// their number, or the error that ended the connection.
fn converse(turn: &Turn, from: &str, to: &str, stop: &Arc<AtomicBool>) -> JoinHandle<Result<u32, String>> {
    let to: SocketAddr = to.parse().unwrap();
    let mut stream = turn.namespace(from).run(|| TcpStream::connect_timeout(&to, PATIENCE).unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (stop, name) = (Arc::clone(stop), format!("{from} to {to}"));
    spawn(move || {
        let mut number = 0u32;
        while !stop.load(Ordering::Relaxed) {
            let sent = number.to_be_bytes().repeat(100);
            let mut back = vec![0; sent.len()];
            let exchanged = stream.write_all(&sent).and_then(|()| stream.read_exact(&mut back));
            exchanged.map_err(|error| format!("{name}, message {number}: {error}"))?;
            assert!(back == sent, "{name}, message {number}");
            number += 1;
            sleep(Duration::from_millis(4));
        }
        Ok(number)
    })
}

/// Datagrams that were sent, and the numbers of those that arrived and that came back, in order of arrival.
#[derive(Debug)]
struct Datagrams {
    sent: u32,
    arrived: Vec<u32>,
    back: Vec<u32>,
}

impl Datagrams {
    /// Returns the differences from an exchange in which all datagrams arrived and came back, once and in order:
    /// where, the number that was due, and the one that came.
    fn differences(&self) -> Vec<(&'static str, u32, u32)> {
        let all = [("there", &self.arrived), ("back", &self.back)];
        let found = all.iter().flat_map(|(side, numbers)| {
            let due = std::iter::once(0).chain(numbers.iter().map(|number| number + 1));
            let came = numbers.iter().copied().chain([self.sent]);
            due.zip(came).filter(|(due, came)| due != came).map(move |(due, came)| (*side, due, came))
        });
        found.collect()
    }
}

/// Receives numbers until none comes for two seconds after `stop`, and treats each with its sender.
fn receive_numbers(socket: &UdpSocket, stop: &AtomicBool, mut each: impl FnMut(u32, SocketAddr)) -> Vec<u32> {
    let (mut numbers, mut bytes) = (Vec::new(), [0; 4]);
    loop {
        let is_stopped = stop.load(Ordering::Relaxed);
        match socket.recv_from(&mut bytes) {
            Ok((_, from)) => {
                numbers.push(u32::from_be_bytes(bytes));
                each(u32::from_be_bytes(bytes), from);
            }
            Err(_) if is_stopped => return numbers,
            // A busy machine may stand still longer.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
        }
    }
}

/// Sends numbered datagrams until stopped, which the other side sends back.
fn send_datagrams(turn: &Turn, from: [&str; 2], to: [&str; 2], stop: &Arc<AtomicBool>) -> JoinHandle<Datagrams> {
    let [asks, answers] = [from, to].map(|[place, address]| {
        let socket = turn.namespace(place).run(|| UdpSocket::bind(address).unwrap()).unwrap();
        socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket
    });
    let to: SocketAddr = to[1].parse().unwrap();
    let [stop, stop_back, stop_there] = [(); 3].map(|()| Arc::clone(stop));
    let answering = spawn(move || {
        receive_numbers(&answers, &stop_there, |number, from| {
            answers.send_to(&number.to_be_bytes(), from).unwrap();
        })
    });
    let receiver = asks.try_clone().unwrap();
    let receiving = spawn(move || receive_numbers(&receiver, &stop_back, |_, _| ()));
    spawn(move || {
        let mut sent = 0u32;
        while !stop.load(Ordering::Relaxed) {
            asks.send_to(&sent.to_be_bytes(), to).unwrap();
            sent += 1;
            sleep(Duration::from_millis(1));
        }
        Datagrams { sent, back: receiving.join().unwrap(), arrived: answering.join().unwrap() }
    })
}

/// Counters of the kernel's TCP in a namespace.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TcpCounters {
    /// Segments that were sent again, without those that the other side had already got, as it says (RFC 2883): the
    /// timer of a busy machine fires early.
    lost: i64,
    resets: i64,
}

fn tcp_counters(turn: &Turn, place: &str) -> TcpCounters {
    let names = ["TcpRetransSegs", "TcpExtTCPDSACKRecv", "TcpOutRsts"];
    let mut command = Command::new("nstat");
    command.arg("-asz").args(names);
    let output = turn.namespace(place).run(|| command.output().unwrap()).unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let [again, known, resets] = names.map(|name| {
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<i64>().ok())
            .unwrap_or_else(|| panic!("{name}: {text}"))
    });
    TcpCounters { lost: again - known, resets }
}

fn apply(turn: &Turn, file: &str, region: &str) {
    std::fs::write(file, region).unwrap();
    let (code, applied) = json(&["region", "apply", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{applied}");
}

/// Returns the connections of the backend `vm` of `web`, and whether it takes new ones.
fn connections_of(turn: &Turn, vm: &str) -> Option<u64> {
    let (code, shown) = json(&["show", "services", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{shown}");
    let services = shown["services"].as_array().unwrap();
    let backends = services.iter().flat_map(|service| service["backends"].as_array().into_iter().flatten());
    backends.filter(|backend| backend["address"] == vm).find_map(|backend| backend["connections"].as_u64())
}

/// Returns the ports of the NAT that sessions hold, by protocol.
fn nat_ports(turn: &Turn) -> Vec<u64> {
    let (code, shown) = json(&["show", "nat", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{shown}");
    shown["nats"][0]["ports"].as_array().unwrap().iter().map(|ports| ports["used"].as_u64().unwrap()).collect()
}

#[test]
fn connections_and_datagrams_outlive_take_overs_and_a_draining_backend() {
    change_under_connections("jit");
}

#[test]
fn connections_and_datagrams_outlive_take_overs_of_the_interpreter() {
    change_under_connections("interp");
}

#[test]
fn a_successor_that_is_killed_first_leaves_the_gateway_of_the_lab() {
    let Some(turn) = turn() else { return };
    let (_folder, file) = lab_up(&turn, &region_text(), &[]);
    let old = recorded_gateway(&turn);
    let signal = |signal: &str| {
        assert!(Command::new("kill").args([signal, &old.to_string()]).status().unwrap().success());
    };
    // The old process does not answer, so the new one waits for its first message.
    signal("-STOP");
    let successor = start_successor(&turn, &file, "jit");
    let socket = format!("lab-{}.takeover", turn.lab);
    let connections = || std::fs::read_to_string("/proc/net/unix").unwrap().matches(&socket).count();
    let began = Instant::now();
    while connections() < 2 {
        assert!(began.elapsed() < TAKEOVER_PATIENCE, "it does not ask for a take-over");
        sleep(Duration::from_millis(20));
    }
    drop(successor);
    signal("-CONT");
    assert_eq!((recorded_gateway(&turn), serving_process(&turn)), (old, Some(old.into())));
    let (code, pinged) = json(&["lab", "ping", "red-a", HOST, "--count", "2", "--name", &turn.lab]);
    assert_eq!(code, Some(0), "{pinged}");
    // It is still there to be taken over, and to be ended.
    let _third = take_over(&turn, &file, "jit");
    assert!(terrace(&["lab", "down", "--name", &turn.lab]).status.success());
    turn.assert_nothing_left();
}

/// Two take-overs, and between them a change of the region that drains a backend, under connections.
fn change_under_connections(engine: &str) {
    let Some(turn) = turn() else { return };
    let (_folder, file) = lab_up(&turn, &region_text(), &["--engine", engine]);
    for (place, address) in [
        ("internet", format!("{HOST}:9000")),
        ("internet", format!("[{HOST_V6}]:9000")),
        ("red-a", "10.0.0.11:9000".to_owned()),
        ("red-b", "10.0.0.12:8080".to_owned()),
        ("red-b", "10.0.0.12:8443".to_owned()),
        ("red-c", "10.0.1.13:8080".to_owned()),
        ("red-d", "10.0.1.14:22".to_owned()),
    ] {
        echo(&turn, place, &address);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (nat, v6) = (format!("{HOST}:9000"), format!("[{HOST_V6}]:9000"));
    let mut paths = vec![
        ("red-a", nat.as_str()),
        ("red-c", nat.as_str()),
        ("red-b", v6.as_str()),
        // From and to a machine in a group; the elastic address, and the forwarded port.
        ("red-d", "10.0.0.11:9000"),
        ("internet", "198.51.100.40:22"),
        ("internet", "198.51.100.16:443"),
    ];
    // Each backend gets some: all would have one of the two once in 16,384 runs.
    for (client, service) in
        [("red-a", "10.0.0.100:80"), ("green-b", "10.0.0.100:80"), ("internet", "198.51.100.60:80")]
    {
        paths.extend([(client, service); 5]);
    }
    let talks: Vec<_> = paths.iter().map(|(from, to)| converse(&turn, from, to, &stop)).collect();
    let datagrams = [
        send_datagrams(&turn, ["red-b", "10.0.0.12:7001"], ["internet", "203.0.113.200:7001"], &stop),
        send_datagrams(&turn, ["red-d", "10.0.1.14:7002"], ["red-c", "10.0.1.13:7002"], &stop),
    ];
    sleep(Duration::from_secs(1));
    let before = PLACES.map(|place| tcp_counters(&turn, place));
    let held = ["10.0.0.12", "10.0.1.13"].map(|vm| connections_of(&turn, vm).unwrap_or(0));
    assert!(held.iter().all(|held| *held > 0) && held.iter().sum::<u64>() == 15, "{held:?}");

    let ports = nat_ports(&turn);
    assert!(ports.iter().sum::<u64>() >= 3, "{ports:?}");

    let _second = take_over(&turn, &file, engine);
    sleep(Duration::from_millis(500));
    // The backend drains: its connections stay. So they do when another process takes over.
    let draining = edited(&region_text(), &[(BACKENDS[1], &BACKENDS[1].replace('}', ", state: draining}"))]);
    apply(&turn, &file, &draining);
    sleep(Duration::from_millis(500));
    let _third = take_over(&turn, &file, engine);
    sleep(Duration::from_millis(500));
    assert_eq!(["10.0.0.12", "10.0.1.13"].map(|vm| connections_of(&turn, vm).unwrap_or(0)), held);

    assert_eq!(nat_ports(&turn), ports, "ports of the NAT");

    stop.store(true, Ordering::Relaxed);
    let exchanged: Vec<_> = talks.into_iter().map(|talk| talk.join().unwrap()).collect();
    let after = PLACES.map(|place| tcp_counters(&turn, place));
    let counted = datagrams.map(|sending| sending.join().unwrap());
    let stats = turn.stats();
    let differences = counted.each_ref().map(Datagrams::differences);
    let sent = counted.each_ref().map(|datagrams| datagrams.sent);
    println!("messages {exchanged:?}, {sent:?} datagrams, {differences:?}, TCP {before:?}, then {after:?}, {stats}");
    assert!(exchanged.iter().all(|messages| messages.as_ref().is_ok_and(|number| *number > 50)), "{exchanged:?}");
    assert!(sent.iter().all(|sent| *sent > 500), "{sent:?} are too few to say anything");
    assert_eq!(differences, [[], []], "of {sent:?}: {stats}");
    assert_eq!(after, before, "segments lost, or connections reset: {stats}");
    // The kernels of machines verify by ARP now and then that their router is there.
    let drops = packets_by_reason(&stats["drops"]).into_iter().filter(|(reason, _)| reason != "inner_not_ip");
    assert_eq!(drops.collect::<Vec<_>>(), [], "{stats}");
    assert_eq!(stats["to_cpu"], Value::Object(Default::default()), "{stats}");
}
