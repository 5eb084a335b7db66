//! What an evaluation found, as it is written in JSON.

use super::cache::{Fill, Shape};
use super::measure::{Change, Measured, PIECES, Piece, share};
use super::vswitch::Locality;
use serde::Serialize;

/// An evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What it was made from.
    pub settings: Settings,
    /// The pipelines.
    pub pipelines: Vec<PipelineReport>,
    /// The traffic.
    pub workloads: Vec<WorkloadReport>,
    /// What was measured.
    pub runs: Vec<Run>,
    /// Hit rates that were published for the same pipelines, if they were given.
    pub published: Vec<Published>,
}

/// What an evaluation was made from.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// The seed of all random choices.
    pub seed: u64,
    /// Where the rules come from.
    pub rules: String,
    /// How many there are.
    pub rule_count: usize,
    /// Where the sizes of flows come from.
    pub flow_sizes: String,
    /// Flows that were asked for.
    pub flows: usize,
    /// Entries of all tables of a cache together, unless they are swept over.
    pub entries: usize,
    /// The window in which flows begin, in seconds.
    pub window: f64,
    /// Seconds between two packets of a flow, on average.
    pub gap: f64,
}

/// A pipeline with its entries.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineReport {
    /// Its name.
    pub name: String,
    /// Its tables.
    pub tables: usize,
    /// Its traversals.
    pub traversals: usize,
    /// The entries that the rules became.
    pub entries: usize,
}

/// Traffic.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    /// The pipeline.
    pub pipeline: String,
    /// The locality: `high` or `low`.
    pub locality: String,
    /// How flows are drawn.
    pub drawn: Locality,
    /// Whether the workload changes suddenly.
    pub changes: bool,
    /// Flows, no two alike.
    pub flows: usize,
    /// Packets.
    pub packets: usize,
    /// How often a part of a flow (the fields that one table decides on) is that of another flow, on average over all tables: flows for each different
    /// part.
    pub flows_per_part: f64,
}

/// A cache with some traffic.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The pipeline.
    pub pipeline: String,
    /// The locality.
    pub locality: String,
    /// The cache.
    pub cache: Shape,
    /// Packets.
    pub packets: u64,
    /// Packets that the cache served.
    pub hits: u64,
    /// Packets that it did not.
    pub misses: u64,
    /// The share of hits among all packets, from the empty cache on.
    pub hit_rate: f64,
    /// The same in the second half of the time, or with a change, before it.
    pub steady_hit_rate: f64,
    /// Entries in the end, in all tables.
    pub entries: usize,
    /// Masks in the end, in all tables.
    pub masks: usize,
    /// Each table in the end.
    pub tables: Vec<Fill>,
    /// Traversals that the entries stood for in the end: an estimate.
    pub rule_space: f64,
    /// Of the entries that traversals needed, the share that was there already.
    pub shared: f64,
    /// Of the packets, the share that found entries in a second pass through the tables.
    pub passed_again: f64,
    /// Entries that were made.
    pub inserted: u64,
    /// Entries that had to go for others.
    pub evicted: u64,
    /// Entries that nothing had hit.
    pub expired: u64,
    /// Traversals that were not cached.
    pub rejected: u64,
    /// Nanoseconds to partition a traversal, on average over all misses.
    pub partition_ns: f64,
    /// Memory in the end, in bytes.
    pub memory: usize,
    /// Seconds that the run took.
    pub seconds: f64,
    /// Packets whose outcome was compared with the interpreter's.
    pub compared: u64,
    /// Of these, how many differed: none in a cache that is right.
    pub different: u64,
    /// What a sudden change did, if there was one.
    pub change: Option<Change>,
    /// Hits over time.
    pub series: Vec<Piece>,
}

impl Run {
    /// From what was measured; `change` is when the workload changed, in nanoseconds.
    pub fn new(pipeline: &str, locality: &str, cache: Shape, measured: Measured, change: Option<u64>) -> Run {
        let stats = measured.stats;
        let ratio = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let change = change.map(|at| super::measure::change(&measured.series, at));
        let steady = change.map_or_else(|| share(&measured.series[PIECES / 2..]), |change| change.steady);
        Run {
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
            passed_again: ratio(stats.passed_again, stats.packets),
            inserted: stats.inserted,
            evicted: stats.evicted,
            expired: stats.expired,
            rejected: stats.rejected,
            partition_ns: ratio(stats.partition_ns, stats.misses),
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
    /// The locality.
    pub locality: String,
    /// The pipeline.
    pub pipeline: String,
    /// `MF` (megaflow) or `GF` (sub-traversals).
    pub cache: String,
    /// In per cent.
    pub hit_rate: f64,
}

/// Reads published values: CSV with the columns figure, locality, pipeline, cache, value, of which the rows `hit_rate_pct` count.
///
/// # Errors
/// What is no such file.
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
