//! Gateway counters, labelled with the names of the counted objects.

use super::report::{GatewayCounters, NamedCounter};
use super::work_dir::WorkDir;
use crate::cli::failure::CommandError;
use crate::program::{self, DEFAULT_PROGRAM, Sources};
use crate::run_stats::RunSummary;
use packet::Counter;
use region::IdAssignments;
use std::collections::BTreeMap;
use std::path::Path;

/// Route scopes by their numbers in the program (programs/gateway/TABLES.md).
const SCOPES: [&str; 8] = ["", "local", "peer", "idc", "cross_region", "internet", "blackhole", "service"];

/// Labels the counters of the gateway's statistics.
///
/// # Errors
/// If the built-in gateway program does not compile.
pub fn label_counters(stats: &RunSummary, work: &WorkDir) -> Result<GatewayCounters, CommandError> {
    let vpcs = vpc_names(work)?;
    let cells = |counter: &str, name: &dyn Fn(u64) -> String| -> Vec<NamedCounter> {
        let is_counter = |full: &str| full == counter || full.rsplit('.').next() == Some(counter);
        let cells = stats.counters.iter().filter(|cell| is_counter(&cell.counter));
        cells.map(|cell| NamedCounter { name: name(cell.index), count: cell.count }).collect()
    };
    let vpc = |index: u64| vpcs.get(&index).cloned().unwrap_or_else(|| index.to_string());
    let scope = |index: u64| {
        usize::try_from(index)
            .ok()
            .and_then(|index| SCOPES.get(index))
            .map_or(index.to_string(), |scope| scope.to_string())
    };
    let named_counters = |counts: &BTreeMap<String, Counter>| {
        counts.iter().map(|(name, count)| NamedCounter { name: name.clone(), count: *count }).collect()
    };
    Ok(GatewayCounters {
        received_from: cells("vpc_received", &vpc),
        forwarded_from: cells("vpc_forwarded", &vpc),
        scopes: cells("route_scope", &scope),
        drops: named_counters(&stats.drops),
        to_cpu: named_counters(&stats.to_cpu),
    })
}

/// Returns the names of VPCs by the ids that the first version of a region file gives them.
fn vpc_names(work: &WorkDir) -> Result<BTreeMap<u64, String>, CommandError> {
    let region = region::load(&work.region()).map_err(CommandError::refused)?;
    let compiled = program::compile(Path::new(DEFAULT_PROGRAM), &Sources::default());
    let pipeline =
        compiled.pipeline.ok_or_else(|| CommandError::Bug("the carried gateway program is refused".to_owned()))?;
    let mut numbers = IdAssignments::default();
    region::entries(&region, "", &pipeline, &mut numbers).map_err(CommandError::refused)?;
    Ok(numbers.vpcs.into_iter().map(|(name, number)| (u64::from(number), name)).collect())
}
