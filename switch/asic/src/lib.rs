//! The switch tier: pipelined switching ASICs as data, as a resource model, as an engine, and as a
//! target for P4.
//!
//! This crate answers one question: *which resources of a chip does a program with given table
//! sizes need, and where do its tables go?*
//!
//! | topic | module |
//! |---|---|
//! | a chip as data: stages, memories, buses, clock, ports | [`target`] |
//! | resource demand of a program: tables, dependencies, header fields | [`demand`] |
//! | layout of a table in a chip's memories | [`memory`] |
//! | placement of tables: stages, pipes, passes | [`place`] |
//! | PHV containers of a program's headers and metadata | [`phv`] |
//! | P4 for the chip, written from a pipeline | [`emit`] |
//! | transforms that keep semantics and shrink tables: pooling, digests, ALPM | [`transform`] |
//! | an emulated chip: an engine that runs a placed pipeline | [`emulate`] |
//! | search for the cheapest combination of transforms | [`search`] |
//!
//! Two kinds of results are kept apart. An *estimate* adds up memory blocks and ignores stages, as
//! papers do. A *placement* assigns every entry of every table to exactly one stage of a pipe.

pub mod demand;
pub mod emit;
pub mod emulate;
pub mod live;
pub mod memory;
pub mod phv;
pub mod place;
pub mod search;
pub mod target;
pub mod transform;
