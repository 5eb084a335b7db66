//! The plan as text for a terminal.

use super::heat;
use offload::clusters::Clusters;
use offload::plan::{PlanReport, Sweep};
use std::fmt::Write;

/// Maximum number of clusters to list.
const SHOWN_CLUSTERS: usize = 12;

/// Renders the report.
pub fn report(report: &PlanReport) -> String {
    let mut out = format!("{} on {}\n{}\n", report.program, report.target, report.verdict);
    performance(report).iter().for_each(|line| {
        let _ = writeln!(out, "{line}");
    });
    out.push('\n');
    let name_width = report.steps.iter().map(|step| step.name.len()).max().unwrap_or(0);
    let _ = writeln!(out, "{:name_width$}     SRAM     TCAM  placed   (shares of one pipe's blocks)", "step");
    for step in &report.steps {
        let placed = if step.placed { "yes" } else { "no" };
        let _ = writeln!(
            out,
            "{:name_width$}  {:5.1} %  {:5.1} %  {placed:<6}   {}",
            step.name, step.sram, step.tcam, step.what
        );
    }
    out.push('\n');
    if let Some(last) = report.steps.last() {
        last.heat.iter().for_each(|pipe| {
            out.push_str(&heat::text(pipe));
            out.push('\n');
        });
    }
    append_tables(&mut out, report);
    if let Some(found) = &report.clusters {
        let _ = writeln!(out, "\n{}", clusters(found));
    }
    report.sweeps.iter().for_each(|found| append_sweep(&mut out, found));
    out
}

/// Describes throughput and latency in sentences.
pub fn performance(report: &PlanReport) -> Vec<String> {
    let Some(p) = &report.performance else { return Vec::new() };
    let mut lines = vec![format!(
        "{} in a switch: {:.2} Tbit/s, {:.2} G packets/s, {:.1} us; {} bits are carried from pipe to pipe",
        match p.passes {
            1 => "one pass".to_owned(),
            n => format!("{n} passes"),
        },
        p.bits_per_second / 1e12,
        p.packets_per_second / 1e9,
        p.latency_ns / 1e3,
        p.bridged_bits
    )];
    if let Some(power) = p.watts {
        lines.push(format!("{power} W"));
    }
    lines
}

/// Describes the clusters in sentences.
pub fn clusters(found: &Clusters) -> String {
    let mut out = format!("{} clusters, {} switches with a standby for each", found.clusters.len(), found.switches());
    if found.cut_off {
        out.push_str("; more than are counted");
    }
    if !found.too_large.is_empty() {
        let names: Vec<&str> = found.too_large.iter().take(SHOWN_CLUSTERS).map(String::as_str).collect();
        let more = found.too_large.len().saturating_sub(names.len());
        let others_text = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(out, "; larger than a cluster: {}{others_text}", names.join(", "));
    }
    for (number, cluster) in found.clusters.iter().take(SHOWN_CLUSTERS).enumerate() {
        let entries: u64 = cluster.entries.values().sum();
        let _ = write!(
            out,
            "\n  cluster {number}: {} tenants, the largest {}; {entries} entries",
            cluster.tenants, cluster.largest
        );
    }
    if found.clusters.len() > SHOWN_CLUSTERS {
        let _ = write!(out, "\n  and {} more", found.clusters.len() - SHOWN_CLUSTERS);
    }
    out
}

fn append_tables(out: &mut String, report: &PlanReport) {
    let wide = report.tables.iter().map(|table| table.name.len()).max().unwrap_or(0);
    let _ = writeln!(
        out,
        "{:wide$}  {:<11} {:>8} {:>9} {:>6} {:>6}  where",
        "table", "match", "key bits", "entries", "SRAM", "TCAM"
    );
    for t in &report.tables {
        let _ = writeln!(
            out,
            "{:wide$}  {:<11} {:>8} {:>9} {:>6} {:>6}  {}",
            t.name, t.kind, t.key_bits, t.entries, t.sram, t.tcam, t.places
        );
    }
}

fn append_sweep(out: &mut String, sweep: &Sweep) {
    let per = sweep.per.as_deref().unwrap_or("");
    let _ = writeln!(
        out,
        "\nhow far {} can go{}",
        sweep.parameter,
        if per.is_empty() { String::new() } else { format!(", by {per}") }
    );
    for line in &sweep.lines {
        let reach = match (line.reach.fits, line.reach.fails) {
            (Some(fits), Some(_)) => format!("{fits:.0}"),
            (Some(fits), None) => format!("{fits:.0}, and it still fits"),
            (None, _) => "does not fit at all".to_owned(),
        };
        let label = line.value.map_or(String::new(), |value| format!("{per} {value}: "));
        let _ = writeln!(out, "  {label}{reach}");
    }
}
