//! Prefixes in partitions of bounded size, found by pivots: the control side of ALPM.
//!
//! A *pivot* is a prefix; the entries that it covers, and that no longer pivot covers, are its own. Each pivot leads to a *partition*, and several
//! pivots may lead to one, which is what fills partitions. A lookup takes the longest pivot that covers the key, and then the longest
//! prefix in that pivot's partition.
//!
//! # Why it finds what one table would
//! The partition of a pivot holds the pivot's own entries, and its *cover*: the longest entry that is shorter than the pivot and covers it. The longest
//! match of a key under the pivot is own, or else the cover. Whatever else is in the partition is an entry of the table, too, so it is never
//! longer than the longest match. So a partition needs no default of its own, and one copy of a cover serves all pivots of a partition.
//!
//! # Changes
//! An insert that overfills a partition moves a pivot with its entries to a partition with room, or splits the entries of the only pivot there: somewhere
//! below a pivot there is a prefix that covers between a third and two thirds of its own entries. A delete that leaves few entries to a pivot
//! gives them to the pivot above it. No other partition changes, but for copies of covers.

use super::prefix::Prefix;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};

/// Shape of the partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Partitions, at least 1.
    pub partitions: u32,
    /// Entries in one, at least 8.
    pub depth: u32,
    /// Own entries at which a pivot is cut when all are placed anew, at most `depth - 1`. Small ones fill partitions better and take more pivots.
    pub target: u32,
    /// Pivots, with the one that covers all.
    pub pivots: u32,
}

/// A write to one of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// An entry comes into a partition.
    Put(u32, Prefix),
    /// An entry leaves a partition.
    Take(u32, Prefix),
    /// A new pivot leads to a partition.
    Pivot(u32, Prefix),
    /// A pivot leads to another partition.
    Turn(u32, Prefix),
    /// A pivot goes.
    Unpivot(Prefix),
}

/// Which limit is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// No partition has room.
    #[error("its partitions are full")]
    Partitions,
    /// There may be no more pivots.
    #[error("its table of pivots is full")]
    Pivots,
}

#[derive(Clone, Copy, Debug)]
struct Pivot {
    partition: u32,
    /// How many entries are its own.
    own: u32,
    cover: Option<Prefix>,
}

/// The partition of a pivot that leads to none yet.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
struct Partition {
    /// Its entries in order, each with the number of reasons for which it is here: own, or cover of a pivot.
    held: Vec<(Prefix, u32)>,
    /// The pivots that lead here.
    pivots: SmallVec<[Prefix; 2]>,
}

/// What to do to take a change back.
enum Undo<V> {
    Entry(Prefix, Option<V>),
    Pivot(Prefix, Option<Pivot>),
    Held(u32, Prefix, u32),
    Pivots(u32, SmallVec<[Prefix; 2]>),
}

/// Entries in partitions.
pub struct Partitions<V> {
    shape: Shape,
    entries: BTreeMap<Prefix, V>,
    pivots: BTreeMap<Prefix, Pivot>,
    partitions: Vec<Partition>,
    /// Partitions by their number of entries; the empty ones, too.
    by_load: BTreeSet<(u32, u32)>,
    undo: Vec<Undo<V>>,
}

/// Longest key of the map that covers `prefix` and is no longer than `most`.
fn covering<T>(map: &BTreeMap<Prefix, T>, prefix: &Prefix, most: u32) -> Option<Prefix> {
    let mut at = prefix.cut(most);
    loop {
        let (before, _) = map.range(..=at).next_back()?;
        if before.covers(&at) {
            return Some(*before);
        }
        // Whatever covers `at` and comes before covers what both have in common.
        at = before.common(&at);
    }
}

