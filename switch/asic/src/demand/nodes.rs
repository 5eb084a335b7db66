//! Nodes to place: the program's tables, and a table without keys for each code step between them.

use super::state::StateCell;
use ir::{ExternId, Pipeline, SourceLoc, TableId};

/// Index of a node.
pub(super) type NodeId = usize;

/// Position of an event within its block.
pub(super) type EventOrder = usize;

/// Position after all instructions of a block.
pub(super) const BLOCK_END: EventOrder = usize::MAX;

/// A table or code step to place.
pub(super) struct PlacementNode {
    /// The program's table. `None` for a code step.
    pub table: Option<TableId>,
    /// Name for users: the table's name, or file and line of the step's first instruction.
    pub name: String,
    /// Indexed extern objects that it executes.
    pub objects: Vec<ExternId>,
    /// Conditions that its gateways decide: text and bits.
    pub conditions: Vec<(String, u32)>,
}

/// Reads and writes of a node at one position.
pub(super) struct AccessEvent {
    pub node: NodeId,
    /// Index in [`super::graph::StageGraph::sites`].
    pub at: usize,
    pub order: EventOrder,
    pub reads: Vec<StateCell>,
    pub writes: Vec<StateCell>,
}

/// Execution of an indexed extern object.
pub(super) struct ObjectAccess {
    pub object: ExternId,
    pub node: NodeId,
    pub at: usize,
    pub order: EventOrder,
}

/// Formats a source location as `file:line`.
pub(super) fn source_location(pipeline: &Pipeline, loc: SourceLoc) -> String {
    let file = pipeline.files.get(usize::from(loc.file)).map_or("", |f| f.rsplit('/').next().unwrap_or(f));
    if loc.line == 0 { format!("{file}?") } else { format!("{file}:{}", loc.line) }
}
