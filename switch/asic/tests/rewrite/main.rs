//! Tests that transformations preserve the meaning: the interpreter runs the original and the
//! transformed program with the same random writes and packets.

mod digests;
mod pair;
mod pools;
mod prefixes;
mod results;
mod splits;
