//! Traffic between end points of a lab by the kernel's stacks, and the link behind the lab's router to the Internet.

use crate::place::Turn;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread::spawn;
use std::time::Duration;

/// Connects from one end point to another, and sends a megabyte there and back. `listens` is the address
/// of the other one as it knows it, `to` as the first one does. Returns the address of the first one as
/// the other one sees it.
pub fn exchange_tcp(turn: &Turn, [from, other]: [&str; 2], listens: SocketAddr, to: SocketAddr) -> SocketAddr {
    let listener = turn.namespace(other).run(|| TcpListener::bind(listens).unwrap()).unwrap();
    let answering = spawn(move || {
        let (mut stream, peer) = listener.accept().unwrap();
        let mut bytes = vec![0; 1 << 20];
        stream.read_exact(&mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
        peer
    });
    let mut stream =
        turn.namespace(from).run(|| TcpStream::connect_timeout(&to, Duration::from_secs(30)).unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let sent: Vec<u8> = (0..1 << 20).map(|index: u32| (index % 251) as u8).collect();
    let (mut writer, content) = (stream.try_clone().unwrap(), sent.clone());
    let writing = spawn(move || writer.write_all(&content).unwrap());
    let mut back = vec![0; sent.len()];
    stream.read_exact(&mut back).unwrap();
    writing.join().unwrap();
    assert!(back == sent);
    answering.join().unwrap()
}

/// Gives the link between the router and the host in the Internet this MTU.
pub fn narrow_internet_link(turn: &Turn, mtu: u32) {
    let (namespace, mtu) = (format!("{}-isp", turn.lab), mtu.to_string());
    let narrowed =
        Command::new("ip").args(["-n", &namespace, "link", "set", "dev", "in0", "mtu", &mtu]).status().unwrap();
    assert!(narrowed.success());
}
