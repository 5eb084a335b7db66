//! Tofino's native architecture: what differs from writing v1model or PNA.

pub(super) mod action;
pub(super) mod condition;
pub(super) mod frame;
mod once;
mod parsing;
pub(super) mod prepare;
mod sums;
