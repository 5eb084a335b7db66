//! The services of a gateway, as operators see them: how many connections each backend has, and whether that is its
//! share.
//!
//! The table of sessions knows addresses and ports only; the region in force has the names.
//!
//! | concern | location |
//! |---|---|
//! | counting connections by backend | `usage.rs` |
//! | sentences about backends that cannot serve | `notes.rs` |
//! | their form on the control socket | `status.rs` |

mod notes;
mod status;
mod usage;

pub use status::{BackendUse, ServiceStatus, ServiceUse};
