//! Tail duplication after the hot path: clones the nodes after its lookups, as long as header
//! validity stays the same as at the path's end.
//!
//! The general code must check for each header whether it is valid and where it is. For packets of
//! the hot path this is known: code on the clones does not check, frames do not carry header
//! addresses, and the deparser has nothing to do. A packet continues at the original nodes when a
//! header is added, removed, or replaced by another one, and where it takes a rare path
//! ([`RarePaths`]). All packets also do so from a lookup on that is followed by state with observable
//! order (meters, registers), because such state needs one stage for all packets.
//!
//! Most programs have tables of few entries, for example own addresses or next hops. A stage looks
//! them up in place, packet by packet, and continues. Only when the table has become large do
//! packets queue for a batched lookup.

use crate::analysis::flow::{FlowGraph, lookup_at_end};
use crate::analysis::headers::HeaderLayout;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::order::touches_ordered_state;
use crate::analysis::path_clones::HotPathTail;
use crate::analysis::rare_paths::RarePaths;
use crate::analysis::validity::{KnownValidity, exit_validity};
use crate::analysis::worklist::reverse_postorder;
use crate::plan::paired_lookups::likely_nodes;
use crate::plan::stages::{StageEntry, stage_entries, stage_nodes, successors_in_stage};
use ir::packet_written_tables;
use ir::{Entity, Pipeline, TableId};
use std::collections::HashMap;

/// Maximum number of cloned nodes.
const MAX_CLONED_NODES: usize = 2048;
/// Maximum number of stages, including cloned ones; most programs have far fewer.
const MAX_STAGES: usize = 256;

impl HotPathTail {
    /// Finds the nodes to clone, from the lookups at the ends of the hot path's stages onward.
    /// `known` is the header validity before each node, including the clones on the hot path. Nodes
    /// are cloned only along edges that leave the validity as it is; a clone with that validity is
    /// reused.
    pub fn find(
        pipeline: &Pipeline,
        flow: &FlowGraph,
        headers: &HeaderLayout,
        known: &[Option<KnownValidity>],
    ) -> HotPathTail {
        let first_clone = flow.nodes.len();
        let written = packet_written_tables(pipeline);
        let max_lookups = MAX_STAGES.saturating_sub(stage_entries(pipeline, flow).len());
        let rare_paths = RarePaths::new(pipeline, flow);
        let mut tail = HotPathTail::default();
        // For each node, its clones with the validity known before them.
        let mut copies: HashMap<FlowNodeId, Vec<(FlowNodeId, KnownValidity)>> = HashMap::new();
        let mut work: Vec<(FlowNodeId, KnownValidity)> = Vec::new();
        for node in (0..first_clone).filter(|node| flow.is_on_hot_path(*node)) {
            let Some(known) = known[node].clone() else { continue };
            copies.entry(flow.original_of(node)).or_default().push((node, known.clone()));
            if lookup_at_end(pipeline, flow, node).is_some() {
                work.push((node, known));
            }
        }
        while let Some((copy, before)) = work.pop() {
            let node =
                copy.checked_sub(first_clone).map_or_else(|| flow.original_of(copy), |number| tail.nodes[number]);
            if let Some(table) = lookup_at_end(pipeline, flow, node) {
                if tail.lookups.len() == max_lookups
                    || written[table.index()]
                    || has_ordered_state(pipeline, flow, node, table)
                {
                    continue;
                }
                tail.lookups.push(copy);
            }
            if replaces_header(pipeline, flow, node) {
                continue;
            }
            let rare = rare_paths.rare_successor(pipeline, flow, node);
            for (next, after) in exit_validity(pipeline, flow, headers, node, before.clone()) {
                if Some(next) == flow.deparser || Some(next) == rare || !same_validity(&before, &after) {
                    continue;
                }
                let clones = copies.entry(next).or_default();
                let clone = match clones.iter().find(|(_, known)| same_validity(known, &after)) {
                    Some((copy, _)) => *copy,
                    None if tail.nodes.len() == MAX_CLONED_NODES => continue,
                    None => {
                        let copy = first_clone + tail.nodes.len();
                        tail.nodes.push(next);
                        clones.push((copy, after.clone()));
                        work.push((copy, after));
                        copy
                    }
                };
                tail.edges.push((copy, next, clone));
            }
        }
        tail
    }
}

/// Chooses the clones that look a table up in place, among tables that may be `small` and are
/// reached by most packets: the first on each path through a stage. Only the first, because the
/// core waits for an in-place lookup, and a chain of them leaves too little other work to overlap.
pub fn choose_in_place_lookups(pipeline: &Pipeline, flow: &mut FlowGraph, small: &[bool]) {
    // Whether an in-place lookup precedes the node in its stage.
    let mut behind = vec![false; flow.nodes.len()];
    let nodes = reverse_postorder(flow, vec![0], |node| flow.successors(pipeline, node));
    let likely = likely_nodes(pipeline, flow, (vec![0], &nodes), |node| flow.successors(pipeline, node));
    for node in nodes {
        let table =
            lookup_at_end(pipeline, flow, node).filter(|_| flow.starts_lookup_stage(node) && likely.contains(&node));
        if table.is_some_and(|table| small[table.index()]) && !behind[node] {
            flow.set_in_place_lookup(node);
        }
        let there = behind[node] || flow.looks_up_in_place(node);
        successors_in_stage(pipeline, flow, StageEntry::Begin, node).into_iter().for_each(|next| behind[next] |= there);
    }
}

/// Returns whether a node copies a header over another one, which is then at another address.
fn replaces_header(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> bool {
    let NodeKind::Block(control, block) = flow.nodes[node] else { return false };
    let insts = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts;
    insts.iter().any(|data| matches!(data.inst, ir::Inst::CopyHeader { dst, src } if dst != src))
}

/// Returns whether the same headers are known to be valid and invalid.
fn same_validity(one: &KnownValidity, other: &KnownValidity) -> bool {
    one.valid == other.valid && one.invalid == other.invalid
}

/// Returns whether the stage after a lookup has state that the next packet can observe.
fn has_ordered_state(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId, table: TableId) -> bool {
    let told = |table: TableId| pipeline.tables[table].direct_meter.is_some();
    let keeps = |node: FlowNodeId| {
        let NodeKind::Block(control, block) = flow.nodes[node] else { return false };
        let insts = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts;
        insts.iter().any(|data| touches_ordered_state(&data.inst))
            || flow.applied_table(pipeline, node).is_some_and(told)
    };
    told(table) || stage_nodes(pipeline, flow, StageEntry::Table(node, table)).into_iter().any(keeps)
}
