//! Data structures of `lookup` compared with DPDK's, one file for each match kind.
//!
//! Each file loads the same keys into each structure, *checks* that all give the same results, and
//! then runs them in a [`crate::run::EntrantComparison`] on the same random keys. [`exact`] is the
//! example.

pub mod exact;
pub mod lpm;
pub mod ternary;

use crate::peers::Eal;
use crate::report::Report;
use crate::run::Options;

/// Runs all comparisons. `eal` is `None` if DPDK is absent; then only ours run.
///
/// # Errors
/// If two structures give different results, or memory runs out.
pub fn run(eal: Option<&Eal>, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // A failure of one does not prevent the others from running.
    let results =
        [exact::run(eal, options, report), lpm::run(eal, options, report), ternary::run(eal, options, report)];
    results.into_iter().collect()
}
