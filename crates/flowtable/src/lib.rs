//! Exact-match tables that packets write: sessions, translations, tracked connections.
//!
//! All workers share one copy of a table. Keys and values are bytes; this crate knows no program
//! and no packet format.
//!
//! | content | module |
//! |---|---|
//! | size of keys and values, idle times, limits | [`Shape`]: `shape.rs` |
//! | bytes of a record | [`RecordLayout`]: `layout.rs` |
//! | the word that says until when an entry lives | [`life`] |
//! | the table, and the operations of a worker | [`FlowTable`], [`Member`]: `table.rs` |
//! | results of an addition | [`Addition`], [`Refusal`]: `outcome.rs` |
//! | memory in huge pages | `area.rs` |

mod area;
mod layout;
pub mod life;
mod outcome;
mod shape;
mod table;

pub use layout::RecordLayout;
pub use outcome::{Addition, EntryRef, RecordId, Refusal, SweepReport};
pub use shape::{Shape, ShapeError};
pub use table::{FlowTable, JoinError, Member};
