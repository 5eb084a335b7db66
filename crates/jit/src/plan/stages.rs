//! Splits the flow graph into stages: the code between table lookups.

use crate::analysis::flow::{FlowGraph, lookup_at_end};
use crate::analysis::node::FlowNodeId;
use crate::analysis::worklist::reverse_postorder;
use crate::fallback_reason::FallbackReason;
use ir::{ActionArm, Pipeline, TableId, Terminator};
use std::collections::BTreeMap;

/// Start of a stage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StageEntry {
    /// A packet enters the program.
    Begin,
    /// A packet that left the hot path restarts.
    Restart,
    /// After the lookup at the end of this node.
    Table(FlowNodeId, TableId),
    /// At a node where paths of several stages meet ([`crate::plan::join_stages`]).
    Join(FlowNodeId),
    /// At the deparser.
    Deparser(FlowNodeId),
}

/// A stage: one function of native code.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Start of the stage.
    pub start: StageEntry,
    /// Index in [`stage_entries`]; clones share that of their original.
    pub slot: usize,
    /// Nodes in topological order, except for loops.
    pub nodes: Vec<FlowNodeId>,
}

/// Properties of a stage for the engine.
#[derive(Clone, Copy, Debug)]
pub struct StageInfo {
    /// Start of the stage.
    pub start: StageEntry,
    /// Index in the plan's stage entries; clones share that of their original.
    pub slot: usize,
    /// Whether the stage is a clone for packets of the hot path.
    pub is_hot_path_copy: bool,
    /// Table looked up before the stage.
    pub table: Option<TableId>,
    /// Words (64 bits) per key.
    pub key_words: usize,
    /// Table of the paired lookup, and words per key.
    pub paired_table: Option<(TableId, usize)>,
    /// Whether the table has an action profile.
    pub has_profile: bool,
}

/// Returns the points at which stages can start, without clones; the same for each compiled version
/// of the pipeline.
pub fn stage_entries(pipeline: &Pipeline, flow: &FlowGraph) -> Vec<StageEntry> {
    let site = |node: FlowNodeId| Some(StageEntry::Table(node, lookup_at_end(pipeline, flow, node)?));
    let sites = flow.original_nodes().filter_map(site);
    let joins = flow.joins.iter().copied().map(StageEntry::Join);
    [StageEntry::Begin].into_iter().chain(sites).chain(joins).chain(flow.deparser.map(StageEntry::Deparser)).collect()
}

/// Returns the index of a stage's start in [`stage_entries`].
pub fn entry_slot(flow: &FlowGraph, starts: &[StageEntry], start: StageEntry) -> usize {
    let original = match start {
        StageEntry::Table(node, table) => StageEntry::Table(flow.original_of(node), table),
        StageEntry::Restart => StageEntry::Begin,
        start => start,
    };
    starts.iter().position(|there| *there == original).unwrap_or(0)
}

/// Returns the first nodes of a stage.
pub fn entry_nodes(pipeline: &Pipeline, flow: &FlowGraph, start: StageEntry) -> Vec<FlowNodeId> {
    match start {
        StageEntry::Begin => vec![0],
        StageEntry::Restart => flow.next_node(0).into_iter().collect(),
        StageEntry::Join(node) | StageEntry::Deparser(node) => vec![node],
        StageEntry::Table(node, _) => arm_nodes(pipeline, flow, node, |_| true),
    }
}

