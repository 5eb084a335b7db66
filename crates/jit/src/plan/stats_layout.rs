//! Layout of the statistics cells ([`crate::stats`]).

use crate::analysis::flow::has_lookup;
use crate::plan::stages::StageEntry;
use ir::{Entity, Pipeline, TableId};

/// Numbering of the statistics cells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatsLayout {
    /// First cell of each stage entry ([`crate::plan::stages::stage_entries`]).
    pub entry_cells: Vec<usize>,
    /// First cell of each table that is applied without a lookup.
    inline: Vec<usize>,
    /// Number of cells.
    pub cell_count: usize,
}

impl StatsLayout {
    /// Numbers the cells of a pipeline with these stage entries.
    pub fn new(pipeline: &Pipeline, starts: &[StageEntry]) -> StatsLayout {
        let mut cells = 0;
        let mut room = |table: TableId| {
            let first = cells;
            cells += 2 * pipeline.tables[table].actions.len();
            first
        };
        let starts = starts.iter().map(|start| match start {
            StageEntry::Table(_, table) => room(*table),
            _ => 0,
        });
        let starts = starts.collect();
        let inline =
            pipeline.tables.keys().map(|table| if has_lookup(pipeline, table) { 0 } else { room(table) }).collect();
        StatsLayout { entry_cells: starts, inline, cell_count: cells }
    }

    /// Returns the cell for misses of the action at `position`; the next cell is for hits. `start`
    /// is the stage entry after the table's lookup, `None` for a table without one.
    pub fn cell(&self, start: Option<usize>, table: TableId, position: usize) -> usize {
        let first = match start {
            Some(start) => self.entry_cells.get(start),
            None => self.inline.get(table.index()),
        };
        first.copied().unwrap_or(0) + 2 * position
    }
}
