//! Batch lookups for engines that forward packets.
//!
//! | content | module |
//! |---|---|
//! | memory layout of keys and values | `lookup_layout.rs` |
//! | exact match | [`exact`] |
//! | exact match in tables of at most eight entries | `small_table.rs` |
//! | longest prefix match under an exact key | [`lpm`] |
//! | ternary and range match by priority | [`ternary`] |
//! | all tables of a pipeline | [`LookupSet`]: `lookups.rs` |
//! | encoding of an entry as key and value bytes | `encode.rs` |
//! | conversion of entries for tables that the engine holds | [`EntryCodec`]: `codec.rs` |
//! | members of action profiles, parser value sets | `members.rs`, `resolve.rs`, `value_set.rs` |
//! | writer and published state | [`LiveTables`]: `live_tables.rs` |
//! | concurrent readers | [`LeftRightReader`]: `left_right.rs` |
//! | entry ids | `entry_ids.rs` |
//! | vectors of words and sets of lanes | `avx512.rs`, `avx2.rs` |
//! | memory in huge pages; prefetching | `memory.rs`; `prefetch.rs` |
//!
//! Each data structure has one writer and is not read while it changes, because [`LiveTables`]
//! keeps two copies of all tables and changes only the copy that readers don't hold. A reader
//! therefore takes no lock and sees a write batch either completely or not at all.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod codec;
mod encode;
mod entry_ids;
pub mod exact;
mod left_right;
mod live_tables;
mod lookup_layout;
mod lookups;
pub mod lpm;
mod members;
mod memory;
mod prefetch;
mod resolve;
mod small_table;
pub mod ternary;
mod value_set;
mod wide;

pub use codec::EntryCodec;
pub use encode::LookupError;
pub use left_right::LeftRightReader;
pub use live_tables::{AppliedWrite, LiveError, LiveTables, PublishGuard};
pub use lookup_layout::{LookupKeyField, LookupKind, LookupLayout, ValueLayout, ValueParamField};
pub use lookups::LookupSet;
pub use memory::{HugeVec, Pod};
pub use prefetch::{prefetch_element, prefetch_lines, prefetch_range};
pub use small_table::SmallTableHash;
