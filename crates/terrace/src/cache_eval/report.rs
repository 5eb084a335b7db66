//! Result of an evaluation, in its JSON form.

use super::cache::{CacheOccupancy, CacheSpec};
use super::measure::{ChangeImpact, PIECES, RunResult, TimeSlice, hit_rate};
use super::vswitch::Locality;
use serde::Serialize;

/// Result of an evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationReport {
    /// Settings of the evaluation.
    pub settings: EvaluationSettings,
    /// Evaluated pipelines.
    pub pipelines: Vec<PipelineReport>,
    /// Traffic that was sent.
    pub workloads: Vec<WorkloadReport>,
    /// Measured runs.
    pub runs: Vec<CacheRun>,
    /// Published hit rates of the same pipelines, if they were given.
    pub published: Vec<Published>,
}

/// Settings of an evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationSettings {
    /// Seed of all random choices.
    pub seed: u64,
    /// Source of the rules.
    pub rules: String,
    /// Number of rules.
    pub rule_count: usize,
    /// Source of the flow sizes.
    pub flow_sizes: String,
    /// Requested number of flows.
    pub flows: usize,
    /// Total entries over all tables of a cache, except in sweeps over that number.
    pub entries: usize,
    /// Length of the window in which flows start, in seconds.
    pub window: f64,
    /// Average time between two packets of a flow, in seconds.
    pub gap: f64,
}

/// A pipeline with its entries.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineReport {
    /// Name of the pipeline.
    pub name: String,
    /// Number of tables.
    pub tables: usize,
    /// Number of traversals.
    pub traversals: usize,
    /// Number of entries that the rules were turned into.
    pub entries: usize,
}

/// Traffic of one workload.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Locality: `high` or `low`.
    pub locality: String,
    /// Parameters by which flows are drawn.
    pub drawn: Locality,
    /// Whether the workload changes suddenly.
    pub changes: bool,
    /// Number of distinct flows.
    pub flows: usize,
    /// Number of packets.
    pub packets: usize,
    /// Flows per distinct part, averaged over all tables. A part is the fields that one table
    /// decides on; the number shows how often flows share it.
    pub flows_per_part: f64,
}

/// One run: a cache with one workload.
#[derive(Clone, Debug, Serialize)]
pub struct CacheRun {
    /// Name of the pipeline.
    pub pipeline: String,
    /// Locality: `high` or `low`.
    pub locality: String,
    /// Kind and size of the cache.
    pub cache: CacheSpec,
    /// Number of packets.
    pub packets: u64,
    /// Packets that hit the cache.
    pub hits: u64,
    /// Packets that missed the cache.
    pub misses: u64,
    /// Share of hits among all packets, starting with an empty cache.
    pub hit_rate: f64,
    /// Hit rate in the second half of the time, or of the time before the change if there is one.
    pub steady_hit_rate: f64,
    /// Entries of all tables at the end.
    pub entries: usize,
    /// Masks of all tables at the end.
    pub masks: usize,
    /// Occupancy of each table at the end.
    pub tables: Vec<CacheOccupancy>,
    /// Estimated number of traversals that the entries covered at the end.
    pub rule_space: f64,
    /// Share of the entries needed by traversals that existed already.
    pub shared: f64,
    /// Share of packets that hit entries in a second pass through the tables.
    pub passed_again: f64,
    /// Inserted entries.
    pub inserted: u64,
    /// Entries evicted to free space.
    pub evicted: u64,
    /// Entries that expired without hits.
    pub expired: u64,
    /// Traversals that were not cached.
    pub rejected: u64,
    /// Time to partition a traversal, in nanoseconds, averaged over all misses.
    pub partition_ns: f64,
    /// Memory use at the end, in bytes.
    pub memory: usize,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Packets compared with the interpreter.
    pub compared: u64,
    /// Compared packets with different outcomes; 0 for a correct cache.
    pub different: u64,
    /// Effect of the workload change, if there was one.
    pub change: Option<ChangeImpact>,
    /// Hits over time.
    pub series: Vec<TimeSlice>,
}

impl CacheRun {
    /// Builds the report of a run. `change` is the time of the workload change, in nanoseconds.
    pub fn new(pipeline: &str, locality: &str, cache: CacheSpec, measured: RunResult, change: Option<u64>) -> CacheRun {
        let stats = measured.stats;
        let ratio = |part: u64, total: u64| if total == 0 { 0.0 } else { part as f64 / total as f64 };
        let change = change.map(|time_ns| super::measure::change_impact(&measured.series, time_ns));
        let steady = change.map_or_else(|| hit_rate(&measured.series[PIECES / 2..]), |change| change.steady);
        CacheRun {
            pipeline: pipeline.to_owned(),
            locality: locality.to_owned(),
            cache,
            packets: stats.packets,
            hits: stats.hits,
            misses: stats.misses,
            hit_rate: stats.hit_rate(),
            steady_hit_rate: steady,
            entries: measured.tables.iter().map(|table| table.entries).sum(),
            masks: measured.tables.iter().map(|table| table.masks).sum(),
            tables: measured.tables,
            rule_space: measured.rule_space,
            shared: ratio(stats.shared, stats.shared + stats.inserted),
            passed_again: ratio(stats.second_passes, stats.packets),
            inserted: stats.inserted,
            evicted: stats.evicted,
            expired: stats.expired,
            rejected: stats.rejected,
            partition_ns: ratio(stats.split_ns, stats.misses),
            memory: measured.memory,
            seconds: measured.seconds,
            compared: measured.compared,
            different: measured.different,
            change,
            series: measured.series,
        }
    }
}

/// A published hit rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Locality: `high` or `low`.
    pub locality: String,
    /// Name of the pipeline.
    pub pipeline: String,
    /// `MF` (megaflow) or `GF` (sub-traversals).
    pub cache: String,
    /// Hit rate in per cent.
    pub hit_rate: f64,
}

/// Reads published values: CSV with the columns figure, locality, pipeline, cache, value. Only the
/// rows `hit_rate_pct` are used.
///
/// # Errors
/// If the text has another format.
pub fn published(text: &str) -> Result<Vec<Published>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut found = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        if row.get(0) != Some("hit_rate_pct") {
            continue;
        }
        let text = |at: usize| row.get(at).unwrap_or_default().to_lowercase();
        let hit_rate = text(4).parse().map_err(|_| format!("`{}` is no hit rate", text(4)))?;
        found.push(Published { locality: text(1), pipeline: text(2), cache: text(3).to_uppercase(), hit_rate });
    }
    if found.is_empty() {
        return Err("it has no row `hit_rate_pct,LOCALITY,PIPELINE,MF|GF,VALUE`".to_owned());
    }
    Ok(found)
}
