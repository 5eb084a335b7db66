//! The switch tier: pipelined switching ASICs, as data, as a resource model, as an engine, and as a target for P4.
//!
//! This crate answers one question: *what becomes of a program with so many entries on such a chip?*
//!
//! | what | where |
//! |---|---|
//! | a chip, as data: stages, memories, buses, clock, ports | [`target`] |
//! | what a program asks of a chip: tables, dependencies, headers | [`demand`] |
//! | how a table lies in a chip's memories | [`memory`] |
//! | where its tables go: stages, pipes, passes | [`place`] |
//! | what the packet carries, in containers | [`phv`] |
//! | P4 for the chip: a pipeline written out again | [`emit`] |
//! | changes that keep the meaning and make it smaller: pooling, digests, ALPM, pieces | [`rewrite`] |
//! | the chip itself, emulated: an engine that runs a placed pipeline | [`emulate`] |
//! | which of them make a program smallest | [`search`] |
//!
//! Two kinds of answers are kept apart. An *estimate* adds up memory blocks and knows no stages: it is what one writes on a napkin, and what
//! papers print. A *decision* says which entries of which table are in which stage of which pipe, and nothing in it is in two places.

pub mod demand;
pub mod emit;
pub mod emulate;
pub mod live;
pub mod memory;
pub mod phv;
pub mod place;
pub mod rewrite;
pub mod search;
pub mod target;
