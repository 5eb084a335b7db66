//! [`InvalidationIndex`]: finds exactly the segments or flows that a table change makes stale.
//!
//! A cached item depends on lookups ([`LookupDependency`]). It is stale if one of them would now
//! find another entry, or the same entry with another action. That happens if its entry was changed
//! or deleted, or if a new entry of higher precedence matches one of its packets.
//!
//! Items are in linked lists, with at most one node for each lookup. Lookups that hit in a table
//! with only exact keys are listed by entry number, because no new entry can take precedence.
//! Others are listed by their exact keys, so that a change of one tenant's route visits only that
//! tenant's items. Misses are also in a list of the table, for changes of the default action.

use crate::list_heads::{ListHeads, NO_NODE};
use crate::segment::{LookupDependency, Segment};
use crate::wildcards::WildcardTracker;
use entries::StoredEntry;
use ir::{Entity, Pipeline};
use lookup::{HugeVec, prefetch_element};
use std::hash::{BuildHasher, Hasher};

type HashState = foldhash::fast::RandomState;

/// Reference to a cached item: number of its store, and index.
pub type CacheItemRef = (u32, u32);

/// Node of a list: previous node, next node, and the reference of the item (two words).
type IndexNode = [u32; 4];

const PREVIOUS: usize = 0;
const NEXT: usize = 1;

fn index_node(previous: u32, next: u32, item: CacheItemRef) -> IndexNode {
    [previous, next, item.0, item.1]
}

fn item_of_node(node: IndexNode) -> CacheItemRef {
    (node[2], node[3])
}

/// Identifies a list.
#[derive(Clone, Copy, Debug)]
enum IndexList {
    /// Table, and number of the entry that was found.
    Number(u32, u32),
    /// Hash of exact keys.
    Key(u64),
    /// Misses in a table.
    Missed(u32),
}

/// Skips repeated lists by exact keys, among the first eight.
fn skip_repeated_keys(visit: &mut impl FnMut(IndexList)) -> impl FnMut(IndexList) {
    let (mut seen, mut count) = ([0; 8], 0);
    move |list| {
        if let IndexList::Key(hash) = list {
            if seen[..count].contains(&hash) {
                return;
            }
            if count < seen.len() {
                seen[count] = hash;
                count += 1;
            }
        }
        visit(list);
    }
}

/// Index from entries and exact keys to the cached items that depend on them.
#[derive(Clone, Debug)]
pub struct InvalidationIndex {
    nodes: HugeVec<IndexNode>,
    /// Number of allocated nodes.
    node_count: usize,
    /// Free runs of nodes, by length: the first node of each.
    free_runs: Vec<Vec<u32>>,
    /// List heads by table and entry number. `None` for tables with inexact keys, and for tables
    /// with entries that expire or that packets add.
    by_entry: Vec<Option<Vec<u32>>>,
    /// List heads by hash of the exact keys. Keys can collide, so users of a list check each item.
    by_key: ListHeads,
    /// Head of the list of misses, by table.
    missed: Vec<u32>,
    /// By table: the default action can change.
    has_mutable_default: Vec<bool>,
    hasher: HashState,
}

impl InvalidationIndex {
    /// Creates the empty index of a program's tables.
    pub fn new(pipeline: &Pipeline, wildcard_trackers: &[WildcardTracker]) -> InvalidationIndex {
        // Idle entries are removed without their number, so these tables cannot be indexed by it.
        let by_entry = pipeline.tables.iter().map(|(id, table)| {
            let numbered = wildcard_trackers[id.index()].all_exact() && !table.idle_timeout && !table.add_on_miss;
            numbered.then(Vec::new)
        });
        InvalidationIndex {
            nodes: HugeVec::new(),
            node_count: 0,
            free_runs: Vec::new(),
            by_entry: by_entry.collect(),
            by_key: ListHeads::default(),
            missed: vec![NO_NODE; pipeline.tables.len()],
            has_mutable_default: pipeline.tables.values().map(|table| !table.const_default).collect(),
            hasher: HashState::default(),
        }
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.reset_nodes();
        self.by_entry.iter_mut().flatten().for_each(Vec::clear);
        self.by_key.clear();
        self.missed.fill(NO_NODE);
    }

    /// Frees all nodes. The caller has unlinked them or clears the heads.
    pub fn reset_nodes(&mut self) {
        self.node_count = 0;
        self.free_runs.clear();
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        let numbers: usize = self.by_entry.iter().flatten().map(|heads| size_of_val(&**heads)).sum();
        self.nodes.memory_bytes() + numbers + self.by_key.memory()
    }

    /// Hashes exact keys. The hash excludes the table, so that a segment with lookups of one tenant
    /// in several tables needs one node.
    fn hash_exact_key(&self, exact: impl Iterator<Item = u64>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        exact.for_each(|word| hasher.write_u64(word));
        hasher.finish()
    }

    fn first_node(&self, list: IndexList) -> u32 {
        match list {
            IndexList::Number(table, number) => {
                let heads = self.by_entry[table as usize].as_deref().unwrap_or_default();
                heads.get(number as usize).copied().unwrap_or(NO_NODE)
            }
            IndexList::Key(hash) => self.by_key.get(hash),
            IndexList::Missed(table) => self.missed[table as usize],
        }
    }

