//! Tofino's native architecture: what differs from writing v1model or PNA.

pub(super) mod action;
pub(super) mod ahead;
mod carry;
mod computing;
pub(super) mod condition;
mod copies;
pub(super) mod forked;
pub(super) mod frame;
mod gateway;
pub(super) mod halves;
pub(super) mod joined;
mod late;
pub(super) mod narrow;
mod objects;
mod once;
mod parsing;
mod prefixes;
pub(super) mod prepare;
pub(super) mod register;
pub(super) mod simpler;
pub(super) mod sooner;
mod steps;
mod sums;
pub(super) mod twice;
pub(super) mod whole;
