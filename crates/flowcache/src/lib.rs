//! The DPU tier: what packets did, kept and done again.
//!
//! This crate answers one question: *what did the program decide for packets like this one, and is it still so?* [`FlowCache`] is an engine as the interpreter
//! is, and must give the same packets, drops and state. The main control of a packet is recorded once ([`record`]), cut into segments ([`segment`]), and replayed
//! for packets that fit, with the interpreter's own instructions ([`interp::walk`]).
//!
//! - **Traversal**: what one packet did: each table, the bits of its key that decided, the entry, the action. Which bits those are is asked of the
//!   tables ([`witness`]), and traced back from each decision to the packet ([`justify`]): as few as possible.
//! - **Segment**: a stretch of a traversal from one table application to another. It has a *tag*, where it begins; the bits of the packet's state that must be
//!   the same; what is done; and the tag of what follows. So any segment that fits may be replayed, whoever made it, and the packet's state is right
//!   at each tag: if nothing is kept for what follows, the slow path goes on there.
//! - **Live**: what differs from packet to packet though all else is the same (a meter's colour, a register, a random number, the member of a group)
//!   is done again by each packet. If a decision on it goes another way, the packet leaves the cache there. A table whose key depends on it begins a segment.
//! - What can't be kept is named ([`segment::Uncacheable`]).
//!
//! | what | where |
//! |---|---|
//! | the engine; writes | `engine.rs` |
//! | a packet's way through the caches; the exact cache's slow path; many together | `cache.rs`; `slow.rs`; `herd.rs` |
//! | what a packet did | `record.rs`, `effects.rs`; the least of it, `trail.rs` |
//! | what is known of a way | `recipe.rs`, `way.rs`, `asks.rs` |
//! | what decides on known ways, asked beside a new flow's packet | `course/`, `courses.rs` |
//! | which bits decided | `justify.rs`, `witness.rs` |
//! | segments, and what is kept of a traversal | `segment.rs`, `cut.rs` |
//! | where traversals are cut: by fields, by what was measured, or not at all | `partition.rs`; `samples.rs`, `sharing.rs`; `adaptive.rs` |
//! | tables of segments | `store.rs` |
//! | what a change makes stale; how that is had again | `fresh.rs`, `heads.rs`; `again.rs` |
//! | who may take the slow path, and how many | `admission.rs`, `pace.rs` |
//! | what is counted | `stats.rs`, `space.rs` |
//! | what a packet did, as a rewrite of bytes for the kernel | `rewrite/` |
//! | a packet's way in words | `explain.rs` |

pub mod adaptive;
pub mod admission;
pub mod again;
pub mod asks;
mod cache;
mod config;
pub mod course;
pub mod courses;
mod cut;
pub mod effects;
mod engine;
pub mod explain;
pub mod fresh;
pub mod heads;
mod herd;
pub mod justify;
pub mod pace;
pub mod partition;
pub mod recipe;
pub mod record;
pub mod rewrite;
pub mod samples;
pub mod segment;
pub mod sharing;
mod slow;
pub mod space;
mod stats;
pub mod store;
pub mod trail;
pub mod way;
pub mod witness;

pub use config::{CacheConfig, Kind};
pub use engine::{FlowCache, TableUse};
pub use explain::Explanation;
pub use rewrite::Unrewritable;
pub use segment::Uncacheable;
pub use stats::Stats;
