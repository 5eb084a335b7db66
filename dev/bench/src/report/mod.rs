//! Results of a run: collected in order, written as a table for the terminal, as JSON and as plots.

mod svg;
mod table;
mod targets;

pub use targets::{PerfTarget, Verdict, judge_targets};

use crate::machine::Machine;
use crate::run::{ComparisonResult, EntrantResult};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// All results of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Machine that it ran on.
    pub machine: Option<Machine>,
    /// Description of the run's options.
    pub run: String,
    /// Results of comparisons, in order.
    pub outcomes: Vec<ComparisonResult>,
    /// Single figures outside of comparisons: latencies, losses, sizes.
    pub facts: Vec<ReportFigure>,
    /// Notes for the reader, such as parts that were left out, with the reason.
    pub notes: Vec<String>,
    /// Performance targets with their verdicts for this run.
    pub bars: Vec<PerfTarget>,
}

/// A single figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportFigure {
    /// Group of the figure.
    pub group: String,
    /// Name of the figure.
    pub name: String,
    /// Value of the figure.
    pub value: f64,
    /// Unit of the value.
    pub unit: String,
}

impl Report {
    /// Adds the result of a comparison.
    pub fn push(&mut self, outcome: ComparisonResult) {
        self.outcomes.push(outcome);
    }

    /// Adds a single figure.
    pub fn fact(&mut self, group: &str, name: &str, value: f64, unit: &str) {
        eprintln!("{group}: {name}: {value:.3} {unit}");
        self.facts.push(ReportFigure { group: group.to_owned(), name: name.to_owned(), value, unit: unit.to_owned() });
    }

    /// Adds a system with one window to a point of a chart, in the chart's unit. Nothing is added to a
    /// point that was not measured.
    pub fn add_entry(&mut self, chart: &str, x: &str, name: &str, rate: f64) {
        if let Some(outcome) = self.outcomes.iter_mut().find(|outcome| outcome.chart == chart && outcome.x == x) {
            outcome.entries.push(EntrantResult { name: name.to_owned(), windows: vec![rate] });
        }
    }

    /// Adds a note, and prints it.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        eprintln!("note: {note}");
        self.notes.push(note);
    }

    /// Returns the median of an entrant at a point of a chart.
    pub fn median(&self, chart: &str, x: &str, entrant: &str) -> Option<f64> {
        let outcome = self.outcomes.iter().find(|o| o.chart == chart && o.x == x && o.entry(entrant).is_some())?;
        outcome.entry(entrant).map(|entry| entry.median())
    }

    /// Returns the value of a single figure.
    pub fn value(&self, group: &str, name: &str) -> Option<f64> {
        self.facts.iter().find(|fact| fact.group == group && fact.name == name).map(|fact| fact.value)
    }

    /// Returns the charts with their comparisons, in order.
    pub fn charts(&self) -> Vec<(&str, Vec<&ComparisonResult>)> {
        let mut charts: Vec<(&str, Vec<&ComparisonResult>)> = Vec::new();
        for outcome in &self.outcomes {
            match charts.iter_mut().find(|(name, _)| *name == outcome.chart) {
                Some((_, outcomes)) => outcomes.push(outcome),
                None => charts.push((&outcome.chart, vec![outcome])),
            }
        }
        charts
    }

    /// Returns everything as text.
    pub fn text(&self) -> String {
        table::text(self)
    }

    /// Returns the targets that were measured and missed.
    pub fn missed(&self) -> impl Iterator<Item = &str> {
        self.bars.iter().filter(|bar| bar.verdict == Verdict::Missed).map(|bar| bar.what.as_str())
    }

    /// Writes `bench.json`, `bench.txt` and a plot for each chart into a folder.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("bench.json"), serde_json::to_string_pretty(self)? + "\n")?;
        fs::write(folder.join("bench.txt"), self.text())?;
        for (name, outcomes) in self.charts() {
            fs::write(folder.join(format!("{}.svg", file_name(name))), svg::chart(name, &outcomes))?;
        }
        Ok(())
    }
}

/// Converts a chart's name to a file name.
fn file_name(chart: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let words: String = chart.chars().map(plain).collect();
    words.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{EntrantResult, Unit};

    pub(super) fn sample() -> Report {
        let entry = |name: &str, windows: &[f64]| EntrantResult { name: name.to_owned(), windows: windows.to_vec() };
        let outcome = |x: &str, ours: &[f64]| ComparisonResult {
            chart: "exact, 8-byte keys".to_owned(),
            axis: "entries".to_owned(),
            x: x.to_owned(),
            unit: Unit::MillionsPerSecond,
            entries: vec![entry("ours", ours), entry("rte_hash <x>", &[25.0, 26.0, 27.0])],
        };
        let outcomes = vec![outcome("1k", &[99.0, 100.0, 101.0]), outcome("1M", &[40.0, 41.0, 42.0])];
        Report { outcomes, notes: vec!["no XDP here".to_owned()], ..Report::default() }
    }

    #[test]
    fn a_report_comes_back_from_json() {
        let report = sample();
        let text = serde_json::to_string(&report).expect("it is plain data");
        assert_eq!(serde_json::from_str::<Report>(&text).expect("it is what was written"), report);
    }

    #[test]
    fn medians_are_found_by_chart_point_and_entrant() {
        let report = sample();
        assert_eq!(report.median("exact, 8-byte keys", "1M", "ours"), Some(41.0));
        assert_eq!(report.median("exact, 8-byte keys", "16M", "ours"), None);
        assert_eq!(file_name("exact, 8-byte keys"), "exact-8-byte-keys");
    }

    #[test]
    fn files_of_a_report() {
        let folder = std::env::temp_dir().join(format!("terrace-bench-{}", std::process::id()));
        sample().write(&folder).expect("the folder can be written");
        let svg = fs::read_to_string(folder.join("exact-8-byte-keys.svg")).expect("a plot");
        assert!(svg.contains("rte_hash &lt;x&gt;"), "names are escaped: {svg}");
        assert!(fs::read_to_string(folder.join("bench.txt")).expect("a table").contains("no XDP here"));
        fs::remove_dir_all(&folder).expect("it was made here");
    }
}
