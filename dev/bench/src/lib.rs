//! Measurements of `make bench`, all compared in one run: the lookups of the crate `lookup` with
//! DPDK's, our engines with other gateways, and the limit that the machine's memory sets to all of
//! them.
//!
//! This crate answers one question: *how fast is it, compared with the other systems on this
//! machine, in this run?* Absolute figures of two runs are not compared.
//!
//! | subject | module |
//! |---|---|
//! | windows in turn, medians, spread | [`run`] |
//! | the table, JSON and plots | [`report`] |
//! | core, huge pages, description of the machine | [`machine`], [`memory`] |
//! | release of external resources | [`external_resources`] |
//! | required packages and data sets | [`needs`] |
//! | DPDK's lookups | [`peers`] |
//! | random cache lines and a plain rewrite | [`limit`] |
//! | our lookups compared with DPDK's | [`lookups`] |
//! | tenants, routes, VMs and packets for them | [`workload`], [`ring`] |
//! | our engines loaded with a workload | [`program`], [`engines`] |
//! | packets from memory through all of them | [`forward`] |
//! | other systems | [`systems`], [`switches`] |
//! | writes during lookups; compile time | [`updates`], [`compile`] |
//! | services of the gateway | [`services`] |
//! | several workers; a generator on another core | [`workers`], [`memif`] |
//! | one workload alone, for `perf` | [`profile`] |
//! | checks that all send the same packets | [`check`] |
//!
//! Development only; no shipped crate depends on it. `unsafe` is used in [`peers`], [`systems`],
//! [`memory`], [`machine`], [`external_resources`], [`limit`] and the lookups.

pub mod check;
pub mod compile;
pub mod data;
pub mod engines;
pub mod external_resources;
pub mod forward;
pub mod limit;
pub mod lookups;
pub mod machine;
pub mod memif;
pub mod memory;
pub mod needs;
pub mod peers;
pub mod profile;
pub mod program;
pub mod report;
pub mod ring;
pub mod run;
pub mod services;
pub mod state;
pub mod switches;
pub mod systems;
pub mod updates;
pub mod workers;
pub mod workload;
