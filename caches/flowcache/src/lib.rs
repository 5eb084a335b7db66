//! The DPU tier: what packets did, kept and done again.
//!
//! This crate answers one question: *what did the program decide for packets like this one, and is
//! it still so?* It has two answers, which share the index by which a change of a table finds what
//! it makes stale, and the budget of the slow path:
//!
//! - **Rewrites** ([`rewrite`]) are the product: a flow as a rewrite of bytes, carried out by
//!   native code in front of the engine, or by the kernel. `rewrite/mod.rs` says what is where.
//! - **Segments** ([`FlowCache`]) are the model of a SmartNIC's cache (megaflow, sub-traversals,
//!   adaptive; exact): which packets hit, how many entries that takes, and that what is kept is
//!   never stale. They are not made to be fast. `docs/cache-eval.md` measures them.
//!
//! # Segments
//!
//! - **Traversal**: what one packet did: each table, the bits of its key that decided, the entry, the action. Which bits those are is asked of the
//!   tables ([`witness`]), and traced back from each decision to the packet ([`justify`]): as few as possible.
//! - **Segment**: a stretch of a traversal from one table application to another. It has a *tag*,
//!   where it begins; the bits of the packet's state that must be the same; what is done; and the
//!   tag of what follows. So any segment that matches may be replayed, and the packet's state is
//!   right at each tag: if nothing is kept for what follows, the slow path goes on there.
//! - **Live**: what differs from packet to packet though all else is the same (a meter's colour, a register, a random number, the member of a group)
//!   is done again by each packet. If a decision on it goes another way, the packet leaves the cache there. A table whose key depends on it begins a segment.
//! - What can't be kept is named ([`segment::Uncacheable`]).
//!
//! [`FlowCache`] is an engine as the interpreter is, and must give the same packets, drops and
//! state. A packet without a segment is interpreted, and noted instruction by instruction; the
//! traversal is cut, and the pieces are stored. A packet that matches has a segment replayed, with
//! the interpreter's own instructions ([`interp::walk`]).
//!
//! | what | where |
//! |---|---|
//! | the engine; what a write makes stale | `engine.rs`, `config.rs` |
//! | a packet's path: segments as long as some match, then the slow path | `cache.rs` |
//! | what the program did with a packet | `record.rs` |
//! | what each instruction reads and writes | `effects.rs` |
//! | which bits decided: traced back through instructions | `justify.rs` |
//! | which bits of a key decided what a table found | `witness.rs` |
//! | a traversal, and stretches of it as segments | `segment.rs` |
//! | where a traversal is cut, and which table a piece goes to | `cut.rs` |
//! | the best cut by fields; by what was measured | `partition.rs`; `samples.rs`, `sharing.rs` |
//! | whether to cut at all | `adaptive.rs` |
//! | a table of segments | `store.rs` |
//! | how many rules they cover; what is counted | `space.rs`; `stats.rs` |
//! | a packet's path in words | `explain.rs` |
//! | for both: what finds what a change makes stale | `fresh.rs`, `heads.rs` |
//! | for both: how many packets may take the slow path, and whose | `admission.rs`, `pace.rs` |

pub mod adaptive;
pub mod admission;
mod cache;
mod config;
mod cut;
pub mod effects;
mod engine;
pub mod explain;
pub mod fresh;
pub mod heads;
pub mod justify;
pub mod pace;
pub mod partition;
pub mod record;
pub mod rewrite;
pub mod samples;
pub mod segment;
pub mod sharing;
pub mod space;
mod stats;
pub mod store;
pub mod witness;

pub use config::{CacheConfig, Kind};
pub use engine::{FlowCache, TableUse};
pub use explain::Explanation;
pub use rewrite::Unrewritable;
pub use segment::Uncacheable;
pub use stats::Stats;
