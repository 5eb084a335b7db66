//! [`Refusal`]: why a request is refused, as gRPC and P4Runtime say it.

use entries::{EntryError, UpdateError};
use std::fmt;
pub use tonic::Code;

/// Why a request, or one update of it, is refused: the canonical code and a sentence that names the object, in the program's names, and the
/// mend. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One of gRPC's codes; never [`Code::Ok`].
    pub code: Code,
    /// What is wrong, and the mend.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// A refusal with a code.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into() }
    }

    /// The request contradicts the program or itself.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::InvalidArgument, message)
    }

    /// What is named is not there.
    pub fn not_found(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::NotFound, message)
    }

    /// The target cannot do this.
    pub fn unimplemented(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::Unimplemented, message)
    }

    /// As a gRPC status.
    pub fn status(&self) -> tonic::Status {
        tonic::Status::new(self.code, self.message.clone())
    }
}

impl From<&UpdateError> for Refusal {
    fn from(error: &UpdateError) -> Refusal {
        Refusal::new(code(error), error.to_string())
    }
}

/// The canonical code of a refused update (P4Runtime specification, the sections on each entity's errors).
fn code(error: &UpdateError) -> Code {
    match error {
        UpdateError::Entry(error) => entry_code(error),
        UpdateError::UnknownExtern { .. } | UpdateError::UnknownValueSet { .. } | UpdateError::Missing { .. } => {
            Code::NotFound
        }
        UpdateError::Exists { .. } => Code::AlreadyExists,
        // Another write came in between.
        UpdateError::Named { .. } => Code::Aborted,
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
        EntryError::Full { .. } | EntryError::NoRoom { .. } | EntryError::NoPlace { .. } => Code::ResourceExhausted,
        EntryError::ConstTable { .. }
        | EntryError::ConstEntry { .. }
        | EntryError::ConstDefault { .. }
        | EntryError::DefaultOnly { .. }
        | EntryError::TableOnly { .. } => Code::PermissionDenied,
        _ => Code::InvalidArgument,
    }
}
