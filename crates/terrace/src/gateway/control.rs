//! The control socket: one JSON document a line, one answer a line.

use super::stats::Stats;
use node::admin::server::{SocketError, listen_at};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;

/// The longest request, in bytes.
const MAX_REQUEST: u64 = 64 << 10;
/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 256 << 20;
/// How long a client may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long a client waits for an answer: a large region takes a while.
const ANSWER_TIME: Duration = Duration::from_secs(300);
/// How often the server looks whether it has to stop.
const POLL: Duration = Duration::from_millis(50);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Request {
    /// Reads the region file again, or another one from now on, and applies what changed.
    Apply {
        /// The file; absolute, as the server's working directory is not the client's.
        region: Option<PathBuf>,
    },
    /// What happened so far.
    Stats,
    /// Ends the gateway.
    Stop,
}

/// What the gateway answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Applied.
    Applied(Applied),
    /// What happened so far.
    Stats(Box<Stats>),
    /// It ends.
    Stopping,
    /// It was refused; what runs is as it was.
    Refused {
        /// Why, and the mend.
        message: String,
    },
}

/// What an application changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The region file.
    pub region: PathBuf,
    /// Entries added.
    pub inserted: usize,
    /// Entries that do something else now.
    pub modified: usize,
    /// Entries removed.
    pub deleted: usize,
    /// Default actions and counters written.
    pub others: usize,
    /// What of the region does not fit the gateway's ports, with place and mend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Applied { region, inserted, modified, deleted, .. } = self;
        write!(f, "applied {}: {inserted} entries added, {modified} changed, {deleted} removed", region.display())?;
        self.warnings.iter().try_for_each(|warning| write!(f, "\nwarning: {warning}"))
    }
}

/// Why a gateway cannot be reached, or its socket cannot be opened.
#[derive(Debug, Error)]
pub enum ControlError {
    /// Nobody listens.
    #[error("no gateway listens on {}: {source}; start one with `terrace gateway run`, or name its socket with --control", socket.display())]
    NotRunning {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another one listens there.
    #[error("a gateway listens on {} already; stop it with `terrace gateway stop`, or use another --control", socket.display())]
    Taken {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {}: {source}; name a place that can be written to with --control", socket.display())]
    Listen {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("the gateway on {} did not answer: {message}; look at its standard error", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        message: String,
    },
}

/// A socket that is listened on; removed when dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    listener: UnixListener,
}

impl ControlSocket {
    /// Opens the socket, which only this user may use. What a gateway left that is gone is removed.
    pub fn open(path: &Path) -> Result<ControlSocket, ControlError> {
        // Told in the words of a gateway.
        let listener = listen_at(path, false).map_err(|error| match error {
            SocketError::Taken { socket } => ControlError::Taken { socket },
            SocketError::Listen { socket, source } => ControlError::Listen { socket, source },
        })?;
        Ok(ControlSocket { path: path.to_owned(), listener })
    }

    /// Answers requests, one after the other, until `stop` is true. In between, `handle` is called with `None` some twenty times a
    /// second, for what has nothing to do with requests; what it answers then is not looked at.
    pub fn serve(&self, stop: &AtomicBool, mut handle: impl FnMut(Option<Request>) -> Option<Answer>) {
        while !stop.load(Ordering::Relaxed) {
            handle(None);
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // A client that does not behave is its own problem.
                    let _ = converse(stream, &mut handle);
                }
                Err(_) => std::thread::sleep(POLL),
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn converse(stream: UnixStream, handle: &mut impl FnMut(Option<Request>) -> Option<Answer>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(REQUEST_TIME))?;
    stream.set_write_timeout(Some(REQUEST_TIME))?;
    let mut line = String::new();
    BufReader::new(stream.try_clone()?.take(MAX_REQUEST)).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Ok(request) => handle(Some(request)).unwrap_or(Answer::Stopping),
        Err(error) => Answer::Refused { message: format!("this is no request: {error}; use `terrace gateway`") },
    };
    let mut stream = stream;
    serde_json::to_writer(&mut stream, &answer)?;
    stream.write_all(b"\n")
}

/// Asks the gateway behind a socket.
///
/// # Errors
/// If nobody listens or the answer does not come. A refusal is an answer.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, ControlError> {
    let broken = |message: String| ControlError::Broken { socket: socket.to_owned(), message };
    let mut stream =
        UnixStream::connect(socket).map_err(|source| ControlError::NotRunning { socket: socket.to_owned(), source })?;
    let conversation = (|| -> io::Result<String> {
        stream.set_read_timeout(Some(ANSWER_TIME))?;
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream.take(MAX_ANSWER)).read_line(&mut answer)?;
        Ok(answer)
    })();
    let answer = conversation.map_err(|error| broken(error.to_string()))?;
    serde_json::from_str(&answer).map_err(|error| broken(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_server(test: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/control.sock");
        let socket = ControlSocket::open(&path).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                socket.serve(&stop, |request| match request? {
                    Request::Apply { region: Some(region) } => {
                        Some(Answer::Applied(Applied { region, inserted: 3, ..Applied::default() }))
                    }
                    Request::Stop => Some(Answer::Stopping),
                    _ => Some(Answer::Refused { message: "not here".into() }),
                })
            });
            test(&path);
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn requests_are_answered_and_nonsense_is_refused() {
        with_server(|path| {
            let region = Some(PathBuf::from("/r.yaml"));
            let Ok(Answer::Applied(applied)) = ask(path, &Request::Apply { region }) else { panic!("not applied") };
            assert_eq!((applied.region.to_str(), applied.inserted), (Some("/r.yaml"), 3));
            assert_eq!(ask(path, &Request::Stop).unwrap(), Answer::Stopping);
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(b"hello\n").unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            assert!(answer.contains("this is no request"), "{answer}");
        });
    }

    #[test]
    fn a_second_server_is_refused_and_a_stale_socket_is_not_in_the_way() {
        with_server(|path| assert!(matches!(ControlSocket::open(path), Err(ControlError::Taken { .. }))));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stale.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        assert!(matches!(ask(&path, &Request::Stats), Err(ControlError::NotRunning { .. })));
        drop(ControlSocket::open(&path).unwrap());
        assert!(!path.exists(), "a socket is removed by who made it");
    }
}
