//! The harness: entrants run for a window each in turn, A B C A B C ..., and each is judged by the
//! median of its windows.
//!
//! Time is the processor time of the thread ([`Clock`]), so that another process on the same core
//! does not distort a window. Its effect on the caches is the same for all entrants, because they
//! run in turn. Entrants that run elsewhere (in the kernel, in another process) return their time
//! themselves.

use crate::machine;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Selection and precision of the measurements.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of windows for each entrant; at least 5 except in a quick run.
    pub windows: usize,
    /// Length of a window.
    pub window: Duration,
    /// Whether this is a smoke run: fewer windows, no sizes above [`Options::QUICK_LIMIT`]. Its
    /// figures are not meaningful.
    pub quick: bool,
    /// Maximum size to measure: entries, VMs, flows.
    pub largest: usize,
    /// Parts to run; empty: all.
    pub only: Vec<String>,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        let window = Duration::from_millis(300);
        Options { windows: 5, window, quick: false, largest: usize::MAX, only: Vec::new(), seed: 1 }
    }
}

impl Options {
    /// Maximum size of a quick run.
    pub const QUICK_LIMIT: usize = 100_000;

    /// Returns the elements of `sizes` that this run measures; always at least the smallest.
    pub fn sizes(&self, sizes: &[usize]) -> Vec<usize> {
        let largest = if self.quick { self.largest.min(Options::QUICK_LIMIT) } else { self.largest };
        let wanted = |&&size: &&usize| size <= largest;
        let kept: Vec<usize> = sizes.iter().filter(wanted).copied().collect();
        if kept.is_empty() { sizes.iter().min().copied().into_iter().collect() } else { kept }
    }

    /// Returns whether a part is selected.
    pub fn is_selected(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

/// Result of one call of an entrant.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CallResult {
    /// Number of operations: lookups, packets, inserts.
    pub operations: u64,
    /// Time of the operations, if it is not the thread's processor time.
    pub took: Option<Duration>,
}

/// Converts a number of operations that are measured by the thread's processor time.
impl From<u64> for CallResult {
    fn from(operations: u64) -> CallResult {
        CallResult { operations, took: None }
    }
}

/// Unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Millions of lookups (inserts, deletes) per second.
    MillionsPerSecond,
    /// Millions of packets per second.
    Mpps,
    /// Gigabits per second; an operation is a bit.
    Gbps,
}

impl Unit {
    fn scale(self) -> f64 {
        match self {
            Unit::MillionsPerSecond | Unit::Mpps => 1e6,
            Unit::Gbps => 1e9,
        }
    }

    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Unit::MillionsPerSecond => "M/s",
            Unit::Mpps => "Mpps",
            Unit::Gbps => "Gbit/s",
        }
    }
}

/// Stopwatch of this thread's processor time.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Duration);

impl Clock {
    /// Starts the stopwatch.
    pub fn start() -> Clock {
        Clock(machine::thread_time())
    }

    /// Returns the processor time since the start.
    pub fn elapsed(&self) -> Duration {
        machine::thread_time().saturating_sub(self.0)
    }
}

type EntrantFn<'a> = Box<dyn FnMut() -> CallResult + 'a>;

/// Entrants that do the same work on the same data.
pub struct EntrantComparison<'a> {
    chart: String,
    axis: String,
    x: String,
    unit: Unit,
    entrants: Vec<(String, EntrantFn<'a>)>,
}

impl<'a> EntrantComparison<'a> {
    /// Creates a comparison for one point `x` (of the axis `axis`) in the chart `chart`.
    /// Comparisons with the same chart are drawn together.
    pub fn new(chart: &str, axis: &str, x: impl Into<String>, unit: Unit) -> EntrantComparison<'a> {
        EntrantComparison { chart: chart.to_owned(), axis: axis.to_owned(), x: x.into(), unit, entrants: Vec::new() }
    }

    /// Adds an entrant. `step` does some work (at least 10 us, so that reading the clock has no
    /// cost; at most some milliseconds) and returns its amount.
    pub fn entrant<W: Into<CallResult>>(
        &mut self,
        name: &str,
        mut step: impl FnMut() -> W + 'a,
    ) -> &mut EntrantComparison<'a> {
        self.entrants.push((name.to_owned(), Box::new(move || step().into())));
        self
    }

    /// Runs all entrants in turn: first a warm-up window that is not counted, then
    /// [`Options::windows`] each.
    pub fn run(mut self, options: &Options) -> ComparisonResult {
        let mut entries: Vec<EntrantResult> =
            self.entrants.iter().map(|(name, _)| EntrantResult { name: name.clone(), windows: Vec::new() }).collect();
        for window in 0..=options.windows.max(1) {
            for ((_, step), entry) in self.entrants.iter_mut().zip(&mut entries) {
                let length = if window == 0 { options.window / 3 } else { options.window };
                let rate = measure_window(step, length) / self.unit.scale();
                if window > 0 {
                    entry.windows.push(rate);
                }
            }
        }
        let outcome = ComparisonResult { chart: self.chart, axis: self.axis, x: self.x, unit: self.unit, entries };
        eprintln!("{}", outcome.line());
        outcome
    }
}

