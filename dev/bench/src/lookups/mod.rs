//! The data structures of `lookup` beside DPDK's, one file for each kind of match.
//!
//! How a file looks: load the same keys into each, *check* that all give the same answers, then let them run in a
//! [`crate::run::Contest`] on the same random keys. [`exact`] is the example.

pub mod exact;
pub mod lpm;
pub mod ternary;

use crate::peers::Eal;
use crate::report::Report;
use crate::run::Options;

/// Runs all of them. `eal`: `None` where DPDK is absent; then ours run alone.
///
/// # Errors
/// Two structures give different answers, or memory runs out.
pub fn run(eal: Option<&Eal>, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // One that fails keeps none of the others from running.
    let results =
        [exact::run(eal, options, report), lpm::run(eal, options, report), ternary::run(eal, options, report)];
    results.into_iter().collect()
}