    /// Sets the first node of a list. Returns the previous one.
    fn set_first(&mut self, list: IndexList, first: u32) -> u32 {
        match list {
            IndexList::Number(table, number) => {
                let Some(heads) = &mut self.by_entry[table as usize] else { return NO_NODE };
                if heads.len() <= number as usize {
                    heads.resize(number as usize + 1, NO_NODE);
                }
                std::mem::replace(&mut heads[number as usize], first)
            }
            IndexList::Missed(table) => std::mem::replace(&mut self.missed[table as usize], first),
            IndexList::Key(hash) => self.by_key.set(hash, first),
        }
    }

    /// Calls `visit` with the lists of a lookup. `key` returns a word of the key by its index.
    fn for_each_list(
        &self,
        wildcard_trackers: &[WildcardTracker],
        (table, found): (u32, Option<u32>),
        key: impl Fn(usize) -> u64,
        visit: &mut impl FnMut(IndexList),
    ) {
        match (found, &self.by_entry[table as usize]) {
            (Some(found), Some(_)) => visit(IndexList::Number(table, found)),
            // A table without keys never has an entry.
            _ if wildcard_trackers[table as usize].word_count() == 0 => {}
            _ => visit(IndexList::Key(
                self.hash_exact_key(wildcard_trackers[table as usize].exact_word_indices().map(key)),
            )),
        }
        if found.is_none() && self.has_mutable_default[table as usize] {
            visit(IndexList::Missed(table));
        }
    }

    /// Collects the lists of an item into `lists`, given its lookups: table, found entry, key
    /// words.
    pub fn collect_lists<'k>(
        &self,
        wildcard_trackers: &[WildcardTracker],
        lookups: impl Iterator<Item = (u32, Option<u32>, &'k [u64])>,
        lists: &mut IndexLists,
    ) {
        lists.0.clear();
        let mut push = |list| lists.0.push(list);
        let mut visit = skip_repeated_keys(&mut push);
        for (table, found, key) in lookups {
            self.for_each_list(wildcard_trackers, (table, found), |word| key[word], &mut visit);
        }
    }

    /// Collects the lists of a segment.
    pub fn collect_segment_lists(
        &self,
        wildcard_trackers: &[WildcardTracker],
        segment: &Segment,
        lists: &mut IndexLists,
    ) {
        self.collect_lists(
            wildcard_trackers,
            segment.dependencies.iter().map(|lookup| (lookup.table, lookup.found_entry, &*lookup.key)),
            lists,
        );
    }

    /// Prefetches the heads of lists before an item is linked.
    pub fn prefetch_heads(&self, lists: &IndexLists) {
        for list in &lists.0 {
            match list {
                IndexList::Number(table, number) => {
                    if let Some(heads) = &self.by_entry[*table as usize] {
                        prefetch_element(heads, *number as usize);
                    }
                }
                IndexList::Key(hash) => self.by_key.prefetch(*hash),
                IndexList::Missed(_) => {}
            }
        }
    }

    /// Prefetches the first nodes of lists.
    pub fn prefetch_first_nodes(&self, lists: &IndexLists) {
        lists.0.iter().for_each(|list| prefetch_element(&self.nodes, self.first_node(*list) as usize));
    }

    /// Prefetches the nodes that [`InvalidationIndex::link_item`] will allocate after `before`
    /// other calls with the same number of lists.
    pub fn prefetch_free_nodes(&self, lists: &IndexLists, before: usize) {
        let free = self.free_runs.get(lists.0.len()).map(Vec::as_slice).unwrap_or_default();
        if let Some(nodes) = free.len().checked_sub(before + 1).map(|at| free[at]) {
            self.prefetch_nodes(nodes, lists);
        }
    }

    /// Prefetches the nodes of an item, given its first node.
    pub fn prefetch_nodes(&self, nodes: u32, lists: &IndexLists) {
        (0..lists.0.len()).step_by(4).for_each(|at| prefetch_element(&self.nodes, nodes as usize + at));
    }

    /// Prefetches the neighbours of an item's nodes.
    pub fn prefetch_neighbors(&self, nodes: u32, lists: &IndexLists) {
        for [previous, next, ..] in self.nodes.iter().skip(nodes as usize).take(lists.0.len()) {
            prefetch_element(&self.nodes, *previous as usize);
            prefetch_element(&self.nodes, *next as usize);
        }
    }

    /// Links an item into its lists ([`InvalidationIndex::collect_lists`]). Returns its first node.
    /// An item has consecutive nodes, one for each list.
    pub fn link_item(&mut self, item: CacheItemRef, lists: &IndexLists) -> u32 {
        let count = lists.0.len();
        if count == 0 {
            return NO_NODE;
        }
        let first_node = match self.free_runs.get_mut(count).and_then(Vec::pop) {
            Some(first_node) => first_node,
            None => {
                let first_node = self.node_count as u32;
                self.node_count += count;
                self.nodes.grow_amortized(self.node_count);
                first_node
            }
        };
        for (at, list) in lists.0.iter().enumerate() {
            let node = first_node + at as u32;
            let next = self.set_first(*list, node);
            self.nodes[node as usize] = index_node(NO_NODE, next, item);
            if let Some(next) = self.nodes.get_mut(next as usize) {
                next[PREVIOUS] = node;
            }
        }
        first_node
    }

