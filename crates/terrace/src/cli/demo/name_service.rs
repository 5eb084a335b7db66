//! Name service of the lab: every VM sends its name to each TCP client. Names identify VMs, because
//! tenants use the same addresses.

use super::scenario::{DENIED_PORT, NAME_PORT};
use crate::cli::failure::CommandError;
use crate::lab::Topology;
use io::Namespace;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connection timeout. Shorter than the second after which TCP would retransmit, so that each
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
    /// Listens on all VMs and on the hosts behind remotes.
    pub fn start(topology: &Topology) -> Result<NameService, CommandError> {
        let mut listeners = Vec::new();
        for endpoint in topology.endpoints() {
            let namespace = Namespace::open(&endpoint.namespace).map_err(CommandError::system)?;
            for port in [NAME_PORT, DENIED_PORT] {
                let listener = namespace.run(|| listen(port)).map_err(CommandError::system)?;
                listeners.push((listener.map_err(CommandError::system)?, endpoint.name.clone()));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let serve = move || {
            while !flag.load(Ordering::Relaxed) {
                for (listener, name) in &listeners {
                    while let Ok((mut stream, _)) = listener.accept() {
                        // Errors are ignored, because the client may close before it has read the
                        // name.
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

/// Opens a listener for both address families, or for IPv4 alone if the kernel has no IPv6.
fn listen(port: u16) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to `address` from inside `namespace` and returns the name that it sends. `None` if
/// there is no reply.
pub fn ask_name(namespace: &str, address: IpAddr, port: u16) -> Result<Option<String>, CommandError> {
    let ask = || -> std::io::Result<String> {
        let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut name = String::new();
        stream.take(100).read_to_string(&mut name)?;
        Ok(name)
    };
    let inside = Namespace::open(namespace).map_err(CommandError::system)?;
    Ok(inside.run(ask).map_err(CommandError::system)?.ok())
}
