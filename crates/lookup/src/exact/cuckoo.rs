//! Cuckoo displacement: when both buckets of a new entry are full, an entry of one of them moves to
//! its other bucket, which may first displace one of its own entries (Dietzfelbinger and Weidling,
//! "Balanced allocation and dictionaries with tightly packed constant size bins", 2007).
//!
//! The search is breadth-first, so that few entries move and their lines are prefetched together.
//! It finds a shortest path. Such a path visits no bucket twice, so its entries can move one after
//! the other.

use super::bucket::BucketSlot;
use super::{CuckooPathNode, ExactTable};

/// Maximum number of path nodes before the search gives up. With three slots and 90 % full, about
/// 20 are typical.
const MAX_PATH_NODES: usize = 1000;
/// Number of nodes for which alternative buckets are prefetched together.
const PREFETCH_GROUP: usize = 6;
/// Parent of a node at which the search starts.
const NO_PARENT: u16 = u16::MAX;

impl ExactTable {
    /// Frees a slot in one of two full buckets by moving other entries, in a breadth-first search
    /// for the shortest path to a free slot. Returns the slot that became free, or `None` if no
    /// free slot is within reach. Among equally long paths, that which leaves fewest entries in
    /// second buckets is preferred.
    #[cold]
    #[inline(never)]
    pub(super) fn displace_entry(&mut self, first: usize, second: usize) -> Option<BucketSlot> {
        let mut nodes = std::mem::take(&mut self.cuckoo_nodes);
        nodes.clear();
        nodes.push(CuckooPathNode { bucket: first as u32, parent: NO_PARENT, slot: 0, second_bucket_delta: 0 });
        nodes.push(CuckooPathNode { bucket: second as u32, parent: NO_PARENT, slot: 0, second_bucket_delta: 1 });
        let (mut expanded, mut found) = (0, None);
        while found.is_none() && nodes.len() < MAX_PATH_NODES {
            let node_count = nodes.len();
            let group_end = node_count.min(expanded + PREFETCH_GROUP);
            for index in expanded..group_end {
                self.expand_bucket(&mut nodes, index);
            }
            expanded = group_end;
            let free = (node_count..nodes.len())
                .filter_map(|index| Some((index, self.buckets.free_slot(nodes[index].bucket as usize)?)));
            found = free.min_by_key(|(index, _)| nodes[*index].second_bucket_delta);
        }
        let free = found.map(|(index, free)| self.move_entries_along(&nodes, index, free));
        self.cuckoo_nodes = nodes;
        free
    }

    /// Adds the alternative buckets of a full bucket's entries to the search.
    fn expand_bucket(&self, visits: &mut Vec<CuckooPathNode>, at: usize) {
        let CuckooPathNode { bucket, second_bucket_delta: away, .. } = visits[at];
        let bucket = bucket as usize;
        for slot in 0..self.buckets.layout.slot_count {
            let hash = self.buckets.hash_key_in_slot(BucketSlot { bucket, slot }, &self.seeds);
            let (first, second) = (self.hashing.first_bucket(hash), self.hashing.second_bucket(hash));
            let (other, away) = if first == bucket { (second, away + 1) } else { (first, away - 1) };
            self.prefetch_bucket(other);
            visits.push(CuckooPathNode {
                bucket: other as u32,
                parent: at as u16,
                slot: slot as u8,
                second_bucket_delta: away,
            });
        }
    }

    /// Moves the entries on the path to a free slot, the last one first. Returns the slot that
    /// becomes free.
    fn move_entries_along(&mut self, visits: &[CuckooPathNode], mut at: usize, mut free: BucketSlot) -> BucketSlot {
        while visits[at].parent != NO_PARENT {
            let CuckooPathNode { parent, slot, .. } = visits[at];
            at = usize::from(parent);
            let from = BucketSlot { bucket: visits[at].bucket as usize, slot: usize::from(slot) };
            self.buckets.move_entry(from, free);
            free = from;
        }
        free
    }
}
