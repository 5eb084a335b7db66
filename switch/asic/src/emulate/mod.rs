//! Emulated switch: an engine that runs a placed pipeline like the chip.
//!
//! This module answers one question: *does the program behave the same with its tables in the
//! stages of a chip, and at which cost?* [`EmulatedSwitch`] is an engine like the interpreter and
//! must produce the same packets, drop reasons and state, under the chip's rules:
//!
//! - A table is only where the placement has put it ([`PlacementMap`]): it is looked up in its
//!   stages, in their passes, once per pass. An entry is in one part, entries of higher match
//!   precedence are in earlier parts, and a part never exceeds its capacity.
//! - A stage only reads results of earlier stages. Each variable, value and validity has a clock:
//!   the first stage of this pass that can read it. A table with a key or condition that comes too
//!   late is a [`SwitchViolation`]: the packet is dropped and the violation is reported. Clocks are
//!   a lower bound, so that no correct placement is refused: code outside actions costs no stage of
//!   its own, and neither do stores of an unchanged or renamed value.
//! - Between two passes a packet consists only of bytes: it is deparsed with a bridge header of
//!   exactly the live state (`live.rs`, `bridge.rs`), and parsed again. All other state is 0 on the
//!   other side.
//! - The original packet is unavailable after the first pass.
//!
//! Each pass runs its own part of the program, in any order of its tables (`schedule.rs`).
//! [`EmulatedSwitch::new`] refuses a placement with a table in a pass before its inputs.
//!
//! The interpreter executes the program ([`interp::overseer`]), so instructions, externs and
//! architecture have only one implementation.
//!
//! | topic | file |
//! |---|---|
//! | placement of tables | `placed.rs` |
//! | entries in their parts | `store.rs`, `memories.rs` |
//! | live state, and its bridge headers | `live.rs`, `bridge.rs` |
//! | assignment of code to passes | `schedule.rs` |
//! | the rules, as the interpreter's overseer | `chip.rs`, `clocks.rs`, `attached.rs` |
//! | joins and control dependence | `joins.rs`, `control_dependence.rs` |
//! | statistics, and estimated rates of a chip | `stats.rs`, `rates.rs` |
//! | runtime state left by packets and time | `levels.rs` |
//! | a transformed program, controlled as the original one | `mapped.rs` |

mod attached;
mod bridge;
mod chip;
mod clocks;
mod control_dependence;
mod control_run;
mod engine;
mod joins;
mod levels;
mod live;
mod mapped;
mod memories;
mod order_error;
mod placed;
mod program;
mod rates;
mod schedule;
mod stats;
mod store;

pub use engine::EmulatedSwitch;
pub use mapped::{MappedError, MappedSwitch};
pub use order_error::OrderError;
pub use placed::{
    Gress, ParallelSplit, PipePass, PipeSpread, PlacedPart, PlacedTable, PlacementMap, PlacementMapError,
};
pub use program::SwitchError;
pub use rates::{ChipTiming, RateBound, SwitchRates};
pub use stats::{CrossingStats, SwitchStats, SwitchViolation};
