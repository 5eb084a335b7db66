//! The engines that run programs, behind one trait, chosen when the node starts.
//!
//! This module answers one question: *what must an engine be able to do, besides running packets, so that a controller does not notice which one it is?*
//! That is [`Controlled`]. Workers run what [`Controlled::worker`] gives them, which is an engine as `packet` knows it. Which engine a program
//! gets, an [`EngineFactory`] says: native code and the reference engine are here, all others come from the [wings](crate::wings).
//!
//! | what | where |
//! |---|---|
//! | native code: workers share tables, each counts for itself | `jit.rs` |
//! | the reference engine: workers take turns | `interp.rs` |
//! | for engines around either of them: workers that take turns, or share tables | `inside.rs`, `turns.rs`, `team.rs`; what is inside: `holds.rs` |
//! | what makes engines | `factory.rs` |
//!
//! What an engine cannot do it says: in an error, or in [`Controlled::notes`], which a node shows.

mod controlled;
mod factory;
mod holds;
mod inside;
mod interp;
mod jit;
mod room;
mod team;
mod turns;

pub use controlled::{Controlled, NoRoom, counted_one_by_one};
pub use factory::{EngineFactory, Factory};
pub use holds::Holds;
pub use inside::{Inside, in_turns};
pub use interp::NOT_WANTED;
use interp::Reference;
use jit::Native;
pub use room::Room;
pub use team::{Team, Workers};
pub use turns::Turns;

use std::sync::Arc;

/// `engine = "jit"`.
pub fn native() -> Factory {
    Arc::new(Native)
}

/// `engine = "interp"`.
pub fn reference() -> Factory {
    Arc::new(Reference)
}
