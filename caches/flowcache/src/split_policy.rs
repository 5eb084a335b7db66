//! [`SplitPolicy`]: whether the traversals of a path are stored whole or split into segments.
//!
//! Splitting pays if the segments of a new traversal have occurred in other traversals. Two ghost
//! lists measure this. They store only hashes, up to the capacity of the cache: one of whole
//! traversals, the other of segments. For each traversal of the slow path, the policy counts
//! whether the first list contains the traversal, and whether the second contains all of its
//! segments. A cache of that kind would then have hit. The list with more hits wins, separately for
//! each path. Paths start split, and a path keeps its mode while both lists are about equal.

use std::collections::{HashMap, HashSet, VecDeque};

type HashState = foldhash::fast::RandomState;

/// Traversals of a path after which the counts are halved.
const WINDOW: u32 = 512;
/// Maximum number of distinguished paths.
const MAX_PATHS: usize = 4_096;

/// The most recent hashes, up to `capacity`.
#[derive(Clone, Debug)]
struct GhostList {
    capacity: usize,
    known: HashSet<u64, HashState>,
    order: VecDeque<u64>,
}

impl GhostList {
    fn new(capacity: usize) -> GhostList {
        GhostList { capacity: capacity.max(1), known: HashSet::default(), order: VecDeque::new() }
    }

    /// Inserts the hash. Returns true if the list contained it.
    fn check_and_insert(&mut self, id: u64) -> bool {
        if !self.known.insert(id) {
            return true;
        }
        self.order.push_back(id);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        false
    }
}

/// Ghost list hits of a path.
#[derive(Clone, Copy, Debug)]
struct PathHits {
    traversals: u32,
    /// Traversals that the list of whole traversals contained.
    whole_hits: u32,
    segment_hits: u32,
    is_split: bool,
}

/// Decides for each path whether its traversals are split.
#[derive(Clone, Debug)]
pub struct SplitPolicy {
    whole_ghost: GhostList,
    segment_ghost: GhostList,
    paths: HashMap<u64, PathHits, HashState>,
}

impl SplitPolicy {
    /// Creates the policy of a cache with a total capacity in segments.
    pub fn new(capacity: usize) -> SplitPolicy {
        SplitPolicy {
            whole_ghost: GhostList::new(capacity),
            segment_ghost: GhostList::new(capacity),
            paths: HashMap::default(),
        }
    }

    /// Records a new traversal: hash of its path, its own hash, and the hashes of its segments.
    /// Returns true if the path's traversals are to be split.
    pub fn prefers_split(&mut self, path: u64, traversal: u64, segments: impl Iterator<Item = u64>) -> bool {
        let knows_whole = self.whole_ghost.check_and_insert(traversal);
        // `count` visits every segment, because each must enter the list, also after a miss.
        let knows_segments = segments.filter(|segment| !self.segment_ghost.check_and_insert(*segment)).count() == 0;
        if self.paths.len() >= MAX_PATHS && !self.paths.contains_key(&path) {
            return true;
        }
        let hits = self.paths.entry(path).or_insert(PathHits {
            traversals: 0,
            whole_hits: 0,
            segment_hits: 0,
            is_split: true,
        });
        hits.traversals += 1;
        hits.whole_hits += u32::from(knows_whole);
        hits.segment_hits += u32::from(knows_segments);
        // Differences below one in fifty are noise.
        let margin = 1 + hits.traversals / 50;
        if hits.segment_hits > hits.whole_hits + margin {
            hits.is_split = true;
        } else if hits.whole_hits > hits.segment_hits + margin {
            hits.is_split = false;
        }
        if hits.traversals >= WINDOW {
            (hits.traversals, hits.whole_hits, hits.segment_hits) =
                (hits.traversals / 2, hits.whole_hits / 2, hits.segment_hits / 2);
        }
        hits.is_split
    }
}

#[cfg(test)]
mod tests {
    use super::SplitPolicy;

    /// Simulates traversals of two segments that are drawn from `firsts` and `seconds` values.
    /// Returns how many of the last thousand traversals are split.
    fn cut_of(firsts: u64, seconds: u64, room: usize) -> usize {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut adaptive = SplitPolicy::new(room);
        let mut choices = Vec::new();
        for _ in 0..20_000 {
            let (first, second) = (rng.u64(..firsts), rng.u64(..seconds));
            let pieces = [first, 1 << 40 | second];
            choices.push(adaptive.prefers_split(1, 1 << 50 | first << 20 | second, pieces.into_iter()));
        }
        choices[19_000..].iter().filter(|cut| **cut).count()
    }

    #[test]
    fn pieces_that_come_again_are_cut() {
        assert_eq!(cut_of(100, 100, 1_000), 1_000);
    }

    #[test]
    fn pieces_that_never_come_again_do_not_make_it_whole_without_need() {
        assert_eq!(cut_of(1 << 19, 1 << 19, 1_000), 1_000);
    }

    #[test]
    fn few_whole_ones_of_many_pieces_are_kept_whole() {
        // The traversals repeat and fit the capacity. Their segments take twice the space and do
        // not fit.
        let mut adaptive = SplitPolicy::new(1_500);
        let mut cut = 0;
        for step in 0..20_000u64 {
            let number = step % 1_000;
            let choice = adaptive.prefers_split(1, 1 << 50 | number, [number, 1 << 40 | number].into_iter());
            cut += usize::from(step >= 19_000 && choice);
        }
        assert_eq!(cut, 0);
    }
}
