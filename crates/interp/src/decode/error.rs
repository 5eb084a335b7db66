//! Why a pipeline can't be loaded.

use thiserror::Error;

/// A pipeline that can't be loaded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoadError {
    /// Something that the verifier refuses: always a bug of what made the pipeline.
    #[error(
        "in {place}: {what}; the pipeline is inconsistent, which is a bug of what made it (run the IR verifier on it)"
    )]
    Inconsistent {
        /// Where.
        place: String,
        /// What.
        what: String,
    },
    /// The pipeline's own entries or default actions.
    #[error(transparent)]
    State(#[from] entries::StateError),
    /// A limit of this engine.
    #[error("the program needs {slots} words of variables, more than {most}: make stacks or varbits smaller")]
    TooLarge {
        /// How many.
        slots: u64,
        /// How many there can be.
        most: u64,
    },
}

/// Something wrong within one body; the caller adds the place.
pub(crate) type Fault = String;
