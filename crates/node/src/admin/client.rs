//! Client of the control socket, used by `terrace show` and other tools.

use super::protocol::{ControlRequest, ControlResponse};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Maximum length of a response line in bytes.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;
/// Time limit for each response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(120);

/// A request to a node failed.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No node listens on the socket.
    #[error(
        "no node listens on {}: {source}; start `terraced` with `socket` under [control] in its configuration, or `terrace gateway run`, or name its socket with --node",
        socket.display()
    )]
    NotRunning {
        /// Path of the socket.
        socket: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the node on {} did not answer: {message}; its log may say why", socket.display())]
    Broken {
        /// Path of the socket.
        socket: PathBuf,
        /// Description of the failure.
        message: String,
    },
    /// The node refused the request.
    #[error("{0}")]
    Refused(String),
}

/// Responses to one request in order. The stream ends with [`ControlResponse::End`], or after the
/// first response for requests with a single one.
pub struct ResponseStream {
    socket: PathBuf,
    lines: BufReader<UnixStream>,
}

impl ResponseStream {
    /// Connects and sends a request.
    ///
    /// # Errors
    /// No node listens on the socket.
    pub fn begin(socket: &Path, request: &ControlRequest) -> Result<ResponseStream, RequestError> {
        let stream = UnixStream::connect(socket)
            .map_err(|source| RequestError::NotRunning { socket: socket.to_owned(), source })?;
        let send = || -> io::Result<()> {
            stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
            stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            (&stream).write_all(&line)
        };
        let broken = |error: io::Error| RequestError::Broken { socket: socket.to_owned(), message: error.to_string() };
        send().map_err(broken)?;
        Ok(ResponseStream { socket: socket.to_owned(), lines: BufReader::new(stream) })
    }

    /// Returns the next response.
    ///
    /// # Errors
    /// The connection breaks, or the node refuses the request.
    pub fn answer(&mut self) -> Result<ControlResponse, RequestError> {
        let broken = |message: String| RequestError::Broken { socket: self.socket.clone(), message };
        let mut line = String::new();
        let read = self.lines.by_ref().take(MAX_RESPONSE_BYTES).read_line(&mut line);
        if read.map_err(|error| broken(error.to_string()))? == 0 {
            return Err(broken("the connection was closed".into()));
        }
        match serde_json::from_str(&line) {
            Ok(ControlResponse::Refused { message }) => Err(RequestError::Refused(message)),
            Ok(answer) => Ok(answer),
            Err(error) => Err(broken(format!("{error}: is it of another version?"))),
        }
    }
}

/// Sends a request that has a single response, and returns the response.
///
/// # Errors
/// No node listens, the connection breaks, or the node refuses the request.
pub fn ask(socket: &Path, request: &ControlRequest) -> Result<ControlResponse, RequestError> {
    ResponseStream::begin(socket, request)?.answer()
}
