//! Tiers: a program partitioned into an upper half on one engine and a lower half on another one,
//! connected by bridge headers.
//!
//! Together they act as one program, both for packets and for the control plane.
//!
//! ```text
//! front ports ⇄ switch (upper half: whole and hot tables)
//!                   ⇅ bridge headers
//!               dpu (flow cache) → cpu (its slow path: all tables)
//! ```
//!
//! A packet from a front port enters the upper half, and most packets leave there. A packet that
//! reaches a cut point (an absent table, a miss in a hot set, an operation that the switch does not
//! support) goes to the lower half with a bridge header. Packets of the lower half return through
//! the switch, in a bridge header of the same length that holds the output port. The halves can be
//! in one process or in several processes with ports between them ([`TierLinks`]). In the latter
//! case the switch probes the lower tiers periodically and skips those that do not answer.
//!
//! | topic | file |
//! |---|---|
//! | tiers in this process, tables on the switch | `plan.rs`, `factory.rs` |
//! | packet path | `worker.rs` |
//! | links to other processes, liveness | `links.rs`, `flow.rs`, `state_affinity.rs` |
//! | explanation of a packet's path through the tiers | `packet_explanation.rs` |
//! | hit reports to a switch in another process | `reports.rs` |
//! | writes, counters and meter levels of the whole program | `control.rs` |
//! | entries of packets in the upper half | `entry_copying.rs`, `cached_entries.rs`, [`offload::entry_leases`] |
//! | hot sets | `hot_set_selection.rs`, `hot_set_scheduler.rs`, [`offload::hot_set`] |
//!
//! A write changes both halves while no packet is in either, so a packet sees all of it or none. If
//! the halves are in several processes, their controllers write them separately, and a packet
//! between them can see a change in one and not in the other.

mod cached_entries;
mod control;
mod entry_copying;
mod factory;
mod flow;
mod hot_set_scheduler;
mod hot_set_selection;
mod links;
mod packet_explanation;
mod plan;
mod reports;
mod state_affinity;
mod tier_stats;
mod worker;

pub use links::LinkState;
pub use plan::TiersPlan;