    /// Unlinks an item from its lists, given its first node. Its nodes are reused together for an
    /// item with as many lists.
    pub fn unlink_item(&mut self, first_node: u32, lists: &IndexLists) {
        for (at, list) in lists.0.iter().enumerate() {
            let [previous, next, ..] = self.nodes[first_node as usize + at];
            match self.nodes.get_mut(previous as usize) {
                Some(previous) => previous[NEXT] = next,
                None => {
                    self.set_first(*list, next);
                }
            }
            if let Some(next) = self.nodes.get_mut(next as usize) {
                next[PREVIOUS] = previous;
            }
        }
        let count = lists.0.len();
        if count == 0 {
            return;
        }
        if self.free_runs.len() <= count {
            self.free_runs.resize(count + 1, Vec::new());
        }
        self.free_runs[count].push(first_node);
    }

    /// Checks the index: each of these segments, given with its first node and its reference,
    /// occurs once in each of its lists, and the lists contain no other segment.
    ///
    /// # Errors
    /// A description of the inconsistency, which is a bug.
    pub fn check_lists<'s>(
        &self,
        wildcard_trackers: &[WildcardTracker],
        segments: impl Iterator<Item = (&'s Segment, u32, CacheItemRef)>,
    ) -> Result<(), String> {
        let (mut node_count, mut list_count, mut lists_of_segment) = (0, 0, IndexLists::default());
        for (segment, first, item) in segments {
            let mut inconsistency = None;
            self.collect_segment_lists(wildcard_trackers, segment, &mut lists_of_segment);
            for (list, number) in lists_of_segment.0.iter().zip(first..) {
                let [previous, next, ..] = self.nodes[number as usize];
                let previous_is_linked = match self.nodes.get(previous as usize) {
                    Some(previous) => previous[NEXT] == number,
                    None => {
                        list_count += 1;
                        self.first_node(*list) == number
                    }
                };
                let next_is_linked = self.nodes.get(next as usize).is_none_or(|next| next[PREVIOUS] == number);
                if self::item_of_node(self.nodes[number as usize]) != item || !previous_is_linked || !next_is_linked {
                    inconsistency =
                        Some(format!("node {number} of {item:?} in {list:?}: {:?}", self.nodes[number as usize]));
                }
            }
            node_count += lists_of_segment.0.len();
            inconsistency.map_or(Ok(()), Err)?;
        }
        let free: usize = self.free_runs.iter().enumerate().map(|(length, runs)| length * runs.len()).sum();
        let numbered = self.by_entry.iter().flatten().flatten();
        let heads = numbered.chain(&self.missed).filter(|first| **first != NO_NODE).count() + self.by_key.len();
        match node_count + free == self.node_count && heads == list_count {
            true => Ok(()),
            false => Err(format!(
                "{} nodes, {node_count} in lists, {free} free; {heads} lists, {list_count} begun",
                self.node_count
            )),
        }
    }

    /// Returns the items of a list, the newest first.
    fn items_in_list(&self, list: IndexList) -> impl Iterator<Item = CacheItemRef> + '_ {
        let node_at = |node: u32| self.nodes.get(node as usize);
        std::iter::successors(node_at(self.first_node(list)), move |node| node_at(node[NEXT]))
            .map(|node| item_of_node(*node))
    }

    /// Returns items with a lookup under the exact keys of an entry. For a table with only exact
    /// keys these are the misses under the key, and the items that found entry `number`.
    pub fn items_under_entry(
        &self,
        tracker: &WildcardTracker,
        table: u32,
        entry: &StoredEntry,
        number: Option<u32>,
    ) -> impl Iterator<Item = CacheItemRef> + '_ {
        let key = self.hash_exact_key(tracker.exact_key_of_entry(entry).iter().copied());
        let numbered = number.filter(|_| self.by_entry[table as usize].is_some());
        let numbered = numbered.map(|number| self.items_in_list(IndexList::Number(table, number)));
        self.items_in_list(IndexList::Key(key)).chain(numbered.into_iter().flatten())
    }

    /// Returns the items that missed in a table.
    pub fn items_that_missed(&self, table: u32) -> impl Iterator<Item = CacheItemRef> + '_ {
        self.items_in_list(IndexList::Missed(table))
    }
}

/// Lists of one item; reused as scratch memory.
#[derive(Clone, Debug, Default)]
pub struct IndexLists(Vec<IndexList>);

/// Returns whether an entry matches some packet of the lookup's match mask.
pub fn may_match(tracker: &WildcardTracker, lookup: &LookupDependency, entry: &StoredEntry) -> bool {
    tracker.fields_with_offsets().all(|(field, at)| {
        let (key, mask) = (&lookup.key[at..at + field.words], &lookup.mask[at..at + field.words]);
        field.may_match(entry.key(), key, mask)
    })
}
