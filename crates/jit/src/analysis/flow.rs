//! Control-flow graph over the blocks of all bodies and the architecture's steps between them.
//!
//! The programmable blocks form a chain, for example begin, parser, control, deparser, end. An exit
//! of a body (`return`, `exit`, `reject`) is an edge to the next body, so that a stage can span the
//! end of the parser and the start of the control.

use crate::analysis::node::{ArchStep, FlowNodeId, NodeKind};
use crate::analysis::path_clones::{HotPath, HotPathTail, PairedLookup};
use crate::fallback_reason::FallbackReason;
use ir::{Arch, Block, ControlKind, Entity, Pipeline, TableId, Terminator};

/// Control-flow graph of a pipeline.
#[derive(Clone, Debug)]
pub struct FlowGraph {
    /// All nodes; the first is [`ArchStep::Begin`].
    pub nodes: Vec<NodeKind>,
    /// Successor of each architecture step.
    next: Vec<Option<FlowNodeId>>,
    /// For each control (by index), its first node and the node after the body.
    controls: Vec<Option<(FlowNodeId, FlowNodeId)>>,
    /// First node of the deparser.
    pub deparser: Option<FlowNodeId>,
    /// Whether the deparser is a stage of its own, so that its code exists once.
    pub has_deparser_stage: bool,
    /// Original nodes at which a stage starts, so that their code exists once.
    pub joins: Vec<FlowNodeId>,
    /// Clones of nodes on and after the hot path; their ids follow those of all original nodes.
    clones: Vec<ClonedNode>,
    /// Whether packets that leave the hot path restart at the original nodes; possible because the
    /// hot path has no side effect.
    pub restarts_on_exit: bool,
    /// First node of the hot path, and the minimum length in bytes of its packets.
    pub hot_path: Option<(FlowNodeId, u32)>,
}

/// A cloned node.
#[derive(Clone, Debug)]
struct ClonedNode {
    origin: FlowNodeId,
    /// Redirected edges: original target, new target.
    redirects: Vec<(FlowNodeId, FlowNodeId)>,
    /// Whether the node is on the hot path, up to the first lookup. The packet has all bytes that
    /// the parser reads there.
    is_on_hot_path: bool,
    /// Whether the lookup at its end starts a separate stage.
    starts_stage: bool,
    /// Whether its stage looks the table up in place while it has few entries.
    is_in_place: bool,
    /// Lookup paired with the one at its end.
    paired_lookup: Option<Box<PairedLookup>>,
}

impl ClonedNode {
    fn new(origin: FlowNodeId, redirects: Vec<(FlowNodeId, FlowNodeId)>, is_on_hot_path: bool) -> ClonedNode {
        ClonedNode { origin, redirects, is_on_hot_path, starts_stage: false, is_in_place: false, paired_lookup: None }
    }
}

impl FlowGraph {
    /// Builds the graph of a pipeline: its bodies in the order of the architecture, with the steps
    /// of the architecture between them.
    pub fn new(pipeline: &Pipeline) -> Result<FlowGraph, FallbackReason> {
        use ControlKind::*;
        let mut flow = FlowGraph {
            nodes: Vec::new(),
            next: Vec::new(),
            controls: vec![None; pipeline.controls.len()],
            deparser: None,
            has_deparser_stage: true,
            joins: Vec::new(),
            clones: Vec::new(),
            restarts_on_exit: false,
            hot_path: None,
        };
        let mut builder = FlowGraphBuilder { flow: &mut flow, pipeline, pending: Vec::new() };
        builder.add_arch_step(ArchStep::Begin);
        match pipeline.arch {
            Arch::Pna => {
                builder.add_arch_step(ArchStep::PnaStdMetadata(0));
                builder.add_body(PreControl)?;
                builder.add_arch_step(ArchStep::PnaStdMetadata(1));
                builder.add_body(MainParser)?;
                builder.add_arch_step(ArchStep::PnaStdMetadata(2));
                builder.add_body(MainControl)?;
                builder.add_arch_step(ArchStep::PnaVerdict);
                builder.add_body(MainDeparser)?;
            }
            Arch::V1Model => {
                builder.add_arch_step(ArchStep::V1Arrive);
                builder.add_body(Parser)?;
                builder.add_arch_step(ArchStep::V1Parsed);
                builder.add_body(VerifyChecksum)?;
                builder.add_arch_step(ArchStep::V1Verified);
                builder.add_body(Ingress)?;
                builder.add_arch_step(ArchStep::V1Traffic);
                builder.add_body(Egress)?;
                builder.add_arch_step(ArchStep::V1Leave);
                builder.add_body(ComputeChecksum)?;
                builder.add_body(Deparser)?;
            }
        }
        builder.add_arch_step(ArchStep::End);
        Ok(flow)
    }

