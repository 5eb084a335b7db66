//! The reference engine: runs a pipeline one packet at a time, and is the definition of what the pipeline means.
//!
//! This crate answers one question: *what does this program do with this packet, and why?* [`Interp::process`] says what,
//! [`Interp::trace`] says why, step by step. All other engines must agree with it.
//!
//! It shares no lookup code with `entries`, so that one can check the other: of that crate it uses
//! what an entry is, the validation of writes, and the control plane's [`entries::State`]. Nothing
//! here serves the speed of a cache.
//!
//! # What is where
//!
//! Files point one way: no file imports one that imports it.
//!
//! | what | where |
//! |---|---|
//! | the engine as its users see it | `interp.rs`, `config.rs`, `output.rs` |
//! | the same behind the trait of all engines | `engine.rs` |
//! | **the program**: what is decoded at load | `op.rs`, `program.rs`, `well_known.rs` |
//! | from the IR to the program | `decode/` |
//! | **the architectures**: blocks, copies, verdicts | `pass.rs`, `pna.rs`, `v1model.rs` |
//! | reasons that a program names | `reasons.rs` |
//! | **a packet**: its bytes, variables, requests; fields at any bit | `frame.rs`, `wire.rs` |
//! | **the instructions**: the loop, and arithmetic | `machine.rs`, `words.rs` |
//! | headers, parser and deparser | `parse.rs` |
//! | table applications; calls of externs | `apply.rs`; `call.rs` |
//! | **tables**: what a match key means | `lookup/matching.rs` |
//! | the lookup; an entry with its counter, meter, idle time | `lookup/mod.rs`, `lookup/slot.rs` |
//! | **what outlives a packet** | `memory.rs`, `array.rs`, `meter.rs`, `levels.rs` |
//! | hashes and checksums | `algorithm.rs`, `crc.rs` |
//! | steps, shown in words | `trace.rs`, `render.rs`, `explain_call.rs` |
//!
//! Others build on it:
//!
//! | for | what | where |
//! |---|---|---|
//! | traces of a node | [`Explainer`]: runs packets on a snapshot of tables | `explainer.rs` |
//! | | its memory; its registers | `snapshot_memory.rs`; `registers.rs` |
//! | | its lookups | `lookup/snapshot.rs` |
//! | other engines | [`host`]: the externs, so that no engine writes them again | `host/` |
//! | caches | [`walk::Detour`]: takes a block over, sees and decides each step | `walk.rs` |
//! | chips | [`overseer::Overseer`]: decides at each instruction whether it is carried out | `overseer.rs` |
//! | caches | [`Credit`]: what packets would have counted that did not come here | `credit.rs` |
//!
//! The explainer is not the oracle: it looks entries up in the state, so it costs nothing to make,
//! and is compared with the engine.
//!
//! # Choices where specifications leave one
//!
//! - Variables are 0 when a packet enters the pipeline; fields of invalid headers read as 0, and writes to them are ignored.
//! - A packet that the parser rejects goes on, in v1model as in PNA, with the error in the metadata.
//! - The bytes behind the last parsed bit follow what the deparser emits. If the parser stopped within a byte, the rest of that byte
//!   is lost; if the deparser does, the byte is filled with 0 bits.
//! - Of two entries with one priority, the one that was inserted first wins.
//! - Out of bounds: a register reads 0, a write, a count or a mark has no effect; the colour then is the one given, or green.
//! - A group of an action selector without members counts as a miss. Otherwise the member at (hash of the selector keys, cut to the
//!   selector's output width) modulo (sum of weights) acts; members stand in order of their numbers, each as often as its weight.
//! - A packet makes a bounded number of steps ([`Config::max_steps`], [`Config::max_parser_states`]), passes (32 in v1model,
//!   7 in PNA) and copies ([`Config::max_copies`]); beyond, it is dropped with the engine's reason.
//! - A dropped packet has the program's own reason if it keeps one: a metadata variable whose last component is `drop_reason`, with
//!   an enumeration `drop_reason_t` for the names (see `reasons.rs`); likewise `cpu_reason` or `punt_reason`.

mod algorithm;
mod apply;
mod array;
mod call;
mod config;
mod crc;
mod credit;
mod decode;
mod engine;
mod explain_call;
mod explainer;
mod frame;
pub mod host;
mod interp;
mod levels;
mod lookup;
mod machine;
mod memory;
mod meter;
mod op;
mod output;
pub mod overseer;
mod parse;
mod pass;
mod pna;
mod program;
mod reasons;
mod registers;
mod render;
mod snapshot_memory;
mod trace;
mod v1model;
pub mod walk;
mod well_known;
mod wire;
mod words;

pub use algorithm::hash;
pub use config::{Config, Sources};
pub use credit::{ByteForm, Credit};
pub use decode::LoadError;
pub use engine::emit;
pub use explainer::Explainer;
pub use interp::Interp;
pub use lookup::EntryLevel;
pub use memory::{DigestMessage, IdleEntry};
pub use meter::{Colour, Meter, MeterLevel};
pub use output::{OutPacket, Outputs};
pub use registers::Registers;
pub use trace::{Event, Hit, NamedValue, Step, Trace};
