//! The evaluation of flow caches: how much of a virtual switch's traffic do they serve, and what do they cost?
//!
//! Five pipelines of published virtual switches (`programs/vswitch/`), filled from ClassBench filter sets, get traffic of high and low locality
//! through each cache. `docs/cache-eval.md` says how all of it is made, and what came out. From the outside in:
//!
//! 1. [`rules`] reads filter sets, [`filter_sets`] makes some; [`vswitch`] loads a pipeline with its traversals; [`chains`] turns each rule into a
//!    chain of entries, one in each table of a traversal, and says which table decides on which fields.
//! 2. [`flows`] draws flows whose fields come from several rules, by what tables decide on; [`flow_sizes`], [`capture`] and [`schedule`] say when each of
//!    their packets comes; [`frame`] makes the packets.
//! 3. [`cache`] is what a cache must offer, and [`flow_cache`] ours; [`measure`] sends traffic through one; [`suite`] lists what is measured.
//! 4. [`report`] is what is known in the end; [`text`], [`chart`] and [`page`] show it.

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
