//! The pipeline IR: the meaning of a P4 program after names, generics, calls and aggregates have
//! been resolved.
//!
//! The crate does not depend on packets, engines or sources. It contains the data ([`Pipeline`]),
//! its text format, its verifier, its passes and the P4Info generated from it. Every engine and the
//! partitioner start from a pipeline.
//!
//! - [`Pipeline`] and its members: the data. [`BodyBuilder`] builds bodies; [`result_types()`],
//!   [`Cfg`] and the methods of [`Inst`] and [`Terminator`] analyse them.
//! - [`text`]: [`text::print()`] and [`text::parse()`]; the grammar is in `docs/reference/ir.md`.
//! - [`verify`]: checks the rules of the IR.
//! - [`passes`]: the passes between front-end and engines.
//! - [`eval`]: arithmetic, as the IR defines it.
//! - [`p4info`]: the description of the pipeline for the control plane.

mod body;
mod builder;
mod cfg;
mod declaration;
mod entity;
pub mod eval;
mod externs;
mod operands;
pub mod p4info;
mod packet_written;
pub mod passes;
mod pipeline;
mod pipeline_builder;
mod result_types;
mod table;
pub mod text;
mod types;
pub mod verify;

pub use body::*;
pub use builder::*;
pub use cfg::*;
pub use declaration::*;
pub use entity::*;
pub use externs::*;
pub use packet_written::*;
pub use pipeline::*;
pub use pipeline_builder::*;
pub use result_types::*;
pub use table::*;
pub use types::*;
