//! What `make bench` measures, all of it side by side in one run: the lookups of the crate `lookup` beside DPDK's, our engines beside
//! other gateways, and the limit that the machine's memory sets to all of them.
//!
//! This crate answers one question: *how fast is it, compared with what else there is on this machine, in this run?* Absolute
//! figures of two runs are not compared.
//!
//! | what | where |
//! |---|---|
//! | windows in turn, medians, spread | [`run`] |
//! | the table, JSON and plots | [`report`] |
//! | core, huge pages, what the machine is | [`machine`], [`memory`] |
//! | what is taken back at the end | [`leftovers`] |
//! | other software that parts need | [`needs`] |
//! | DPDK's lookups | [`peers`] |
//! | random cache lines and a plain rewrite | [`limit`] |
//! | ours beside DPDK's | [`lookups`] |
//! | tenants, routes, VMs and packets for them | [`world`], [`ring`] |
//! | our engines with a world in them | [`program`], [`engines`] |
//! | packets from memory through all of them | [`forward`] |
//! | other systems | [`systems`], [`switches`] |
//! | changes while others read; compile time | [`updates`], [`compile`] |
//! | several workers; a generator on another core | [`workers`], [`memif`] |
//! | whether all send the same | [`check`] |
//!
//! Development only. `unsafe` stands in [`peers`], [`systems`], [`memory`], [`machine`], [`leftovers`], [`limit`] and the lookups; nothing that ships depends on them.

pub mod check;
pub mod compile;
pub mod data;
pub mod engines;
pub mod forward;
pub mod leftovers;
pub mod limit;
pub mod lookups;
pub mod machine;
pub mod memif;
pub mod memory;
pub mod needs;
pub mod peers;
pub mod program;
pub mod report;
pub mod ring;
pub mod run;
pub mod switches;
pub mod systems;
pub mod updates;
pub mod workers;
pub mod world;
