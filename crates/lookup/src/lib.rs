//! Lookups in batches, as fast as the machine's memory allows: for engines that forward packets.
//!
//! | what | where |
//! |---|---|
//! | how keys and values lie in memory | `shape.rs` |
//! | equal to a key | [`exact`] |
//! | equal to one of a few keys | `few.rs` |
//! | the longest prefix, under an exact key | [`lpm`] |
//! | ternary and range, by priority | [`ternary`] |
//! | all tables of a pipeline | [`Lookups`]: `lookups.rs` |
//! | an entry as key and value bytes | `encode.rs` |
//! | members of profiles, value sets | `members.rs`, `resolve.rs`, `value_set.rs` |
//! | writing while others read | [`Live`], [`Reader`]: `live.rs`, `copies.rs` |
//! | numbers of entries | `numbers.rs` |
//! | words and sets of lanes of a vector | `eight.rs`, `four.rs` |
//! | memory in huge pages; what will be read soon | `memory.rs`; `near.rs` |
//!
//! Data structures here have one writer and are not read while they change: who publishes them keeps two copies of all tables
//! and changes the one that no reader sees. So a reader takes no lock, sees a whole write batch or none of it, and pays nothing
//! for either.

mod copies;
#[cfg(target_arch = "x86_64")]
mod eight;
mod encode;
pub mod exact;
mod few;
#[cfg(target_arch = "x86_64")]
mod four;
mod live;
mod lookups;
pub mod lpm;
mod members;
mod memory;
mod near;
mod numbers;
mod resolve;
mod shape;
pub mod ternary;
mod value_set;
mod wide;

pub use copies::Reader;
pub use encode::LookupError;
pub use few::Slots;
pub use live::{Group, Live, LiveError, Written};
pub use lookups::Lookups;
pub use memory::{HugeVec, Plain};
pub use near::{all_soon, lines_soon, soon};
pub use shape::{KeyPlace, LookupKind, LookupShape, ParamPlace, ValueLayout};
