//! What tests of several crates share: packets as a VM's server sends them, and a naive model of the gateway.
//!
//! Development only: nothing that ships depends on it.

pub mod differ;
pub mod frame;
pub mod gateway;
pub mod generate;
pub mod model;
pub mod order;
pub mod regions;