impl<V: Clone> Partitions<V> {
    /// No entries, and the pivot that covers all.
    pub fn new(shape: Shape) -> Partitions<V> {
        let shape = Shape {
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
        made.set_pivot(Prefix::ALL, Some(Pivot { partition: 0, own: 0, cover: None }));
        made.begin();
        made
    }

    /// From here on changes can be taken back.
    pub fn begin(&mut self) {
        self.undo.clear();
    }

    /// Takes back all changes since [`Partitions::begin`].
    pub fn undo(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Entry(prefix, Some(value)) => drop(self.entries.insert(prefix, value)),
                Undo::Entry(prefix, None) => drop(self.entries.remove(&prefix)),
                Undo::Pivot(prefix, Some(pivot)) => drop(self.pivots.insert(prefix, pivot)),
                Undo::Pivot(prefix, None) => drop(self.pivots.remove(&prefix)),
                Undo::Held(partition, prefix, count) => drop(self.hold(partition, prefix, count)),
                Undo::Pivots(partition, pivots) => self.partitions[partition as usize].pivots = pivots,
            }
        }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What an entry stands for.
    pub fn get(&self, prefix: &Prefix) -> Option<&V> {
        self.entries.get(prefix)
    }

    /// Pivots, with the one that covers all.
    pub fn pivots(&self) -> usize {
        self.pivots.len()
    }

    /// Partitions that hold something.
    pub fn used(&self) -> usize {
        self.partitions.iter().filter(|partition| !partition.held.is_empty()).count()
    }

    /// Entries in the partitions, copies included.
    pub fn held(&self) -> usize {
        self.partitions.iter().map(|partition| partition.held.len()).sum()
    }

    /// Most entries in one partition.
    pub fn deepest(&self) -> usize {
        self.by_load.last().map_or(0, |(load, _)| *load as usize)
    }

    /// The longest entry that covers a key, by pivot and partition, as the chip looks it up.
    pub fn lookup(&self, key: &Prefix) -> Option<(Prefix, &V)> {
        let pivot = covering(&self.pivots, key, key.len())?;
        let held = &self.partitions[self.pivots[&pivot].partition as usize].held;
        let best = held.iter().filter(|(prefix, _)| prefix.covers(key)).max_by_key(|(prefix, _)| prefix.len())?;
        Some((best.0, self.entries.get(&best.0)?))
    }

