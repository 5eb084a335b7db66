//! Native code for batches of packets: the CPU tier.
//!
//! This crate answers one question: *how does a program run at the speed of the machine's memory?*
//! A pipeline is split at its table applications into stages. Each stage is one function, compiled
//! by Cranelift when the program is loaded. It runs over all packets of a batch that have reached
//! the stage: it consumes the results of one lookup and writes the keys of the next. Lookups at a
//! table are batched ([`lookup`]), because a batch then pays the latency of memory about once. A
//! table of few entries is looked up within the stage, because it stays in the cache. A lookup that
//! does not depend on the previous one is paired with it.
//!
//! The files form layers. A layer imports only from those above it in this table, and no two files
//! import each other (`dev/testkit/tests/repository/circles.rs`).
//!
//! | layer | contents | files |
//! |---|---|---|
//! | shared | memory shared by code and run time; CRCs; counters | `{abi,crc,counters}.rs` |
//! | | reasons for falling back to the interpreter, and for having no vector code | `fallback_reason.rs`, `vector_refusal.rs` |
//! | analysis | flow graph, headers, slots, constants, validity, ordered calls | `analysis/` |
//! | plan | stages, the hot path and its clones, paired lookups | `plan/` |
//! | | layouts of frames, worker memory, vector lists, records, statistics | `plan/*_layout.rs` |
//! | code generation | from a plan to native code (Cranelift) | `code/` |
//! | | vector code (eight packets at once) from a stage's function | `lanes/` |
//! | | native code for flow rewrites, from plain descriptions | [`rewrite`] |
//! | run time | tables to which packets add entries | `packet_written.rs`, `flows.rs` |
//! | | their idle times; pools of ports | `idle_profiles.rs`, `port_pools.rs`, `pool_control.rs` |
//! | | limits on entries; what entries hold of pools and quotas | `entry_quotas.rs`, `leases.rs` |
//! | | the code of a program, shared by engines for the same program | `program_code.rs`, `code_cache.rs` |
//! | | a program of one engine, and functions that it calls | `program.rs`, `runtime.rs` |
//! | | the versions of a program for recording and for later passes | `native_programs.rs` |
//! | | one worker: frames, queues, lookups, verdicts | `worker.rs`, `memory.rs`, `verdict.rs` |
//! | | the vector path of a worker | `worker/` |
//! | | statistics; counters of all workers | `stats.rs`, `counter_totals.rs` |
//! | | packet records; the engine that makes them | `record.rs`, `recorder.rs`, `entries.rs` |
//! | | meter and entry state for a take-over | `dynamic_state.rs` |
//! | | the engine; introspection of its code | [`Jit`], `introspection.rs` |
//!
//! Headers stay in the packet. Code reads and writes fields in packet memory. A header that the
//! program creates is stored in the packet's frame and prepended when the packet leaves. Values of
//! up to 64 bits live in registers, wider ones in several. Rare operations (meters, registers,
//! digests, random numbers) call the interpreter's implementation ([`interp::host`]), because each
//! then has one meaning. A program that native code does not support runs entirely on the
//! interpreter: [`Jit::fallback_counts`] counts its packets by reason.
//!
//! The oracle is [`interp::Interp`]: native code must treat each packet as the interpreter does.

mod abi;
mod analysis;
mod code;
mod code_cache;
mod counter_totals;
mod counters;
mod crc;
mod dynamic_state;
mod engine;
mod entries;
mod entry_quotas;
mod fallback_reason;
mod flows;
mod idle_profiles;
mod introspection;
mod lanes;
mod leases;
mod memory;
mod native_programs;
mod packet_written;
mod plan;
mod pool_control;
mod port_pools;
mod program;
mod program_code;
mod record;
mod recorder;
pub mod rewrite;
mod runtime;
mod session_transfer;
mod stats;
mod vector_refusal;
mod verdict;
mod worker;

pub use engine::{
    FlowChanges, FlowEntry, FlowPage, FlowQuery, FlowReader, FlowTableInfo, FlowTables, Jit, JitError, RemovedFlows,
    StoredFlow, StoredFlows,
};
pub use fallback_reason::FallbackReason;
pub use lanes::supported as supports_vector_path;
pub use packet_written::FlowTableCounts;
pub use plan::join_stages::set_max_copied_insts;
pub use plan::record_layout::MAX_DECISIONS;
pub use record::{PacketRecord, RecordedLookup};
pub use stats::{ActionStats, EngineStats, StageStats, TableStats};
pub use vector_refusal::VectorRefusal;
