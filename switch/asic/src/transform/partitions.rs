//! Prefixes in partitions of bounded size, selected by pivots: the control plane of ALPM.
//!
//! A *pivot* is a prefix. Its own entries are those that it covers and no longer pivot covers. Each
//! pivot maps to a *partition*. Several pivots can map to one partition, which fills partitions
//! well. A lookup takes the longest pivot that covers the key, and then the longest prefix in that
//! pivot's partition.
//!
//! # Correctness
//! A pivot's partition contains the pivot's own entries and its *cover*, the longest entry that is
//! shorter than the pivot and covers it. The longest match of a key under the pivot is an own entry
//! or the cover. All other entries in the partition belong to the table as well, so they are never
//! longer matches. A partition therefore needs no default, and one copy of a cover serves all
//! pivots of a partition.
//!
//! # Updates
//! An insert that overfills a partition moves a pivot with its entries to a partition with free
//! capacity. If the partition has only one pivot, the pivot's entries are split, because some
//! prefix below a pivot covers between one and two thirds of its own entries. A delete that leaves
//! a pivot few entries merges them into the pivot above. Other partitions change only in copies of
//! covers.

use super::prefix::KeyPrefix;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

/// Limits of the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLimits {
    /// Number of partitions, at least 1.
    pub partitions: u32,
    /// Entries per partition, at least 8.
    pub depth: u32,
    /// Own entries at which a pivot is cut when all entries are placed, at most `depth - 1`. Small
    /// values fill partitions better but take more pivots.
    pub target: u32,
    /// Maximum number of pivots, including the one that covers everything.
    pub pivots: u32,
}

/// Write to the pivot table or the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionWrite {
    /// Insert an entry into a partition.
    Insert(u32, KeyPrefix),
    /// Remove an entry from a partition.
    Remove(u32, KeyPrefix),
    /// Add a pivot that maps to a partition.
    AddPivot(u32, KeyPrefix),
    /// Map a pivot to another partition.
    MovePivot(u32, KeyPrefix),
    /// Remove a pivot.
    RemovePivot(KeyPrefix),
}

/// Exhausted limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitionsFull {
    /// All partitions are full.
    #[error("its partitions are full")]
    Partitions,
    /// The maximum number of pivots is reached.
    #[error("its table of pivots is full")]
    Pivots,
}

#[derive(Clone, Copy, Debug)]
struct PivotState {
    partition: u32,
    /// Number of own entries.
    own_count: u32,
    cover: Option<KeyPrefix>,
}

/// Partition of a pivot that is not yet assigned.
const NO_PARTITION: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
struct Partition {
    /// Entries in order, each with a reference count: own entry, or cover of a pivot.
    entries: Vec<(KeyPrefix, u32)>,
    /// Pivots that map to this partition.
    pivots: SmallVec<[KeyPrefix; 2]>,
}

/// Inverse of a change.
enum UndoStep<V> {
    Entry(KeyPrefix, Option<V>),
    Pivot(KeyPrefix, Option<PivotState>),
    Held(u32, KeyPrefix, u32),
    Pivots(u32, SmallVec<[KeyPrefix; 2]>),
}

/// Entries in partitions.
pub struct Partitions<V> {
    shape: PartitionLimits,
    entries: BTreeMap<KeyPrefix, V>,
    pivots: BTreeMap<KeyPrefix, PivotState>,
    partitions: Vec<Partition>,
    /// Partitions by number of entries, including empty ones.
    by_load: BTreeSet<(u32, u32)>,
    undo: Vec<UndoStep<V>>,
}

/// Returns the longest key of the map that covers `prefix` and is no longer than `most`.
fn longest_covering<T>(map: &BTreeMap<KeyPrefix, T>, prefix: &KeyPrefix, most: u32) -> Option<KeyPrefix> {
    let mut at = prefix.truncate(most);
    loop {
        let (before, _) = map.range(..=at).next_back()?;
        if before.covers(&at) {
            return Some(*before);
        }
        // Every earlier key that covers `at` also covers their common prefix.
        at = before.common_prefix(&at);
    }
}

