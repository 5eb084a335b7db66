//! An evaluation as one self-contained HTML page.

use super::report::EvaluationReport;
use super::{chart, text};
use crate::plan::heat::escape_xml;
use crate::plan::page::begin_page;
use std::fmt::Write;

/// Renders the page.
pub fn render_page(report: &EvaluationReport) -> String {
    let mut out = begin_page("Flow caches on virtual switches");
    let settings = &report.settings;
    let settings_text = format!(
        "{} rules ({}), {} flows in {} s, sizes: {}, seed {}.",
        settings.rule_count, settings.rules, settings.flows, settings.window, settings.flow_sizes, settings.seed
    );
    let _ = writeln!(out, "<p>{}</p>", escape_xml(&settings_text));
    for line in text::verdicts(report) {
        let _ = writeln!(out, "<p>{}</p>", escape_xml(&line));
    }
    append_table(&mut out, "Hit rates", &text::hit_rates(report));
    append_table(&mut out, "Costs", &text::cost_rows(report));
    if report.runs.iter().any(|run| run.change.is_some()) {
        append_table(&mut out, "A sudden change", &text::change_rows(report));
    }
    for plot in chart::build_plots(report) {
        let _ = writeln!(out, "<h2>{}</h2>\n{}", escape_xml(&plot.name), chart::svg(&plot));
    }
    out.push_str("</body></html>\n");
    out
}

fn append_table(out: &mut String, title: &str, rows: &[Vec<String>]) {
    let cells = |row: &Vec<String>, tag: &str| -> String {
        row.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape_xml(cell))).collect()
    };
    let _ = writeln!(out, "<h2>{title}</h2>\n<table><tr>{}</tr>", cells(&rows[0], "th"));
    for row in &rows[1..] {
        let _ = writeln!(out, "<tr>{}</tr>", cells(row, "td"));
    }
    out.push_str("</table>\n");
}