    /// Returns the block of a node; `None` for a step of the architecture.
    pub fn block_data<'a>(&self, pipeline: &'a Pipeline, node: FlowNodeId) -> Option<&'a ir::BlockData> {
        let NodeKind::Block(control, block) = self.nodes[node] else { return None };
        Some(&pipeline.controls[ir::ControlId(control as u32)].body.blocks[block])
    }

    /// Appends clones of the hot path's nodes. Packets that are long enough enter there.
    pub fn clone_hot_path(&mut self, trace: &HotPath) {
        let first = self.nodes.len();
        let copy = |node: FlowNodeId| trace.nodes.iter().position(|there| *there == node).map(|place| first + place);
        for node in trace.nodes.iter().copied() {
            let edges = trace.edges.iter().filter(|(from, _)| *from == node);
            let redirects = edges.filter_map(|(_, to)| Some((*to, copy(*to)?))).collect();
            self.clones.push(ClonedNode::new(node, redirects, true));
            self.nodes.push(self.nodes[node]);
            self.next.push(self.next[node]);
        }
        self.hot_path = Some((first, trace.bytes));
        self.restarts_on_exit = trace.is_side_effect_free;
    }

    /// Appends clones of nodes after the hot path.
    pub fn clone_tail(&mut self, onward: &HotPathTail) {
        for node in onward.nodes.iter().copied() {
            self.clones.push(ClonedNode::new(node, Vec::new(), false));
            self.nodes.push(self.nodes[node]);
            self.next.push(self.next[node]);
        }
        let first = self.nodes.len() - self.clones.len();
        for (from, to, instead) in &onward.edges {
            self.clones[from - first].redirects.push((*to, *instead));
        }
        for node in &onward.lookups {
            self.clones[node - first].starts_stage = true;
        }
    }

    fn clone_of(&self, node: FlowNodeId) -> Option<&ClonedNode> {
        self.clones.get(node.checked_sub(self.original_nodes().end)?)
    }

    fn clone_of_mut(&mut self, node: FlowNodeId) -> Option<&mut ClonedNode> {
        let number = node.checked_sub(self.original_nodes().end)?;
        self.clones.get_mut(number)
    }

    /// Marks the lookup of a clone as made in place while the table has few entries.
    pub fn set_in_place_lookup(&mut self, node: FlowNodeId) {
        if let Some(copy) = self.clone_of_mut(node) {
            copy.is_in_place = true;
        }
    }

    /// Sets the lookup paired with the one of a clone.
    pub fn set_paired_lookup(&mut self, node: FlowNodeId, companion: PairedLookup) {
        if let Some(copy) = self.clone_of_mut(node) {
            copy.paired_lookup = Some(Box::new(companion));
        }
    }

    /// Returns the lookup paired with the one of a node.
    pub fn paired_lookup(&self, node: FlowNodeId) -> Option<&PairedLookup> {
        self.clone_of(node)?.paired_lookup.as_deref()
    }

    /// Returns whether a node is a clone on the hot path.
    pub fn is_on_hot_path(&self, node: FlowNodeId) -> bool {
        self.clone_of(node).is_some_and(|copy| copy.is_on_hot_path)
    }

    /// Returns whether a node is on the hot path, or the entry from which packets take it.
    pub fn is_begin_or_on_hot_path(&self, node: FlowNodeId) -> bool {
        self.nodes[node] == NodeKind::ArchStep(ArchStep::Begin) || self.is_on_hot_path(node)
    }

    /// Returns the node that identifies the stage after a node's lookup: the node itself or its
    /// original.
    pub fn stage_node(&self, node: FlowNodeId) -> FlowNodeId {
        self.clone_of(node).filter(|copy| !copy.starts_stage).map_or(node, |copy| copy.origin)
    }

    /// Returns whether a node is a clone with a lookup that starts a separate stage.
    pub fn starts_lookup_stage(&self, node: FlowNodeId) -> bool {
        self.clone_of(node).is_some_and(|copy| copy.starts_stage)
    }

    /// Returns whether the stage looks a node's table up in place while it has few entries.
    pub fn looks_up_in_place(&self, node: FlowNodeId) -> bool {
        self.clone_of(node).is_some_and(|copy| copy.is_in_place)
    }

    /// Returns the ids of the original nodes.
    pub fn original_nodes(&self) -> std::ops::Range<FlowNodeId> {
        0..self.nodes.len() - self.clones.len()
    }

    /// Returns the original of a clone, or the node itself.
    pub fn original_of(&self, node: FlowNodeId) -> FlowNodeId {
        self.clone_of(node).map_or(node, |copy| copy.origin)
    }

    /// Returns the target of an edge, redirected if `from` is a clone.
    fn redirected(&self, from: FlowNodeId, to: FlowNodeId) -> FlowNodeId {
        let detour = self.clone_of(from).and_then(|copy| copy.redirects.iter().find(|(there, _)| *there == to));
        detour.map_or(to, |(_, instead)| *instead)
    }

    /// Returns the node of a block, for an edge from another node of the same control.
    pub fn block_node(&self, from: FlowNodeId, block: Block) -> Option<FlowNodeId> {
        let NodeKind::Block(control, _) = self.nodes[from] else { return None };
        let first = self.controls.get(control).copied().flatten()?.0;
        Some(self.redirected(from, first + block.index()))
    }

    /// Returns the node after a body, for a parser that rejects within a block.
    pub fn body_exit(&self, control: usize) -> Option<FlowNodeId> {
        Some(self.controls.get(control).copied().flatten()?.1)
    }

    /// Returns the successor of a node that returns from its body.
    pub fn return_target(&self, node: FlowNodeId) -> Option<FlowNodeId> {
        let NodeKind::Block(control, _) = self.nodes[node] else { return None };
        Some(self.redirected(node, self.body_exit(control)?))
    }

    /// Returns the successor of an architecture step; of the entry, that for packets too short for
    /// the hot path.
    pub fn next_node(&self, node: FlowNodeId) -> Option<FlowNodeId> {
        Some(self.redirected(node, self.next.get(node).copied().flatten()?))
    }

    /// Returns the possible successors, including those after table applications.
    pub fn successors(&self, pipeline: &Pipeline, node: FlowNodeId) -> Vec<FlowNodeId> {
        let mut nodes = self.end_successors(pipeline, node);
        // A parser's instruction may also reject.
        if let NodeKind::Block(control, _) = self.nodes[node]
            && !self.restarts_on_exit_from(node)
            && pipeline.controls[ir::ControlId(control as u32)].kind.is_parser()
        {
            nodes.extend(self.body_exit(control).filter(|after| !nodes.contains(after)));
        }
        nodes
    }

    /// Returns the successors at a node's end.
    pub fn end_successors(&self, pipeline: &Pipeline, node: FlowNodeId) -> Vec<FlowNodeId> {
        let mut ends = self.unrestricted_successors(pipeline, node);
        if self.restarts_on_exit_from(node) && lookup_at_end(pipeline, self, node).is_none() {
            ends.retain(|next| self.is_on_hot_path(*next));
        }
        ends
    }

    /// Returns whether a packet restarts if it leaves a node before its end, or for a node that is
    /// not on the hot path.
    pub fn restarts_on_exit_from(&self, node: FlowNodeId) -> bool {
        self.restarts_on_exit && self.is_on_hot_path(node)
    }

    fn unrestricted_successors(&self, pipeline: &Pipeline, node: FlowNodeId) -> Vec<FlowNodeId> {
        let NodeKind::Block(control, block) = self.nodes[node] else {
            let trace = self.hot_path.filter(|_| self.nodes[node] == NodeKind::ArchStep(ArchStep::Begin));
            return self.next_node(node).into_iter().chain(trace.map(|(first, _)| first)).collect();
        };
        match pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].term.as_ref().map(|term| &term.term) {
            None => Vec::new(),
            Some(Terminator::Return | Terminator::Exit | Terminator::Reject) => {
                self.return_target(node).into_iter().collect()
            }
            Some(term) => term.successors().into_iter().filter_map(|block| self.block_node(node, block)).collect(),
        }
    }

    /// Returns the table that a node applies at its end.
    pub fn applied_table(&self, pipeline: &Pipeline, node: FlowNodeId) -> Option<TableId> {
        let NodeKind::Block(control, block) = self.nodes[node] else { return None };
        let body = &pipeline.controls[ir::ControlId(control as u32)].body;
        body.blocks[block].applied_table()
    }
}

