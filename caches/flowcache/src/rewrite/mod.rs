//! Rewrites: the treatment of a packet as a rewrite of its bytes, for executors that cannot run the
//! program, such as the kernel.
//!
//! This module answers one question: *which packets get the same treatment as this one, and which
//! byte operations is it?* The interpreter runs the packet through all blocks, parser to deparser.
//! A symbolic executor ([`symbolic_executor`]) runs beside it and tracks the origin of each bit
//! ([`symbolic_value`]). Bits that a decision, a table or a hash reads become part of the flow's
//! key. All other bits can differ. Two kinds of values can differ although they are computed: the
//! packet's length plus a constant, and one's complement sums over words of the packet. Therefore
//! packets of a flow share one rewrite for all payloads and lengths.
//!
//! Symbolic execution is many times slower than the interpreter. But its result depends on the
//! packet's *path* (all its decisions), and rarely on values. So it runs once for each path, and
//! the result is stored as a `RewriteTemplate`. For a later packet only decisions, table
//! applications and counters are recorded. This record and the resulting packet fill the template.
//! If the form of a rewrite depends on a value that the path does not determine (such as a mask in
//! action data), each packet of that path runs under symbolic execution.
//!
//! A rewrite ([`form`]) consists of a key, length bounds, checks, a new header and counter updates.
//! [`apply`] executes it. [`flows`] stores rewrites, each as a row of words beside its path's
//! layout (`layout.rs`, `row.rs`, `row_memory.rs`), looks them up, and invalidates them on table
//! changes. Frequent packets are looked up and rewritten by native code (`row_lookup.rs`,
//! `code.rs`), others by plain Rust (`key.rs`, `fast_executor.rs`). A nearly full cache admits only
//! some flows (`doorkeeper.rs`). [`RewriteCache`] combines all of this with an engine.
//! [`PerWorkerCaches`] is one such cache for each worker, over the same tables.

mod active_key_mask;
mod admit;
pub mod apply;
mod arith;
mod backing_engine;
mod batch;
mod builder;
mod calls;
mod code;
mod doorkeeper;
mod engine;
mod fast_executor;
mod fill;
pub mod flows;
pub mod form;
mod head;
mod key;
mod layout;
mod miss_batch;
mod native;
mod path_record;
mod paths;
mod removal;
mod row;
mod row_lookup;
mod row_memory;
mod stats;
mod symbolic_executor;
mod symbolic_value;
mod template;
mod tenants;
mod wide;
mod window;
mod worker_cell;
mod workers;

const _: () = assert!(form::WINDOW == 256, "the text of `TooDeep` says so");

pub use active_key_mask::{ActiveKeyMask, GATE};
pub use backing_engine::BackingEngine;
pub use engine::{CacheResult, FlowEvents, RewriteCache};
pub use native::NativeError;
pub use stats::RewriteStats;
pub use symbolic_executor::ProgramFacts;
pub use workers::{CacheTotals, PerWorkerCaches, WorkerCache};

/// Reason why a rewrite cannot express the treatment of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum NotRewritable {
    /// A meter colors the packet.
    Meter,
    /// The packet reads or writes a register.
    Register,
    /// The packet uses a random number, or a unique number.
    Random,
    /// The packet reads the time.
    Time,
    /// The packet sends a digest to the control plane.
    Digest,
    /// The packet adds an entry, or misses in an add-on-miss table.
    AddEntry,
    /// The packet looks up a table that packets write, in native code.
    FlowState,
    /// The packet sets the idle timeout of an entry.
    Timer,
    /// A group member is selected.
    Group,
    /// The packet is cloned, recirculated or resubmitted.
    Copies,
    /// A checksum is wrong, or another value than a checksum field depends on it.
    Checksum,
    /// A checksum covers the payload.
    Payload,
    /// The packet is truncated.
    Truncate,
    /// The packet goes to the node's CPU port.
    ToCpu,
    /// The engine aborted the packet.
    Aborted,
    /// A deciding or changed byte lies beyond the window.
    TooDeep,
    /// The rewrite needs more checks, sums or lengths than supported.
    TooMuch,
    /// The maximum number of key masks is in use.
    Shapes,
    /// The cache is full.
    NoRoom,
}

impl NotRewritable {
    /// Returns the reason as a clause for messages.
    pub fn description(self) -> &'static str {
        match self {
            NotRewritable::Meter => "a meter colors it",
            NotRewritable::Register => "it reads or writes a register",
            NotRewritable::Random => "it uses a random number, or a unique number",
            NotRewritable::Time => "it reads the time",
            NotRewritable::Digest => "it sends a digest to the control plane",
            NotRewritable::AddEntry => "it adds an entry, or misses in a table that packets add entries to",
            NotRewritable::FlowState => {
                "it looks up a table that packets write, so its next packet may find another entry"
            }
            NotRewritable::Timer => "it sets the idle timeout of an entry",
            NotRewritable::Group => "a member of a group is chosen for it",
            NotRewritable::Copies => "it is cloned, resubmitted or recirculated",
            NotRewritable::Checksum => "a checksum is wrong, or another value depends on it",
            NotRewritable::Payload => "a checksum covers the payload",
            NotRewritable::Truncate => "it is truncated",
            NotRewritable::ToCpu => "it goes to the CPU port",
            NotRewritable::Aborted => "the engine aborted it",
            NotRewritable::TooDeep => "a deciding or changed byte lies more than 256 bytes after its start",
            NotRewritable::TooMuch => "it needs more sums or lengths than a rewrite supports",
            NotRewritable::Shapes => "too many different key masks are in use",
            NotRewritable::NoRoom => "the cache is full",
        }
    }

    /// Returns the name of the reason in metrics.
    pub fn name(self) -> &'static str {
        match self {
            NotRewritable::Meter => "meter",
            NotRewritable::Register => "register",
            NotRewritable::Random => "random",
            NotRewritable::Time => "time",
            NotRewritable::Digest => "digest",
            NotRewritable::AddEntry => "adds_entry",
            NotRewritable::FlowState => "flow_state",
            NotRewritable::Timer => "timer",
            NotRewritable::Group => "group",
            NotRewritable::Copies => "copies",
            NotRewritable::Checksum => "checksum",
            NotRewritable::Payload => "payload_checksum",
            NotRewritable::Truncate => "truncate",
            NotRewritable::ToCpu => "to_cpu",
            NotRewritable::Aborted => "aborted",
            NotRewritable::TooDeep => "too_deep",
            NotRewritable::TooMuch => "too_much",
            NotRewritable::Shapes => "shapes_full",
            NotRewritable::NoRoom => "flows_full",
        }
    }
}
