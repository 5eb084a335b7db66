//! Sessions: the entries of tables to which packets add entries, as an operator reads, counts and
//! deletes them through the control socket while packets flow.
//!
//! Native code holds such tables in `flowtable`. They are read page by page from the table that
//! packets use; between two pages no lock is held ([`jit::FlowTables`]). Other engines hold the
//! entries in their control state, of which a snapshot is read.
//!
//! | concern | location |
//! |---|---|
//! | which entries of which tables | [`SessionSelection`]: `selection.rs` |
//! | reading and counting | `read.rs` |
//! | keys and arguments by name | [`NamedEntry`] |
//! | deleting, with the store | `delete.rs`, `device/flow_tables.rs` |
//! | their form on the control socket | [`SessionRow`] |

mod delete;
mod named_entry;
mod read;
mod selection;

pub(crate) use named_entry::NamedEntry;
pub use selection::SessionSelection;
pub(crate) use selection::{SelectedTable, SessionError};

use crate::status::ShownValue;
use packet::Counter;
use serde::{Deserialize, Serialize};

/// A session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Name of the table.
    pub table: String,
    /// Match keys.
    pub keys: Vec<ShownValue>,
    /// Name of the action.
    pub action: String,
    /// Arguments of the action.
    pub arguments: Vec<ShownValue>,
    /// Nanoseconds since the last hit, or since the addition.
    pub idle_ns: u64,
    /// Nanoseconds until the idle timeout is over; `None`: there is none.
    pub left_ns: Option<u64>,
    /// Direct counter, if the table has one.
    pub counter: Option<Counter>,
}
