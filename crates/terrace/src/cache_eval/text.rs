//! An evaluation in a terminal: tables of what was measured.

use super::cache::CacheKind;
use super::measure::{self, Change};
use super::report::{Report, Run};
use comfy_table::{CellAlignment, Table, presets};

/// All tables.
pub fn report(report: &Report) -> String {
    let settings = &report.settings;
    let mut out = format!(
        "{} rules ({}), {} flows, sizes: {}, seed {}\n",
        settings.rule_count, settings.rules, settings.flows, settings.flow_sizes, settings.seed
    );
    for workload in &report.workloads {
        let change = if workload.changes { ", changes suddenly" } else { "" };
        out += &format!(
            "{} {}: Zipf {:.2} over {:.0} % of the rules, {} flows, {} packets, {:.1} flows to a part{change}\n",
            workload.pipeline,
            workload.locality,
            workload.drawn.exponent,
            100.0 * workload.drawn.share,
            workload.flows,
            workload.packets,
            workload.flows_per_part
        );
    }
    out += &section("Hit rates", &hit_rates(report));
    out += &section("What they cost", &costs(report));
    if report.runs.iter().any(|run| run.change.is_some()) {
        out += &section("A sudden change", &changes(report));
    }
    out += &verdicts(report).iter().map(|line| format!("{line}\n")).collect::<String>();
    out
}

fn section(title: &str, rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(&rows[0]);
    rows[1..].iter().for_each(|row| {
        table.add_row(row);
    });
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("\n{title}\n{}\n", table.trim_fmt())
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Runs without a change: pipeline, locality, cache, hits.
pub fn hit_rates(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![row(&[
        "pipeline",
        "locality",
        "cache",
        "hit rate",
        "2nd half",
        "published",
        "misses",
        "entries",
        "masks",
        "rule space",
        "shared",
    ])];
    for run in report.runs.iter().filter(|run| run.change.is_none()) {
        rows.push(vec![
            run.pipeline.clone(),
            run.locality.clone(),
            run.cache.to_string(),
            percent(run.hit_rate),
            percent(run.steady_hit_rate),
            published(report, run).map_or_else(String::new, |rate| format!("{rate:.1} %")),
            run.misses.to_string(),
            run.entries.to_string(),
            run.masks.to_string(),
            short(run.rule_space),
            percent(run.shared),
        ]);
    }
    rows
}

/// The published hit rate for the same traffic: of caches with room for 32,000 entries, megaflow and sub-traversals.
fn published(report: &Report, run: &Run) -> Option<f64> {
    let cache = match (run.cache.kind, run.cache.tables) {
        (CacheKind::Megaflow, _) => "MF",
        (CacheKind::SubTraversal, 4) => "GF",
        _ => return None,
    };
    let same = |p: &&super::report::Published| {
        (p.pipeline.as_str(), p.locality.as_str(), p.cache.as_str()) == (&run.pipeline, &run.locality, cache)
    };
    report.published.iter().find(same).filter(|_| run.cache.total() == 32_000).map(|found| found.hit_rate)
}

/// What each run took.
pub fn costs(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![row(&[
        "pipeline",
        "locality",
        "cache",
        "inserted",
        "evicted",
        "not cached",
        "2nd pass",
        "partition",
        "memory",
        "run",
        "compared",
    ])];
    for run in report.runs.iter().filter(|run| run.change.is_none()) {
        rows.push(vec![
            run.pipeline.clone(),
            run.locality.clone(),
            run.cache.to_string(),
            run.inserted.to_string(),
            run.evicted.to_string(),
            run.rejected.to_string(),
            percent(run.passed_again),
            format!("{:.1} us", run.partition_ns / 1e3),
            format!("{:.1} MB", run.memory as f64 / 1e6),
            format!("{:.1} s", run.seconds),
            run.compared.to_string(),
        ]);
    }
    rows
}

/// Runs with a change.
pub fn changes(report: &Report) -> Vec<Vec<String>> {
    let mut rows = vec![row(&[
        "pipeline",
        "locality",
        "cache",
        "before",
        "least",
        "after",
        "back above 90 %",
        "and of megaflow's",
    ])];
    for run in &report.runs {
        let Some(change) = run.change else { continue };
        rows.push(vec![
            run.pipeline.clone(),
            run.locality.clone(),
            run.cache.to_string(),
            percent(change.steady),
            percent(change.least),
            percent(change.after),
            seconds(change.back),
            base(report, run)
                .map_or_else(String::new, |base| seconds(measure::back(&run.series, change.at, base.steady))),
        ]);
    }
    rows
}

fn seconds(time: Option<f64>) -> String {
    time.map_or("never".to_owned(), |seconds| format!("{:.1} s", seconds.max(0.0)))
}

/// What the change did to megaflow, with the same traffic.
fn base(report: &Report, run: &Run) -> Option<Change> {
    let same = |other: &&Run| {
        other.cache.kind == CacheKind::Megaflow && (&other.pipeline, &other.locality) == (&run.pipeline, &run.locality)
    };
    report.runs.iter().filter(same).find_map(|other| other.change)
}

/// Caches with parts of traversals beside megaflow with as much room, a line for each traffic.
pub fn verdicts(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for base in report.runs.iter().filter(|run| run.cache.kind == CacheKind::Megaflow) {
        let beside = report.runs.iter().filter(|run| {
            matches!(run.cache.kind, CacheKind::SubTraversal | CacheKind::Adaptive)
                && (&run.pipeline, &run.locality, run.change.is_some())
                    == (&base.pipeline, &base.locality, base.change.is_some())
                && run.cache.total() == base.cache.total()
        });
        for run in beside.filter(|run| run.change.is_none()) {
            let gain = 100.0 * (run.hit_rate / base.hit_rate.max(f64::MIN_POSITIVE) - 1.0);
            let fewer = 100.0 * (1.0 - run.misses as f64 / base.misses.max(1) as f64);
            let space = run.rule_space / run.entries.max(1) as f64;
            lines.push(format!(
                "{} {}: {} has {gain:+.1} % of {}'s hit rate, {fewer:.1} % fewer misses; its entries stand for {space:.0} times as many traversals",
                run.pipeline, run.locality, run.cache, base.cache
            ));
        }
    }
    lines
}

/// A number as people write it.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1}G", v / 1e9),
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}
