//! [`FlowTable`]: cached rewrites, their lookup by packets, and their invalidation by table
//! changes.

use super::NotRewritable;
use super::active_key_mask::{ActiveKeyMask, GATE};
use super::backing_engine::BackingEngine;
use super::code::{self, CompiledCode};
use super::form::{FlowRewrite, KeyMask, WINDOW};
use super::key::{HashSecrets, KeyExtractor, has_prefix};
use super::layout::{FlowLayout, HEADER};
use super::row::{self, FlowRow};
use super::row_memory::{FlowRowMemory, LINE, NONE};
use super::symbolic_executor::ProgramFacts;
use super::window::PacketWindow;
use crate::invalidation::{IndexLists, InvalidationIndex, may_match};
use crate::list_heads::ListHeads;
use crate::segment::LookupDependency;
use crate::wildcards::WildcardTracker;
use entries::{StateChange, StoredEntry};
use ir::{Entity, Pipeline, TableId};
use jit::rewrite::RowCode;
use packet::DropReason;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum number of key masks. A packet that misses tries all of them.
pub const MAX_KEY_MASKS: usize = 32;

/// Number of key masks from which a flow uses an existing, more specific mask. Flows that drop
/// packets then add no masks.
const KEY_MASK_SOFT_LIMIT: usize = 12;

/// Places between the prefetch of a row and the clock hand.
const PREFETCH_AHEAD: usize = 8;

type HashState = foldhash::fast::RandomState;

/// Row that is being removed.
#[derive(Clone, Debug, Default)]
pub struct FlowRemoval {
    pub(super) row: u32,
    /// Hash of its key.
    pub(super) hash: u64,
    pub(super) lists: IndexLists,
}

/// Cached flow in exchange form.
#[derive(Clone, Debug)]
pub struct CachedFlow {
    /// The rewrite.
    pub rewrite: FlowRewrite,
    /// Number of its key mask.
    pub key_mask: u32,
    /// Deferred counts of a removed flow: packets, bytes, and receive time of the last packet (ns).
    pub deferred_counts: (u64, u64, u64),
}

/// Result of an insertion.
#[derive(Clone, Debug)]
pub struct FlowInsertion {
    /// Place of the flow.
    pub place: u32,
    /// The key mask is new, or its gate became wider.
    pub shape_changed: bool,
    /// Replaced flow of the same key, for other packet lengths. Its place stays reserved until
    /// [`FlowTable::release`].
    pub replaced: Option<(u32, Box<CachedFlow>)>,
}

/// Flow that is prepared for insertion.
#[derive(Clone, Debug, Default)]
pub(super) struct PreparedFlow {
    words: Vec<u64>,
    hash: u64,
    lists: IndexLists,
}

/// Layout with its number of users.
#[derive(Debug)]
pub(super) struct SharedLayout {
    pub layout: Arc<FlowLayout>,
    /// Number of the layout's key mask.
    pub layout_key_mask: u32,
    rows: usize,
    pub code: CompiledCode<RowCode>,
}

/// Cached flows.
#[derive(Debug)]
pub struct FlowTable {
    pub(super) rows: FlowRowMemory,
    /// Row of each place.
    pub(super) places: Vec<u32>,
    free: Vec<u32>,
    /// Rows by a hash of key mask and key. On a collision the newer row replaces the older one.
    pub(super) by_key: ListHeads,
    secrets: HashSecrets,
    key_masks: Vec<ActiveKeyMask>,
    /// Gate of each key mask, as mask and value.
    gates: Vec<[u128; 2]>,
    layouts: Vec<SharedLayout>,
    by_layout: HashMap<Arc<FlowLayout>, u32, HashState>,
    free_layouts: Vec<u32>,
    reasons: Vec<DropReason>,
    depth: usize,
    hot_lines: usize,
    pub(super) invalidation: InvalidationIndex,
    pub(super) leaving: Vec<FlowRemoval>,
    clock_hand: usize,
    idle_hand: usize,
    pub(super) len: usize,
}

impl FlowTable {
    /// Creates an empty table with a capacity in flows.
    pub fn new(pipeline: &Pipeline, wildcard_trackers: &[WildcardTracker], capacity: usize) -> FlowTable {
        FlowTable {
            rows: FlowRowMemory::default(),
            places: vec![NONE; capacity],
            free: (0..capacity as u32).rev().collect(),
            by_key: ListHeads::default(),
            secrets: HashSecrets::new(),
            key_masks: Vec::new(),
            gates: Vec::new(),
            layouts: Vec::new(),
            by_layout: HashMap::default(),
            free_layouts: Vec::new(),
            reasons: Vec::new(),
            // The gates always read these bytes.
            depth: GATE.0 + GATE.1,
            hot_lines: 1,
            invalidation: InvalidationIndex::new(pipeline, wildcard_trackers),
            leaving: Vec::new(),
            clock_hand: 0,
            idle_hand: 0,
            len: 0,
        }
    }

