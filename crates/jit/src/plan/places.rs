//! Where workers count what they do ([`crate::tally`]).

use crate::analysis::flow::is_cut;
use crate::plan::stages::Start;
use ir::{Entity, Pipeline, TableId};

/// Where the cells of each place are, as numbers of cells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// For each place where stages can begin ([`crate::plan::stages::starts`]).
    pub starts: Vec<usize>,
    /// For each table that is applied without a lookup.
    inline: Vec<usize>,
    /// How many cells there are.
    pub cells: usize,
}

impl Places {
    /// The places of a pipeline whose stages can begin there.
    pub fn new(pipeline: &Pipeline, starts: &[Start]) -> Places {
        let mut cells = 0;
        let mut room = |table: TableId| {
            let first = cells;
            cells += 2 * pipeline.tables[table].actions.len();
            first
        };
        let starts = starts.iter().map(|start| match start {
            Start::Site(_, table) => room(*table),
            _ => 0,
        });
        let starts = starts.collect();
        let inline =
            pipeline.tables.keys().map(|table| if is_cut(pipeline, table) { 0 } else { room(table) }).collect();
        Places { starts, inline, cells }
    }

    /// The cell for misses of the action at `position`; the next one is for hits. `start` is where the table is looked up, `None` if it is not.
    pub fn cell(&self, start: Option<usize>, table: TableId, position: usize) -> usize {
        let first = match start {
            Some(start) => self.starts.get(start),
            None => self.inline.get(table.index()),
        };
        first.copied().unwrap_or(0) + 2 * position
    }
}