    /// The partitions that hold an entry, each once.
    pub fn holders(&self, prefix: &Prefix) -> Vec<u32> {
        let below = self.pivots.range(*prefix..=prefix.last()).map(|(_, pivot)| pivot);
        let below = below.filter(|pivot| pivot.cover == Some(*prefix)).map(|pivot| pivot.partition);
        let mut found: Vec<u32> = self.owner(prefix).map(|pivot| self.pivots[&pivot].partition).into_iter().collect();
        found.extend(below);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Changes what an entry stands for.
    pub fn replace(&mut self, prefix: Prefix, value: V) {
        let old = self.entries.insert(prefix, value);
        self.undo.push(Undo::Entry(prefix, old));
    }

    /// Adds an entry that is not there yet, and says what to write. After an error the changes so far have to be taken back.
    ///
    /// # Errors
    /// When there is no room.
    pub fn insert(&mut self, prefix: Prefix, value: V, out: &mut Vec<Write>) -> Result<(), Full> {
        self.replace(prefix, value);
        let owner = self.owner(&prefix).unwrap_or(Prefix::ALL);
        let pivot = self.pivots[&owner];
        self.set_pivot(owner, Some(Pivot { own: pivot.own + 1, ..pivot }));
        let mut touched: SmallVec<[u32; 4]> = SmallVec::from_slice(&[pivot.partition]);
        self.add(pivot.partition, prefix, out);
        for (below, pivot) in self.below(&prefix) {
            if pivot.cover.is_none_or(|cover| cover.len() < prefix.len()) {
                self.recover(below, pivot, Some(prefix), out);
                touched.push(pivot.partition);
            }
        }
        touched.into_iter().try_for_each(|partition| self.relieve(partition, out))
    }

    /// Takes out an entry that is there, and says what to write.
    ///
    /// # Errors
    /// When there is no room for a copy of what covers it; then the changes so far have to be taken back.
    pub fn delete(&mut self, prefix: Prefix, out: &mut Vec<Write>) -> Result<(), Full> {
        let Some(old) = self.entries.remove(&prefix) else { return Ok(()) };
        self.undo.push(Undo::Entry(prefix, Some(old)));
        let owner = self.owner(&prefix).unwrap_or(Prefix::ALL);
        let pivot = self.pivots[&owner];
        self.set_pivot(owner, Some(Pivot { own: pivot.own.saturating_sub(1), ..pivot }));
        self.release(pivot.partition, prefix, out);
        let heir = self.cover_of(&prefix);
        let mut touched: SmallVec<[u32; 4]> = SmallVec::new();
        for (below, pivot) in self.below(&prefix) {
            if pivot.cover == Some(prefix) {
                self.recover(below, pivot, heir, out);
                touched.push(pivot.partition);
            }
        }
        for partition in touched {
            self.relieve(partition, out)?;
        }
        self.merge(owner, out);
        Ok(())
    }

    fn owner(&self, prefix: &Prefix) -> Option<Prefix> {
        covering(&self.pivots, prefix, prefix.len())
    }

    /// The longest entry that is shorter and covers the prefix.
    fn cover_of(&self, prefix: &Prefix) -> Option<Prefix> {
        covering(&self.entries, prefix, prefix.len().checked_sub(1)?)
    }

    /// Pivots that the prefix covers and that are longer.
    fn below(&self, prefix: &Prefix) -> Vec<(Prefix, Pivot)> {
        let longer = self.pivots.range(*prefix..=prefix.last()).filter(|(pivot, _)| pivot.len() > prefix.len());
        longer.map(|(prefix, pivot)| (*prefix, *pivot)).collect()
    }

    /// The pivot's own entries, in order.
    fn own(&self, pivot: &Prefix) -> Vec<Prefix> {
        let mut out = Vec::new();
        let (mut from, last) = (Included(*pivot), pivot.last());
        loop {
            // The ranges under longer pivots are passed over, one after the other.
            let below =
                self.pivots.range((from, Included(last))).map(|(prefix, _)| *prefix).find(|prefix| prefix != pivot);
            let to = below.map_or(Included(last), Excluded);
            out.extend(self.entries.range((from, to)).map(|(prefix, _)| *prefix));
            match below {
                Some(below) => from = Excluded(below.last()),
                None => return out,
            }
        }
    }

    fn set_pivot(&mut self, prefix: Prefix, pivot: Option<Pivot>) {
        let old = match pivot {
            Some(pivot) => self.pivots.insert(prefix, pivot),
            None => self.pivots.remove(&prefix),
        };
        let leads = |pivot: Option<Pivot>| pivot.map(|pivot| pivot.partition).filter(|at| *at != NOWHERE);
        let (from, to) = (leads(old), leads(pivot));
        if from != to {
            for (partition, here) in [(from, false), (to, true)] {
                let Some(partition) = partition else { continue };
                let pivots = &mut self.partitions[partition as usize].pivots;
                self.undo.push(Undo::Pivots(partition, pivots.clone()));
                pivots.retain(|pivot| *pivot != prefix);
                if here {
                    pivots.push(prefix);
                }
            }
        }
        self.undo.push(Undo::Pivot(prefix, old));
    }

    /// Sets for how many reasons the partition holds the entry; gives the number before.
    fn hold(&mut self, partition: u32, prefix: Prefix, count: u32) -> u32 {
        let held = &mut self.partitions[partition as usize].held;
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

    fn count(&self, partition: u32, prefix: &Prefix) -> u32 {
        let held = &self.partitions[partition as usize].held;
        held.binary_search_by(|(there, _)| there.cmp(prefix)).map_or(0, |at| held[at].1)
    }

    fn add(&mut self, partition: u32, prefix: Prefix, out: &mut Vec<Write>) {
        let old = self.count(partition, &prefix);
        self.hold(partition, prefix, old + 1);
        self.undo.push(Undo::Held(partition, prefix, old));
        if old == 0 {
            out.push(Write::Put(partition, prefix));
        }
    }

    fn release(&mut self, partition: u32, prefix: Prefix, out: &mut Vec<Write>) {
        let old = self.count(partition, &prefix);
        self.hold(partition, prefix, old.saturating_sub(1));
        self.undo.push(Undo::Held(partition, prefix, old));
        if old == 1 {
            out.push(Write::Take(partition, prefix));
        }
    }

    /// Gives a pivot another cover.
    fn recover(&mut self, prefix: Prefix, pivot: Pivot, cover: Option<Prefix>, out: &mut Vec<Write>) {
        if let Some(old) = pivot.cover {
            self.release(pivot.partition, old, out);
        }
        if let Some(new) = cover {
            self.add(pivot.partition, new, out);
        }
        self.set_pivot(prefix, Some(Pivot { cover, ..pivot }));
    }

    fn load(&self, partition: u32) -> u32 {
        self.partitions[partition as usize].held.len() as u32
    }

    /// The fullest partition other than `not` that has room for so many entries.
    fn with_room(&self, entries: u32, not: u32) -> Result<u32, Full> {
        let most = self.shape.depth.checked_sub(entries).ok_or(Full::Partitions)?;
        let mut fitting = self.by_load.range(..=(most, u32::MAX)).rev();
        fitting.find(|(_, at)| *at != not).map(|(_, at)| *at).ok_or(Full::Partitions)
    }

    /// Takes entries out of a partition until it holds no more than it may.
    fn relieve(&mut self, partition: u32, out: &mut Vec<Write>) -> Result<(), Full> {
        while self.load(partition) > self.shape.depth {
            let pivots = &self.partitions[partition as usize].pivots;
            let own = |prefix: &Prefix| (self.pivots[prefix].own, *prefix);
            // The pivot that covers all stays: it is the default of the table of pivots.
            let smallest =
                pivots.iter().filter(|prefix| !prefix.is_empty()).map(own).min().filter(|_| pivots.len() > 1);
            let shifted = smallest.and_then(|(own, prefix)| Some((prefix, self.with_room(own + 1, partition).ok()?)));
            match shifted {
                Some((prefix, to)) => self.shift(prefix, to, out),
                None => {
                    let (_, largest) = pivots.iter().map(own).max().ok_or(Full::Partitions)?;
                    self.divide(largest, out)?;
                }
            }
        }
        Ok(())
    }

    /// Moves a pivot with its entries to another partition.
    fn shift(&mut self, prefix: Prefix, to: u32, out: &mut Vec<Write>) {
        let pivot = self.pivots[&prefix];
        for entry in self.own(&prefix).into_iter().chain(pivot.cover) {
            self.release(pivot.partition, entry, out);
            self.add(to, entry, out);
        }
        self.set_pivot(prefix, Some(Pivot { partition: to, ..pivot }));
        out.push(Write::Turn(to, prefix));
    }

    /// Gives part of a pivot's entries to a new pivot in another partition.
    fn divide(&mut self, prefix: Prefix, out: &mut Vec<Write>) -> Result<(), Full> {
        if self.pivots.len() >= self.shape.pivots as usize {
            return Err(Full::Pivots);
        }
        let own = self.own(&prefix);
        let old = self.pivots[&prefix];
        // Two thirds at most, and no more than there is room for where there is most, beside a copy of the cover.
        let emptiest =
            self.by_load.iter().find(|(_, at)| *at != old.partition).map_or(self.shape.depth, |(load, _)| *load);
        let room = self.shape.depth.saturating_sub(emptiest + 1) as usize;
        let new = dividing(prefix, &own, room.min(own.len() * 2 / 3)).ok_or(Full::Partitions)?;
        let moved: Vec<Prefix> = own.into_iter().filter(|entry| new.covers(entry)).collect();
        let to = self.with_room(moved.len() as u32 + 1, old.partition)?;
        let cover = self.cover_of(&new);
        for entry in &moved {
            self.release(old.partition, *entry, out);
            self.add(to, *entry, out);
        }
        if let Some(cover) = cover {
            self.add(to, cover, out);
        }
        let count = moved.len() as u32;
        self.set_pivot(prefix, Some(Pivot { own: old.own - count, ..old }));
        self.set_pivot(new, Some(Pivot { partition: to, own: count, cover }));
        out.push(Write::Pivot(to, new));
        Ok(())
    }

    /// Gives the entries of a pivot that has few to the one above it, if there is room.
    fn merge(&mut self, prefix: Prefix, out: &mut Vec<Write>) {
        let pivot = self.pivots[&prefix];
        if prefix.is_empty() || pivot.own * 4 > self.shape.target {
            return;
        }
        let Some(above) = covering(&self.pivots, &prefix, prefix.len() - 1) else { return };
        let to = self.pivots[&above];
        // What is merged to the brim would be split again at once.
        let most = self.shape.depth - self.shape.depth / 8;
        if to.partition != pivot.partition && pivot.own > 0 && self.load(to.partition) + pivot.own > most {
            return;
        }
        for entry in self.own(&prefix) {
            self.add(to.partition, entry, out);
            self.release(pivot.partition, entry, out);
        }
        if let Some(cover) = pivot.cover {
            self.release(pivot.partition, cover, out);
        }
        self.set_pivot(prefix, None);
        self.set_pivot(above, Some(Pivot { own: to.own + pivot.own, ..to }));
        out.push(Write::Unpivot(prefix));
    }
}

/// A prefix under `pivot` that covers `most` of the entries (which are in order), or not many fewer: half of that where entries do not lie in each
/// other.
fn dividing(pivot: Prefix, entries: &[Prefix], most: usize) -> Option<Prefix> {
    let mut rest = entries;
    loop {
        let node = rest.first()?.common(rest.last()?);
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

/// Placing many entries at once.
impl<V: Clone> Partitions<V> {
    /// All entries anew: pivots are cut from the leaves up, and then packed into partitions, the largest first. There must be no entry yet; what comes
    /// out is all there is to write.
    ///
    /// # Errors
    /// When there is no room.
    pub fn build(&mut self, entries: impl IntoIterator<Item = (Prefix, V)>, out: &mut Vec<Write>) -> Result<(), Full> {
        for (prefix, value) in entries {
            self.replace(prefix, value);
        }
        let sorted: Vec<Prefix> = self.entries.keys().copied().collect();
        let mut cut = Vec::new();
        let left = carve(&sorted, self.shape.target as usize, &mut cut);
        cut.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        if cut.len() >= self.shape.pivots as usize {
            return Err(Full::Pivots);
        }
        cut.insert(0, (Prefix::ALL, left as u32));
        // All pivots are there before their own entries are asked for; where they lead is set then.
        for (prefix, own) in &cut {
            let cover = self.cover_of(prefix);
            self.set_pivot(*prefix, Some(Pivot { partition: NOWHERE, own: *own, cover }));
        }
        for (prefix, own) in cut {
            let pivot = self.pivots[&prefix];
            let partition = if prefix.is_empty() { 0 } else { self.with_room(own + 1, u32::MAX)? };
            self.set_pivot(prefix, Some(Pivot { partition, ..pivot }));
            for entry in self.own(&prefix).into_iter().chain(pivot.cover) {
                self.add(partition, entry, out);
            }
            if !prefix.is_empty() {
                out.push(Write::Pivot(partition, prefix));
            }
        }
        Ok(())
    }
}

/// Cuts pivots with at most `target` own entries each; the entries are in order. Gives how many no pivot has taken.
fn carve(entries: &[Prefix], target: usize, cut: &mut Vec<(Prefix, u32)>) -> usize {
    if entries.len() <= target {
        return entries.len();
    }
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return 0 };
    let node = first.common(last);
    let children = if *first == node { &entries[1..] } else { entries };
    let at = children.partition_point(|entry| !entry.bit(node.len()));
    let halves = [&children[..at], &children[at..]];
    let mut left = halves.map(|half| carve(half, target, cut));
    let here = entries.len() - children.len();
    while left[0] + left[1] + here > target {
        let larger = usize::from(left[1] > left[0]);
        let (Some(first), Some(last)) = (halves[larger].first(), halves[larger].last()) else { break };
        if left[larger] == 0 {
            break;
        }
        cut.push((first.common(last), left[larger] as u32));
        left[larger] = 0;
    }
    left[0] + left[1] + here
}
