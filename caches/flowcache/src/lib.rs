//! Flow caches of the DPU tier.
//!
//! This crate answers one question: *which decisions does the program make for packets like this
//! one, and are they still valid?* It has two caches. They share the invalidation index and the
//! budget of the slow path:
//!
//! - **Rewrites** ([`rewrite`]) are the product. Each cached flow is a rewrite of packet bytes that
//!   native code or the kernel applies before the engine. `rewrite/mod.rs` lists its modules.
//! - **Segments** ([`SegmentCache`]) model the cache of a SmartNIC (exact, megaflow, sub-traversal,
//!   adaptive). The model measures hits, entries and masks, and never serves a stale segment. It is
//!   not built for speed. `docs/journal/2026-11-cache-evaluation.md` has the measurements.
//!
//! # Segments
//!
//! - **Traversal**: the tables that one packet went through, with the key bits that decided, the
//!   entry and the action of each. [`wildcards`] finds these bits for a table lookup.
//!   [`dependencies`] traces them back from each decision to the packet. Both keep the bits few.
//! - **Segment**: the part of a traversal from one table application to another. It has a *tag*
//!   (the program point where it starts), the match mask and its values, the instructions to replay
//!   and the tag that follows. The packet's state is complete at each tag. Therefore any matching
//!   segment can be replayed, and the slow path continues from any tag.
//! - **Live**: results that differ between packets of equal state: a meter's color, a register, a
//!   random number, the member of a group. Each packet computes them itself. A packet leaves the
//!   cache where a decision on such a result differs from the recorded one. A table with a key
//!   that depends on one starts a segment.
//! - [`segment::Uncacheable`] names the reasons why a packet cannot be cached.
//!
//! [`SegmentCache`] is an engine like the interpreter and must produce the same packets, drops and
//! state. A packet without a segment is interpreted and recorded instruction by instruction. Its
//! traversal is split, and the segments are stored. A matching packet has a segment replayed with
//! the interpreter's own instructions ([`interp::block_hook`]).
//!
//! | purpose | module |
//! |---|---|
//! | engine; invalidation by writes | `engine.rs`, `config.rs` |
//! | path of a packet: matching segments, then the slow path | `cache.rs` |
//! | execution record of one packet | `record.rs` |
//! | reads and writes of each instruction | `effects.rs` |
//! | dependency slices: state bits behind a decision | `dependencies.rs` |
//! | key bits behind the result of a lookup | `wildcards.rs` |
//! | traversals and segments | `segment.rs` |
//! | splitting traversals and choosing tables | `split.rs` |
//! | best split: by fields; by samples | `partition.rs`; `path_sampler.rs`, `split_estimator.rs` |
//! | whether to split at all | `split_policy.rs` |
//! | table of segments | `segment_table.rs` |
//! | number of covered rules; statistics | `rule_space.rs`; `stats.rs` |
//! | explanation of a packet's path | `explain.rs` |
//! | both caches: invalidation index | `invalidation.rs`, `list_heads.rs` |
//! | both caches: admission to the slow path, by tenant | `admission.rs`, `pacer.rs` |

pub mod admission;
mod cache;
mod config;
pub mod dependencies;
pub mod effects;
mod engine;
pub mod explain;
pub mod invalidation;
pub mod list_heads;
pub mod pacer;
pub mod partition;
pub mod path_sampler;
pub mod record;
pub mod rewrite;
pub mod rule_space;
pub mod segment;
pub mod segment_table;
mod split;
pub mod split_estimator;
pub mod split_policy;
mod stats;
pub mod wildcards;

pub use config::{SegmentCacheConfig, SegmentCacheKind};
pub use engine::{SegmentCache, SegmentTableUse};
pub use explain::TraversalExplanation;
pub use rewrite::NotRewritable;
pub use segment::Uncacheable;
pub use stats::SegmentCacheStats;
