//! Batched removal of flows. The cache misses of one removal overlap with those of others.

use super::flows::{FlowRemoval, FlowTable};
use super::row;
use super::row_memory::NONE;
use super::symbolic_executor::ProgramFacts;
use crate::invalidation::IndexLists;

/// Number of lines that every row has.
const PREFETCH_LINES: usize = 8;

impl FlowTable {
    /// Prefetches the rows at these places before their removal.
    pub fn prefetch_rows(&self, places: &[u32]) {
        places
            .iter()
            .filter_map(|place| self.row_at_place(*place))
            .for_each(|row| self.rows.prefetch_lines(row, PREFETCH_LINES));
    }

    /// Removes the flows at these places and releases the places. Discards the flows.
    pub fn discard_flows(&mut self, facts: &ProgramFacts, places: &[u32]) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.resize_with(places.len().max(leaving.len()), FlowRemoval::default);
        let mut count = 0;
        for row in places.iter().filter_map(|place| self.row_at_place(*place)) {
            self.collect_lists(facts, row, &mut leaving[count]);
            count += 1;
        }
        let leaving_now = &leaving[..count];
        for FlowRemoval { row, lists, .. } in leaving_now {
            self.invalidation.prefetch_neighbors(row::nodes(self.rows.row_words(*row)), lists);
        }
        for FlowRemoval { row, hash, lists } in leaving_now {
            self.by_key.set(*hash, NONE);
            self.remove_row(*row, lists);
        }
        places.iter().for_each(|place| self.release(*place));
        self.leaving = leaving;
    }

    /// Collects the key hash and the index lists of a row, and prefetches the memory of their
    /// removal.
    fn collect_lists(&self, facts: &ProgramFacts, number: u32, leaving: &mut FlowRemoval) {
        let row = self.row(number);
        leaving.row = number;
        leaving.hash = self.hash_stored_key(row.layout.key_mask, row.key());
        self.by_key.prefetch(leaving.hash);
        self.invalidation.collect_lists(&facts.wildcard_trackers, row.lookups(), &mut leaving.lists);
        self.invalidation.prefetch_heads(&leaving.lists);
        self.invalidation.prefetch_nodes(row::nodes(row.words), &leaving.lists);
    }

    /// Removes a row, given its lists. Its key was already removed.
    fn remove_row(&mut self, row: u32, lists: &IndexLists) {
        let (shared, place) = row::layout_and_place(self.rows.row_words(row));
        let words = self.layout(shared).words;
        self.invalidation.unlink_item(row::nodes(self.rows.row_words(row)), lists);
        self.rows.at_mut(row)[row::PACKETS] = 0;
        self.rows.free_row(row, words);
        self.drop_layout(shared);
        self.places[place as usize] = NONE;
        self.len -= 1;
    }

    /// Removes one row. `is_referenced`: its key still refers to it.
    pub fn remove_one_row(&mut self, facts: &ProgramFacts, row: u32, is_referenced: bool) {
        let mut leaving = self.leaving.pop().unwrap_or_default();
        self.collect_lists(facts, row, &mut leaving);
        if is_referenced {
            self.by_key.set(leaving.hash, NONE);
        }
        self.remove_row(row, &leaving.lists);
        self.leaving.push(leaving);
    }
}
