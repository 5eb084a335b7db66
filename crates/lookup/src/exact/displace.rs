//! Making room: when both buckets of a new entry are full, an entry of one of them moves to its other bucket, which may first
//! need to move one of its own (cuckoo hashing with buckets: Dietzfelbinger and Weidling, "Balanced allocation and dictionaries with tightly
//! packed constant size bins", 2007). The search is breadth first, so that few entries move and their lines are fetched together. What it
//! finds is a shortest way, so it leads through no bucket twice, and its entries can move one after the other.

use super::bucket::Slot;
use super::{ExactTable, Visit};

/// Buckets that are looked at before giving up. With three slots and 90 % full, some 20 are the rule.
const MAX_VISITS: usize = 1000;
/// Buckets whose entries' other buckets are fetched together.
const TOGETHER: usize = 6;
/// The mark of a bucket at which a search begins.
const ROOT: u16 = u16::MAX;

impl ExactTable {
    /// A free slot in one of two full buckets, after others have moved. `None`: there is none within reach.
    #[cold]
    #[inline(never)]
    pub(super) fn displace(&mut self, first: usize, second: usize) -> Option<Slot> {
        let mut visits = std::mem::take(&mut self.visits);
        visits.clear();
        visits.push(Visit { bucket: first as u32, parent: ROOT, slot: 0, away: 0 });
        visits.push(Visit { bucket: second as u32, parent: ROOT, slot: 0, away: 1 });
        let (mut expanded, mut found) = (0, None);
        while found.is_none() && visits.len() < MAX_VISITS {
            let seen = visits.len();
            let until = seen.min(expanded + TOGETHER);
            for at in expanded..until {
                self.visit_alternatives(&mut visits, at);
            }
            expanded = until;
            let free =
                (seen..visits.len()).filter_map(|at| Some((at, self.buckets.free_slot(visits[at].bucket as usize)?)));
            found = free.min_by_key(|(at, _)| visits[*at].away);
        }
        let free = found.map(|(at, free)| self.move_along(&visits, at, free));
        self.visits = visits;
        free
    }

    /// Adds the other buckets of a full bucket's entries to those to be looked at.
    fn visit_alternatives(&self, visits: &mut Vec<Visit>, at: usize) {
        let Visit { bucket, away, .. } = visits[at];
        let bucket = bucket as usize;
        for slot in 0..self.buckets.geometry.slots {
            let hash = self.buckets.hash(Slot { bucket, slot }, &self.seeds);
            let (first, second) = (self.split.first(hash), self.split.second(hash));
            let (other, away) = if first == bucket { (second, away + 1) } else { (first, away - 1) };
            self.prefetch_bucket(other);
            visits.push(Visit { bucket: other as u32, parent: at as u16, slot: slot as u8, away });
        }
    }

    /// Moves the entries on the way to a free slot, the last one first, and gives the slot that is free then.
    fn move_along(&mut self, visits: &[Visit], mut at: usize, mut free: Slot) -> Slot {
        while visits[at].parent != ROOT {
            let Visit { parent, slot, .. } = visits[at];
            at = usize::from(parent);
            let from = Slot { bucket: visits[at].bucket as usize, slot: usize::from(slot) };
            self.buckets.shift(from, free);
            free = from;
        }
        free
    }
}
