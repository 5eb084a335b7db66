//! The engines that run programs, behind one trait, selected when the node starts.
//!
//! This module answers one question: *which operations must an engine support besides processing
//! packets, so that a controller does not notice which engine it is?* The answer is
//! [`EngineControl`]. Workers run the engines that [`EngineControl::new_worker`] creates, which
//! implement `packet::Engine`. An [`EngineFactory`] selects the engine of a program: native code
//! and the reference engine are defined here, all others in the [wings](crate::wings).
//!
//! | concern | location |
//! |---|---|
//! | control side of an engine | `control.rs` |
//! | native code: workers share tables and count separately | `native.rs` |
//! | the reference engine: workers share it under a lock | `reference.rs` |
//! | adapters for engines around either | `wrapping.rs`, `shared.rs`, `worker_engines.rs` |
//! | state of the inner engine | `engine_state.rs` |
//! | factories of engines | `factory.rs` |
//!
//! An engine reports its limits in errors or in [`EngineControl::status_notes`], which the node
//! shows.

mod chip_sizing;
mod control;
mod engine_state;
mod factory;
mod native;
mod reference;
mod shared;
mod worker_engines;
mod wrapping;

pub use chip_sizing::ChipSizing;
pub use control::{CapacityError, EngineControl, scan_nonzero_elements};
pub use engine_state::EngineState;
pub use factory::{EngineFactory, SharedEngineFactory};
use native::NativeFactory;
pub use reference::REFERENCE_REQUESTED;
use reference::ReferenceFactory;
pub use shared::SharedEngine;
pub use worker_engines::{WorkerEngines, WorkerSet};
pub use wrapping::{WrappingEngine, shared_control};

use std::sync::Arc;

/// Creates the factory for `engine = "jit"`.
pub fn native() -> SharedEngineFactory {
    Arc::new(NativeFactory)
}

/// Creates the factory for `engine = "interp"`.
pub fn reference() -> SharedEngineFactory {
    Arc::new(ReferenceFactory)
}