impl<V: Clone> Partitions<V> {
    /// Creates empty partitions with the pivot that covers everything.
    pub fn new(shape: PartitionLimits) -> Partitions<V> {
        let shape = PartitionLimits {
            partitions: shape.partitions.max(1),
            depth: shape.depth.max(8),
            target: shape.target.clamp(2, shape.depth.max(8) - 1),
            pivots: shape.pivots.max(1),
        };
        let mut made = Partitions {
            shape,
            entries: BTreeMap::new(),
            pivots: BTreeMap::new(),
            partitions: vec![Partition::default(); shape.partitions as usize],
            by_load: (0..shape.partitions).map(|at| (0, at)).collect(),
            undo: Vec::new(),
        };
        made.set_pivot(KeyPrefix::ALL, Some(PivotState { partition: 0, own_count: 0, cover: None }));
        made.begin_batch();
        made
    }

    /// Commits all earlier changes and starts recording new ones.
    pub fn begin_batch(&mut self) {
        self.undo.clear();
    }

    /// Undoes all changes since [`Partitions::begin_batch`].
    pub fn undo_batch(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                UndoStep::Entry(prefix, Some(value)) => drop(self.entries.insert(prefix, value)),
                UndoStep::Entry(prefix, None) => drop(self.entries.remove(&prefix)),
                UndoStep::Pivot(prefix, Some(pivot)) => drop(self.pivots.insert(prefix, pivot)),
                UndoStep::Pivot(prefix, None) => drop(self.pivots.remove(&prefix)),
                UndoStep::Held(partition, prefix, count) => drop(self.set_hold_count(partition, prefix, count)),
                UndoStep::Pivots(partition, pivots) => self.partitions[partition as usize].pivots = pivots,
            }
        }
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value of an entry.
    pub fn get(&self, prefix: &KeyPrefix) -> Option<&V> {
        self.entries.get(prefix)
    }

    /// Returns the number of pivots, including the one that covers everything.
    pub fn pivot_count(&self) -> usize {
        self.pivots.len()
    }

    /// Returns the number of non-empty partitions.
    pub fn used_partitions(&self) -> usize {
        self.partitions.iter().filter(|partition| !partition.entries.is_empty()).count()
    }

    /// Returns the number of entries in the partitions, including copies.
    pub fn stored_entries(&self) -> usize {
        self.partitions.iter().map(|partition| partition.entries.len()).sum()
    }

    /// Returns the number of entries in the fullest partition.
    pub fn max_partition_entries(&self) -> usize {
        self.by_load.last().map_or(0, |(load, _)| *load as usize)
    }

    /// Looks up the longest entry that covers a key, by pivot and partition, like the chip.
    pub fn lookup(&self, key: &KeyPrefix) -> Option<(KeyPrefix, &V)> {
        let pivot = longest_covering(&self.pivots, key, key.len())?;
        let held = &self.partitions[self.pivots[&pivot].partition as usize].entries;
        let best = held.iter().filter(|(prefix, _)| prefix.covers(key)).max_by_key(|(prefix, _)| prefix.len())?;
        Some((best.0, self.entries.get(&best.0)?))
    }

    /// Returns the partitions that contain an entry, without duplicates.
    pub fn partitions_holding(&self, prefix: &KeyPrefix) -> Vec<u32> {
        let below = self.pivots.range(*prefix..=prefix.last_key()).map(|(_, pivot)| pivot);
        let below = below.filter(|pivot| pivot.cover == Some(*prefix)).map(|pivot| pivot.partition);
        let mut found: Vec<u32> =
            self.owning_pivot(prefix).map(|pivot| self.pivots[&pivot].partition).into_iter().collect();
        found.extend(below);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Replaces the value of an entry.
    pub fn replace(&mut self, prefix: KeyPrefix, value: V) {
        let old = self.entries.insert(prefix, value);
        self.undo.push(UndoStep::Entry(prefix, old));
    }

    /// Inserts a new entry and appends the resulting writes. After an error the caller must undo
    /// the batch.
    ///
    /// # Errors
    /// [`PartitionsFull`]: the partitions or the pivot table are full.
    pub fn insert(&mut self, prefix: KeyPrefix, value: V, out: &mut Vec<PartitionWrite>) -> Result<(), PartitionsFull> {
        self.replace(prefix, value);
        let owner = self.owning_pivot(&prefix).unwrap_or(KeyPrefix::ALL);
        let pivot = self.pivots[&owner];
        self.set_pivot(owner, Some(PivotState { own_count: pivot.own_count + 1, ..pivot }));
        let mut touched: SmallVec<[u32; 4]> = SmallVec::from_slice(&[pivot.partition]);
        self.add_to_partition(pivot.partition, prefix, out);
        for (below, pivot) in self.longer_pivots(&prefix) {
            if pivot.cover.is_none_or(|cover| cover.len() < prefix.len()) {
                self.set_cover(below, pivot, Some(prefix), out);
                touched.push(pivot.partition);
            }
        }
        touched.into_iter().try_for_each(|partition| self.relieve_partition(partition, out))
    }

    /// Deletes an existing entry and appends the resulting writes. After an error the caller must
    /// undo the batch.
    ///
    /// # Errors
    /// [`PartitionsFull`]: no capacity for a copy of the new cover.
    pub fn delete(&mut self, prefix: KeyPrefix, out: &mut Vec<PartitionWrite>) -> Result<(), PartitionsFull> {
        let Some(old) = self.entries.remove(&prefix) else { return Ok(()) };
        self.undo.push(UndoStep::Entry(prefix, Some(old)));
        let owner = self.owning_pivot(&prefix).unwrap_or(KeyPrefix::ALL);
        let pivot = self.pivots[&owner];
        self.set_pivot(owner, Some(PivotState { own_count: pivot.own_count.saturating_sub(1), ..pivot }));
        self.remove_from_partition(pivot.partition, prefix, out);
        // Pivots below the prefix had a copy of it as their cover; the next shorter entry replaces
        // it.
        let new_cover = self.cover_of(&prefix);
        let mut touched: SmallVec<[u32; 4]> = SmallVec::new();
        for (lower_pivot, pivot) in self.longer_pivots(&prefix) {
            if pivot.cover == Some(prefix) {
                self.set_cover(lower_pivot, pivot, new_cover, out);
                touched.push(pivot.partition);
            }
        }
        for partition in touched {
            self.relieve_partition(partition, out)?;
        }
        self.merge_pivot(owner, out);
        Ok(())
    }

    fn owning_pivot(&self, prefix: &KeyPrefix) -> Option<KeyPrefix> {
        longest_covering(&self.pivots, prefix, prefix.len())
    }

    /// Returns the longest entry that is shorter than the prefix and covers it.
    fn cover_of(&self, prefix: &KeyPrefix) -> Option<KeyPrefix> {
        longest_covering(&self.entries, prefix, prefix.len().checked_sub(1)?)
    }

    /// Returns the longer pivots that the prefix covers.
    fn longer_pivots(&self, prefix: &KeyPrefix) -> Vec<(KeyPrefix, PivotState)> {
        let longer = self.pivots.range(*prefix..=prefix.last_key()).filter(|(pivot, _)| pivot.len() > prefix.len());
        longer.map(|(prefix, pivot)| (*prefix, *pivot)).collect()
    }

    /// Returns the pivot's own entries, in order.
    fn own_entries(&self, pivot: &KeyPrefix) -> Vec<KeyPrefix> {
        let mut out = Vec::new();
        let (mut from, last) = (Included(*pivot), pivot.last_key());
        loop {
            // Skips the ranges of longer pivots.
            let below =
                self.pivots.range((from, Included(last))).map(|(prefix, _)| *prefix).find(|prefix| prefix != pivot);
            let to = below.map_or(Included(last), Excluded);
            out.extend(self.entries.range((from, to)).map(|(prefix, _)| *prefix));
            match below {
                Some(below) => from = Excluded(below.last_key()),
                None => return out,
            }
        }
    }

    /// Sets or removes a pivot, records the undo step and keeps the list of pivots of each
    /// partition.
    fn set_pivot(&mut self, prefix: KeyPrefix, pivot: Option<PivotState>) {
        let old = match pivot {
            Some(pivot) => self.pivots.insert(prefix, pivot),
            None => self.pivots.remove(&prefix),
        };
        let partition_of = |pivot: Option<PivotState>| {
            pivot.map(|pivot| pivot.partition).filter(|partition| *partition != NO_PARTITION)
        };
        let (old_partition, new_partition) = (partition_of(old), partition_of(pivot));
        if old_partition != new_partition {
            for (partition, is_added) in [(old_partition, false), (new_partition, true)] {
                let Some(partition) = partition else { continue };
                let pivots = &mut self.partitions[partition as usize].pivots;
                self.undo.push(UndoStep::Pivots(partition, pivots.clone()));
                pivots.retain(|pivot| *pivot != prefix);
                if is_added {
                    pivots.push(prefix);
                }
            }
        }
        self.undo.push(UndoStep::Pivot(prefix, old));
    }

    /// Sets the reference count of an entry in a partition. Returns the old count.
    fn set_hold_count(&mut self, partition: u32, prefix: KeyPrefix, count: u32) -> u32 {
        let held = &mut self.partitions[partition as usize].entries;
        let before = held.len() as u32;
        let old = match (held.binary_search_by(|(there, _)| there.cmp(&prefix)), count) {
            (Ok(at), 0) => held.remove(at).1,
            (Ok(at), _) => std::mem::replace(&mut held[at].1, count),
            (Err(_), 0) => 0,
            (Err(at), _) => {
                held.insert(at, (prefix, count));
                0
            }
        };
        let after = held.len() as u32;
        if before != after {
            self.by_load.remove(&(before, partition));
            self.by_load.insert((after, partition));
        }
        old
    }

    fn hold_count(&self, partition: u32, prefix: &KeyPrefix) -> u32 {
        let held = &self.partitions[partition as usize].entries;
        held.binary_search_by(|(there, _)| there.cmp(prefix)).map_or(0, |at| held[at].1)
    }

    fn add_to_partition(&mut self, partition: u32, prefix: KeyPrefix, out: &mut Vec<PartitionWrite>) {
        let old = self.hold_count(partition, &prefix);
        self.set_hold_count(partition, prefix, old + 1);
        self.undo.push(UndoStep::Held(partition, prefix, old));
        if old == 0 {
            out.push(PartitionWrite::Insert(partition, prefix));
        }
    }

    fn remove_from_partition(&mut self, partition: u32, prefix: KeyPrefix, out: &mut Vec<PartitionWrite>) {
        let old = self.hold_count(partition, &prefix);
        self.set_hold_count(partition, prefix, old.saturating_sub(1));
        self.undo.push(UndoStep::Held(partition, prefix, old));
        if old == 1 {
            out.push(PartitionWrite::Remove(partition, prefix));
        }
    }

    /// Replaces the cover of a pivot.
    fn set_cover(
        &mut self,
        prefix: KeyPrefix,
        pivot: PivotState,
        cover: Option<KeyPrefix>,
        out: &mut Vec<PartitionWrite>,
    ) {
        if let Some(old) = pivot.cover {
            self.remove_from_partition(pivot.partition, old, out);
        }
        if let Some(new) = cover {
            self.add_to_partition(pivot.partition, new, out);
        }
        self.set_pivot(prefix, Some(PivotState { cover, ..pivot }));
    }

    fn partition_load(&self, partition: u32) -> u32 {
        self.partitions[partition as usize].entries.len() as u32
    }

    /// Returns the fullest partition other than `not` with capacity for `entries` more entries.
    fn fullest_with_capacity(&self, entries: u32, not: u32) -> Result<u32, PartitionsFull> {
        let most = self.shape.depth.checked_sub(entries).ok_or(PartitionsFull::Partitions)?;
        let mut fitting = self.by_load.range(..=(most, u32::MAX)).rev();
        fitting.find(|(_, at)| *at != not).map(|(_, at)| *at).ok_or(PartitionsFull::Partitions)
    }

    /// Moves entries out of a partition until it is within its limit.
    fn relieve_partition(&mut self, partition: u32, out: &mut Vec<PartitionWrite>) -> Result<(), PartitionsFull> {
        while self.partition_load(partition) > self.shape.depth {
            let pivots = &self.partitions[partition as usize].pivots;
            let own = |prefix: &KeyPrefix| (self.pivots[prefix].own_count, *prefix);
            // The pivot that covers everything stays because it is the default of the pivot table.
            let smallest =
                pivots.iter().filter(|prefix| !prefix.is_empty()).map(own).min().filter(|_| pivots.len() > 1);
            let shifted =
                smallest.and_then(|(own, prefix)| Some((prefix, self.fullest_with_capacity(own + 1, partition).ok()?)));
            match shifted {
                Some((prefix, to)) => self.move_pivot(prefix, to, out),
                None => {
                    let (_, largest) = pivots.iter().map(own).max().ok_or(PartitionsFull::Partitions)?;
                    self.split_pivot(largest, out)?;
                }
            }
        }
        Ok(())
    }

    /// Moves a pivot with its entries to another partition.
    fn move_pivot(&mut self, prefix: KeyPrefix, to: u32, out: &mut Vec<PartitionWrite>) {
        let pivot = self.pivots[&prefix];
        for entry in self.own_entries(&prefix).into_iter().chain(pivot.cover) {
            self.remove_from_partition(pivot.partition, entry, out);
            self.add_to_partition(to, entry, out);
        }
        self.set_pivot(prefix, Some(PivotState { partition: to, ..pivot }));
        out.push(PartitionWrite::MovePivot(to, prefix));
    }

    /// Moves part of a pivot's entries to a new pivot in another partition and appends the writes.
    fn split_pivot(&mut self, prefix: KeyPrefix, out: &mut Vec<PartitionWrite>) -> Result<(), PartitionsFull> {
        if self.pivots.len() >= self.shape.pivots as usize {
            return Err(PartitionsFull::Pivots);
        }
        let own_entries = self.own_entries(&prefix);
        let old = self.pivots[&prefix];
        // Moves at most two thirds, limited by the emptiest partition's capacity minus one copy of
        // the cover.
        let emptiest =
            self.by_load.iter().find(|(_, at)| *at != old.partition).map_or(self.shape.depth, |(load, _)| *load);
        let capacity = self.shape.depth.saturating_sub(emptiest + 1) as usize;
        let new_pivot = find_split_prefix(prefix, &own_entries, capacity.min(own_entries.len() * 2 / 3))
            .ok_or(PartitionsFull::Partitions)?;
        let moved: Vec<KeyPrefix> = own_entries.into_iter().filter(|entry| new_pivot.covers(entry)).collect();
        let target = self.fullest_with_capacity(moved.len() as u32 + 1, old.partition)?;
        let cover = self.cover_of(&new_pivot);
        for entry in &moved {
            self.remove_from_partition(old.partition, *entry, out);
            self.add_to_partition(target, *entry, out);
        }
        if let Some(cover) = cover {
            self.add_to_partition(target, cover, out);
        }
        let count = moved.len() as u32;
        self.set_pivot(prefix, Some(PivotState { own_count: old.own_count - count, ..old }));
        self.set_pivot(new_pivot, Some(PivotState { partition: target, own_count: count, cover }));
        out.push(PartitionWrite::AddPivot(target, new_pivot));
        Ok(())
    }

    /// Merges a pivot with few entries into the one above, if its partition has capacity.
    fn merge_pivot(&mut self, prefix: KeyPrefix, out: &mut Vec<PartitionWrite>) {
        let pivot = self.pivots[&prefix];
        // Only pivots with less than a quarter of the target merge, so a pivot does not split and
        // merge in turn.
        if prefix.is_empty() || pivot.own_count * 4 > self.shape.target {
            return;
        }
        let Some(parent) = longest_covering(&self.pivots, &prefix, prefix.len() - 1) else { return };
        let parent_state = self.pivots[&parent];
        // Keeps one eighth free, because a full partition would be split again immediately.
        let max_load = self.shape.depth - self.shape.depth / 8;
        if parent_state.partition != pivot.partition
            && pivot.own_count > 0
            && self.partition_load(parent_state.partition) + pivot.own_count > max_load
        {
            return;
        }
        for entry in self.own_entries(&prefix) {
            self.add_to_partition(parent_state.partition, entry, out);
            self.remove_from_partition(pivot.partition, entry, out);
        }
        if let Some(cover) = pivot.cover {
            self.remove_from_partition(pivot.partition, cover, out);
        }
        self.set_pivot(prefix, None);
        self.set_pivot(
            parent,
            Some(PivotState { own_count: parent_state.own_count + pivot.own_count, ..parent_state }),
        );
        out.push(PartitionWrite::RemovePivot(prefix));
    }
}

