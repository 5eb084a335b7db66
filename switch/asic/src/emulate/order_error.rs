//! [`OrderError`]: placements that contradict the order of the program.

use thiserror::Error;

/// Reason why a placement contradicts the program's order.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OrderError {
    /// A table comes before its inputs.
    #[error(
        "table {table} is placed in pass {pass}, but its input ({what}) is available only from pass {need}: place it later"
    )]
    Early {
        /// Name of the table.
        table: String,
        /// Its first pass.
        pass: u32,
        /// First possible pass.
        need: u32,
        /// Missing input: key, condition, or state.
        what: &'static str,
    },
    /// A loop has code in several passes.
    #[error(
        "{control} has a loop with tables in several passes; a chip has no loops: place its tables in one pass, or cut it off"
    )]
    Loop {
        /// Name of the control.
        control: String,
    },
    /// An assertion ends the packet although another pass has already run its part of the program.
    #[error(
        "{control} asserts something, and its tables are in several passes: take the assertion out, or place its tables in one pass"
    )]
    Assert {
        /// Name of the control.
        control: String,
    },
    /// State of an entry is used in another pass than the table's.
    #[error(
        "state of the entries of table {table} is used in pass {used}, and the table is in pass {pass}: no other pass has it"
    )]
    State {
        /// Name of the table.
        table: String,
        /// Pass of the table.
        pass: u32,
        /// Pass that uses the state.
        used: u32,
    },
    /// The program exceeds the limits.
    #[error("{control} is too large to be run on a chip")]
    TooLarge {
        /// Name of the control.
        control: String,
    },
}
