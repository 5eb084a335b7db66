//! Reasons why a pipeline cannot be loaded.

use thiserror::Error;

/// Reason why a pipeline cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Inconsistency that the verifier rejects, always a bug of the compiler.
    #[error(
        "in {place}: {what}; the pipeline is inconsistent, which is a bug of the compiler (run the IR verifier on it)"
    )]
    Inconsistent {
        /// Name of the block.
        place: String,
        /// Description of the inconsistency.
        what: String,
    },
    /// Rejected const entry or default action of the pipeline.
    #[error(transparent)]
    State(#[from] entries::StateError),
    /// Program beyond a limit of this engine.
    #[error("the program needs {slots} words of variables, more than {most}: make stacks or varbits smaller")]
    TooLarge {
        /// Words that the program needs.
        slots: u64,
        /// Maximum number of words.
        most: u64,
    },
}

/// Inconsistency within one body. The caller adds the name of the block.
pub(crate) type DecodeFault = String;
