//! Errors of the text format.

/// A syntax or name error in a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{col}: {message}; {help}")]
pub struct TextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub col: u32,
    /// Error message.
    pub message: String,
    /// How to correct the error.
    pub help: String,
}

pub(super) type TextResult<T> = Result<T, TextError>;
