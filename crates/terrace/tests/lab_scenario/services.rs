//! Services in the lab: the kernel's stacks at clients and backends, and changes of backends under
//! connections.

use crate::icmp::at;
use crate::internet::HOST;
use crate::place::{Turn, json, lab_up, packets_by_reason, region_text, turn_beside_others};
use crate::text_edits::edited;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const WEB: &str = "10.0.0.100:80";
const DNS: &str = "10.0.0.100:53";
const PUBLIC_WEB: &str = "198.51.100.60:80";
/// The backends of both services.
const BACKENDS: [(&str, &str); 2] = [("red-b", "10.0.0.12"), ("red-c", "10.0.1.13")];

/// The lab's region, in which `red` has the service `web`. Here it has `dns`, too, and the backends of both have
/// these states.
fn region(states: [&str; 2]) -> String {
    let line = |port: u16, index: usize| {
        format!("          - {{vm: {}, port: {port}, state: {}}}\n", BACKENDS[index].1, states[index])
    };
    let web = BACKENDS.map(|(_, vm)| format!("          - {{vm: {vm}, port: 8080}}\n"));
    let dns = format!(
        "      - name: dns\n        address: 10.0.0.100\n        protocol: udp\n        port: 53\n        backends:\n{}{}",
        line(5353, 0),
        line(5353, 1)
    );
    let second = line(8080, 1) + &dns;
    edited(&region_text(), &[(&web[0], &line(8080, 0)), (&web[1], &second)])
}

/// Answers each line of each connection, and each datagram, with the machine's name. Returns the addresses
/// of clients as the machine sees them.
fn serve(turn: &Turn, name: &'static str, address: &str) -> Receiver<SocketAddr> {
    let (seen, clients) = channel();
    let place = turn.namespace(name);
    let listener = place.run(|| TcpListener::bind((address, 8080)).unwrap()).unwrap();
    let socket = place.run(|| UdpSocket::bind((address, 5353)).unwrap()).unwrap();
    spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = seen.send(stream.peer_addr().unwrap());
            spawn(move || {
                let mut byte = [0];
                while stream.read_exact(&mut byte).is_ok() && stream.write_all(name.as_bytes()).is_ok() {}
            });
        }
    });
    spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((_, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(name.as_bytes(), from);
        }
    });
    clients
}

fn connect(turn: &Turn, from: &str, to: &str) -> std::io::Result<TcpStream> {
    let to: SocketAddr = to.parse().unwrap();
    let stream = turn.namespace(from).run(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Asks through a connection. Returns the name of the machine that answers.
fn ask(stream: &mut TcpStream) -> Result<String, ErrorKind> {
    let mut name = [0; 5];
    stream.write_all(b"?").map_err(|error| error.kind())?;
    stream.read_exact(&mut name).map_err(|error| error.kind())?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

/// Asks by datagrams of one socket until one is answered. Returns the name of the machine.
fn ask_udp(socket: &UdpSocket) -> String {
    let (begin, mut name) = (Instant::now(), [0; 5]);
    loop {
        socket.send_to(b"?", DNS).unwrap();
        if let Ok((_, from)) = socket.recv_from(&mut name) {
            assert_eq!(from, DNS.parse().unwrap(), "the answer is of the service");
            return String::from_utf8_lossy(&name).into_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "no answer");
    }
}

#[test]
fn connections_stay_while_backends_drain_and_leave_one_that_is_down() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab_up(&turn, &region(["up", "up"]), &[]);
    let apply = |states: [&str; 2]| {
        std::fs::write(&file, region(states)).unwrap();
        let (code, document) = json(&["region", "apply", "--lab", &turn.lab]);
        assert_eq!(code, Some(0), "{document}");
    };
    let clients = BACKENDS.map(|(name, address)| serve(&turn, name, address));

    // From a machine of the VPC, of a peer, and from the Internet; over IPv4 and IPv6 underlays. Both
    // backends get connections, and see the client itself.
    let mut streams: Vec<TcpStream> = Vec::new();
    for (from, to, address) in
        [("red-a", WEB, "10.0.0.11"), ("green-b", WEB, "10.3.0.12"), ("internet", PUBLIC_WEB, HOST)]
    {
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..12 {
            let mut stream = connect(&turn, from, to).unwrap();
            names.insert(ask(&mut stream).unwrap());
            streams.push(stream);
        }
        assert_eq!(names.len(), 2, "{from}: {names:?}");
        let seen: Vec<IpAddr> = clients.iter().flat_map(|seen| seen.try_iter()).map(|client| client.ip()).collect();
        assert_eq!(seen, [address.parse::<IpAddr>().unwrap(); 12]);
    }
    let before: Vec<String> = streams.iter_mut().map(|stream| ask(stream).unwrap()).collect();
    let sockets: Vec<UdpSocket> = (0..8)
        .map(|_| {
            let socket = turn.namespace("red-a").run(|| UdpSocket::bind("10.0.0.11:0").unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            socket
        })
        .collect();
    let asked: Vec<String> = sockets.iter().map(ask_udp).collect();

    // A backend that is a client reaches the other one.
    for _ in 0..4 {
        assert_eq!(ask(&mut connect(&turn, "red-b", WEB).unwrap()).unwrap(), "red-c");
    }

    // Draining: old connections stay, new ones go elsewhere.
    apply(["draining", "up"]);
    for (stream, name) in streams.iter_mut().zip(&before) {
        assert_eq!(ask(stream).as_ref(), Ok(name));
    }
    assert!(sockets.iter().map(ask_udp).eq(asked.iter().cloned()));
    for (from, to) in [("red-a", WEB), ("internet", PUBLIC_WEB)] {
        for _ in 0..6 {
            assert_eq!(ask(&mut connect(&turn, from, to).unwrap()).unwrap(), "red-c");
        }
    }

    // Down: TCP is reset by the other backend, UDP is answered by it.
    apply(["down", "up"]);
    for (stream, name) in streams.iter_mut().zip(&before) {
        let expected = if name == "red-b" { Err(ErrorKind::ConnectionReset) } else { Ok(name.clone()) };
        assert_eq!(ask(stream), expected);
    }
    assert!(sockets.iter().all(|socket| ask_udp(socket) == "red-c"));

    // Without a backend, and at a port without a service, clients are refused at once. Ping is answered.
    apply(["down", "down"]);
    for to in [WEB, "10.0.0.100:81"] {
        let refused = connect(&turn, "red-a", to).map(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{to}");
    }
    let pinged = at(&turn, "red-a", "ping -c 2 -W 5 10.0.0.100");
    assert!(pinged.contains(" 2 received"), "{pinged}");

    let drops = packets_by_reason(&turn.stats()["drops"]);
    for reason in ["service_no_backend", "service_port"] {
        assert!(drops.iter().any(|(name, packets)| name == reason && *packets > 0), "{reason}: {drops:?}");
    }
    let (code, shown) = json(&["show", "sessions", "sessions", "--match", "address=10.0.0.100", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.to_string().contains("to_backend") && shown.to_string().contains("from_backend"), "{shown}");
}
