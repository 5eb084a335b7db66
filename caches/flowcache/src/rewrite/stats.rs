//! [`RewriteStats`]: what became of packets and rewrites.

use super::Unrewritable;
use std::collections::BTreeMap;

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteStats {
    /// Packets that there was no rewrite for.
    pub ran: u64,
    /// Packets that were rewritten here.
    pub rewritten: u64,
    /// Packets of these that native code has rewritten.
    pub by_code: u64,
    /// Packets of these of which nothing was kept, as there was hardly room: their flow had not been seen before, or nobody looked.
    pub passed: u64,
    /// Rewrites that were kept.
    pub kept: u64,
    /// Rewrites that were made by what is known of the packet's way.
    pub by_way: u64,
    /// Packets with a shadow beside them.
    pub shadowed: u64,
    /// Packets of which it is known by their way that there is no rewrite.
    pub refused_by_way: u64,
    /// Rewrites that took the place of one for other lengths.
    pub replaced: u64,
    /// Rewrites that a change of a table made stale.
    pub stale: u64,
    /// Rewrites that went for others.
    pub evicted: u64,
    /// How often all went, as their memory was scattered.
    pub scattered: u64,
    /// Rewrites that had no packets for too long.
    pub expired: u64,
    /// Packets that were refused the slow path.
    pub shed: u64,
    /// Packets whose rewrite would not have been what was done to them: a fault, and the rewrite was not kept.
    pub faults: u64,
    /// Packets of which no rewrite was kept, by reason.
    pub refused: BTreeMap<Unrewritable, u64>,
}

impl RewriteStats {
    /// What another one counted, besides.
    pub fn add(&mut self, other: &RewriteStats) {
        let RewriteStats { ran, rewritten, kept, by_way, shadowed, refused_by_way, replaced, stale, evicted, .. } =
            other;
        let RewriteStats { by_code, passed, scattered, expired, shed, faults, refused, .. } = other;
        for (to, more) in [
            (&mut self.ran, ran),
            (&mut self.rewritten, rewritten),
            (&mut self.by_code, by_code),
            (&mut self.passed, passed),
            (&mut self.kept, kept),
            (&mut self.by_way, by_way),
            (&mut self.shadowed, shadowed),
            (&mut self.refused_by_way, refused_by_way),
            (&mut self.replaced, replaced),
            (&mut self.stale, stale),
            (&mut self.evicted, evicted),
            (&mut self.scattered, scattered),
            (&mut self.expired, expired),
            (&mut self.shed, shed),
            (&mut self.faults, faults),
        ] {
            *to += more;
        }
        refused.iter().for_each(|(why, count)| *self.refused.entry(*why).or_default() += count);
    }

    /// What was done for the one packet that came since `before`, in words.
    pub(super) fn since_of_one(&self, before: &RewriteStats) -> String {
        let more = |count: fn(&RewriteStats) -> u64| count(self) > count(before);
        if more(|stats| stats.rewritten) {
            return "offloaded: there was a rewrite for it".to_owned();
        }
        if more(|stats| stats.shed) {
            return "not in the flow cache, and its tenant has used up its share of the slow path".to_owned();
        }
        let refused = self.refused.iter().find(|(why, count)| before.refused.get(why) != Some(count));
        let kept = match refused {
            Some((why, _)) => format!("not offloaded: {}", why.why()),
            None if more(|stats| stats.passed) => {
                "there is hardly room: it may be kept if more packets of its flow come".to_owned()
            }
            None if more(|stats| stats.kept) => "a rewrite is kept for the next ones".to_owned(),
            None => "a rewrite for it was kept meanwhile".to_owned(),
        };
        format!("not in the flow cache: the slow path decided; {kept}")
    }
}