/// Returns a prefix under `pivot` that covers at most `most` of the entries (in order), and at
/// least half of that if entries are not nested.
fn find_split_prefix(pivot: KeyPrefix, entries: &[KeyPrefix], most: usize) -> Option<KeyPrefix> {
    let mut rest = entries;
    loop {
        let node = rest.first()?.common_prefix(rest.last()?);
        if rest.len() <= most && node != pivot {
            return Some(node);
        }
        // The entry at the node itself is in no child.
        let children = if rest.first()? == &node { &rest[1..] } else { rest };
        let at = children.partition_point(|entry| !entry.bit(node.len()));
        let (zeros, ones) = children.split_at(at);
        rest = if zeros.len() > ones.len() { zeros } else { ones };
    }
}

/// Joint placement of many entries.
impl<V: Clone> Partitions<V> {
    /// Places all entries: cuts pivots from the leaves upward and packs them into partitions, the
    /// largest first. The table must be empty. The appended writes are complete.
    ///
    /// # Errors
    /// [`PartitionsFull`]: the partitions or the pivot table are full.
    pub fn build_partitions(
        &mut self,
        entries: impl IntoIterator<Item = (KeyPrefix, V)>,
        out: &mut Vec<PartitionWrite>,
    ) -> Result<(), PartitionsFull> {
        for (prefix, value) in entries {
            self.replace(prefix, value);
        }
        let sorted: Vec<KeyPrefix> = self.entries.keys().copied().collect();
        let mut pivots = Vec::new();
        let root_count = cut_pivots(&sorted, self.shape.target as usize, &mut pivots);
        pivots.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        if pivots.len() >= self.shape.pivots as usize {
            return Err(PartitionsFull::Pivots);
        }
        pivots.insert(0, (KeyPrefix::ALL, root_count as u32));
        // All pivots must exist before their own entries are determined. Their partitions are
        // assigned afterwards.
        for (prefix, own_count) in &pivots {
            let cover = self.cover_of(prefix);
            self.set_pivot(*prefix, Some(PivotState { partition: NO_PARTITION, own_count: *own_count, cover }));
        }
        for (prefix, own_count) in pivots {
            let pivot = self.pivots[&prefix];
            let partition = if prefix.is_empty() { 0 } else { self.fullest_with_capacity(own_count + 1, u32::MAX)? };
            self.set_pivot(prefix, Some(PivotState { partition, ..pivot }));
            for entry in self.own_entries(&prefix).into_iter().chain(pivot.cover) {
                self.add_to_partition(partition, entry, out);
            }
            if !prefix.is_empty() {
                out.push(PartitionWrite::AddPivot(partition, prefix));
            }
        }
        Ok(())
    }
}

/// Cuts pivots with at most `target` own entries each from ordered entries of one subtree, and
/// appends them to `cut` with their number of own entries. Returns the number of entries left
/// without one.
fn cut_pivots(entries: &[KeyPrefix], target: usize, cut: &mut Vec<(KeyPrefix, u32)>) -> usize {
    if entries.len() <= target {
        return entries.len();
    }
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return 0 };
    let root = first.common_prefix(last);
    let children = if *first == root { &entries[1..] } else { entries };
    let first_of_right = children.partition_point(|entry| !entry.bit(root.len()));
    let halves = [&children[..first_of_right], &children[first_of_right..]];
    let mut uncut = halves.map(|half| cut_pivots(half, target, cut));
    let root_entries = entries.len() - children.len();
    // Too many remain: the half with more of them becomes a pivot.
    while uncut[0] + uncut[1] + root_entries > target {
        let larger = usize::from(uncut[1] > uncut[0]);
        let (Some(first), Some(last)) = (halves[larger].first(), halves[larger].last()) else { break };
        if uncut[larger] == 0 {
            break;
        }
        cut.push((first.common_prefix(last), uncut[larger] as u32));
        uncut[larger] = 0;
    }
    uncut[0] + uncut[1] + root_entries
}
