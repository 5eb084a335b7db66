//! The other end of the control socket: for `terrace show` and the like.

use super::protocol::{Answer, Request};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// The longest line of an answer, in bytes.
const MAX_ANSWER: u64 = 64 << 20;
/// How long a client waits for a part of an answer.
const ANSWER_TIME: Duration = Duration::from_secs(120);

/// A node cannot be asked.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody listens.
    #[error(
        "no node listens on {}: {source}; start `terraced` with `socket` under [control] in its configuration, or `terrace gateway run`, or name its socket with --node",
        socket.display()
    )]
    NotRunning {
        /// The socket.
        socket: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("the node on {} did not answer: {message}; its log may say why", socket.display())]
    Broken {
        /// The socket.
        socket: PathBuf,
        /// What happened.
        message: String,
    },
    /// The node refused the request.
    #[error("{0}")]
    Refused(String),
}

/// Answers to one request, in their order; ends with what [`Answer::End`] has said, or the first that is the whole answer.
pub struct Asking {
    socket: PathBuf,
    lines: BufReader<UnixStream>,
}

impl Asking {
    /// Sends a request.
    ///
    /// # Errors
    /// If nobody listens there.
    pub fn begin(socket: &Path, request: &Request) -> Result<Asking, AskError> {
        let stream =
            UnixStream::connect(socket).map_err(|source| AskError::NotRunning { socket: socket.to_owned(), source })?;
        let send = || -> io::Result<()> {
            stream.set_read_timeout(Some(ANSWER_TIME))?;
            stream.set_write_timeout(Some(ANSWER_TIME))?;
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            (&stream).write_all(&line)
        };
        let broken = |error: io::Error| AskError::Broken { socket: socket.to_owned(), message: error.to_string() };
        send().map_err(broken)?;
        Ok(Asking { socket: socket.to_owned(), lines: BufReader::new(stream) })
    }

    /// The next answer.
    ///
    /// # Errors
    /// If none comes, or the node refuses.
    pub fn answer(&mut self) -> Result<Answer, AskError> {
        let broken = |message: String| AskError::Broken { socket: self.socket.clone(), message };
        let mut line = String::new();
        let read = self.lines.by_ref().take(MAX_ANSWER).read_line(&mut line);
        if read.map_err(|error| broken(error.to_string()))? == 0 {
            return Err(broken("the connection was closed".into()));
        }
        match serde_json::from_str(&line) {
            Ok(Answer::Refused { message }) => Err(AskError::Refused(message)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(broken(format!("{error}: is it of another version?"))),
        }
    }
}

/// Asks for something whose answer is one line.
///
/// # Errors
/// If nobody listens, no answer comes, or the node refuses.
pub fn ask(socket: &Path, request: &Request) -> Result<Answer, AskError> {
    Asking::begin(socket, request)?.answer()
}
