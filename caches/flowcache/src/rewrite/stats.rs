//! [`RewriteStats`]: statistics of a rewrite cache.

use super::NotRewritable;
use std::collections::BTreeMap;

/// Statistics of a rewrite cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteStats {
    /// Packets that missed and ran on the engine.
    pub slow_path_packets: u64,
    /// Packets that the cache rewrote.
    pub rewritten: u64,
    /// Rewritten packets that native code rewrote.
    pub by_native_code: u64,
    /// Missed packets that were not considered for insertion, because the cache was nearly full.
    pub not_inserted: u64,
    /// Rewrites inserted.
    pub inserted: u64,
    /// Rewrites built from a path's template.
    pub from_template: u64,
    /// Packets that ran under symbolic execution.
    pub symbolic_runs: u64,
    /// Packets of paths that are known to have no rewrite.
    pub refused_by_path: u64,
    /// Rewrites that replaced one of the same key for other packet lengths.
    pub replaced: u64,
    /// Rewrites invalidated by table changes.
    pub stale: u64,
    /// Rewrites evicted for space.
    pub evicted: u64,
    /// Full flushes, because row memory was fragmented.
    pub fragmentation_flushes: u64,
    /// Rewrites expired.
    pub expired: u64,
    /// Packets refused the slow path.
    pub refused_admission: u64,
    /// Rewrites that did not reproduce the engine's result: a bug. They were not inserted.
    pub faults: u64,
    /// Packets without a rewrite, by reason.
    pub refused: BTreeMap<NotRewritable, u64>,
}

impl RewriteStats {
    /// Adds the counts of another cache.
    pub fn add(&mut self, other: &RewriteStats) {
        let RewriteStats {
            slow_path_packets,
            rewritten,
            inserted,
            from_template,
            symbolic_runs,
            refused_by_path,
            replaced,
            stale,
            evicted,
            ..
        } = other;
        let RewriteStats {
            by_native_code,
            not_inserted,
            fragmentation_flushes,
            expired,
            refused_admission,
            faults,
            refused,
            ..
        } = other;
        for (to, more) in [
            (&mut self.slow_path_packets, slow_path_packets),
            (&mut self.rewritten, rewritten),
            (&mut self.by_native_code, by_native_code),
            (&mut self.not_inserted, not_inserted),
            (&mut self.inserted, inserted),
            (&mut self.from_template, from_template),
            (&mut self.symbolic_runs, symbolic_runs),
            (&mut self.refused_by_path, refused_by_path),
            (&mut self.replaced, replaced),
            (&mut self.stale, stale),
            (&mut self.evicted, evicted),
            (&mut self.fragmentation_flushes, fragmentation_flushes),
            (&mut self.expired, expired),
            (&mut self.refused_admission, refused_admission),
            (&mut self.faults, faults),
        ] {
            *to += more;
        }
        refused.iter().for_each(|(why, count)| *self.refused.entry(*why).or_default() += count);
    }

    /// Describes the treatment of the one packet that was processed since `before`.
    pub(super) fn describe_packet_since(&self, before: &RewriteStats) -> String {
        let has_grown = |count: fn(&RewriteStats) -> u64| count(self) > count(before);
        if has_grown(|stats| stats.rewritten) {
            return "offloaded: a cached rewrite was applied".to_owned();
        }
        if has_grown(|stats| stats.refused_admission) {
            return "not in the flow cache, and its tenant has used up its share of the slow path".to_owned();
        }
        let refused = self.refused.iter().find(|(why, count)| before.refused.get(why) != Some(count));
        let caching = match refused {
            Some((why, _)) => format!("not offloaded: {}", why.description()),
            None if has_grown(|stats| stats.not_inserted) => {
                "the cache is nearly full: its flow is cached if more of its packets arrive".to_owned()
            }
            None if has_grown(|stats| stats.inserted) => "its rewrite is cached for the next packets".to_owned(),
            None => "a rewrite for it was cached in the meantime".to_owned(),
        };
        format!("not in the flow cache: the slow path decided; {caching}")
    }
}
