//! Path MTU of the underlay: reports of routers between the gateway and its tunnel end points.
//!
//! [`check_too_big`] decides whether a "too big" message is about a packet that this gateway sent,
//! and [`LearnedPaths`] holds what was learned. Both are pure: they know no ports and no tables.
//! Workers pass ICMP errors to `host::path_reports`; a thread checks them and writes the routes.

mod agent;
mod learned;
mod quote;
#[cfg(test)]
mod tests;

pub(crate) use agent::run;
pub use learned::{LearnedPaths, MAX_AGE, MAX_PATHS, PathMtuChange};
pub use quote::{PathMtu, QuoteError, TunnelEnds, check_too_big};
