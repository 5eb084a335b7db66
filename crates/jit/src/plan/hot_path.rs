//! Hot path: the most common path from arrival to the first lookup, specialised by cloning its
//! nodes.
//!
//! The paths of a parser join at the start of the control, and after the join little is known:
//! neither header validity, nor the parser's position, nor its error. On the clones of one path all
//! of these are known, and packet bytes that were read need not be read again. Packets that leave
//! the path continue at the original nodes. Only packets with all bytes that the path reads enter
//! it, so no further length checks are necessary.

use crate::analysis::flow::{FlowGraph, lookup_at_end};
use crate::analysis::headers::HeaderLayout;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::path_clones::HotPath;
use crate::analysis::validity::{KnownValidity, exit_validity};
use crate::plan::stages::{StageEntry, stage_nodes};
use ir::{Entity, HeaderId, Inst, Pipeline, Terminator, VarKind};
use std::collections::HashMap;

/// Maximum number of cloned nodes.
const MAX_HOT_PATH_NODES: usize = 256;
/// Maximum number of nodes searched for a side exit that rejoins the path.
const MAX_DETOUR_NODES: usize = 64;

/// Header operations along a path, in order.
type HeaderOps = Vec<(u8, HeaderId, u32)>;

impl HotPath {
    /// Finds the hot path. At each selection it takes the first case that parses more of the packet
    /// and reaches a lookup, because programs list the usual case first. Returns `None` if no
    /// lookup is reachable, or if the number of parsed bytes is known only at run time.
    pub fn find(pipeline: &Pipeline, flow: &FlowGraph, headers: &HeaderLayout) -> Option<HotPath> {
        let mut finder = HotPathFinder { pipeline, flow, headers, max_extracts: vec![None; flow.nodes.len()] };
        for node in stage_nodes(pipeline, flow, StageEntry::Begin).into_iter().rev() {
            finder.max_extracts[node] = finder.count_max_extracts(node);
        }
        let mut nodes = finder.hot_path_nodes()?;
        let bytes = finder.required_bytes(&nodes)?;
        let edges = finder.rejoining_edges(&mut nodes);
        let is_side_effect_free = finder.is_side_effect_free(&nodes);
        Some(HotPath { nodes, edges, bytes, is_side_effect_free })
    }
}

struct HotPathFinder<'a> {
    pipeline: &'a Pipeline,
    flow: &'a FlowGraph,
    headers: &'a HeaderLayout,
    /// For each node, the maximum number of extractions and lookaheads until the next lookup;
    /// `None` if none is reachable.
    max_extracts: Vec<Option<usize>>,
}

