//! Native code for batches of packets: the cpu tier.
//!
//! This crate answers one question: *how does a program run at the speed of the machine's memory?* A pipeline is cut at its table
//! applications into stages. Each stage is one function, made by Cranelift when the program is loaded, that runs over all packets
//! of a batch that are at it: it takes up where the lookup left off, and ends by writing the keys of the next. Lookups of all packets
//! at a table are made together ([`tables::fast`]), so the latency of memory is paid about once a batch. Tables of a handful of entries, which need no memory to be waited
//! for, are looked up where they are applied, and those that need nothing of the lookup in front of them together with it.
//!
//! | what | where |
//! |---|---|
//! | what is known before code is made: graph, headers, cells, validity, stages | `plan/` |
//! | where things lie in a packet's frame, and in a worker's memory | `layout.rs`, `abi.rs`, `memory.rs` |
//! | from a plan to native code | `code/` |
//! | where the order of packets shows | `order.rs` |
//! | one worker: frames, queues, lookups, verdicts | `worker.rs`, `verdict.rs`, `counters.rs`; over all workers `counted.rs` |
//! | eight packets at once, where the processor has vectors for that | `lanes/`, `worker/lanes.rs` |
//! | what it counts of itself: stages, tables, actions | `tally.rs` |
//! | what is noted of each packet, if that is asked: its way, tables, counters | `record.rs`, `code/noted.rs` |
//! | the engine that records, and the entries that its records name | `recorder.rs`, `entries.rs` |
//! | what packets and time leave in meters and entries, for an engine that goes on | `levels.rs` |
//! | code that finds a flow's rewrite and carries it out, of plain descriptions | [`rewrite`] |
//! | what native code calls back for | `runtime.rs`, `crc.rs` |
//! | the engine | [`Jit`]; what it says of its code: `insight.rs` |
//!
//! Headers stay where they are in the packet. Fields are read from and written to packet memory; a header that the program makes
//! has room in the packet's frame, and is put in front when the packet leaves. Values of up to 64 bits live in registers, wider
//! ones in several. What is rare (meters, registers, digests, random numbers) is carried out by the interpreter's own code
//! ([`interp::host`]), so that it has one meaning. Programs with something that native code has no form for run on the
//! interpreter as a whole: [`Jit::handed`] counts their packets by reason.
//!
//! The oracle is [`interp::Interp`]: whatever it does with a packet, native code does.

mod abi;
mod code;
mod counted;
mod counters;
mod crc;
mod engine;
mod entries;
mod insight;
mod lanes;
mod layout;
mod levels;
mod memory;
mod order;
mod plan;
mod program;
mod record;
mod recorder;
pub mod rewrite;
mod runtime;
mod tally;
mod unsupported;
mod verdict;
mod worker;

pub use engine::{Jit, JitError};
pub use lanes::supported as takes_eights;
pub use record::{Application, MAX_DECISIONS, Record};
pub use tally::{ActionTally, StageTally, TableTally, Tallies};
pub use unsupported::Unsupported;
