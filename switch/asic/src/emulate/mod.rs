//! The emulated switch: an engine that runs a placed pipeline as the chip would.
//!
//! This module answers one question: *does the program still do what it should once its tables are in the stages of a chip, and what does that
//! cost?* [`Switch`] is an engine as the interpreter is, and must give the same packets, drop reasons and state; but it keeps the chip's rules:
//!
//! - A table is only where the placement has put it ([`Placed`]): looked up in its stages, in the passes in which those are, once in a pass. An entry is
//!   in one part, and stronger entries are in earlier parts; a part never holds more than its capacity.
//! - What a stage reads must have been made in a stage before it. Each variable, value and validity has a clock: the first stage of this pass that
//!   can read it. A table whose key, or the condition before it, comes too late is a [`Violation`]: the packet is dropped, and the violation is reported.
//!   Clocks are a lower bound, so that no right placement is accused: code outside of actions costs no stage of its own, nor does what is stored where it
//!   is already, or under another name for a while.
//! - Between two passes a packet is nothing but bytes: it is deparsed, with a bridge header of exactly what is still needed (`live.rs`, `bridge.rs`),
//!   and parsed again. All else is 0 on the other side.
//! - The packet as it came in is gone behind the first pass.
//!
//! Each pass runs its own part of the program, whatever the order of the tables in it (`schedule.rs`); where a table is in a pass before something that it
//! needs, [`Switch::new`] says so.
//!
//! The interpreter runs the program ([`interp::overseer`]): no instruction, extern or architecture has a second meaning here.
//!
//! | what | where |
//! |---|---|
//! | where tables are | `placed.rs` |
//! | the entries in their parts | `store.rs`, `parts.rs` |
//! | what is live, and how it is carried | `live.rs`, `bridge.rs` |
//! | which code runs in which pass | `schedule.rs` |
//! | the rules, as the interpreter's overseer | `chip.rs`, `clocks.rs`, `joins.rs`, `merges.rs`, `attached.rs` |
//! | what is counted, and what a chip would do in a second | `counts.rs`, `rates.rs` |
//! | what packets and time leave behind that nobody writes | `levels.rs` |
//! | a rewritten program, controlled as the one that was written | `mapped.rs` |

mod attached;
mod bridge;
mod chip;
mod clocks;
mod counts;
mod engine;
mod joins;
mod levels;
mod live;
mod mapped;
mod merges;
mod parts;
mod placed;
mod program;
mod rates;
mod run;
mod schedule;
mod store;

pub use counts::{Bridged, Counts, Violation};
pub use engine::Switch;
pub use mapped::{Mapped, MappedError};
pub use placed::{Gress, PassAt, Placed, PlacedError, PlacedPart, PlacedTable, Split, Spread};
pub use program::SwitchError;
pub use rates::{Bound, Rates, Timing};
pub use schedule::OrderError;