/// Returns the first nodes of the chosen arms of the lookup at a node's end.
pub fn arm_nodes(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    node: FlowNodeId,
    is_chosen: impl Fn(&ActionArm) -> bool,
) -> Vec<FlowNodeId> {
    match flow.block_data(pipeline, node).and_then(|block| block.term.as_ref()).map(|term| &term.term) {
        Some(Terminator::Apply { arms, .. }) => {
            arms.iter().filter(|arm| is_chosen(arm)).filter_map(|arm| flow.block_node(node, arm.block)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the successors of a node within the stage that starts at `start`.
pub fn successors_in_stage(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    start: StageEntry,
    node: FlowNodeId,
) -> Vec<FlowNodeId> {
    if lookup_at_end(pipeline, flow, node).is_some()
        && !flow.looks_up_in_place(node)
        && !is_paired_result(flow, start, node)
    {
        return Vec::new();
    }
    let cut = |next: &FlowNodeId| stage_at(flow, *next).is_some() || node == 0 && restart_node(flow) == Some(*next);
    flow.successors(pipeline, node).into_iter().filter(|next| !cut(next)).collect()
}

/// Returns whether the lookup at a node's end is the paired lookup made before the stage.
pub fn is_paired_result(flow: &FlowGraph, start: StageEntry, node: FlowNodeId) -> bool {
    matches!(start, StageEntry::Table(first, _) if flow.paired_lookup(first).is_some_and(|there| there.node == node))
}

/// Returns the start of the stage that begins at a node, if one does in whatever way it is reached.
pub fn stage_at(flow: &FlowGraph, node: FlowNodeId) -> Option<StageEntry> {
    if flow.has_deparser_stage && Some(node) == flow.deparser {
        return Some(StageEntry::Deparser(node));
    }
    flow.joins.contains(&node).then_some(StageEntry::Join(node))
}

/// Returns the node at which packets that leave the hot path restart.
fn restart_node(flow: &FlowGraph) -> Option<FlowNodeId> {
    flow.next_node(0).filter(|_| flow.restarts_on_exit)
}

/// Returns the stages that a node of the given stage reaches.
pub(super) fn exit_stages(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    start: StageEntry,
    node: FlowNodeId,
) -> Vec<StageEntry> {
    let mut starts = Vec::new();
    if node == 0 && restart_node(flow).is_some() {
        starts.push(StageEntry::Restart);
    }
    let table = lookup_at_end(pipeline, flow, node).filter(|_| !is_paired_result(flow, start, node));
    starts.extend(table.map(|table| StageEntry::Table(flow.stage_node(node), table)));
    starts.extend(flow.successors(pipeline, node).into_iter().filter_map(|next| stage_at(flow, next)));
    starts
}

/// Splits the graph into stages, in topological order.
///
/// # Errors
/// Too many stages, or a table applied in a loop.
pub fn split_into_stages(pipeline: &Pipeline, flow: &FlowGraph) -> Result<Vec<Stage>, FallbackReason> {
    let entries = stage_entries(pipeline, flow);
    let mut stages: BTreeMap<StageEntry, Stage> = BTreeMap::new();
    let mut successors: BTreeMap<StageEntry, Vec<StageEntry>> = BTreeMap::new();
    let mut work = vec![StageEntry::Begin];
    while let Some(start) = work.pop() {
        if stages.contains_key(&start) {
            continue;
        }
        let nodes = stage_nodes(pipeline, flow, start);
        let mut exits: Vec<StageEntry> = nodes.iter().flat_map(|n| exit_stages(pipeline, flow, start, *n)).collect();
        exits.sort();
        exits.dedup();
        work.extend(exits.iter().copied());
        successors.insert(start, exits);
        stages.insert(start, Stage { start, slot: entry_slot(flow, &entries, start), nodes });
        if stages.len() > 512 {
            return Err(FallbackReason::TooLarge);
        }
    }
    let order = sort_topologically(&successors)?;
    Ok(order.into_iter().filter_map(|start| stages.remove(&start)).collect())
}

/// Returns the nodes of a stage in topological order, except for loops.
pub(super) fn stage_nodes(pipeline: &Pipeline, flow: &FlowGraph, start: StageEntry) -> Vec<FlowNodeId> {
    reverse_postorder(flow, entry_nodes(pipeline, flow, start), |node| successors_in_stage(pipeline, flow, start, node))
}

/// Returns the number of stages that reach the deparser's stage.
pub fn count_deparser_predecessors(pipeline: &Pipeline, flow: &FlowGraph, stages: &[Stage]) -> usize {
    let leads = |stage: &&Stage| {
        let mut starts = stage.nodes.iter().flat_map(|node| exit_stages(pipeline, flow, stage.start, *node));
        starts.any(|start| matches!(start, StageEntry::Deparser(_)))
    };
    stages.iter().filter(leads).count()
}

/// Sorts stages so that each precedes its successors. A loop is an error.
fn sort_topologically(successors: &BTreeMap<StageEntry, Vec<StageEntry>>) -> Result<Vec<StageEntry>, FallbackReason> {
    let mut predecessor_counts: BTreeMap<StageEntry, usize> = successors.keys().map(|start| (*start, 0)).collect();
    for start in successors.values().flatten() {
        *predecessor_counts.entry(*start).or_default() += 1;
    }
    let mut order = Vec::new();
    let mut ready: Vec<StageEntry> = predecessor_counts.iter().filter(|(_, n)| **n == 0).map(|(s, _)| *s).collect();
    while let Some(start) = ready.pop() {
        order.push(start);
        for to in &successors[&start] {
            if let Some(count) = predecessor_counts.get_mut(to) {
                *count -= 1;
                if *count == 0 {
                    ready.push(*to);
                }
            }
        }
    }
    // The remaining stages form a loop.
    if order.len() == successors.len() { Ok(order) } else { Err(FallbackReason::TableInLoop) }
}