    /// Returns the number of flows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the capacity in flows.
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Returns the approximate memory use in bytes.
    pub fn memory(&self) -> usize {
        self.rows.memory()
            + self.by_key.memory()
            + self.invalidation.memory()
            + 4 * (self.places.len() + self.free.capacity())
    }

    /// Returns the key masks in lookup order.
    pub fn key_masks(&self) -> &[ActiveKeyMask] {
        &self.key_masks
    }

    /// Returns the first key mask from `first` on with a gate that matches the packet's bytes at
    /// [`GATE`].
    #[inline(always)]
    pub(super) fn first_key_mask_from(&self, first: usize, gate: u128) -> Option<(usize, &ActiveKeyMask)> {
        let gates = self.gates.get(first..)?;
        let next = gates.iter().position(|[mask, value]| gate & mask == *value)?;
        Some((first + next, &self.key_masks[first + next]))
    }

    /// Returns the drop reasons by their numbers in rows.
    pub fn reasons(&self) -> &[DropReason] {
        &self.reasons
    }

    /// Returns the number of a drop reason, which is added if it is new.
    pub fn reason_number(&mut self, reason: DropReason) -> u32 {
        let found = self.reasons.iter().position(|known| *known == reason);
        found.unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        }) as u32
    }

    /// Returns a row.
    #[inline]
    pub fn row(&self, row: u32) -> FlowRow<'_> {
        let words = self.rows.row_words(row);
        FlowRow { layout: &self.layouts[row::layout_and_place(words).0 as usize].layout, words }
    }

    /// Returns a row's words and its shared layout.
    #[inline]
    pub(super) fn words_and_layout(&self, row: u32) -> (&[u64], &SharedLayout) {
        let words = self.rows.row_words(row);
        (words, &self.layouts[row::layout_and_place(words).0 as usize])
    }

    /// Counts a packet that was rewritten without native code. Compiles native code for its key
    /// mask and layout after `native_threshold` packets.
    pub(super) fn count_without_code(&mut self, row: u32, native_threshold: u32) {
        let shared = &mut self.layouts[row::layout_and_place(self.rows.row_words(row)).0 as usize];
        let number = shared.layout.key_mask;
        let used = &mut self.key_masks[number as usize];
        used.code.count_without_code(native_threshold, || code::hash_code(number, &used.key, &self.secrets));
        shared.code.count_without_code(native_threshold, || code::row_code(&shared.layout, &used.key));
    }

    /// Returns the row at a place.
    pub fn row_at_place(&self, place: u32) -> Option<u32> {
        self.places.get(place as usize).copied().filter(|row| *row != NONE)
    }

    /// Returns the flow at a place.
    pub fn get(&self, place: u32) -> Option<CachedFlow> {
        self.row_at_place(place).map(|row| self.to_cached_flow(row))
    }

    fn to_cached_flow(&self, row: u32) -> CachedFlow {
        let row = self.row(row);
        let used = &self.key_masks[row.layout.key_mask as usize];
        let rewrite = row.flow_rewrite((&used.key_mask, &used.key), &self.reasons);
        let [packets, bytes, last] = [row::PACKETS, row::BYTES, row::LAST].map(|at| row.words[at]);
        CachedFlow { rewrite, key_mask: row.layout.key_mask, deferred_counts: (packets, bytes, last) }
    }

    /// Returns the places in use.
    pub fn used_places(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().enumerate().filter(|(_, row)| **row != NONE).map(|(place, _)| place as u32)
    }

    #[inline]
    pub(super) fn hash_key(&self, key_mask: u32, lead: u64, words: &[u64]) -> u64 {
        self.secrets.hash_key(key_mask, lead, words)
    }

    /// Returns the row with this key hash, or [`NONE`].
    #[inline]
    pub(super) fn candidate_row(&self, hash: u64) -> u32 {
        self.by_key.get(hash)
    }

    /// Prefetches the lookup of a hash.
    #[inline]
    pub(super) fn prefetch_candidate_row(&self, hash: u64) {
        self.by_key.prefetch(hash);
    }

    /// Prefetches the first lines of a row.
    #[inline]
    pub(super) fn prefetch_row(&self, row: u32, lines: usize) {
        self.rows.prefetch_lines(row, lines);
    }

    /// Returns whether the row has this key and applies to the packet.
    #[inline]
    pub(super) fn row_matches(
        &self,
        row: u32,
        (key_mask, (lead, words)): (u32, (u64, &[u64])),
        (window, length): (&PacketWindow, usize),
    ) -> bool {
        let row = self.row(row);
        let has_key =
            row.key().split_first().is_some_and(|(first, others)| *first == lead && has_prefix(others, words));
        row.layout.key_mask == key_mask && has_key && row.can_apply(window, length)
    }

    /// Returns the [`FlowTable::hash_key`] of a stored key.
    pub(super) fn hash_stored_key(&self, key_mask: u32, key: &[u64]) -> u64 {
        key.split_first().map_or(0, |(lead, words)| self.hash_key(key_mask, *lead, words))
    }

    /// Returns the number of a key mask for rewrites, which is added if necessary. `is_forwarded`:
    /// the packets are forwarded.
    ///
    /// # Errors
    /// The maximum number of masks is reached.
    pub fn key_mask_number(&mut self, key_mask: &KeyMask, is_forwarded: bool) -> Result<u32, NotRewritable> {
        let mut number = self.key_masks.iter().position(|used| used.key_mask == *key_mask);
        if number.is_none() && self.key_masks.len() >= KEY_MASK_SOFT_LIMIT {
            // A more specific mask is correct as well, because it only makes more bits of the key
            // constant.
            number = self.key_masks.iter().position(|used| used.key_mask.is_refinement_of(key_mask));
            if number.is_none() && (self.key_masks.len() >= MAX_KEY_MASKS || !is_forwarded) {
                return Err(NotRewritable::Shapes);
            }
        }
        Ok(number.unwrap_or_else(|| {
            // This gate matches no packet until the first flow is inserted.
            let gate = ([0; GATE.1], [0xff; GATE.1]);
            let key = KeyExtractor::new(key_mask);
            self.depth = self.depth.max(key.depth());
            self.gates.push([0, u128::MAX]);
            self.key_masks.push(ActiveKeyMask { key_mask: key_mask.clone(), gate, key, code: CompiledCode::default() });
            self.key_masks.len() - 1
        }) as u32)
    }

    /// Returns the maximum number of first bytes that any lookup or rewrite has read: a multiple of
    /// 8, at most [`WINDOW`].
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Returns the maximum number of lines of a row that a hit reads.
    pub(super) fn hit_lines(&self) -> usize {
        self.hot_lines
    }

    /// Returns the key extractor of a key mask.
    pub fn key_extractor(&self, key_mask: u32) -> &KeyExtractor {
        &self.key_masks[key_mask as usize].key
    }

    /// Adds a user of a layout. Returns its number, valid until [`FlowTable::drop_layout`].
    pub fn share_layout(&mut self, layout: FlowLayout) -> u32 {
        if let Some(number) = self.by_layout.get(&layout) {
            self.layouts[*number as usize].rows += 1;
            return *number;
        }
        self.depth = self.depth.max(layout.depth());
        self.hot_lines = self.hot_lines.max(layout.hit_words().div_ceil(LINE));
        let layout_key_mask = layout.key_mask;
        let shared = SharedLayout { layout: Arc::new(layout), layout_key_mask, rows: 1, code: CompiledCode::default() };
        let number = self.free_layouts.pop().unwrap_or(self.layouts.len() as u32);
        self.by_layout.insert(shared.layout.clone(), number);
        match self.layouts.get_mut(number as usize) {
            Some(free) => *free = shared,
            None => self.layouts.push(shared),
        }
        number
    }

    /// Returns a layout.
    pub fn layout(&self, number: u32) -> &Arc<FlowLayout> {
        &self.layouts[number as usize].layout
    }

    /// Removes a user of a layout.
    pub fn drop_layout(&mut self, number: u32) {
        let shared = &mut self.layouts[number as usize];
        shared.rows -= 1;
        if shared.rows == 0 {
            self.by_layout.remove(&shared.layout);
            self.free_layouts.push(number);
        }
    }

    /// Prepares a filled row for insertion: hashes its key and prefetches the memory. Swaps the
    /// row's words with unused ones.
    pub(super) fn prepare_insertion(
        &self,
        facts: &ProgramFacts,
        (layout, row): (u32, &mut Vec<u64>),
        prepared: &mut PreparedFlow,
    ) {
        std::mem::swap(row, &mut prepared.words);
        let layout = &self.layouts[layout as usize].layout;
        prepared.hash = self.hash_stored_key(layout.key_mask, &prepared.words[HEADER..layout.set_bits]);
        self.by_key.prefetch(prepared.hash);
        let flow_row = FlowRow { layout, words: &prepared.words };
        self.invalidation.collect_lists(&facts.wildcard_trackers, flow_row.lookups(), &mut prepared.lists);
        self.invalidation.prefetch_heads(&prepared.lists);
    }

    /// Prefetches the index nodes and row memory of a prepared flow, after `before` others.
    pub(super) fn prefetch_insertion(&self, prepared: &PreparedFlow, before: usize) {
        self.invalidation.prefetch_first_nodes(&prepared.lists);
        self.invalidation.prefetch_free_nodes(&prepared.lists, before);
        self.rows.prefetch_allocation(prepared.words.len(), before);
    }

    /// Returns whether an equal rewrite is cached already.
    pub(super) fn is_cached(&self, layout: u32, prepared: &PreparedFlow) -> bool {
        let old = self.by_key.get(prepared.hash);
        old != NONE && {
            let words = self.rows.row_words(old);
            row::layout_and_place(words).0 == layout
                && row::is_same_rewrite(&words[..prepared.words.len()], &prepared.words)
        }
    }

    /// Inserts a prepared row for a packet with these first bytes, received at `now` (ns). A row of
    /// the same key hash is removed, because a hash leads to one row.
    ///
    /// # Errors
    /// No place is free.
    pub(super) fn insert_flow(
        &mut self,
        facts: &ProgramFacts,
        layout: u32,
        prepared: &PreparedFlow,
        (window, now): (&[u8; WINDOW], u64),
    ) -> Result<FlowInsertion, NotRewritable> {
        let Some(place) = self.free.pop() else { return Err(NotRewritable::NoRoom) };
        let shared = &mut self.layouts[layout as usize];
        shared.rows += 1;
        let active_mask = &mut self.key_masks[shared.layout.key_mask as usize];
        let shape_changed = match active_mask.gate {
            // The initial gate, which matches no packet.
            ([0, ..], [0xff, ..]) => {
                active_mask.start_gate(window);
                true
            }
            _ => active_mask.widen_gate(window),
        };
        self.gates[shared.layout.key_mask as usize] = active_mask.gate_words();
        let row = self.rows.allocate_row(prepared.words.len());
        self.len += 1;
        let old = self.by_key.set(prepared.hash, row);
        let replaced = (old != NONE).then(|| {
            let removed = (row::layout_and_place(self.rows.row_words(old)).1, Box::new(self.to_cached_flow(old)));
            // `false`: the key refers to the new row already.
            self.remove_one_row(facts, old, false);
            removed
        });
        let nodes = self.invalidation.link_item((0, place), &prepared.lists);
        let words = &mut self.rows.at_mut(row)[..prepared.words.len()];
        words.copy_from_slice(&prepared.words);
        row::set_layout_and_place(words, (layout, place), nodes);
        words[row::LAST] = now;
        self.places[place as usize] = row;
        Ok(FlowInsertion { place, shape_changed, replaced })
    }

    /// Removes a flow. Its place stays reserved until [`FlowTable::release`].
    pub fn remove(&mut self, facts: &ProgramFacts, place: u32) -> Option<CachedFlow> {
        let row = self.row_at_place(place)?;
        let flow = self.to_cached_flow(row);
        self.remove_one_row(facts, row, true);
        Some(flow)
    }

    /// Releases a place for new flows.
    pub fn release(&mut self, place: u32) {
        if self.places.get(place as usize).is_some_and(|row| *row == NONE) {
            self.free.push(place);
        }
    }

    /// Returns whether row memory is so fragmented that all rows should be removed.
    pub fn is_fragmented(&self) -> bool {
        self.rows.is_fragmented(self.places.len())
    }

    /// Resets the row memory if the table is empty. Earlier row numbers become invalid.
    pub(super) fn reset_row_memory(&mut self) -> bool {
        let empty = self.is_empty();
        if empty {
            self.rows.clear();
            self.invalidation.reset_nodes();
        }
        empty
    }

    /// Returns the number of free places.
    pub fn free_places(&self) -> usize {
        self.free.len()
    }

    /// Returns the words of a row, for counting.
    #[inline]
    pub fn words_mut(&mut self, row: u32) -> &mut [u64] {
        self.rows.at_mut(row)
    }

    /// Returns up to `count` places without a packet since the clock hand passed, in at most two
    /// rounds. Does not remove the flows.
    pub fn find_oldest_places(&mut self, count: usize) -> Vec<u32> {
        let mut found = Vec::new();
        for step in 0..2 * self.places.len() {
            if found.len() >= count.min(self.len) {
                break;
            }
            let place = self.clock_hand as u32;
            self.clock_hand = (self.clock_hand + 1) % self.places.len().max(1);
            if let Some(later_row) = self.row_at_place((self.clock_hand + PREFETCH_AHEAD) as u32) {
                self.rows.prefetch_lines(later_row, 1);
            }
            let Some(row) = self.row_at_place(place) else { continue };
            // The second round skips places that were found in the first.
            let was_found = step >= self.places.len() && found.contains(&place);
            if !row::clear_referenced(self.rows.at_mut(row)) && !was_found {
                found.push(place);
            }
        }
        found
    }

    /// Returns those of the next `count` places without a packet since `idle_since` (ns). Does not
    /// remove the flows.
    pub fn find_idle_places(&mut self, idle_since: u64, count: usize) -> Vec<u32> {
        let mut found = Vec::new();
        for _ in 0..count.min(self.places.len()) {
            let place = self.idle_hand as u32;
            self.idle_hand = (self.idle_hand + 1) % self.places.len();
            if let Some(later_row) = self.row_at_place((self.idle_hand + PREFETCH_AHEAD) as u32) {
                self.rows.prefetch_lines(later_row, 1);
            }
            if self.row_at_place(place).is_some_and(|row| self.rows.row_words(row)[row::LAST] < idle_since) {
                found.push(place);
            }
        }
        found
    }

    /// Adds the flows that a change makes stale. `number`: the changed or deleted entry. Inserting
    /// an entry makes a flow stale if its packets would find this entry; changing one, if they
    /// found it.
    pub fn collect_stale<R: BackingEngine>(
        &self,
        facts: &ProgramFacts,
        backing: &R,
        (change, number): (&StateChange, Option<u32>),
        stale: &mut BTreeSet<u32>,
    ) {
        match change {
            StateChange::Inserted(table, entry, _) => {
                let tracker = &facts.wildcard_trackers[table.index()];
                self.collect_dependents(facts, *table, (entry, None), stale, |dependency| {
                    let found = dependency.found_entry.and_then(|number| backing.entry_of(*table, number));
                    found.is_none_or(|found| tracker.has_precedence(entry, &found))
                        && may_match(tracker, dependency, entry)
                });
            }
            StateChange::Modified(table, entry, ..) | StateChange::Deleted(table, entry) => {
                self.collect_dependents_of_entry(facts, *table, entry, number, stale);
            }
            StateChange::DefaultAction(table) => {
                stale.extend(self.invalidation.items_that_missed(table.0).map(|(_, place)| place))
            }
            // Lookups in value sets are not recorded, so all flows are stale.
            StateChange::ValueSet(_) => stale.extend(self.used_places()),
            // Rewrites depend on no other state.
            _ => {}
        }
    }

    /// Adds the flows that depend on an entry.
    pub fn collect_dependents_of_entry(
        &self,
        facts: &ProgramFacts,
        table: TableId,
        entry: &StoredEntry,
        number: Option<u32>,
        stale: &mut BTreeSet<u32>,
    ) {
        let tracker = &facts.wildcard_trackers[table.index()];
        self.collect_dependents(facts, table, (entry, number), stale, |dependency| match number {
            Some(number) => dependency.found_entry == Some(number),
            None => dependency.found_entry.is_some() && may_match(tracker, dependency, entry),
        });
    }

    /// Adds the flows with a lookup under the entry's exact keys, or that found entry `number`, for
    /// which `concerns` is true.
    fn collect_dependents(
        &self,
        facts: &ProgramFacts,
        table: TableId,
        (entry, number): (&StoredEntry, Option<u32>),
        stale: &mut BTreeSet<u32>,
        concerns: impl Fn(&LookupDependency) -> bool,
    ) {
        let places = self
            .invalidation
            .items_under_entry(&facts.wildcard_trackers[table.index()], table.0, entry, number)
            .map(|(_, place)| place);
        stale.extend(places.filter(|place| {
            let row = self.row_at_place(*place).map(|row| self.row(row));
            row.is_some_and(|row| row.lookups_in_table(table.0).any(|dependency| concerns(&dependency)))
        }));
    }
}