/// Returns whether a table needs a lookup; one without keys does not.
pub fn has_lookup(pipeline: &Pipeline, table: TableId) -> bool {
    pipeline.tables[table].match_keys().next().is_some()
}

/// Returns the table that is looked up at a node's end.
pub fn lookup_at_end(pipeline: &Pipeline, flow: &FlowGraph, node: FlowNodeId) -> Option<TableId> {
    flow.applied_table(pipeline, node).filter(|table| has_lookup(pipeline, *table))
}

/// Builder of the graph; the open ends are connected to the next node.
struct FlowGraphBuilder<'a> {
    flow: &'a mut FlowGraph,
    pipeline: &'a Pipeline,
    /// Architecture steps and controls without a successor yet.
    pending: Vec<OpenEnd>,
}

enum OpenEnd {
    ArchStep(FlowNodeId),
    Control(usize),
}

impl FlowGraphBuilder<'_> {
    fn link_open_ends(&mut self, node: FlowNodeId) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                OpenEnd::ArchStep(glue) => self.flow.next[glue] = Some(node),
                OpenEnd::Control(control) => {
                    if let Some((_, after)) = &mut self.flow.controls[control] {
                        *after = node;
                    }
                }
            }
        }
    }

    fn add_arch_step(&mut self, glue: ArchStep) {
        let node = self.flow.nodes.len();
        self.flow.nodes.push(NodeKind::ArchStep(glue));
        self.flow.next.push(None);
        self.link_open_ends(node);
        self.pending.push(OpenEnd::ArchStep(node));
    }

    fn add_body(&mut self, kind: ControlKind) -> Result<(), FallbackReason> {
        let found = self.pipeline.controls.iter().find(|(_, control)| control.kind == kind);
        let Some((id, control)) = found else { return Ok(()) };
        let Some(entry) = control.body.entry else { return Ok(()) };
        let first = self.flow.nodes.len();
        for block in control.body.blocks.keys() {
            self.flow.nodes.push(NodeKind::Block(id.index(), block));
            self.flow.next.push(None);
        }
        let entry = first + entry.index();
        self.link_open_ends(entry);
        self.flow.controls[id.index()] = Some((first, first));
        self.pending.push(OpenEnd::Control(id.index()));
        if matches!(kind, ControlKind::Deparser | ControlKind::MainDeparser) {
            self.flow.deparser = Some(entry);
        }
        Ok(())
    }
}
