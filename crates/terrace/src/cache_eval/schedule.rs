//! Arrival times of the packets of each flow.

use super::capture::ArrivalPattern;
use super::flow_sizes::{FlowSizes, cut, round_randomly};
use fastrand::Rng;

/// Arrival of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Time in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Index of the flow.
    pub flow: u32,
}

/// Parameters of the arrival times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Window {
    /// Length of the window in which flows start, in seconds.
    pub seconds: f64,
    /// Average time between two packets of a flow, in seconds.
    pub gap: f64,
    /// Average number of packets of a flow.
    pub mean: f64,
}

const SECOND: f64 = 1e9;

/// Schedules flows that start uniformly in the window, with sizes of a distribution and
/// exponentially distributed gaps. Sizes are truncated so that the average is `window.mean`.
/// Returns the arrivals in order of time.
pub fn from_sizes(flows: usize, sizes: &FlowSizes, window: Window, rng: &mut Rng) -> Vec<Arrival> {
    let cut = sizes.cut(window.mean);
    let mut arrivals = Vec::new();
    for flow in 0..flows as u32 {
        let mut at = rng.f64() * window.seconds;
        for _ in 0..sizes.draw(cut, rng) {
            arrivals.push(Arrival { at_ns: (at * SECOND) as u64, flow });
            at -= (1.0 - rng.f64()).ln() * window.gap;
        }
    }
    arrivals.sort_by_key(|arrival| (arrival.at_ns, arrival.flow));
    arrivals
}

/// Schedules flows with the pattern of captures. Each capture is repeated with new flows, starting
/// at a uniform time in the window, until there are enough flows. Flows keep the times between
/// their packets, and are truncated so that the average size is `window.mean`.
pub fn from_captures(flows: usize, patterns: &[ArrivalPattern], window: Window, rng: &mut Rng) -> Vec<Arrival> {
    let sizes = patterns.iter().flat_map(|pattern| &pattern.flows).map(|times| times.len() as f64).collect();
    let cut = cut(sizes, window.mean);
    let mut arrivals = Vec::new();
    let mut next = 0;
    while next < flows && patterns.iter().any(|pattern| !pattern.flows.is_empty()) {
        for pattern in patterns {
            let begin = (rng.f64() * window.seconds * SECOND) as u64;
            for times in pattern.flows.iter().take(flows - next) {
                let packets = round_randomly((times.len() as f64).min(cut), rng) as usize;
                let one = |at: &u64| Arrival { at_ns: begin.saturating_add(*at), flow: next as u32 };
                arrivals.extend(times.iter().take(packets).map(one));
                next += 1;
            }
        }
    }
    arrivals.sort_by_key(|arrival| (arrival.at_ns, arrival.flow));
    arrivals
}

/// Joins two schedules: `before` up to time `at`, then `after`, shifted to start there. Flow
/// numbers of `after` are increased by `flows`.
pub fn join_schedules(before: Vec<Arrival>, after: Vec<Arrival>, at: u64, flows: u32) -> Vec<Arrival> {
    let later = |arrival: Arrival| Arrival { at_ns: arrival.at_ns.saturating_add(at), flow: arrival.flow + flows };
    before.into_iter().filter(|arrival| arrival.at_ns < at).chain(after.into_iter().map(later)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { seconds: 100.0, gap: 2.0, mean: 2.5 };

    #[test]
    fn arrivals_are_in_order_and_of_the_mean_asked_for() {
        let arrivals = from_sizes(20_000, &FlowSizes::built_in(), WINDOW, &mut Rng::with_seed(1));
        assert!(arrivals.is_sorted_by_key(|arrival| arrival.at_ns));
        let mean = arrivals.len() as f64 / 20_000.0;
        assert!((2.4..2.6).contains(&mean), "{mean}");
        let begun = arrivals.iter().filter(|arrival| arrival.at_ns < 50_000_000_000).count() as f64;
        assert!((0.4..0.55).contains(&(begun / arrivals.len() as f64)));
    }

    #[test]
    fn captures_are_repeated_with_other_flows() {
        let pattern = ArrivalPattern { flows: vec![vec![0, 5, 10], vec![7]] };
        let arrivals = from_captures(5, &[pattern], Window { mean: 9.0, ..WINDOW }, &mut Rng::with_seed(1));
        let count = |flow: u32| arrivals.iter().filter(|arrival| arrival.flow == flow).count();
        assert_eq!((0..6).map(count).collect::<Vec<_>>(), [3, 1, 3, 1, 3, 0]);
        let of = |flow: u32| arrivals.iter().filter(|a| a.flow == flow).map(|a| a.at_ns).collect::<Vec<_>>();
        assert_eq!(of(0)[2] - of(0)[0], 10);
        assert!(from_captures(5, &[], WINDOW, &mut Rng::with_seed(1)).is_empty());
    }

    #[test]
    fn a_change_ends_what_was_before() {
        let one = |at_ns| Arrival { at_ns, flow: 0 };
        let changed = join_schedules(vec![one(1), one(9), one(10)], vec![one(0), one(4)], 10, 3);
        let found: Vec<_> = changed.iter().map(|arrival| (arrival.at_ns, arrival.flow)).collect();
        assert_eq!(found, [(1, 0), (9, 0), (10, 3), (14, 3)]);
    }
}
