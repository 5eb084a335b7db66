//! The socket, connections and their bounds.

use super::protocol::{Answer, Request};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// The longest request, in bytes.
const MAX_REQUEST: u64 = 256 << 10;
/// Connections at a time.
const MAX_CONNECTIONS: usize = 32;
/// How long a client may take to say what it wants; it may be silent between two requests as long.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// How long a client may take to read a part of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How often the listener looks whether it is to end.
const POLL: Duration = Duration::from_millis(20);

/// The socket cannot be opened.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another node listens there.
    #[error("a node listens on {} already; stop it, or give this one another `socket` under [control]", socket.display())]
    Taken {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {}: {source}; name a place that can be written to with `socket` under [control]", socket.display())]
    Listen {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Where answers go: a document a line.
pub struct Answers<'a> {
    stream: &'a mut UnixStream,
    stop: &'a AtomicBool,
}

impl Answers<'_> {
    /// Sends an answer.
    ///
    /// # Errors
    /// The client is gone, or reads too slowly: nothing more can be said.
    pub fn say(&mut self, answer: &Answer) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        self.stream.write_all(&line)
    }

    /// Whether there is a reason to go on: the node does not end, and the client has not gone away.
    pub fn wanted(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let mut byte = [0];
        let alive = |outcome: io::Result<usize>| match outcome {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        };
        // What a client sends meanwhile it has to send again.
        self.stream.set_nonblocking(true).is_ok()
            && alive((&*self.stream).read(&mut byte))
            && self.stream.set_nonblocking(false).is_ok()
    }
}

/// Answers requests, of several clients at a time.
pub trait Respond: Send + Sync + 'static {
    /// Answers one.
    ///
    /// # Errors
    /// Those of [`Answers::say`]; the connection ends then.
    fn respond(&self, request: Request, answers: &mut Answers<'_>) -> io::Result<()>;
}

/// A socket that is listened on, until it is dropped; then the socket is removed.
pub struct ControlSocket {
    path: PathBuf,
    /// By which it is told from a socket that another node has put in its place.
    inode: u64,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens the socket, which only this user may use, and answers requests there. What a node left that is gone is removed; with `replace` also the
    /// socket of a node that is about to end.
    ///
    /// # Errors
    /// If another node listens there, or the socket cannot be made.
    pub fn open(path: &Path, respond: Arc<dyn Respond>, replace: bool) -> Result<ControlSocket, SocketError> {
        let failed = |source| SocketError::Listen { socket: path.to_owned(), source };
        let listener = listen_at(path, replace)?;
        let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = stop.clone();
        let listening = move || listen(&listener, &respond, &ended);
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
            // A panic was shown when it happened.
            let _ = thread.join();
        }
    }
}

/// Listens on a Unix socket that only this user may use, without waiting for clients. Folders are made. What a process left that is gone is removed;
/// with `replace` also the socket of one that listens.
///
/// # Errors
/// If somebody listens there, or the socket cannot be made.
pub fn listen_at(path: &Path, replace: bool) -> Result<UnixListener, SocketError> {
    let failed = |source| SocketError::Listen { socket: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    if !replace && UnixStream::connect(path).is_ok() {
        return Err(SocketError::Taken { socket: path.to_owned() });
    }
    // Nothing but a socket is removed: a wrong path must not cost a file.
    if std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Takes a place among the connections, until it is dropped.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn listen(listener: &UnixListener, respond: &Arc<dyn Respond>, stop: &Arc<AtomicBool>) {
    let taken = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(POLL);
            continue;
        };
        let place = Place(taken.clone());
        if taken.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            let message = format!("{MAX_CONNECTIONS} clients ask already; try again when one has ended");
            let _ = with_times(&stream)
                .and_then(|()| Answers { stream: &mut { stream }, stop }.say(&Answer::Refused { message }));
            continue;
        }
        let (respond, stop) = (respond.clone(), stop.clone());
        // A client that does not behave is its own problem; without a thread the connection is closed.
        let _ = thread::Builder::new().name("control client".into()).spawn(move || {
            let _place = place;
            let _ = converse(stream, &*respond, &stop);
        });
    }
}

fn with_times(stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    stream.set_write_timeout(Some(ANSWER_TIME))
}

fn converse(mut stream: UnixStream, respond: &dyn Respond, stop: &AtomicBool) -> io::Result<()> {
    with_times(&stream)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        line.clear();
        let length = reader.by_ref().take(MAX_REQUEST).read_until(b'\n', &mut line)?;
        let mut answers = Answers { stream: &mut stream, stop };
        match line.last() {
            None => break,
            Some(b'\n') => {}
            Some(_) => {
                let what = if length as u64 == MAX_REQUEST { "is too long" } else { "has no end" };
                return answers.say(&Answer::Refused { message: format!("the request {what}; use `terrace show`") });
            }
        }
        match serde_json::from_slice(&line) {
            Ok(request) => respond.respond(request, &mut answers)?,
            Err(error) => {
                let message =
                    format!("this is no request that this node knows: {error}; use a `terrace` of its version");
                answers.say(&Answer::Refused { message })?;
            }
        }
    }
    Ok(())
}
