//! What a cache counts.

use crate::segment::Uncacheable;
use std::collections::BTreeMap;

/// Counts since the cache was made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Packets that came to the main control.
    pub packets: u64,
    /// Those for which all was in the cache.
    pub hits: u64,
    /// Those for which the slow path decided something.
    pub misses: u64,
    /// Of the misses, those for which the cache had the first part.
    pub partial: u64,
    /// Packets that left the cache in the middle of a segment, as a meter's colour was another one.
    pub left: u64,
    /// Packets that found segments in a second pass through the tables ([`crate::Kind::passes`]).
    pub passed_again: u64,
    /// Segments that were looked for.
    pub lookups: u64,
    /// Segments that were made anew.
    pub inserted: u64,
    /// Segments that were wanted and were there already.
    pub shared: u64,
    /// Segments that had to go for others.
    pub evicted: u64,
    /// Segments that were idle for their time.
    pub expired: u64,
    /// Segments that a change of a table made stale.
    pub stale: u64,
    /// Segments that were not kept as there were too many masks, or too few tables.
    pub rejected: u64,
    /// Traversals that were cut into segments, and those that were kept whole, by the adaptive cache's choice.
    pub cut: u64,
    /// See above.
    pub whole: u64,
    /// Traversals that were cut by what was measured ([`crate::sharing`]).
    pub measured: u64,
    /// Nanoseconds spent on making, cutting and keeping traversals.
    pub partition_ns: u64,
    /// Packets that were not let into the slow path, as their tenant had used up its share.
    pub shed: u64,
    /// Stretches that can't be kept, by reason.
    pub uncacheable: BTreeMap<Uncacheable, u64>,
}

impl Stats {
    /// What was done for the one packet that came since `before`, in words.
    pub(crate) fn since_of_one(&self, before: &Stats) -> String {
        let more = |count: fn(&Stats) -> u64| count(self) - count(before);
        let kept = match (more(|stats| stats.inserted), more(|stats| stats.shared)) {
            (0, 0) => String::new(),
            (0, shared) => format!("; {shared} pieces of its way were kept already"),
            (inserted, _) => format!("; {inserted} pieces of its way are kept for the next ones"),
        };
        let refused = |(reason, count): (&Uncacheable, &u64)| {
            (before.uncacheable.get(reason) != Some(count)).then(|| format!("; not offloaded: {}", reason.why()))
        };
        let refused: String = self.uncacheable.iter().filter_map(refused).collect();
        let rejected =
            if more(|stats| stats.rejected) > 0 { "; not kept: too many masks, or too few tables" } else { "" };
        let what = match () {
            _ if more(|stats| stats.packets) == 0 => "the flow cache was not asked: the parser decided",
            _ if more(|stats| stats.shed) > 0 => {
                "not in the flow cache, and its tenant has used up its share of the slow path"
            }
            _ if more(|stats| stats.hits) > 0 => "offloaded: the flow cache had all of its way",
            _ if more(|stats| stats.partial) > 0 => {
                "the flow cache had the first part of its way, the slow path decided the rest"
            }
            _ => "not in the flow cache: the slow path decided",
        };
        format!("{what}{kept}{refused}{rejected}")
    }

    /// Share of packets that hit, from 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.hits as f64 / self.packets as f64 }
    }
}
