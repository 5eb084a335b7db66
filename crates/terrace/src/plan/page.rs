//! The plan as one self-contained HTML page.

use super::{chart, heat, text};
use offload::plan::PlanReport;
use std::fmt::Write;

/// Style sheet of the pages.
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.6em}h2{margin-top:2em;border-bottom:1px solid #ddd}table{border-collapse:collapse}\
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #eee}td:first-child,th:first-child{text-align:left}\
.good{color:#176b2c}.bad{color:#a51212}.pipes{display:flex;flex-wrap:wrap;gap:1em}details{margin:.6em 0}\
summary{cursor:pointer}pre{background:#f6f6f4;padding:.8em;overflow:auto}";

/// Returns the start of a self-contained page, up to its title, which must be escaped already.
/// `</body></html>` ends the page.
pub fn begin_page(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n"
    )
}

/// Renders the page.
pub fn page(report: &PlanReport) -> String {
    let title = heat::escape_xml(&format!("{} on {}", report.program, report.target));
    let mut out = begin_page(&title);
    let class = if report.fits { "good" } else { "bad" };
    let _ = writeln!(out, "<p class=\"{class}\"><b>{}</b></p>", heat::escape_xml(&report.verdict));
    for line in text::performance(report) {
        let _ = writeln!(out, "<p>{}</p>", heat::escape_xml(&line));
    }
    append_steps(&mut out, report);
    append_tables(&mut out, report);
    if let Some(clusters) = &report.clusters {
        let _ = writeln!(out, "<h2>Clusters</h2><p>{}</p>", heat::escape_xml(&text::clusters(clusters)));
    }
    for sweep in &report.sweeps {
        let _ = writeln!(out, "<h2>How far {} can go</h2>\n{}", heat::escape_xml(&sweep.parameter), chart::svg(sweep));
    }
    out.push_str("</body></html>\n");
    out
}

/// Appends a table of the steps, and the heat maps of each, of which only the last step's are open.
fn append_steps(out: &mut String, report: &PlanReport) {
    out.push_str("<h2>Steps</h2>\n<table><tr><th>step</th><th>SRAM</th><th>TCAM</th><th>placed</th></tr>\n");
    for step in &report.steps {
        let placed = if step.placed { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{:.1} %</td><td>{:.1} %</td><td>{placed}</td></tr>",
            heat::escape_xml(&step.name),
            step.sram,
            step.tcam
        );
    }
    out.push_str("</table>\n<p>Shares are of one pipe's blocks, by the demand of the tables.</p>\n");
    let last = report.steps.len().saturating_sub(1);
    for (index, step) in report.steps.iter().enumerate() {
        let open = if index == last { " open" } else { "" };
        let _ = writeln!(
            out,
            "<details{open}><summary>{}: {}</summary><div class=\"pipes\">",
            heat::escape_xml(&step.name),
            heat::escape_xml(&step.what)
        );
        step.heat.iter().for_each(|pipe| out.push_str(&heat::svg(pipe)));
        out.push_str("</div></details>\n");
    }
}

fn append_tables(out: &mut String, report: &PlanReport) {
    out.push_str("<h2>Tables</h2>\n<table><tr><th>table</th><th>match</th><th>key bits</th><th>entries</th><th>SRAM</th><th>TCAM</th><th>where</th></tr>\n");
    for table in &report.tables {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            heat::escape_xml(&table.name),
            table.kind,
            table.key_bits,
            table.entries,
            table.sram,
            table.tcam,
            heat::escape_xml(&table.places)
        );
    }
    out.push_str("</table>\n");
}
