//! Joins: nodes at which a stage of its own starts because many stages would have a copy of the code
//! behind them.
//!
//! A stage has all code up to the next lookups. Where paths of several lookups meet, for example before
//! a packet is encapsulated, each of their stages would have that code. A program with many optional
//! steps, each with its tables, would have most of its code twenty times: it takes long to compile, and
//! the processor's caches hold little of it. With a stage at the join the code exists once, and a packet
//! is queued a second time. Clones for the hot path ([`crate::plan::hot_path_tail`]) pass a join.

use crate::analysis::flow::FlowGraph;
use crate::analysis::imported_values::imported_values;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::order::touches_ordered_state;
use crate::analysis::worklist::reverse_postorder;
use crate::fallback_reason::FallbackReason;
use crate::plan::stages::{Stage, StageEntry, split_into_stages, successors_in_stage};
use ir::{ControlKind, ExternArg, Inst, Pipeline};
use std::cell::Cell;

/// Number of joins at most.
const MAX_JOINS: usize = 16;
thread_local! {
    /// Number of instructions that all stages together may have twice.
    static MAX_COPIED_INSTS: Cell<usize> = const { Cell::new(2_000) };
}

/// Sets how many instructions all stages of a program together may have twice, for engines that this
/// thread creates from now on. For tests, whose programs are small: with 0 a stage starts at each node
/// at which one can, up to a number.
pub fn set_max_copied_insts(count: usize) {
    MAX_COPIED_INSTS.set(count);
}

/// Returns how many instructions all stages of a program together may have twice.
pub fn max_copied_insts() -> usize {
    MAX_COPIED_INSTS.get()
}

/// Chooses joins until the stages together have at most `max_copied_insts` instructions twice.
///
/// # Errors
/// As [`split_into_stages`].
pub fn choose_join_stages(
    pipeline: &Pipeline,
    flow: &mut FlowGraph,
    max_copied_insts: usize,
) -> Result<(), FallbackReason> {
    let sizes: Vec<usize> = (0..flow.nodes.len()).map(|node| count_insts(pipeline, flow, node)).collect();
    let is_candidate: Vec<bool> = (0..flow.nodes.len()).map(|node| may_start_stage(pipeline, flow, node)).collect();
    while flow.joins.len() < MAX_JOINS {
        let stages = split_into_stages(pipeline, flow)?;
        let copies = count_copies(flow, &stages);
        let copied: usize = sizes.iter().zip(&copies).map(|(size, copies)| size * copies.saturating_sub(1)).sum();
        if copied <= max_copied_insts {
            break;
        }
        let saved = |node: FlowNodeId| {
            let behind = nodes_behind(pipeline, flow, node);
            let size: usize = behind.iter().map(|node| sizes[*node]).sum();
            size * (copies[node] - 1)
        };
        let candidates = (0..copies.len()).filter(|node| is_candidate[*node] && copies[*node] > 1);
        let Some((saved, join)) = candidates.map(|node| (saved(node), node)).max() else { break };
        if saved <= max_copied_insts / MAX_JOINS {
            break;
        }
        flow.joins.push(join);
    }
    Ok(())
}

/// Returns for each node the number of stages that have it.
fn count_copies(flow: &FlowGraph, stages: &[Stage]) -> Vec<usize> {
    let mut copies = vec![0; flow.nodes.len()];
    stages.iter().flat_map(|stage| &stage.nodes).for_each(|node| copies[*node] += 1);
    copies
}

/// Returns the nodes from a node up to the next lookups.
fn nodes_behind(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> Vec<FlowNodeId> {
    let start = StageEntry::Join(node);
    reverse_postorder(flow, vec![node], |node| successors_in_stage(pipeline, flow, start, node))
}

fn count_insts(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> usize {
    flow.block_data(pipeline, node).map_or(1, |block| block.insts.len() + 1)
}

/// Returns whether a stage may start at a node: all that the code behind it reads is in variables and
/// headers, it does not refer to the entry of an earlier lookup, and it has no state by which packets
/// observe their order, because that has to stay in one stage.
fn may_start_stage(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> bool {
    let NodeKind::Block(control, _) = flow.nodes[node] else { return false };
    let control = ir::ControlId(control as u32);
    // Inside a parser or deparser, the position in the packet is in registers.
    let is_control = !matches!(
        pipeline.controls[control].kind,
        ControlKind::Parser | ControlKind::MainParser | ControlKind::Deparser | ControlKind::MainDeparser
    );
    if !is_control {
        return false;
    }
    if flow.block_data(pipeline, node).is_none_or(|block| !block.params.is_empty()) {
        return false;
    }
    let behind = nodes_behind(pipeline, flow, node);
    let is_bound = |inst: &Inst| {
        touches_ordered_state(inst)
            || matches!(inst, Inst::Extern { args, .. } if args.iter().any(|arg| matches!(arg, ExternArg::Table(_))))
    };
    let has_bound = behind
        .iter()
        .filter_map(|node| flow.block_data(pipeline, *node))
        .any(|b| b.insts.iter().any(|i| is_bound(&i.inst)));
    !has_bound && imported_values(pipeline, flow, &behind).is_empty()
}
