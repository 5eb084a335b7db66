//! Statistics of a segment cache.

use crate::segment::Uncacheable;
use std::collections::BTreeMap;

/// Counts since the cache was created.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SegmentCacheStats {
    /// Packets that reached the main control.
    pub packets: u64,
    /// Packets that the cache handled completely.
    pub hits: u64,
    /// Packets that took the slow path.
    pub misses: u64,
    /// Misses for which the cache had the first segments.
    pub partial: u64,
    /// Packets that left the cache inside a segment, because a live result (such as a meter's
    /// color) differed.
    pub diverged: u64,
    /// Packets that matched segments in a second pass through the tables
    /// ([`crate::SegmentCacheKind::max_passes`]).
    pub second_passes: u64,
    /// Lookups of segments.
    pub lookups: u64,
    /// Segments inserted.
    pub inserted: u64,
    /// Segments that were to be inserted and existed already.
    pub shared: u64,
    /// Segments evicted for space.
    pub evicted: u64,
    /// Segments expired.
    pub expired: u64,
    /// Segments invalidated by table changes.
    pub stale: u64,
    /// Segments that were not stored, because of too many masks or too few tables.
    pub rejected: u64,
    /// Traversals that the adaptive cache split into segments.
    pub split_traversals: u64,
    /// Traversals that the adaptive cache stored whole.
    pub whole_traversals: u64,
    /// Traversals that were split by samples ([`crate::split_estimator`]).
    pub split_by_samples: u64,
    /// Nanoseconds spent on building, splitting and storing traversals.
    pub split_ns: u64,
    /// Packets that were refused the slow path, because their tenant had used up its share.
    pub refused: u64,
    /// Parts of traversals that cannot be cached, by reason.
    pub uncacheable: BTreeMap<Uncacheable, u64>,
}

impl SegmentCacheStats {
    /// Describes the treatment of the one packet that was processed since `before`.
    pub(crate) fn describe_packet_since(&self, before: &SegmentCacheStats) -> String {
        let increase = |count: fn(&SegmentCacheStats) -> u64| count(self) - count(before);
        let caching = match (increase(|stats| stats.inserted), increase(|stats| stats.shared)) {
            (0, 0) => String::new(),
            (0, shared) => format!("; {shared} segments of its path were cached already"),
            (inserted, _) => format!("; {inserted} segments of its path were cached"),
        };
        let refused = |(reason, count): (&Uncacheable, &u64)| {
            (before.uncacheable.get(reason) != Some(count))
                .then(|| format!("; not offloaded: {}", reason.description()))
        };
        let refused: String = self.uncacheable.iter().filter_map(refused).collect();
        let rejected =
            if increase(|stats| stats.rejected) > 0 { "; not cached: too many masks, or too few tables" } else { "" };
        let treatment = match () {
            _ if increase(|stats| stats.packets) == 0 => "the flow cache was not used: the parser decided",
            _ if increase(|stats| stats.refused) > 0 => {
                "not in the flow cache, and its tenant has used up its share of the slow path"
            }
            _ if increase(|stats| stats.hits) > 0 => "offloaded: the flow cache handled its whole path",
            _ if increase(|stats| stats.partial) > 0 => {
                "the flow cache handled the first part of its path, the slow path the rest"
            }
            _ => "not in the flow cache: the slow path decided",
        };
        format!("{treatment}{caching}{refused}{rejected}")
    }

    /// Returns the share of packets that hit, from 0 to 1.
    pub fn hit_rate(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { self.hits as f64 / self.packets as f64 }
    }
}
