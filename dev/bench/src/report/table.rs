//! Renders the table for the terminal: a block for each chart, a line for each point and entrant.

use super::{Report, Verdict};
use crate::run::ComparisonResult;
use std::fmt::Write;

/// Renders everything as text. Writing to a string does not fail.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    append_head(report, &mut text);
    for note in &report.notes {
        let _ = writeln!(text, "  - {note}");
    }
    for (name, outcomes) in report.charts() {
        append_chart(name, &outcomes, &mut text);
    }
    append_figures(report, &mut text);
    append_targets(report, &mut text);
    text
}

fn append_head(report: &Report, text: &mut String) {
    if let Some(machine) = &report.machine {
        let gib = machine.memory as f64 / f64::from(1 << 30);
        let preferred = if machine.preferred { "" } else { ", not preferred to other work" };
        let _ = writeln!(
            text,
            "{}, {} cores, {gib:.1} GiB free, Linux {}, {} huge pages of 2 MiB{preferred}",
            machine.processor, machine.cores, machine.kernel, machine.huge_pages
        );
    }
    if !report.run.is_empty() {
        let _ = writeln!(text, "{}", report.run);
    }
}

fn append_chart(name: &str, outcomes: &[&ComparisonResult], text: &mut String) {
    let Some(first) = outcomes.first() else { return };
    let (axis, unit) = (&first.axis, first.unit.name());
    let _ = writeln!(text, "\n{name} ({unit})");
    let width = outcomes.iter().flat_map(|o| &o.entries).map(|e| e.name.chars().count()).max().unwrap_or(0).max(8);
    let _ = writeln!(text, "  {axis:<16} {:<width$} {:>9} {:>9} {:>9} {:>8}", "", "median", "min", "max", "ratio");
    for outcome in outcomes {
        let best = outcome.entries.first().map_or(0.0, |entry| entry.median());
        for (at, entry) in outcome.entries.iter().enumerate() {
            let x = if at == 0 { outcome.x.as_str() } else { "" };
            let (median, min, max) = (entry.median(), entry.min(), entry.max());
            let ratio = if best > 0.0 { median / best } else { 0.0 };
            let _ = writeln!(text, "  {x:<16} {:<width$} {median:>9.2} {min:>9.2} {max:>9.2} {ratio:>8.2}", entry.name);
        }
    }
}

fn append_figures(report: &Report, text: &mut String) {
    let mut groups: Vec<&str> = Vec::new();
    for fact in &report.facts {
        if !groups.contains(&fact.group.as_str()) {
            groups.push(&fact.group);
        }
    }
    for group in groups {
        let _ = writeln!(text, "\n{group}");
        for fact in report.facts.iter().filter(|fact| fact.group == group) {
            let _ = writeln!(text, "  {:<60} {:>12.3} {}", fact.name, fact.value, fact.unit);
        }
    }
}

fn append_targets(report: &Report, text: &mut String) {
    if report.bars.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nBars");
    for bar in &report.bars {
        let verdict = match bar.verdict {
            Verdict::Reached => "reached",
            Verdict::Missed => "MISSED",
            Verdict::NotMeasured => "not measured",
        };
        let found = bar.found.map_or("-".to_owned(), |found| format!("{found:.2}"));
        let _ = writeln!(text, "  {verdict:<12} {found:>9} of {:<8.2} {}", bar.wanted, bar.what);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;

    #[test]
    fn each_line_has_median_spread_and_ratio() {
        let text = sample().text();
        let line = text.lines().find(|line| line.contains("1M")).expect("a line for 1M");
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["1M", "ours", "41.00", "40.00", "42.00", "1.00"]);
        assert!(text.contains("0.63"), "26 of 41: {text}");
    }
}
