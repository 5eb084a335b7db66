//! Security groups in the lab: real TCP, UDP and ping between machines, and a change of rules under a
//! connection.

use crate::icmp::at;
use crate::place::{Turn, json, lab_up, packets_by_reason, region_text, turn_beside_others};
use crate::text_edits::edited;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
/// The rule that permits connections to `red-b`.
const RULE: &str = "{direction: ingress, protocol: tcp, ports: 8080, from_group: asks}";

/// The lab's region: `red-a` may ask `red-b`, and gets nothing else; `red-c` is in no group.
fn region() -> String {
    let groups = format!(
        "      - {{name: asks, rules: [{{direction: egress}}]}}\n      - name: serves\n        rules:\n          - {RULE}\n\
         \x20         - {{direction: ingress, protocol: icmp, icmp_type: 8, from: 10.3.0.0/24}}\n      - name: bastion\n"
    );
    let changes = [
        ("      - name: bastion\n", groups.as_str()),
        ("[10.0.0.11, \"fd00:100::11\"]}", "[10.0.0.11, \"fd00:100::11\"], groups: [asks]}"),
        ("[10.0.0.12, \"fd00:100::12\"]}", "[10.0.0.12, \"fd00:100::12\"], groups: [serves]}"),
    ];
    edited(&region_text(), &changes)
}

/// Connects a machine to a port of another one.
fn connect(turn: &Turn, from: &str, to: &str, patience: Duration) -> std::io::Result<TcpStream> {
    let to: SocketAddr = to.parse().unwrap();
    turn.namespace(from).run(|| TcpStream::connect_timeout(&to, patience)).unwrap()
}

/// Sends bytes through a connection and back. Returns whether they arrived.
fn exchange(from: &mut TcpStream, to: &mut TcpStream) -> Result<(), ErrorKind> {
    send_bytes(from, to)?;
    send_bytes(to, from)
}

fn send_bytes(sender: &mut TcpStream, receiver: &mut TcpStream) -> Result<(), ErrorKind> {
    let mut bytes = [0; 4];
    sender.write_all(b"here").map_err(|error| error.kind())?;
    receiver.read_exact(&mut bytes).map_err(|error| error.kind())
}

#[test]
fn rules_decide_who_begins_and_a_change_ends_connections() {
    let Some(turn) = turn_beside_others() else { return };
    let (_folder, file) = lab_up(&turn, &region(), &[]);

    // A group of the VPC may connect, others may not; answers pass.
    let listener = turn.namespace("red-b").run(|| TcpListener::bind("0.0.0.0:8080").unwrap()).unwrap();
    let mut client = connect(&turn, "red-a", "10.0.0.12:8080", PATIENCE).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    }
    assert_eq!(exchange(&mut client, &mut server), Ok(()));
    let few = Duration::from_secs(2);
    assert!(connect(&turn, "red-c", "10.0.0.12:8080", few).is_err(), "from a machine without groups");
    assert!(connect(&turn, "red-a", "10.0.0.12:8081", few).is_err(), "to another port");

    // Ping by prefix: of a peer, not of the VPC. UDP from a machine that may send all, and its answer.
    for (from, received) in [("green-a", " 2 received"), ("red-a", " 0 received")] {
        let pinged = at(&turn, from, "ping -c 2 -W 2 10.0.0.12");
        assert!(pinged.contains(received), "{from}: {pinged}");
    }
    let [asks, answers] = [("red-a", "10.0.0.11:5000"), ("red-c", "10.0.1.13:53")].map(|(name, address)| {
        let socket = turn.namespace(name).run(|| UdpSocket::bind(address).unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        socket
    });
    let mut bytes = [0; 8];
    answers.send_to(b"unasked", "10.0.0.11:5000").unwrap();
    assert!(asks.recv_from(&mut bytes).is_err(), "an answer to nothing");
    asks.send_to(b"asked", "10.0.1.13:53").unwrap();
    let (_, from) = answers.recv_from(&mut bytes).unwrap();
    answers.send_to(b"answer", from).unwrap();
    assert_eq!(asks.recv_from(&mut bytes).unwrap().0, 6);

    // The rule is removed under the connection, and comes back.
    let apply = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let (code, document) = json(&["region", "apply", "--lab", &turn.lab]);
        assert_eq!(code, Some(0), "{document}");
    };
    apply(&region().replace(&format!("          - {RULE}\n"), ""));
    assert!(exchange(&mut client, &mut server).is_err(), "the connection goes on");
    apply(&region());
    let mut client = connect(&turn, "red-a", "10.0.0.12:8080", PATIENCE).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    assert_eq!(exchange(&mut client, &mut server), Ok(()));

    let drops = packets_by_reason(&turn.stats()["drops"]);
    for reason in ["group_denied_in", "group_flow_ended"] {
        assert!(drops.iter().any(|(name, packets)| name == reason && *packets > 0), "{reason}: {drops:?}");
    }
    let (code, shown) = json(&["show", "sessions", "flows_v4", "--match", "low=10.0.0.11", "--lab", &turn.lab]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.to_string().contains("tracked"), "{shown}");
}
