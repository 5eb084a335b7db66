//! An evaluation as one HTML page without anything outside of itself.

use super::report::Report;
use super::{chart, text};
use crate::plan::heat::escape;
use crate::plan::page::begin;
use std::fmt::Write;

/// The page.
pub fn page(report: &Report) -> String {
    let mut out = begin("Flow caches on virtual switches");
    let settings = &report.settings;
    let made = format!(
        "{} rules ({}), {} flows in {} s, sizes: {}, seed {}.",
        settings.rule_count, settings.rules, settings.flows, settings.window, settings.flow_sizes, settings.seed
    );
    let _ = writeln!(out, "<p>{}</p>", escape(&made));
    for line in text::verdicts(report) {
        let _ = writeln!(out, "<p>{}</p>", escape(&line));
    }
    table(&mut out, "Hit rates", &text::hit_rates(report));
    table(&mut out, "What they cost", &text::costs(report));
    if report.runs.iter().any(|run| run.change.is_some()) {
        table(&mut out, "A sudden change", &text::changes(report));
    }
    for plot in chart::plots(report) {
        let _ = writeln!(out, "<h2>{}</h2>\n{}", escape(&plot.name), chart::svg(&plot));
    }
    out.push_str("</body></html>\n");
    out
}

fn table(out: &mut String, title: &str, rows: &[Vec<String>]) {
    let cells = |row: &Vec<String>, tag: &str| -> String {
        row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let _ = writeln!(out, "<h2>{title}</h2>\n<table><tr>{}</tr>", cells(&rows[0], "th"));
    for row in &rows[1..] {
        let _ = writeln!(out, "<tr>{}</tr>", cells(row, "td"));
    }
    out.push_str("</table>\n");
}
