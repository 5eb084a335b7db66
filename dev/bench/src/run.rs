//! The harness: entrants take turns for a window each, A B C A B C ..., and each is judged by the median of its windows.
//!
//! Time is the processor time of the thread ([`Clock`]), so that another process on the same core spoils no window; what
//! it does to the caches, it does to all entrants alike, as they take turns. Entrants that work elsewhere (in the kernel, in another process)
//! give the time themselves.

use crate::machine;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is measured, and how thoroughly.
#[derive(Debug, Clone)]
pub struct Options {
    /// Windows for each entrant; at least 5 unless it is a quick run.
    pub windows: usize,
    /// The length of a window.
    pub window: Duration,
    /// A smoke run: fewer windows, no sizes above [`Options::QUICK_LIMIT`]. Its figures mean little.
    pub quick: bool,
    /// The largest size that is looked at: entries, VMs, flows.
    pub largest: usize,
    /// Parts to run; empty: all.
    pub only: Vec<String>,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Options {
        let window = Duration::from_millis(300);
        Options { windows: 5, window, quick: false, largest: usize::MAX, only: Vec::new(), seed: 1 }
    }
}

impl Options {
    /// The largest size of a quick run.
    pub const QUICK_LIMIT: usize = 100_000;

    /// Those of `sizes` that this run looks at; always at least the smallest.
    pub fn sizes(&self, sizes: &[usize]) -> Vec<usize> {
        let largest = if self.quick { self.largest.min(Options::QUICK_LIMIT) } else { self.largest };
        let wanted = |&&size: &&usize| size <= largest;
        let kept: Vec<usize> = sizes.iter().filter(wanted).copied().collect();
        if kept.is_empty() { sizes.iter().min().copied().into_iter().collect() } else { kept }
    }

    /// Whether a part is to be run.
    pub fn wants(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

/// What an entrant did when it was called once.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Work {
    /// Lookups, packets, inserts.
    pub operations: u64,
    /// The time that it took, if the thread's processor time is not the measure.
    pub took: Option<Duration>,
}

/// So many operations, in the thread's own time.
impl From<u64> for Work {
    fn from(operations: u64) -> Work {
        Work { operations, took: None }
    }
}

/// In which unit a rate is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Millions of lookups (inserts, deletes) a second.
    MillionsPerSecond,
    /// Millions of packets a second.
    Mpps,
    /// Gigabits a second; an operation is a bit.
    Gbps,
}

impl Unit {
    fn scale(self) -> f64 {
        match self {
            Unit::MillionsPerSecond | Unit::Mpps => 1e6,
            Unit::Gbps => 1e9,
        }
    }

    /// As it stands in tables.
    pub fn name(self) -> &'static str {
        match self {
            Unit::MillionsPerSecond => "M/s",
            Unit::Mpps => "Mpps",
            Unit::Gbps => "Gbit/s",
        }
    }
}

/// The processor time of this thread.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Duration);

impl Clock {
    /// Starts.
    pub fn start() -> Clock {
        Clock(machine::thread_time())
    }

    /// Since the start.
    pub fn elapsed(&self) -> Duration {
        machine::thread_time().saturating_sub(self.0)
    }
}

type Step<'a> = Box<dyn FnMut() -> Work + 'a>;

/// Entrants that do the same work on the same data.
pub struct Contest<'a> {
    chart: String,
    axis: String,
    x: String,
    unit: Unit,
    entrants: Vec<(String, Step<'a>)>,
}

impl<'a> Contest<'a> {
    /// A contest that is one point `x` (of the axis `axis`) in the chart `chart`. Contests with the same chart are drawn together.
    pub fn new(chart: &str, axis: &str, x: impl Into<String>, unit: Unit) -> Contest<'a> {
        Contest { chart: chart.to_owned(), axis: axis.to_owned(), x: x.into(), unit, entrants: Vec::new() }
    }

    /// Adds an entrant. `step` does a piece of work (some milliseconds at most; at least 10 us, so that looking at the clock costs
    /// nothing) and says how much it was.
    pub fn entrant<W: Into<Work>>(&mut self, name: &str, mut step: impl FnMut() -> W + 'a) -> &mut Contest<'a> {
        self.entrants.push((name.to_owned(), Box::new(move || step().into())));
        self
    }

    /// Runs all entrants in turn: first a window that does not count, to warm up, then [`Options::windows`] each.
    pub fn run(mut self, options: &Options) -> Outcome {
        let mut entries: Vec<Entry> =
            self.entrants.iter().map(|(name, _)| Entry { name: name.clone(), windows: Vec::new() }).collect();
        for window in 0..=options.windows.max(1) {
            for ((_, step), entry) in self.entrants.iter_mut().zip(&mut entries) {
                let length = if window == 0 { options.window / 3 } else { options.window };
                let rate = measure(step, length) / self.unit.scale();
                if window > 0 {
                    entry.windows.push(rate);
                }
            }
        }
        let outcome = Outcome { chart: self.chart, axis: self.axis, x: self.x, unit: self.unit, entries };
        eprintln!("{}", outcome.line());
        outcome
    }
}

/// Operations a second over one window.
fn measure(step: &mut Step<'_>, length: Duration) -> f64 {
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
        // An entrant that does next to nothing a step must not run for ever.
        let elapsed = if own_time { own } else { clock.elapsed() };
        if elapsed >= length || (own_time && steps >= 100_000) {
            return operations as f64 / elapsed.as_secs_f64().max(1e-9);
        }
    }
}

/// What one entrant reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// The rate in each window, in the contest's unit.
    pub windows: Vec<f64>,
}

impl Entry {
    /// The median; 0 without windows.
    pub fn median(&self) -> f64 {
        let mut sorted = self.windows.clone();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }

    /// The slowest window.
    pub fn min(&self) -> f64 {
        self.windows.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// The fastest window.
    pub fn max(&self) -> f64 {
        self.windows.iter().copied().reduce(f64::max).unwrap_or(0.0)
    }
}

/// The result of a contest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The chart that it belongs to.
    pub chart: String,
    /// What varies within the chart.
    pub axis: String,
    /// The point on the axis.
    pub x: String,
    /// Of all rates.
    pub unit: Unit,
    /// In order of entry.
    pub entries: Vec<Entry>,
}

impl Outcome {
    /// The entry of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// One line, for progress.
    fn line(&self) -> String {
        let each = self.entries.iter().map(|e| format!("{} {:.2}", e.name, e.median()));
        let each: Vec<String> = each.collect();
        format!("{} [{}]: {} {}", self.chart, self.x, each.join(", "), self.unit.name())
    }
}

/// A count as people write it: `1`, `10k`, `16M`.
pub fn count(n: usize) -> String {
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
        let mut contest = Contest::new("chart", "axis", "1k", Unit::MillionsPerSecond);
        let took = Some(Duration::from_millis(10));
        contest.entrant("slow", || {
            order.borrow_mut().push('s');
            Work { operations: 10_000, took }
        });
        contest.entrant("fast", || {
            order.borrow_mut().push('f');
            Work { operations: 20_000, took }
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
        let entry = |windows: &[f64]| Entry { name: String::new(), windows: windows.to_vec() };
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
        assert_eq!(count(16_000_000), "16M");
        assert_eq!(count(4_096), "4096");
    }
}
