//! Sends traffic through a cache, and says what came of it.

use super::cache::{Cache, Fill};
use super::schedule::Arrival;
use flowcache::Stats;
use interp::{Interp, Outputs};
use serde::Serialize;
use std::time::Instant;

/// Pieces that a run's time is cut into.
pub const PIECES: usize = 200;

/// Packets, and when they come.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// For each flow, the port and the bytes of its packets.
    pub frames: Vec<(u32, Vec<u8>)>,
    /// The packets, in the order of time.
    pub arrivals: Vec<Arrival>,
    /// When the workload changes, in nanoseconds.
    pub change: Option<u64>,
}

/// A piece of a run's time.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Piece {
    /// When it begins, in seconds.
    pub second: f64,
    /// Packets in it.
    pub packets: u64,
    /// Of these, served by the cache.
    pub hits: u64,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// The cache's counts in the end.
    pub stats: Stats,
    /// Its tables in the end.
    pub tables: Vec<Fill>,
    /// The traversals that it stood for in the end.
    pub rule_space: f64,
    /// Its memory in the end, in bytes.
    pub memory: usize,
    /// Time that all of it took, in seconds.
    pub seconds: f64,
    /// Hits over time.
    pub series: Vec<Piece>,
    /// Packets whose outcome was compared with the interpreter's.
    pub compared: u64,
    /// Of these, how many differed.
    pub different: u64,
    /// The first of them.
    pub difference: Option<String>,
}

/// An interpreter with the same entries, which says what should become of every so many packets.
pub struct Reference {
    /// The interpreter.
    pub interp: Interp,
    /// Which packets are compared: each one of so many, from 1.
    pub every: usize,
}

/// How far a run is: packets so far.
pub type Watch<'a> = &'a mut dyn FnMut(usize);

/// Runs all traffic.
pub fn run(
    cache: &mut dyn Cache,
    traffic: &Traffic,
    mut reference: Option<&mut Reference>,
    watch: Watch<'_>,
) -> Measured {
    let began = Instant::now();
    let last = traffic.arrivals.last().map_or(0, |arrival| arrival.at);
    let length = last / PIECES as u64 + 1;
    let mut measured = Measured { series: pieces(length), ..Measured::default() };
    let (mut out, mut expected) = (Outputs::new(), Outputs::new());
    let mut hits = cache.stats().hits;
    for (number, arrival) in traffic.arrivals.iter().enumerate() {
        let (port, bytes) = &traffic.frames[arrival.flow as usize];
        cache.process(bytes, *port, arrival.at, &mut out);
        let now = cache.stats().hits;
        let piece = &mut measured.series[(arrival.at / length) as usize];
        piece.packets += 1;
        piece.hits += now - hits;
        hits = now;
        if let Some(reference) = reference.as_deref_mut().filter(|reference| number % reference.every.max(1) == 0) {
            reference.interp.process_into(bytes, *port, arrival.at, &mut expected);
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

fn pieces(length: u64) -> Vec<Piece> {
    let one = |at: usize| Piece { second: (at as u64 * length) as f64 / 1e9, ..Piece::default() };
    (0..PIECES).map(one).collect()
}

/// The share of hits among the packets of some pieces; 0 without packets.
pub fn share(pieces: &[Piece]) -> f64 {
    let (packets, hits) = pieces.iter().fold((0, 0), |sum, piece| (sum.0 + piece.packets, sum.1 + piece.hits));
    if packets == 0 { 0.0 } else { hits as f64 / packets as f64 }
}

/// What a sudden change did to a cache.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Change {
    /// When, in seconds.
    pub at: f64,
    /// The share of hits in the second half of the time before.
    pub steady: f64,
    /// The least share of hits of a piece of time after it.
    pub least: f64,
    /// The share of hits in the second half of the time after.
    pub after: f64,
    /// Seconds until a piece of time has at least nine tenths of the steady share again; `None`: never.
    pub back: Option<f64>,
}

/// What happened at a change. Pieces without packets don't count.
pub fn change(series: &[Piece], at: u64) -> Change {
    let at = at as f64 / 1e9;
    let split = series.partition_point(|piece| piece.second < at);
    let (before, after) = series.split_at(split);
    let steady = share(&before[before.len() / 2..]);
    let busy = || after.iter().filter(|piece| piece.packets > 0);
    let least = busy().map(|piece| share(std::slice::from_ref(piece))).fold(1.0, f64::min);
    Change { at, steady, least, after: share(&after[after.len() / 2..]), back: back(series, at, steady) }
}

/// Seconds from a change at `at` seconds until a piece of time has at least nine tenths of the share `steady`; `None`: never.
pub fn back(series: &[Piece], at: f64, steady: f64) -> Option<f64> {
    let mut after = series.iter().filter(|piece| piece.second >= at && piece.packets > 0);
    let found = after.find(|piece| share(std::slice::from_ref(piece)) >= 0.9 * steady);
    found.map(|piece| piece.second - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(shares: &[(u64, u64)]) -> Vec<Piece> {
        let one =
            |(at, (packets, hits)): (usize, &(u64, u64))| Piece { second: at as f64, packets: *packets, hits: *hits };
        shares.iter().enumerate().map(one).collect()
    }

    #[test]
    fn a_change_is_over_when_nine_tenths_of_the_steady_share_are_back() {
        let before = [(10, 0), (10, 0), (10, 8), (10, 8)];
        let after = [(10, 1), (0, 0), (10, 5), (10, 8), (10, 2), (10, 8)];
        let found = change(&series(&[&before[..], &after[..]].concat()), 4_000_000_000);
        assert_eq!((found.at, found.steady, found.least), (4.0, 0.8, 0.1));
        assert_eq!(found.back, Some(3.0));
        assert_eq!(found.after, 0.6);
        let never = change(&series(&[&before[..], &[(10, 7); 3][..]].concat()), 4_000_000_000);
        assert_eq!(never.back, None);
    }

    #[test]
    fn no_packets_are_no_hits() {
        assert_eq!(share(&[]), 0.0);
        assert_eq!(share(&series(&[(0, 0), (4, 1)])), 0.25);
    }
}
