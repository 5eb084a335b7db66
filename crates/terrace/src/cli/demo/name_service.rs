//! Name service of the lab: every VM sends its name to each TCP client, and again for each byte that it gets.
//! Names identify VMs, because tenants use the same addresses.

use super::scenario::PORTS_WITH_NAMES;
use crate::cli::failure::CommandError;
use crate::lab::Topology;
use io::Namespace;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connection timeout of a probe. Shorter than the second after which TCP would retransmit, so that each
/// failed attempt is exactly one packet.
const PATIENCE: Duration = Duration::from_millis(700);
/// Interval between polls for connections.
const POLL: Duration = Duration::from_millis(5);

/// Listeners, served by one thread until dropped.
#[derive(Debug)]
pub struct NameService {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameService {
    /// Listens on all VMs, and on the hosts behind remotes and in the Internet.
    pub fn start(topology: &Topology) -> Result<NameService, CommandError> {
        let mut listeners = Vec::new();
        for endpoint in topology.endpoints() {
            let namespace = Namespace::open(&endpoint.namespace).map_err(CommandError::system)?;
            for port in PORTS_WITH_NAMES {
                let listener = namespace.run(|| listen(port)).map_err(CommandError::system)?;
                listeners.push((listener.map_err(CommandError::system)?, endpoint.name.clone()));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let serve = move || {
            let mut clients: Vec<(TcpStream, &str)> = Vec::new();
            while !flag.load(Ordering::Relaxed) {
                for (listener, name) in &listeners {
                    while let Ok((mut stream, _)) = listener.accept() {
                        if stream.set_nonblocking(true).and_then(|()| send_name(&mut stream, name)).is_ok() {
                            clients.push((stream, name.as_str()));
                        }
                    }
                }
                clients.retain_mut(|(stream, name)| serve_client(stream, name));
                std::thread::sleep(POLL);
            }
        };
        Ok(NameService { stop, thread: Some(std::thread::spawn(serve)) })
    }
}

impl Drop for NameService {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens a listener for both address families, or for IPv4 alone if the kernel has no IPv6.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Sends a name, as one line.
fn send_name(stream: &mut TcpStream, name: &str) -> std::io::Result<()> {
    stream.write_all(format!("{name}\n").as_bytes())
}

/// Sends the name for each byte that has come. Returns whether the client is still there.
fn serve_client(stream: &mut TcpStream, name: &str) -> bool {
    let mut bytes = [0; 64];
    match stream.read(&mut bytes) {
        Ok(0) => false,
        Ok(count) => (0..count).all(|_| send_name(stream, name).is_ok()),
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// A connection to the name service.
#[derive(Debug)]
pub struct NamedConnection {
    stream: BufReader<TcpStream>,
    /// Name of the VM at the other end.
    pub name: String,
}

impl NamedConnection {
    /// Connects to `address` from inside `namespace`. `None` if there is no reply. `patience` is for each reply.
    pub fn open(
        namespace: &str,
        address: IpAddr,
        port: u16,
        patience: Duration,
    ) -> Result<Option<NamedConnection>, CommandError> {
        let connect = || -> std::io::Result<NamedConnection> {
            let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), patience)?;
            stream.set_read_timeout(Some(patience))?;
            let mut stream = BufReader::new(stream);
            let name = read_name(&mut stream)?;
            Ok(NamedConnection { stream, name })
        };
        let inside = Namespace::open(namespace).map_err(CommandError::system)?;
        Ok(inside.run(connect).map_err(CommandError::system)?.ok())
    }

    /// Returns whether the same VM still answers.
    pub fn is_answered(&mut self) -> bool {
        let asked = self.stream.get_mut().write_all(b"?");
        asked.and_then(|()| read_name(&mut self.stream)).is_ok_and(|name| name == self.name)
    }
}

/// Reads a line of at most 100 bytes. The end of the connection is an error.
fn read_name(stream: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut name = String::new();
    stream.take(100).read_line(&mut name)?;
    match name.strip_suffix('\n') {
        Some(name) => Ok(name.to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Connects to `address` from inside `namespace` and returns the name that it sends. `None` if
/// there is no reply.
pub fn ask_name(namespace: &str, address: IpAddr, port: u16) -> Result<Option<String>, CommandError> {
    Ok(NamedConnection::open(namespace, address, port, PATIENCE)?.map(|connection| connection.name))
}
