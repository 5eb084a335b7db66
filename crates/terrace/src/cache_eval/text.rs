//! Text tables of an evaluation's results, for a terminal.

use super::cache::CacheKind;
use super::measure::{self, ChangeImpact};
use super::report::{CacheRun, EvaluationReport};
use comfy_table::{CellAlignment, Table, presets};

/// Renders all tables.
pub fn render_report(report: &EvaluationReport) -> String {
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
    out += &render_section("Hit rates", &hit_rates(report));
    out += &render_section("Costs", &cost_rows(report));
    if report.runs.iter().any(|run| run.change.is_some()) {
        out += &render_section("A sudden change", &change_rows(report));
    }
    out += &verdicts(report).iter().map(|line| format!("{line}\n")).collect::<String>();
    out
}

fn render_section(title: &str, rows: &[Vec<String>]) -> String {
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

/// Returns the rows of the runs without a workload change: pipeline, locality, cache, hits.
pub fn hit_rates(report: &EvaluationReport) -> Vec<Vec<String>> {
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
            format_count(run.rule_space),
            percent(run.shared),
        ]);
    }
    rows
}

/// Returns the published hit rate for the same traffic. Available for megaflow and sub-traversal
/// caches of 32,000 entries.
fn published(report: &EvaluationReport, run: &CacheRun) -> Option<f64> {
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

/// Returns the rows with the costs of each run.
pub fn cost_rows(report: &EvaluationReport) -> Vec<Vec<String>> {
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

/// Returns the rows of the runs with a workload change.
pub fn change_rows(report: &EvaluationReport) -> Vec<Vec<String>> {
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
            format_seconds(change.back),
            megaflow_impact(report, run).map_or_else(String::new, |base| {
                format_seconds(measure::recovery_seconds(&run.series, change.at, base.steady))
            }),
        ]);
    }
    rows
}

fn format_seconds(time: Option<f64>) -> String {
    time.map_or("never".to_owned(), |seconds| format!("{:.1} s", seconds.max(0.0)))
}

/// Returns the effect of the change on the megaflow cache with the same traffic.
fn megaflow_impact(report: &EvaluationReport, run: &CacheRun) -> Option<ChangeImpact> {
    let same = |other: &&CacheRun| {
        other.cache.kind == CacheKind::Megaflow && (&other.pipeline, &other.locality) == (&run.pipeline, &run.locality)
    };
    report.runs.iter().filter(same).find_map(|other| other.change)
}

/// Compares sub-traversal caches with megaflow of the same capacity, one line per workload.
pub fn verdicts(report: &EvaluationReport) -> Vec<String> {
    let mut lines = Vec::new();
    for base in report.runs.iter().filter(|run| run.cache.kind == CacheKind::Megaflow) {
        let rivals = report.runs.iter().filter(|run| {
            matches!(run.cache.kind, CacheKind::SubTraversal | CacheKind::Adaptive)
                && (&run.pipeline, &run.locality, run.change.is_some())
                    == (&base.pipeline, &base.locality, base.change.is_some())
                && run.cache.total() == base.cache.total()
        });
        for run in rivals.filter(|run| run.change.is_none()) {
            let gain = 100.0 * (run.hit_rate / base.hit_rate.max(f64::MIN_POSITIVE) - 1.0);
            let fewer_misses = 100.0 * (1.0 - run.misses as f64 / base.misses.max(1) as f64);
            let traversals_per_entry = run.rule_space / run.entries.max(1) as f64;
            lines.push(format!(
                "{} {}: {} has {gain:+.1} % of {}'s hit rate, {fewer_misses:.1} % fewer misses; its entries cover {traversals_per_entry:.0} times the traversals",
                run.pipeline, run.locality, run.cache, base.cache
            ));
        }
    }
    lines
}

/// Formats a number with a unit prefix.
pub fn format_count(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1}G", v / 1e9),
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}
