//! Test support for several crates: packets as a VM's server sends them, a naive model of the
//! gateway, differential testing of engines.
//!
//! Used only in development; no shipped crate depends on it.

pub mod differ;
pub mod fragments;
pub mod frame;
pub mod gateway;
pub mod gateway_pair;
pub mod generate;
pub mod model;
pub mod native;
pub mod order;
pub mod regions;
mod requests;
pub mod translated;
