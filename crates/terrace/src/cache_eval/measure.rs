//! Sends traffic through a cache and collects the results.

use super::cache::{Cache, CacheOccupancy};
use super::schedule::Arrival;
use flowcache::SegmentCacheStats;
use interp::{Interp, Outputs};
use serde::Serialize;
use std::time::Instant;

/// Number of time slices of a run.
pub const PIECES: usize = 200;

/// Packets and their arrival times.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Port and bytes of the packets of each flow.
    pub frames: Vec<(u32, Vec<u8>)>,
    /// Packets in order of time.
    pub arrivals: Vec<Arrival>,
    /// Time of the workload change, in nanoseconds.
    pub change: Option<u64>,
}

/// Time slice of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct TimeSlice {
    /// Start time, in seconds.
    pub second: f64,
    /// Packets in the slice.
    pub packets: u64,
    /// Packets that hit the cache.
    pub hits: u64,
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunResult {
    /// Cache statistics at the end.
    pub stats: SegmentCacheStats,
    /// Occupancy of each table at the end.
    pub tables: Vec<CacheOccupancy>,
    /// Traversals that the entries covered at the end.
    pub rule_space: f64,
    /// Memory use at the end, in bytes.
    pub memory: usize,
    /// Duration of the run, in seconds.
    pub seconds: f64,
    /// Hits over time.
    pub series: Vec<TimeSlice>,
    /// Packets compared with the interpreter.
    pub compared: u64,
    /// Compared packets with different outcomes.
    pub different: u64,
    /// The first difference.
    pub difference: Option<String>,
}

/// Interpreter with the same entries, which checks a sample of the packets.
pub struct Reference {
    /// The interpreter.
    pub interp: Interp,
    /// Sampling interval in packets, from 1: one of `every` packets is compared.
    pub every: usize,
}

/// Progress callback, called with the number of processed packets.
pub type Watch<'a> = &'a mut dyn FnMut(usize);

/// Runs all traffic through the cache. Each `every`-th packet runs through the reference too, and
/// the outputs are compared. `watch` is called now and then with the number of packets.
pub fn run_traffic(
    cache: &mut dyn Cache,
    traffic: &Traffic,
    mut reference: Option<&mut Reference>,
    watch: Watch<'_>,
) -> RunResult {
    let began = Instant::now();
    let last_ns = traffic.arrivals.last().map_or(0, |arrival| arrival.at_ns);
    let slice_ns = last_ns / PIECES as u64 + 1;
    let mut measured = RunResult { series: time_slices(slice_ns), ..RunResult::default() };
    let (mut out, mut expected) = (Outputs::new(), Outputs::new());
    let mut hits = cache.stats().hits;
    for (number, arrival) in traffic.arrivals.iter().enumerate() {
        let (port, bytes) = &traffic.frames[arrival.flow as usize];
        cache.process(bytes, *port, arrival.at_ns, &mut out);
        let total_hits = cache.stats().hits;
        let slice = &mut measured.series[(arrival.at_ns / slice_ns) as usize];
        slice.packets += 1;
        slice.hits += total_hits - hits;
        hits = total_hits;
        if let Some(reference) = reference.as_deref_mut().filter(|reference| number % reference.every.max(1) == 0) {
            reference.interp.process_into(bytes, *port, arrival.at_ns, &mut expected);
            measured.compared += 1;
            if expected != out {
                measured.different += 1;
                let text =
                    || format!("packet {number} on port {port}: expected {expected:x?}, the cache gave {out:x?}");
                measured.difference.get_or_insert_with(text);
            }
        }
        if number % 1024 == 0 {
            watch(number);
        }
    }
    measured.stats = cache.stats().clone();
    measured.tables = cache.tables();
    measured.rule_space = cache.rule_space();
    measured.memory = cache.memory();
    measured.seconds = began.elapsed().as_secs_f64();
    measured
}

fn time_slices(length: u64) -> Vec<TimeSlice> {
    let one = |at: usize| TimeSlice { second: (at as u64 * length) as f64 / 1e9, ..TimeSlice::default() };
    (0..PIECES).map(one).collect()
}

/// Returns the hit rate over some time slices; 0 without packets.
pub fn hit_rate(pieces: &[TimeSlice]) -> f64 {
    let (packets, hits) = pieces.iter().fold((0, 0), |sum, piece| (sum.0 + piece.packets, sum.1 + piece.hits));
    if packets == 0 { 0.0 } else { hits as f64 / packets as f64 }
}

/// Effect of a workload change on a cache.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct ChangeImpact {
    /// Time of the change, in seconds.
    pub at: f64,
    /// Hit rate in the second half of the time before the change.
    pub steady: f64,
    /// Smallest hit rate of a time slice after the change.
    pub least: f64,
    /// Hit rate in the second half of the time after the change.
    pub after: f64,
    /// Seconds until a time slice reaches nine tenths of the steady hit rate again. `None`: never.
    pub back: Option<f64>,
}

/// Computes the effect of the change at time `at`, in nanoseconds. Time slices without packets are
/// ignored.
pub fn change_impact(series: &[TimeSlice], at: u64) -> ChangeImpact {
    let at = at as f64 / 1e9;
    let split = series.partition_point(|piece| piece.second < at);
    let (before, after) = series.split_at(split);
    let steady = hit_rate(&before[before.len() / 2..]);
    let busy = || after.iter().filter(|piece| piece.packets > 0);
    let least = busy().map(|piece| hit_rate(std::slice::from_ref(piece))).fold(1.0, f64::min);
    ChangeImpact {
        at,
        steady,
        least,
        after: hit_rate(&after[after.len() / 2..]),
        back: recovery_seconds(series, at, steady),
    }
}

/// Returns the seconds from a change at `at` seconds until a time slice reaches nine tenths of the
/// hit rate `steady`. `None`: never.
pub fn recovery_seconds(series: &[TimeSlice], at: f64, steady: f64) -> Option<f64> {
    let mut after = series.iter().filter(|piece| piece.second >= at && piece.packets > 0);
    let found = after.find(|piece| hit_rate(std::slice::from_ref(piece)) >= 0.9 * steady);
    found.map(|piece| piece.second - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(shares: &[(u64, u64)]) -> Vec<TimeSlice> {
        let one = |(at, (packets, hits)): (usize, &(u64, u64))| TimeSlice {
            second: at as f64,
            packets: *packets,
            hits: *hits,
        };
        shares.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_change_is_over_when_nine_tenths_of_the_steady_share_are_back() {
        let before = [(10, 0), (10, 0), (10, 8), (10, 8)];
        let after = [(10, 1), (0, 0), (10, 5), (10, 8), (10, 2), (10, 8)];
        let found = change_impact(&series(&[&before[..], &after[..]].concat()), 4_000_000_000);
        assert_eq!((found.at, found.steady, found.least), (4.0, 0.8, 0.1));
        assert_eq!(found.back, Some(3.0));
        assert_eq!(found.after, 0.6);
        let never = change_impact(&series(&[&before[..], &[(10, 7); 3][..]].concat()), 4_000_000_000);
        assert_eq!(never.back, None);
    }

    #[test]
    fn no_packets_are_no_hits() {
        assert_eq!(hit_rate(&[]), 0.0);
        assert_eq!(hit_rate(&series(&[(0, 0), (4, 1)])), 0.25);
    }
}
