//! Rewrites that go, many together: what one waits for from memory, the others' arrives meanwhile.

use super::flows::{Flows, Leaving};
use super::row;
use super::rows::NONE;
use super::shadow::Known;
use crate::fresh::Lists;

/// Lines of a row of which it is known before it is read that it has them.
const LINES: usize = 8;

impl Flows {
    /// Those at these places will go.
    pub fn leaving_soon(&self, places: &[u32]) {
        places.iter().filter_map(|place| self.row_of(*place)).for_each(|row| self.rows.soon(row, LINES));
    }

    /// Takes out those at these places, which may be used again, where nobody asks what they were.
    pub fn discard_all(&mut self, known: &Known, places: &[u32]) {
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.resize_with(places.len().max(leaving.len()), Leaving::default);
        let mut count = 0;
        for row in places.iter().filter_map(|place| self.row_of(*place)) {
            self.lists_of(known, row, &mut leaving[count]);
            count += 1;
        }
        let leaving_now = &leaving[..count];
        for Leaving { row, lists, .. } in leaving_now {
            self.fresh.neighbours_soon(row::nodes(self.rows.at(*row)), lists);
        }
        for Leaving { row, hash, lists } in leaving_now {
            self.by_key.set(*hash, NONE);
            self.take(*row, lists);
        }
        places.iter().for_each(|place| self.release(*place));
        self.leaving = leaving;
    }

    /// The lists that a row stands in, with what is behind them asked for.
    fn lists_of(&self, known: &Known, number: u32, leaving: &mut Leaving) {
        let row = self.row(number);
        leaving.row = number;
        leaving.hash = self.hash_of(row.layout.shape, row.key());
        self.by_key.soon(leaving.hash);
        self.fresh.lists_of(&known.witnesses, row.questions(), &mut leaving.lists);
        self.fresh.lists_soon(&leaving.lists);
        self.fresh.nodes_soon(row::nodes(row.words), &leaving.lists);
    }

    /// Takes one out that is no more found by its key, and stands in these lists.
    fn take(&mut self, row: u32, lists: &Lists) {
        let (shared, place) = row::of(self.rows.at(row));
        let words = self.layout(shared).words;
        self.fresh.unlink(row::nodes(self.rows.at(row)), lists);
        self.rows.at_mut(row)[row::PACKETS] = 0;
        self.rows.leave(row, words);
        self.drop_layout(shared);
        self.places[place as usize] = NONE;
        self.len -= 1;
    }

    /// Takes one out; `found`: it is found by its key until now.
    pub fn take_alone(&mut self, known: &Known, row: u32, found: bool) {
        let mut leaving = self.leaving.pop().unwrap_or_default();
        self.lists_of(known, row, &mut leaving);
        if found {
            self.by_key.set(leaving.hash, NONE);
        }
        self.take(row, &leaving.lists);
        self.leaving.push(leaving);
    }
}
