//! The gateway's program: packets beside a naive model, entries of region files, and the form of its native code.

mod addresses;
mod entries;
mod model;
mod packet_passes;
mod rewritten;
