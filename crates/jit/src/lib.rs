//! Native code for batches of packets: the cpu tier.
//!
//! This crate answers one question: *how does a program run at the speed of the machine's memory?* A pipeline is cut at its table
//! applications into stages. Each stage is one function, made by Cranelift when the program is loaded, that runs over all packets
//! of a batch that are at it: it takes up where the lookup left off, and ends by writing the keys of the next. Lookups of all packets
//! at a table are made together ([`lookup`]), so the latency of memory is paid about once a batch. Tables of a handful of entries, which need no memory to be waited
//! for, are looked up where they are applied, and those that need nothing of the lookup in front of them together with it.
//!
//! The files lie in layers. A layer imports only from those above it in this table, and no two files import each other
//! (`dev/testkit/tests/circles.rs`).
//!
//! | layer | what | where |
//! |---|---|---|
//! | shared | memory that code and run time agree on; CRCs; where counters lie | `abi.rs`, `crc.rs`, `counters.rs` |
//! | | what native code has no form for | `unsupported.rs` |
//! | analysis | the graph, headers, cells, constants, validity, calls whose order shows | `analysis/` |
//! | plan | stages, the hot path and its copies, lookups made together | `plan/` |
//! | | offsets in frames, in a worker's memory, in lists for eight packets, in records | `plan/{layout,memory,lanes,lists}.rs` |
//! | code generation | from a plan to native code (Cranelift) | `code/` |
//! | | of a stage's function, code for eight packets at once: one function, `lanes::code` | `lanes/` |
//! | | code that finds a flow's rewrite and carries it out, of plain descriptions | [`rewrite`] |
//! | run time | a program made ready to run, and what its code calls | `program.rs`, `runtime.rs` |
//! | | one worker: frames, queues, lookups, verdicts | `worker.rs`, `memory.rs`, `verdict.rs` |
//! | | one worker, eight packets at once | `worker/{eights,lanes}.rs` |
//! | | counts of stages, tables and actions; of all workers | `tally.rs`, `counted.rs` |
//! | | what is noted of each packet, if that is asked; the engine that records | `record.rs`, `recorder.rs`, `entries.rs` |
//! | | meters and entries for an engine that goes on | `levels.rs` |
//! | | the engine; what it says of its code | [`Jit`], `insight.rs` |
//!
//! Headers stay where they are in the packet. Fields are read from and written to packet memory; a header that the program makes
//! has room in the packet's frame, and is put in front when the packet leaves. Values of up to 64 bits live in registers, wider
//! ones in several. What is rare (meters, registers, digests, random numbers) is carried out by the interpreter's own code
//! ([`interp::host`]), so that it has one meaning. Programs with something that native code has no form for run on the
//! interpreter as a whole: [`Jit::handed`] counts their packets by reason.
//!
//! The oracle is [`interp::Interp`]: whatever it does with a packet, native code does.

mod abi;
mod analysis;
mod code;
mod counted;
mod counters;
mod crc;
mod engine;
mod entries;
mod insight;
mod lanes;
mod levels;
mod memory;
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
pub use plan::lists::MAX_DECISIONS;
pub use record::{Application, Record};
pub use tally::{ActionTally, StageTally, TableTally, Tallies};
pub use unsupported::Unsupported;
