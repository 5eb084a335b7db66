//! Why a program's demand cannot be told.

/// Why a program's demand cannot be told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DemandError {
    /// A limit, not a mistake: no chip has room for a fraction of this.
    #[error(
        "the program has {count} {what}; at most {most} are planned: split the program, or have less of it on the switch"
    )]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// A size is given for something that the program does not have.
    #[error("no table, counter, meter or register is called `{name}`, or more than one is; the program has {known}")]
    UnknownTable {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
}
