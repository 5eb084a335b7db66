//! Server of the control socket: connections and their limits.

use super::protocol::{ControlRequest, ControlResponse};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// Maximum length of a request in bytes.
const MAX_REQUEST_BYTES: u64 = 256 << 10;
/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 32;
/// Time limit for a client to send a request, including the idle time before it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for a client to read each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which the listener checks whether to stop.
const ACCEPT_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The socket cannot be opened.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another node listens on the socket.
    #[error("a node listens on {} already; stop it, or give this one another `socket` under [control]", socket.display())]
    Taken {
        /// Path of the socket.
        socket: PathBuf,
    },
    /// The socket cannot be created.
    #[error("cannot listen on {}: {source}; name a place that can be written to with `socket` under [control]", socket.display())]
    Listen {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Writes responses to a client, one document per line.
pub struct ResponseWriter<'a> {
    stream: &'a mut UnixStream,
    stop: &'a AtomicBool,
}

impl ResponseWriter<'_> {
    /// Sends a response.
    ///
    /// # Errors
    /// The client has disconnected, or reads too slowly; further responses fail too.
    pub fn say(&mut self, answer: &ControlResponse) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// Returns whether a long response should continue: the node is not stopping, and the client
    /// has not disconnected.
    pub fn wanted(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let mut byte = [0];
        let alive = |outcome: io::Result<usize>| match outcome {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        // Input that a client sends meanwhile is discarded.
        self.stream.set_nonblocking(true).is_ok()
            && alive((&*self.stream).read(&mut byte))
            && self.stream.set_nonblocking(false).is_ok()
    }
}

/// Handles requests of several clients concurrently.
pub trait ControlHandler: Send + Sync + 'static {
    /// Handles one request.
    ///
    /// # Errors
    /// Returns the errors of [`ResponseWriter::say`], which close the connection.
    fn respond(&self, request: ControlRequest, answers: &mut ResponseWriter<'_>) -> io::Result<()>;
}

/// A listening control socket. Dropping it removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    /// Distinguishes the socket from one that another node has created at the same path.
    inode: u64,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens a socket that only this user can access, and answers requests there. Replaces the
    /// socket of a node that no longer exists; with `replace`, also the socket of a node that is
    /// about to end.
    ///
    /// # Errors
    /// Another node listens there, or the socket cannot be created.
    pub fn open(path: &Path, respond: Arc<dyn ControlHandler>, replace: bool) -> Result<ControlSocket, SocketError> {
        let failed = |source| SocketError::Listen { socket: path.to_owned(), source };
        let listener = bind_private_socket(path, replace)?;
        let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let listening = move || accept_clients(&listener, &respond, &ended);
        let thread = thread::Builder::new().name("control".into()).spawn(listening).map_err(failed)?;
        Ok(ControlSocket { path: path.to_owned(), inode, stop, thread: Some(thread) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| there.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Listens on a Unix socket that only this user can access, without blocking. Creates missing
/// directories. Replaces the socket of a process that no longer exists; with `replace`, also the
/// socket of one that listens.
///
/// # Errors
/// Another process listens there, or the socket cannot be created.
pub fn bind_private_socket(path: &Path, replace: bool) -> Result<UnixListener, SocketError> {
    let failed = |source| SocketError::Listen { socket: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    if !replace && UnixStream::connect(path).is_ok() {
        return Err(SocketError::Taken { socket: path.to_owned() });
    }
    // Removes only sockets, so that a wrong path does not delete a file.
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Counts a connection until it is dropped.
struct ConnectionSlot(Arc<AtomicUsize>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn accept_clients(listener: &UnixListener, respond: &Arc<dyn ControlHandler>, stop: &Arc<AtomicBool>) {
    let taken = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(ACCEPT_POLL_INTERVAL);
            continue;
        };
        let place = ConnectionSlot(taken.clone());
        if taken.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            let message =
                format!("{MAX_CONNECTIONS} clients are connected already; try again when one has disconnected");
            let _ = set_timeouts(&stream).and_then(|()| {
                ResponseWriter { stream: &mut { stream }, stop }.say(&ControlResponse::Refused { message })
            });
            continue;
        }
        let (respond, stop) = (respond.clone(), stop.clone());
        // Errors of a client only end its connection. Without a thread, the connection is closed.
        let _ = thread::Builder::new().name("control client".into()).spawn(move || {
            let _place = place;
            let _ = serve_client(stream, &*respond, &stop);
        });
    }
}

fn set_timeouts(stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))
}

fn serve_client(mut stream: UnixStream, respond: &dyn ControlHandler, stop: &AtomicBool) -> io::Result<()> {
    set_timeouts(&stream)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        line.clear();
        let length = reader.by_ref().take(MAX_REQUEST_BYTES).read_until(b'\n', &mut line)?;
        let mut answers = ResponseWriter { stream: &mut stream, stop };
        match line.last() {
            None => break,
            Some(b'\n') => {}
            Some(_) => {
                let what = if length as u64 == MAX_REQUEST_BYTES { "is too long" } else { "has no end" };
                return answers
                    .say(&ControlResponse::Refused { message: format!("the request {what}; use `terrace show`") });
            }
        }
        match serde_json::from_slice(&line) {
            Ok(request) => respond.respond(request, &mut answers)?,
            Err(error) => {
                let message = format!("this node does not know this request: {error}; use a `terrace` of its version");
                answers.say(&ControlResponse::Refused { message })?;
            }
        }
    }
    Ok(())
}
