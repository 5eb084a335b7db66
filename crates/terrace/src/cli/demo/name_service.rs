//! Every machine of the lab says its name to whoever connects: addresses of tenants are the same, names are not.

use super::scenario::{DENIED_PORT, NAME_PORT};
use crate::cli::failure::Failure;
use crate::lab::Topology;
use io::Namespace;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long to wait for a connection. Less than a second, after which TCP would send its first packet again: so each attempt that is not
/// answered is one packet.
const PATIENCE: Duration = Duration::from_millis(700);
/// How often to look for connections.
const POLL: Duration = Duration::from_millis(5);

/// The listeners, served by one thread until this is dropped.
#[derive(Debug)]
pub struct NameService {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameService {
    /// Listens on all machines and on the hosts behind remotes.
    pub fn start(topology: &Topology) -> Result<NameService, Failure> {
        let mut listeners = Vec::new();
        for endpoint in topology.endpoints() {
            let namespace = Namespace::open(&endpoint.namespace).map_err(Failure::system)?;
            for port in [NAME_PORT, DENIED_PORT] {
                let listener = namespace.run(|| listen(port)).map_err(Failure::system)?;
                listeners.push((listener.map_err(Failure::system)?, endpoint.name.clone()));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let serve = move || {
            while !flag.load(Ordering::Relaxed) {
                for (listener, name) in &listeners {
                    while let Ok((mut stream, _)) = listener.accept() {
                        // Who does not wait for the name does not want it.
                        let _ = stream.write_all(name.as_bytes());
                    }
                }
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

/// A listener for both families; for IPv4 alone where the kernel has no IPv6.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// From inside `namespace`, asks whoever has `address` for its name. `None` if nobody answers.
pub fn ask_name(namespace: &str, address: IpAddr, port: u16) -> Result<Option<String>, Failure> {
    let ask = || -> std::io::Result<String> {
        let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut name = String::new();
        stream.take(100).read_to_string(&mut name)?;
        Ok(name)
    };
    let inside = Namespace::open(namespace).map_err(Failure::system)?;
    Ok(inside.run(ask).map_err(Failure::system)?.ok())
}