impl HotPathFinder<'_> {
    fn looks_up(&self, node: FlowNodeId) -> bool {
        lookup_at_end(self.pipeline, self.flow, node).is_some()
    }

    /// Returns the instructions of a node.
    fn insts(&self, node: FlowNodeId) -> impl Iterator<Item = &Inst> {
        let block = match self.flow.nodes[node] {
            NodeKind::Block(control, block) => {
                Some(&self.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block])
            }
            NodeKind::ArchStep(_) => None,
        };
        block.into_iter().flat_map(|block| block.insts.iter().map(|data| &data.inst))
    }

    /// Returns the successors at a node's end, except a parser's rejection.
    fn accepted_successors(&self, node: FlowNodeId) -> Vec<FlowNodeId> {
        if let NodeKind::Block(control, block) = self.flow.nodes[node] {
            let control = &self.pipeline.controls[ir::ControlId(control as u32)];
            let term = control.body.blocks[block].term.as_ref().map(|term| &term.term);
            if control.kind.is_parser() && matches!(term, Some(Terminator::Reject)) {
                return Vec::new();
            }
        }
        self.flow.end_successors(self.pipeline, node)
    }

    /// Returns the maximum number of extractions and lookaheads from a node to the next lookup.
    fn count_max_extracts(&self, node: FlowNodeId) -> Option<usize> {
        let own = self.insts(node).filter(|inst| matches!(inst, Inst::Extract(_) | Inst::Lookahead(_))).count();
        if self.looks_up(node) {
            return Some(own);
        }
        self.accepted_successors(node)
            .into_iter()
            .filter_map(|next| self.max_extracts[next])
            .max()
            .map(|rest| own + rest)
    }

    /// Returns the nodes of the path.
    fn hot_path_nodes(&self) -> Option<Vec<FlowNodeId>> {
        let mut known = KnownValidity::none_valid(self.pipeline.headers.len());
        let (mut nodes, mut node): (Vec<FlowNodeId>, FlowNodeId) = (Vec::new(), 0);
        while !self.looks_up(node) {
            let mut edges = exit_validity(self.pipeline, self.flow, self.headers, node, known);
            let next = self.next_on_path(node, &edges)?;
            if nodes.contains(&next) || nodes.len() == MAX_HOT_PATH_NODES {
                return None;
            }
            // The last matching edge is the one at the parser's end.
            known = edges.remove(edges.iter().rposition(|(to, _)| *to == next)?).1;
            nodes.push(next);
            node = next;
        }
        Some(nodes)
    }

    /// Returns the next node on the path, among the reachable successors.
    fn next_on_path(&self, node: FlowNodeId, edges: &[(FlowNodeId, KnownValidity)]) -> Option<FlowNodeId> {
        let most = |next: &FlowNodeId| self.max_extracts[*next].filter(|_| edges.iter().any(|(to, _)| to == next));
        let ends = self.accepted_successors(node);
        let takes_more = ends.iter().find(|next| most(next).is_some_and(|most| most > 0));
        takes_more.or_else(|| ends.iter().find(|next| most(next).is_some())).copied()
    }

    /// Returns the number of packet bytes that a path reads.
    fn required_bytes(&self, nodes: &[FlowNodeId]) -> Option<u32> {
        let (mut at, mut needed) = (0, 0);
        for inst in nodes.iter().flat_map(|node| self.insts(*node)) {
            match inst {
                Inst::Extract(header) => at += self.headers.bytes[header.index()],
                Inst::Lookahead(ty) => needed = needed.max(at + ty.width().div_ceil(8)),
                Inst::ExtractVarbit(..) | Inst::Advance(_) => return None,
                _ => {}
            }
            needed = needed.max(at);
        }
        (needed as usize <= packet::MAX_LEN).then_some(needed)
    }

    /// Returns whether these nodes have no externally visible side effect.
    fn is_side_effect_free(&self, nodes: &[FlowNodeId]) -> bool {
        nodes.iter().all(|node| {
            let inline = self.flow.applied_table(self.pipeline, *node).is_some() && !self.looks_up(*node);
            !inline && self.insts(*node).all(|inst| self.is_local_effect(inst))
        })
    }

    /// Returns whether an instruction changes only values that a packet carries between nodes.
    fn is_local_effect(&self, inst: &Inst) -> bool {
        match inst {
            Inst::Store(var, _) => !matches!(self.pipeline.vars[*var].kind, VarKind::Field(..)),
            Inst::SetValid(_) | Inst::CopyHeader { .. } | Inst::Emit(_) => false,
            Inst::Extern { func, .. } => !func.is_stateful(),
            _ => true,
        }
    }

    /// Returns the header operations after a node.
    fn ops_after(&self, node: FlowNodeId, mut done: HeaderOps) -> HeaderOps {
        done.extend(self.insts(node).filter_map(|inst| match inst {
            Inst::Extract(header) => Some((0, *header, 0)),
            Inst::SetValid(header) => Some((1, *header, 0)),
            Inst::SetInvalid(header) => Some((2, *header, 0)),
            Inst::CopyHeader { dst, src } => Some((3, *dst, src.0)),
            _ => None,
        }));
        done
    }

    /// Returns the edges between nodes with the same header operations. Includes side exits through
    /// other nodes, which are appended to `nodes`.
    fn rejoining_edges(&self, nodes: &mut Vec<FlowNodeId>) -> Vec<(FlowNodeId, FlowNodeId)> {
        let mut ops_before: HashMap<FlowNodeId, HeaderOps> = HashMap::new();
        let mut done = HeaderOps::new();
        for node in nodes.iter() {
            ops_before.insert(*node, done.clone());
            done = self.ops_after(*node, done);
        }
        let mut edges = Vec::new();
        // `nodes` grows during the loop, so it is traversed by index.
        let mut index = 0;
        while let Some(node) = nodes.get(index).copied() {
            index += 1;
            if self.looks_up(node) {
                continue;
            }
            let ops_behind = self.ops_after(node, ops_before[&node].clone());
            for next in self.accepted_successors(node) {
                if !ops_before.contains_key(&next)
                    && nodes.len() < MAX_HOT_PATH_NODES
                    && self.rejoins_path(next, &ops_behind, &ops_before)
                {
                    ops_before.insert(next, ops_behind.clone());
                    nodes.push(next);
                }
                if ops_before.get(&next) == Some(&ops_behind) {
                    edges.push((node, next));
                }
            }
        }
        edges
    }

    /// Returns whether a side exit through this node rejoins the path without changing headers or
    /// parsing.
    fn rejoins_path(&self, node: FlowNodeId, done: &HeaderOps, before: &HashMap<FlowNodeId, HeaderOps>) -> bool {
        let takes = |node: FlowNodeId| self.insts(node).any(crate::analysis::facts::may_reject);
        let (mut seen, mut at) = (vec![node], 0);
        while let Some(node) = seen.get(at).copied() {
            at += 1;
            if self.looks_up(node) || takes(node) || self.ops_after(node, done.clone()) != *done {
                continue;
            }
            for next in self.accepted_successors(node) {
                match before.get(&next) {
                    Some(there) if there == done => return true,
                    None if seen.len() < MAX_DETOUR_NODES && !seen.contains(&next) => seen.push(next),
                    _ => {}
                }
            }
        }
        false
    }
}
