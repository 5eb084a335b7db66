//! What is placed: the program's tables, and for each step of code between them a table without keys.

use super::state::Cell;
use ir::{ExternId, Loc, Pipeline, TableId};

/// Number of a node.
pub(super) type NodeId = usize;

/// When something happens within its block.
pub(super) type Moment = usize;

/// After all instructions of a block.
pub(super) const END: Moment = usize::MAX;

/// Something that is placed.
pub(super) struct Node {
    /// The program's table, or none for a step of code.
    pub table: Option<TableId>,
    /// Name for people: of a table its own, else the file and line of its first instruction.
    pub name: String,
    /// Indexed objects that it executes.
    pub objects: Vec<ExternId>,
    /// Conditions that its gateways decide: text and bits.
    pub conditions: Vec<(String, u32)>,
}

/// That a node reads or writes something somewhere.
pub(super) struct Event {
    pub node: NodeId,
    /// Site of the graph.
    pub at: usize,
    pub moment: Moment,
    pub reads: Vec<Cell>,
    pub writes: Vec<Cell>,
}

/// That code executes an indexed object.
pub(super) struct Access {
    pub object: ExternId,
    pub node: NodeId,
    pub at: usize,
    pub moment: Moment,
}

/// A place in the program as `file:line`.
pub(super) fn place(pipeline: &Pipeline, loc: Loc) -> String {
    let file = pipeline.files.get(usize::from(loc.file)).map_or("", |f| f.rsplit('/').next().unwrap_or(f));
    if loc.line == 0 { format!("{file}?") } else { format!("{file}:{}", loc.line) }
}
