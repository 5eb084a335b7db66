//! Tiers together: a program cut in two, the upper half on one engine, the lower one on another, with bridge headers between.
//!
//! This module answers one question: *how is a program that runs on a switch, a DPU and a CPU one program for those who send it packets, and for those who write
//! its tables?*
//!
//! ```text
//!  front ports ⇄ switch (upper half: whole and hot tables) ⇄ bridge headers ⇄ dpu (flow cache) → cpu (its slow path: all tables)
//! ```
//!
//! What comes on a front port goes through the upper half. Most packets leave there. One that comes to a stop (a table that is not on the switch, an
//! entry that is not among the hot ones, something the switch cannot do) goes to the lower half with a bridge header; what that one sends comes back through
//! the switch, in a bridge header of the same length, to leave on the port that it names. Both halves may be in one process, or in several, with ports
//! between ([`Links`]); then the switch asks each of the others again and again whether it is there, and does without one that does not answer.
//!
//! | what | where |
//! |---|---|
//! | which tiers are here, and what the switch holds | `plan.rs`, `factory.rs` |
//! | a packet's way | `worker.rs` |
//! | ports to tiers elsewhere: which flow goes where, who is there | `links.rs`, `flow.rs`, `spread.rs` |
//! | what is said of a packet's path through them | `halves.rs` |
//! | what a switch is told of hits elsewhere | `reports.rs` |
//! | writes, counters, levels: one program's | `control.rs` |
//! | which entries are hot | `chosen.rs`, `chooser.rs`, [`offload::hot`] |
//!
//! A write is made in both halves while no packet is in either: a packet sees all of it or none. Where the halves are in several processes, each of
//! them is written by its controller, and a packet on its way between them may see a change in one and not yet in the other.

mod chooser;
mod chosen;
mod control;
mod factory;
mod flow;
mod halves;
mod links;
mod moved;
mod plan;
mod reports;
mod spread;
mod worker;

pub use links::LinkState;
pub use plan::TiersPlan;
