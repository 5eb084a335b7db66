//! Plots of what was measured: lines over a number, in SVG.

use super::cache::CacheKind;
use super::report::{Report, Run};
use crate::plan::chart::{COLOURS, short};
use crate::plan::heat::escape;
use plotters::prelude::*;

/// A plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What it shows; the name of its file.
    pub name: String,
    /// Over what.
    pub x: String,
    /// What.
    pub y: String,
    /// Lines by name.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// All plots that there is something to show in.
pub fn plots(report: &Report) -> Vec<Plot> {
    let mut plots = Vec::new();
    let total = report.settings.entries;
    let high = |run: &&Run| run.locality == "high" && run.change.is_none();
    let by_pipeline = |name: &str, x: &str, y: &str, choose: &dyn Fn(&Run) -> Option<(f64, f64)>| {
        let line = |pipeline: &super::report::PipelineReport| {
            let runs = report.runs.iter().filter(high).filter(|run| run.pipeline == pipeline.name);
            (pipeline.name.clone(), sorted(runs.filter_map(choose).collect()))
        };
        plot(name, x, y, report.pipelines.iter().map(line).collect())
    };
    // A cache of K tables has total / K entries in each, rounded down.
    let sub = |run: &Run| run.cache.kind == CacheKind::SubTraversal && run.cache.entries == total / run.cache.tables;
    let of_tables = |y: fn(&Run) -> f64| move |run: &Run| sub(run).then(|| (run.cache.tables as f64, y(run)));
    let ks: std::collections::BTreeSet<usize> =
        report.runs.iter().filter(|run| sub(run)).map(|run| run.cache.tables).collect();
    if ks.len() > 1 {
        let tables = "cache tables (K), with as many entries together";
        plots.push(by_pipeline("hit rate over K", tables, "% of packets", &of_tables(|run| 100.0 * run.hit_rate)));
        plots.push(by_pipeline("misses over K", tables, "packets", &of_tables(|run| run.misses as f64)));
        plots.push(by_pipeline(
            "rule space over K",
            tables,
            "traversals, log 10",
            &of_tables(|run| run.rule_space.max(1.0).log10()),
        ));
        plots.push(by_pipeline(
            "sharing over K",
            tables,
            "% of entries that were there",
            &of_tables(|run| 100.0 * run.shared),
        ));
        plots.push(by_pipeline(
            "partitioning over K",
            tables,
            "us for each miss",
            &of_tables(|run| run.partition_ns / 1e3),
        ));
    }
    for pipeline in &report.pipelines {
        plots.extend(over_size(report, &pipeline.name));
        plots.extend(over_time(report, &pipeline.name));
    }
    plots.retain(|plot| plot.lines.iter().any(|(_, points)| points.len() > 1));
    plots
}

/// Hit rate of each kind of cache over its room. A sub-traversal cache stands for its most common number of tables.
fn over_size(report: &Report, pipeline: &str) -> Option<Plot> {
    let runs =
        || report.runs.iter().filter(|run| run.pipeline == pipeline && run.locality == "high" && run.change.is_none());
    let mut lines = Vec::new();
    for kind in [CacheKind::Exact, CacheKind::Megaflow, CacheKind::SubTraversal, CacheKind::Adaptive] {
        let of_kind: Vec<&Run> = runs().filter(|run| run.cache.kind == kind).collect();
        let usual = |run: &&&Run| of_kind.iter().filter(|other| other.cache.tables == run.cache.tables).count();
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

/// Hit rate over time, around a sudden change.
fn over_time(report: &Report, pipeline: &str) -> Option<Plot> {
    let runs = report.runs.iter().filter(|run| run.pipeline == pipeline && run.change.is_some());
    let line = |run: &Run| {
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

/// The plot as an `<svg>` element, which is a whole file too.
pub fn svg(plot: &Plot) -> String {
    let mut out = String::new();
    match draw(plot, &mut out) {
        Ok(()) => out,
        Err(error) => format!("<p>the plot could not be drawn: {}</p>", escape(&error)),
    }
}

fn draw(plot: &Plot, out: &mut String) -> Result<(), String> {
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
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .draw()
        .map_err(failed)?;
    for (n, (name, points)) in plot.lines.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
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
