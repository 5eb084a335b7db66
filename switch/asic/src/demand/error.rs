//! Errors of resource demand computation.

/// Reason why a program's resource demand cannot be computed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DemandError {
    /// The program exceeds a limit of the planner, far beyond the capacity of any chip.
    #[error(
        "the program has {count} {what}; at most {max} are supported: split the program, or place less of it on the switch"
    )]
    TooLarge {
        /// Kind of object.
        what: &'static str,
        /// Number of objects.
        count: usize,
        /// Maximum number.
        max: usize,
    },
    /// A size is given for an object that the program does not have.
    #[error("no table, counter, meter or register is called `{name}`, or more than one is; the program has {known}")]
    UnknownTable {
        /// Name of the object.
        name: String,
        /// Known names.
        known: String,
    },
}
