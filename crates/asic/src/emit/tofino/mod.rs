//! Tofino's native architecture: what differs from writing v1model or PNA.

pub(super) mod action;
pub(super) mod condition;
pub(super) mod frame;
pub(super) mod halves;
mod objects;
mod once;
mod parsing;
pub(super) mod prepare;
pub(super) mod register;
mod steps;
mod sums;
