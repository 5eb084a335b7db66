//! The reference engine: runs a pipeline one packet at a time and defines the meaning of the
//! pipeline.
//!
//! This crate answers one question: *what does this program do with this packet, and why?*
//! [`Interp::process`] returns the outcome, [`Interp::trace`] the steps that lead to it. All other
//! engines must agree with it.
//!
//! It shares no lookup code with `entries`, so that one can check the other. From that crate it
//! uses the definition of an entry, the validation of writes, and the control plane's
//! [`entries::ControlState`]. The code is not optimised for caches.
//!
//! # Files
//!
//! Imports between files are acyclic.
//!
//! | content | file |
//! |---|---|
//! | public interface of the engine | `interp.rs`, `config.rs`, `output.rs` |
//! | implementation of the trait of all engines | `engine.rs` |
//! | **the program**, decoded at load | `op.rs`, `program.rs`, `well_known.rs` |
//! | decoder from the IR to the program | `decode/` |
//! | **the architectures**: blocks, copies, verdicts | `packet_run.rs`, `pna.rs`, `v1model.rs` |
//! | reasons that a program names | `reasons.rs` |
//! | **a packet**: bytes, variables, requests; fields at any bit | `frame.rs`, `bit_io.rs` |
//! | **the instructions**: the loop, and arithmetic | `exec_context.rs`, `wide_int.rs` |
//! | headers, parser and deparser | `parse.rs` |
//! | table applications; extern calls | `apply.rs`; `extern_calls.rs` |
//! | **tables**: meaning of a match field | `lookup/matching.rs` |
//! | the lookup; an entry with its counter, meter, idle time | `lookup/mod.rs`, `lookup/entry_slot.rs` |
//! | **state that outlives a packet** | `persistent_state.rs`, `element_array.rs`, `meter.rs`, `runtime_state.rs` |
//! | hashes and checksums | `algorithm.rs`, `crc.rs` |
//! | trace events and their text | `trace.rs`, `render.rs`, `explain_call.rs` |
//!
//! Interfaces for other crates:
//!
//! | for | interface | file |
//! |---|---|---|
//! | traces of a node | [`Explainer`]: runs packets on a snapshot of tables | `explainer.rs` |
//! | | its state; its registers | `snapshot_state.rs`; `registers.rs` |
//! | | its lookups | `lookup/snapshot.rs` |
//! | other engines | [`host`]: the externs, implemented once for all engines | `host/` |
//! | caches | [`block_hook::BlockHook`]: runs a block in place of the interpreter | `block_hook.rs` |
//! | chips | [`overseer::Overseer`]: controls each instruction | `overseer.rs` |
//! | caches | [`DeferredCount`]: counts of packets forwarded elsewhere | `deferred_count.rs` |
//!
//! The explainer is not the reference: it looks entries up in the control state, so that its
//! creation costs nothing. Tests compare it with the engine.
//!
//! # Choices that the specifications leave open
//!
//! - Variables are 0 when a packet enters the pipeline. Fields of invalid headers read as 0, and
//!   writes to them are ignored.
//! - After a parser error the packet continues, in v1model as in PNA, with the error in the
//!   metadata.
//! - The bytes after the last parsed bit follow the output of the deparser. If the parser stops
//!   within a byte, the remaining bits of that byte are lost. If the deparser stops within a byte,
//!   that byte is filled with 0 bits.
//! - Of two entries with equal priority, the older one wins.
//! - Out of bounds: a register reads 0; a write, a count or a meter execution has no effect. The
//!   meter color is then the given one, or green.
//! - A group of an action selector without members counts as a miss. Otherwise the member at (hash
//!   of the selector keys, truncated to the selector's output width) modulo (sum of weights) is
//!   chosen. Members are listed in order of their ids, each repeated by its weight.
//! - A packet executes a bounded number of steps ([`Config::max_steps`],
//!   [`Config::max_parser_states`]), passes (32 in v1model, 7 in PNA) and copies
//!   ([`Config::max_copies`]). Beyond these limits it is dropped with the engine's reason.
//! - A dropped packet has the program's own reason if the program keeps one: a metadata variable
//!   with the last component `drop_reason`, with an enumeration `drop_reason_t` for the names (see
//!   `reasons.rs`). `cpu_reason` and `punt_reason` work alike.

mod algorithm;
mod apply;
mod bit_io;
pub mod block_hook;
mod config;
mod crc;
mod decode;
mod deferred_count;
mod element_array;
mod engine;
mod entry_quota;
mod exec_context;
mod explain_call;
mod explainer;
mod extern_calls;
mod frame;
pub mod host;
mod idle_clock;
mod interp;
mod lookup;
mod meter;
mod op;
mod output;
pub mod overseer;
mod packet_run;
mod parse;
mod persistent_state;
mod pna;
mod pool_control;
mod port_pool;
mod port_request;
mod program;
mod reasons;
mod registers;
mod render;
mod runtime_state;
mod session_transfer;
mod sessions;
mod snapshot_state;
mod trace;
mod v1model;
mod well_known;
mod wide_int;

pub use algorithm::hash;
pub use config::{Config, EntrySources};
pub use decode::LoadError;
pub use deferred_count::{ByteCount, DeferredCount};
pub use engine::emit;
pub use entry_quota::{EntryQuota, QuotaShare};
pub use explainer::Explainer;
pub use idle_clock::TICK_NS;
pub use interp::Interp;
pub use lookup::EntryRuntimeState;
pub use meter::{Meter, MeterColor, MeterFill};
pub use output::{OutPacket, Outputs};
pub use persistent_state::{DigestMessage, IdleEntry, MAX_WAITING};
pub use pool_control::{AddressUsage, BlockChange, BlockChanges, LostChanges, PoolControl, PortBlock};
pub use port_pool::{OwnedPort, PortPool, PortUsage, RestingPort};
pub use port_request::{PortPoolStatus, PortRequest};
pub use registers::Registers;
pub use session_transfer::SessionState;
pub use trace::{EntryHit, NamedValue, PacketTrace, TraceEvent, TraceStep};
