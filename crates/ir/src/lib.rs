//! The pipeline IR: what a P4 program means, once names, generics, calls and aggregates are gone.
//!
//! The crate has no opinion on packets, engines or sources: it holds the data ([`Pipeline`]), its text format, its verifier, its
//! passes and the P4Info made from it. Every engine and the partitioner start here.
//!
//! - [`Pipeline`] and what it is made of: the data. [`BodyBuilder`] makes bodies; [`result_types`], [`Cfg`] and the methods of
//!   [`Inst`] and [`Term`] look at them.
//! - [`text`]: [`text::print()`] and [`text::parse()`]; the grammar is in `docs/ir.md`.
//! - [`verify`]: whether a pipeline keeps the rules.
//! - [`passes`]: what runs between front-end and engines.
//! - [`eval`]: arithmetic, as the IR defines it.
//! - [`p4info`]: what the control plane is told.

mod body;
mod builder;
mod cfg;
mod declare;
mod declared;
mod entity;
pub mod eval;
mod externs;
pub mod p4info;
pub mod passes;
mod pipeline;
mod results;
mod table;
pub mod text;
mod types;
mod uses;
pub mod verify;

pub use body::*;
pub use builder::*;
pub use cfg::*;
pub use declare::*;
pub use declared::*;
pub use entity::*;
pub use externs::*;
pub use pipeline::*;
pub use results::*;
pub use table::*;
pub use types::*;
