//! Responses about sessions.

use super::protocol::ControlResponse;
use super::server::ResponseWriter;
use crate::Node;
use crate::sessions::{SessionError, SessionSelection};
use std::io;

/// Number of sessions in one response.
const ROWS_PER_RESPONSE: usize = 256;
/// Deleted sessions between two reports of progress, so that a client need not wait long for one.
const DELETED_PER_REPORT: u64 = 1 << 17;

/// Failure of a request: of the connection, or of the request itself.
enum Failure {
    Connection(io::Error),
    Refused(SessionError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Connection(error)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Failure {
        Failure::Refused(error)
    }
}

/// Sends the sessions that match, at most `limit`, and then the number of all that match.
pub(super) fn send_sessions(
    node: &Node,
    selection: &SessionSelection,
    limit: u64,
    answers: &mut ResponseWriter<'_>,
) -> io::Result<()> {
    let outcome = send_pages(node, selection, limit, answers);
    end(outcome, answers)
}

/// Deletes the sessions that match, and sends their number.
pub(super) fn delete_sessions(
    node: &Node,
    selection: &SessionSelection,
    answers: &mut ResponseWriter<'_>,
) -> io::Result<()> {
    let outcome = delete_pages(node, selection, answers);
    end(outcome, answers)
}

fn end(outcome: Result<u64, Failure>, answers: &mut ResponseWriter<'_>) -> io::Result<()> {
    match outcome {
        Ok(matching) => answers.say(&ControlResponse::End { matching }),
        Err(Failure::Refused(error)) => answers.say(&ControlResponse::Refused { message: error.to_string() }),
        Err(Failure::Connection(error)) => Err(error),
    }
}

fn send_pages(
    node: &Node,
    selection: &SessionSelection,
    limit: u64,
    answers: &mut ResponseWriter<'_>,
) -> Result<u64, Failure> {
    let (mut matching, mut left) = (0, limit);
    for selected in node.select_sessions(selection)? {
        let mut reader = node.read_sessions(&selected)?;
        while let Some(page) = reader.next_page(node, usize::try_from(left).unwrap_or(usize::MAX)) {
            matching += page.matching;
            left -= page.entries.len() as u64;
            for entries in page.entries.chunks(ROWS_PER_RESPONSE) {
                answers.say(&ControlResponse::Sessions { sessions: node.session_rows(&selected, entries) })?;
            }
            // A client that has gone need not be counted for.
            if !answers.wanted() {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
            }
        }
    }
    Ok(matching)
}

fn delete_pages(node: &Node, selection: &SessionSelection, answers: &mut ResponseWriter<'_>) -> Result<u64, Failure> {
    let (mut deleted, mut reported) = (0, 0);
    for selected in node.select_sessions(selection)? {
        let mut deletion = node.delete_sessions(&selected)?;
        while let Some(count) = deletion.next_page(node)? {
            deleted += count;
            if deleted - reported >= DELETED_PER_REPORT {
                answers.say(&ControlResponse::SessionsDeleted { deleted })?;
                reported = deleted;
            }
            if !answers.wanted() {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
            }
        }
    }
    Ok(deleted)
}
