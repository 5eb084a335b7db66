//! What is wrong with a text.

/// Something wrong in a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}:{col}: {message}; {mend}")]
pub struct TextError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub col: u32,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub mend: String,
}

pub(super) type Res<T> = Result<T, TextError>;
