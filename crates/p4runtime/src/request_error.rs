//! [`P4RuntimeError`]: error of a request, with the canonical code of gRPC and P4Runtime.

use entries::{EntryError, UpdateError};
use std::fmt;
pub use tonic::Code;

/// Error of a request or of one of its updates: the canonical code and a sentence that names the
/// object, in the program's names, and the fix. The state is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct P4RuntimeError {
    /// gRPC's code; never [`Code::Ok`].
    pub code: Code,
    /// The error and its fix.
    pub message: String,
}

impl fmt::Display for P4RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for P4RuntimeError {}

impl P4RuntimeError {
    /// Creates an error with a code.
    pub fn new(code: Code, message: impl Into<String>) -> P4RuntimeError {
        P4RuntimeError { code, message: message.into() }
    }

    /// Creates the error of a request that contradicts the program or itself.
    pub fn invalid(message: impl Into<String>) -> P4RuntimeError {
        P4RuntimeError::new(Code::InvalidArgument, message)
    }

    /// Creates the error of a request for an object that does not exist.
    pub fn not_found(message: impl Into<String>) -> P4RuntimeError {
        P4RuntimeError::new(Code::NotFound, message)
    }

    /// Creates the error of a request that the target does not support.
    pub fn unimplemented(message: impl Into<String>) -> P4RuntimeError {
        P4RuntimeError::new(Code::Unimplemented, message)
    }

    /// Converts the error to a gRPC status.
    pub fn status(&self) -> tonic::Status {
        tonic::Status::new(self.code, self.message.clone())
    }
}

impl From<&UpdateError> for P4RuntimeError {
    fn from(error: &UpdateError) -> P4RuntimeError {
        P4RuntimeError::new(code(error), error.to_string())
    }
}

/// Returns the canonical code of a rejected update (P4Runtime specification, the sections on each
/// entity's errors).
fn code(error: &UpdateError) -> Code {
    match error {
        UpdateError::Entry(error) => entry_code(error),
        UpdateError::UnknownExtern { .. } | UpdateError::UnknownValueSet { .. } | UpdateError::Missing { .. } => {
            Code::NotFound
        }
        UpdateError::Exists { .. } => Code::AlreadyExists,
        // Another write came between the read and this write.
        UpdateError::SdnStringConflict { .. } => Code::Aborted,
        UpdateError::InUse { .. } => Code::FailedPrecondition,
        UpdateError::Index { .. } => Code::OutOfRange,
        UpdateError::Weight { weight: 0, .. } => Code::InvalidArgument,
        UpdateError::ProfileFull { .. }
        | UpdateError::ValueSetFull { .. }
        | UpdateError::Weight { .. }
        | UpdateError::TooManyReplicas { .. } => Code::ResourceExhausted,
        UpdateError::WrongExtern { .. }
        | UpdateError::RegisterArity { .. }
        | UpdateError::RegisterTooWide { .. }
        | UpdateError::Meter { .. }
        | UpdateError::MemberTwice { .. }
        | UpdateError::ZeroId { .. } => Code::InvalidArgument,
    }
}

fn entry_code(error: &EntryError) -> Code {
    match error {
        EntryError::Duplicate { .. } => Code::AlreadyExists,
        EntryError::NotFound { .. } | EntryError::UnknownMember { .. } | EntryError::UnknownGroup { .. } => {
            Code::NotFound
        }
        EntryError::UnknownTable { .. } => Code::NotFound,
        EntryError::Full { .. } | EntryError::ChipFull { .. } | EntryError::ChipRejected { .. } => {
            Code::ResourceExhausted
        }
        EntryError::ConstTable { .. }
        | EntryError::ConstEntry { .. }
        | EntryError::ConstDefault { .. }
        | EntryError::DefaultOnly { .. }
        | EntryError::TableOnly { .. } => Code::PermissionDenied,
        _ => Code::InvalidArgument,
    }
}
