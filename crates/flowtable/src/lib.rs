//! Exact-match tables that packets write: sessions, translations, tracked connections.
//!
//! All workers share one copy of a table. A lookup takes no lock; an addition locks one bucket of
//! one cache line. Keys and values are bytes: this crate knows no program and no packet format.
//!
//! | content | module |
//! |---|---|
//! | size of keys and values, idle times, limits | [`Shape`]: `shape.rs` |
//! | bytes of a record, and their memory | [`RecordLayout`]: `layout.rs`, `records.rs`, `area.rs` |
//! | the word that says until when an entry lives | [`life`] |
//! | creation, limits, counts | [`FlowTable`]: `table.rs` |
//! | members, and what each has of its own | [`Member`]: `member.rs`, `local.rs` |
//! | lookups in batches | `lookup.rs` |
//! | additions, removals, timers | `add.rs`, `remove.rs`, `timers.rs` |
//! | pairs of entries | `pair.rs` |
//! | the end of idle entries | `sweep.rs`, `look_scan.rs`, `idle_times.rs` |
//! | reading and removing by filter | `read.rs` |
//! | results, refusals, counts | `outcome.rs`, `statistics.rs` |
//! | which words are read and written in which order | `protocol/` |
//! | buckets in memory; hash of keys | `index.rs`, `hash.rs` |
//! | exact limits of the table and of owners | `credits.rs`, `owners.rs` |
//! | the stream of changes | [`ChangeReader`]: `change_reader.rs`, `stream.rs` |
//! | pools of ports: blocks, quotas, rest | [`pool`] |
//! | records that no entry has | `free_records.rs` |

mod add;
mod area;
mod change_reader;
mod chaos;
mod credits;
mod free_records;
mod hash;
mod idle_times;
mod index;
mod inner;
mod layout;
pub mod life;
mod local;
mod look_scan;
mod lookup;
mod member;
mod outcome;
mod owners;
mod pair;
pub mod pool;
mod prefetch;
mod protocol;
mod read;
mod records;
mod remove;
mod shape;
mod statistics;
mod stream;
mod sweep;
mod sweep_state;
mod table;
mod timers;
mod word;

pub use add::NewEntry;
pub use change_reader::{Change, ChangeReader, PollReport, SubscribeError};
pub use chaos::set_chaos;
pub use layout::RecordLayout;
pub use member::Member;
pub use outcome::{Addition, EntryRef, RecordId, Refusal, SweepReport};
pub use owners::Owners;
pub use shape::{MAX_IDLE_TICKS, Shape, ShapeError};
pub use statistics::Statistics;
pub use stream::ChangeKind;
pub use table::{FlowTable, JoinError, UsedBytes};
