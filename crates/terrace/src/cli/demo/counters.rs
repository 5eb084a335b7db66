//! The gateway's counters with the names of what they count.

use super::report::{Counters, Named};
use super::work_dir::WorkDir;
use crate::cli::failure::Failure;
use crate::program::{self, DEFAULT_PROGRAM, Sources};
use crate::run_stats::Stats;
use packet::Counter;
use region::Numbers;
use std::collections::BTreeMap;
use std::path::Path;

/// Scopes of routes by their numbers in the program (programs/gateway/TABLES.md).
const SCOPES: [&str; 7] = ["", "local", "peer", "idc", "cross_region", "internet", "blackhole"];

/// From what the gateway says of itself.
///
/// # Errors
/// If the gateway program that this binary carries is not accepted by it.
pub fn collect(stats: &Stats, work: &WorkDir) -> Result<Counters, Failure> {
    let vpcs = vpc_names(work)?;
    let cells = |counter: &str, name: &dyn Fn(u64) -> String| -> Vec<Named> {
        let is = |full: &str| full == counter || full.rsplit('.').next() == Some(counter);
        let cells = stats.counters.iter().filter(|cell| is(&cell.counter));
        cells.map(|cell| Named { name: name(cell.index), count: cell.count }).collect()
    };
    let vpc = |index: u64| vpcs.get(&index).cloned().unwrap_or_else(|| index.to_string());
    let scope = |index: u64| {
        usize::try_from(index).ok().and_then(|at| SCOPES.get(at)).map_or(index.to_string(), |s| s.to_string())
    };
    let named = |counts: &BTreeMap<String, Counter>| {
        counts.iter().map(|(name, count)| Named { name: name.clone(), count: *count }).collect()
    };
    Ok(Counters {
        received_from: cells("vpc_received", &vpc),
        forwarded_from: cells("vpc_forwarded", &vpc),
        scopes: cells("route_scope", &scope),
        drops: named(&stats.drops),
        to_cpu: named(&stats.to_cpu),
    })
}

/// VPCs by the number that the first version of a region file gives them.
fn vpc_names(work: &WorkDir) -> Result<BTreeMap<u64, String>, Failure> {
    let region = region::load(&work.region()).map_err(Failure::refused)?;
    let compiled = program::compile(Path::new(DEFAULT_PROGRAM), &Sources::default());
    let pipeline =
        compiled.pipeline.ok_or_else(|| Failure::Bug("the carried gateway program is refused".to_owned()))?;
    let mut numbers = Numbers::default();
    region::entries(&region, "", &pipeline, &mut numbers).map_err(Failure::refused)?;
    Ok(numbers.vpcs.into_iter().map(|(name, number)| (u64::from(number), name)).collect())
}
