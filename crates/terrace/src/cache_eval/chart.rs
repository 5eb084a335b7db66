//! Line plots of the measurements as SVG.

use super::cache::CacheKind;
use super::report::{CacheRun, EvaluationReport};
use crate::plan::chart::{COLOURS, format_axis_number};
use crate::plan::heat::escape_xml;
use plotters::prelude::*;

/// A line plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Title, also used as file name.
    pub name: String,
    /// Label of the x axis.
    pub x: String,
    /// Label of the y axis.
    pub y: String,
    /// Points of each line, with its name.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// Builds all plots for which the report has data.
pub fn build_plots(report: &EvaluationReport) -> Vec<Plot> {
    let mut plots = Vec::new();
    let total = report.settings.entries;
    let has_high_locality = |run: &&CacheRun| run.locality == "high" && run.change.is_none();
    let by_pipeline = |name: &str, x: &str, y: &str, choose: &dyn Fn(&CacheRun) -> Option<(f64, f64)>| {
        let line = |pipeline: &super::report::PipelineReport| {
            let runs = report.runs.iter().filter(has_high_locality).filter(|run| run.pipeline == pipeline.name);
            (pipeline.name.clone(), sorted(runs.filter_map(choose).collect()))
        };
        plot(name, x, y, report.pipelines.iter().map(line).collect())
    };
    // A cache of K tables has total / K entries in each, rounded down.
    let is_full_sub_traversal =
        |run: &CacheRun| run.cache.kind == CacheKind::SubTraversal && run.cache.entries == total / run.cache.tables;
    let over_tables = |y: fn(&CacheRun) -> f64| {
        move |run: &CacheRun| is_full_sub_traversal(run).then(|| (run.cache.tables as f64, y(run)))
    };
    let table_counts: std::collections::BTreeSet<usize> =
        report.runs.iter().filter(|run| is_full_sub_traversal(run)).map(|run| run.cache.tables).collect();
    if table_counts.len() > 1 {
        let tables = "cache tables (K), with the same total entries";
        plots.push(by_pipeline("hit rate over K", tables, "% of packets", &over_tables(|run| 100.0 * run.hit_rate)));
        plots.push(by_pipeline("misses over K", tables, "packets", &over_tables(|run| run.misses as f64)));
        plots.push(by_pipeline(
            "rule space over K",
            tables,
            "traversals, log 10",
            &over_tables(|run| run.rule_space.max(1.0).log10()),
        ));
        plots.push(by_pipeline(
            "sharing over K",
            tables,
            "% of entries that were there",
            &over_tables(|run| 100.0 * run.shared),
        ));
        plots.push(by_pipeline(
            "partitioning over K",
            tables,
            "us for each miss",
            &over_tables(|run| run.partition_ns / 1e3),
        ));
    }
    for pipeline in &report.pipelines {
        plots.extend(over_size(report, &pipeline.name));
        plots.extend(over_time(report, &pipeline.name));
    }
    plots.retain(|plot| plot.lines.iter().any(|(_, points)| points.len() > 1));
    plots
}

/// Builds the plot of hit rate over capacity for each kind of cache. A sub-traversal cache is
/// plotted with its most common number of tables.
fn over_size(report: &EvaluationReport, pipeline: &str) -> Option<Plot> {
    let runs =
        || report.runs.iter().filter(|run| run.pipeline == pipeline && run.locality == "high" && run.change.is_none());
    let mut lines = Vec::new();
    for kind in [CacheKind::Exact, CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive] {
        let of_kind: Vec<&CacheRun> = runs().filter(|run| run.cache.kind == kind).collect();
        let usual = |run: &&&CacheRun| of_kind.iter().filter(|other| other.cache.tables == run.cache.tables).count();
        let Some(tables) = of_kind.iter().max_by_key(usual).map(|run| run.cache.tables) else { continue };
        let same = of_kind.iter().filter(|run| run.cache.tables == tables);
        lines.push((
            kind.to_string(),
            sorted(same.map(|run| (run.cache.total() as f64, 100.0 * run.hit_rate)).collect()),
        ));
    }
    let any = lines.iter().any(|(_, points)| points.len() > 1);
    any.then(|| plot(&format!("{pipeline} hit rate over size"), "entries of all tables", "% of packets", lines))
}

/// Builds the plot of hit rate over time around a workload change.
fn over_time(report: &EvaluationReport, pipeline: &str) -> Option<Plot> {
    let runs = report.runs.iter().filter(|run| run.pipeline == pipeline && run.change.is_some());
    let line = |run: &CacheRun| {
        let busy = run.series.iter().filter(|piece| piece.packets > 0);
        let points = busy.map(|piece| (piece.second, 100.0 * piece.hits as f64 / piece.packets as f64)).collect();
        (run.cache.to_string(), points)
    };
    let lines: Vec<_> = runs.map(line).collect();
    (!lines.is_empty()).then(|| plot(&format!("{pipeline} hit rate over a change"), "seconds", "% of packets", lines))
}

fn plot(name: &str, x: &str, y: &str, lines: Vec<(String, Vec<(f64, f64)>)>) -> Plot {
    Plot { name: name.to_owned(), x: x.to_owned(), y: y.to_owned(), lines }
}

fn sorted(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Renders the plot as an `<svg>` element, which is also a complete SVG file.
pub fn svg(plot: &Plot) -> String {
    let mut out = String::new();
    match draw_plot(plot, &mut out) {
        Ok(()) => out,
        Err(error) => format!("<p>the plot could not be drawn: {}</p>", escape_xml(&error)),
    }
}

/// Draws a plot as SVG: lines in the colours of [`COLOURS`], with a legend.
fn draw_plot(plot: &Plot, out: &mut String) -> Result<(), String> {
    let points = || plot.lines.iter().flat_map(|(_, points)| points);
    let right = points().map(|p| p.0).fold(1.0, f64::max);
    let left = points().map(|p| p.0).fold(right, f64::min);
    let top = points().map(|p| p.1).filter(|v| v.is_finite()).fold(1.0, f64::max);
    let failed = |error: DrawingAreaErrorKind<std::io::Error>| error.to_string();
    let area = SVGBackend::with_string(out, (760, 380)).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(&plot.name, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(64)
        .build_cartesian_2d(left..right.max(left + 1.0), 0.0..top * 1.05)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(plot.x.as_str())
        .y_desc(plot.y.as_str())
        .x_label_formatter(&|x| format_axis_number(*x))
        .y_label_formatter(&|y| format_axis_number(*y))
        .draw()
        .map_err(failed)?;
    for (index, (name, points)) in plot.lines.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))
            .map_err(failed)?
            .label(name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    let labels = labels.position(SeriesLabelPosition::LowerRight).border_style(BLACK.mix(0.2));
    labels.background_style(WHITE.mix(0.8)).draw().map_err(failed)?;
    area.present().map_err(failed)
}
