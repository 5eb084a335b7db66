//! Evaluation of flow caches: how much of a virtual switch's traffic do they serve, and at what
//! cost?
//!
//! Five pipelines of published virtual switches (`programs/vswitch/`) are filled from ClassBench
//! filter sets. Traffic of high and low locality is sent through each cache.
//! `docs/journal/2026-11-cache-evaluation.md` describes the method and the results. Modules:
//!
//! 1. [`rules`] reads filter sets and [`filter_sets`] generates them. [`vswitch`] loads a pipeline
//!    with its traversals. [`chains`] turns each rule into a chain of entries, one in each table of
//!    a traversal, and determines which table decides on which fields.
//! 2. [`flows`] draws flows with fields from several rules, part by part. [`flow_sizes`],
//!    [`capture`] and [`schedule`] determine the arrival times of their packets. [`frame`] builds
//!    the packets.
//! 3. [`cache`] is the interface of a cache, and [`flow_cache`] our implementation. [`measure`]
//!    sends traffic through a cache. [`suite`] lists the runs.
//! 4. [`report`] is the result; [`text`], [`chart`] and [`page`] show it.

pub mod cache;
pub mod capture;
pub mod chains;
pub mod chart;
pub mod fields;
pub mod filter_sets;
pub mod flow_cache;
pub mod flow_sizes;
pub mod flows;
pub mod frame;
pub mod measure;
pub mod page;
pub mod report;
pub mod rules;
pub mod schedule;
pub mod suite;
pub mod text;
pub mod vswitch;