/// Returns the operations per second in one window.
fn measure_window(step: &mut EntrantFn<'_>, length: Duration) -> f64 {
    let clock = Clock::start();
    let (mut operations, mut own, mut own_time) = (0u64, Duration::ZERO, false);
    let mut steps = 0u32;
    loop {
        let work = step();
        operations += work.operations;
        steps += 1;
        if let Some(took) = work.took {
            own += took;
            own_time = true;
        }
        // The limit on steps ends the window of an entrant that does almost no work.
        let elapsed = if own_time { own } else { clock.elapsed() };
        if elapsed >= length || (own_time && steps >= 100_000) {
            return operations as f64 / elapsed.as_secs_f64().max(1e-9);
        }
    }
}

/// Results of one entrant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntrantResult {
    /// Name of the entrant.
    pub name: String,
    /// Rate in each window, in the comparison's unit.
    pub windows: Vec<f64>,
}

impl EntrantResult {
    /// Returns the median; 0 without windows.
    pub fn median(&self) -> f64 {
        let mut sorted = self.windows.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }

    /// Returns the rate of the slowest window.
    pub fn min(&self) -> f64 {
        self.windows.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// Returns the rate of the fastest window.
    pub fn max(&self) -> f64 {
        self.windows.iter().copied().reduce(f64::max).unwrap_or(0.0)
    }
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparisonResult {
    /// Chart of the comparison.
    pub chart: String,
    /// Axis of the chart.
    pub axis: String,
    /// Point on the axis.
    pub x: String,
    /// Unit of all rates.
    pub unit: Unit,
    /// Results of the entrants, in order.
    pub entries: Vec<EntrantResult>,
}

impl ComparisonResult {
    /// Returns the results of an entrant.
    pub fn entry(&self, name: &str) -> Option<&EntrantResult> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Returns one line, to show progress.
    fn line(&self) -> String {
        let each = self.entries.iter().map(|e| format!("{} {:.2}", e.name, e.median()));
        let each: Vec<String> = each.collect();
        format!("{} [{}]: {} {}", self.chart, self.x, each.join(", "), self.unit.name())
    }
}

/// Formats a count with a unit prefix: `1`, `10k`, `16M`.
pub fn format_count(n: usize) -> String {
    match n {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entrants_take_turns_and_the_median_counts() {
        let order = std::cell::RefCell::new(Vec::new());
        let mut contest = EntrantComparison::new("chart", "axis", "1k", Unit::MillionsPerSecond);
        let took = Some(Duration::from_millis(10));
        contest.entrant("slow", || {
            order.borrow_mut().push('s');
            CallResult { operations: 10_000, took }
        });
        contest.entrant("fast", || {
            order.borrow_mut().push('f');
            CallResult { operations: 20_000, took }
        });
        let options = Options { windows: 3, window: Duration::from_millis(10), ..Options::default() };
        let outcome = contest.run(&options);
        assert_eq!(
            order.into_inner(),
            ['s', 'f', 's', 'f', 's', 'f', 's', 'f'],
            "a warm-up and three windows, in turn"
        );
        assert!((outcome.entry("slow").expect("it ran").median() - 1.0).abs() < 1e-9);
        assert!((outcome.entry("fast").expect("it ran").median() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_windows() {
        let entry = |windows: &[f64]| EntrantResult { name: String::new(), windows: windows.to_vec() };
        assert_eq!(entry(&[9.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(entry(&[4.0, 1.0, 2.0, 9.0]).median(), 3.0);
        assert_eq!(entry(&[]).median(), 0.0);
        assert_eq!((entry(&[3.0, 1.0]).min(), entry(&[3.0, 1.0]).max()), (1.0, 3.0));
    }

    #[test]
    fn a_quick_run_leaves_large_sizes_out() {
        let quick = Options { quick: true, ..Options::default() };
        assert_eq!(quick.sizes(&[1_000, 16_000_000]), [1_000]);
        assert_eq!(quick.sizes(&[1_000_000, 16_000_000]), [1_000_000], "at least one");
        let small = Options { largest: 1_000_000, ..Options::default() };
        assert_eq!(small.sizes(&[1_000, 1_000_000, 16_000_000]), [1_000, 1_000_000]);
        assert_eq!(format_count(16_000_000), "16M");
        assert_eq!(format_count(4_096), "4096");
    }
}
