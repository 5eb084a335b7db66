//! Tests the engine through its public interface, on pipelines built by hand.

mod build;
mod engine;
mod externs;
mod host;
mod instructions;
mod lookups;
mod pna;
mod profiles;
mod trace;
mod v1model;
