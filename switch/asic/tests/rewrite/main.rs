//! Rewrites keep the meaning: the interpreter runs the program as written and as rewritten, with the same random writes and packets.

mod digests;
mod pair;
mod pools;
mod prefixes;
mod results;
mod splits;
