//! Control-flow graph of the blocks between parser and deparser, with reachability and control
//! dependence.

use super::error::DemandError;
use fixedbitset::FixedBitSet;
use ir::{Block, BlockData, Body, Cfg, Control, ControlKind, Entity, Pipeline};
use petgraph::Direction;
use petgraph::algo::dominators;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Reversed;

/// Maximum number of blocks, which bounds quadratic tables. No chip runs a program of this size.
const MAX_BLOCKS: usize = 20_000;

/// Index of a block in [`StageGraph::sites`].
pub(super) type BlockIndex = usize;

/// A reachable block with its position in the graph.
pub(super) struct BlockSite {
    /// Index of its control in [`StageGraph::controls`].
    pub control: usize,
    /// The block.
    pub block: Block,
    /// Successors without duplicates.
    pub succs: Vec<BlockIndex>,
    /// Predecessors without duplicates.
    pub preds: Vec<BlockIndex>,
    /// Nearest branches that decide whether the block runs.
    pub controlling_branches: Vec<BlockIndex>,
    /// All blocks that can run later.
    pub reachable: FixedBitSet,
}

/// Graph of the controls that run in a chip's stages.
pub(super) struct StageGraph<'p> {
    pub controls: Vec<&'p Control>,
    /// All reachable blocks, each before its successors except along back edges.
    pub sites: Vec<BlockSite>,
    /// Whether a block can run twice. Chips have no loops.
    pub has_loops: bool,
}

/// Returns whether a chip runs the control in its stages, as opposed to its parser or deparser.
pub(super) fn runs_in_stages(kind: ControlKind) -> bool {
    matches!(kind, ControlKind::Ingress | ControlKind::Egress | ControlKind::PreControl | ControlKind::MainControl)
}

impl<'p> StageGraph<'p> {
    pub fn new(pipeline: &'p Pipeline) -> Result<Self, DemandError> {
        let controls: Vec<&Control> = pipeline.controls.values().filter(|c| runs_in_stages(c.kind)).collect();
        let blocks = controls.iter().map(|c| c.body.blocks.len()).sum();
        if blocks > MAX_BLOCKS {
            return Err(DemandError::TooLarge { what: "blocks of code", count: blocks, max: MAX_BLOCKS });
        }
        let mut graph = StageGraph { controls, sites: Vec::new(), has_loops: false };
        let bounds: Vec<usize> = (0..graph.controls.len()).map(|n| graph.add_control(n)).collect();
        graph.compute_reachability(&bounds);
        for at in 0..graph.sites.len() {
            graph.has_loops |= graph.sites[at].reachable.contains(at);
        }
        Ok(graph)
    }

    /// Returns the body of the block.
    pub fn body(&self, at: BlockIndex) -> &'p Body {
        &self.controls[self.sites[at].control].body
    }

    /// Returns the block's code.
    pub fn block_data(&self, at: BlockIndex) -> &'p BlockData {
        &self.body(at).blocks[self.sites[at].block]
    }

    /// Returns whether a packet can run `a` and later `b`.
    pub fn reaches(&self, a: BlockIndex, b: BlockIndex) -> bool {
        self.sites[a].reachable.contains(b)
    }

    /// Adds a control's blocks. Returns the new number of blocks.
    fn add_control(&mut self, control: usize) -> usize {
        let body = &self.controls[control].body;
        let cfg = Cfg::new(body);
        let first = self.sites.len();
        let mut site_of = vec![None; body.blocks.len()];
        for (n, block) in cfg.reverse_postorder().iter().enumerate() {
            site_of[block.index()] = Some(first + n);
        }
        for &block in cfg.reverse_postorder() {
            let term = body.blocks[block].term.as_ref();
            let mut succs: Vec<BlockIndex> =
                term.iter().flat_map(|t| t.term.successors()).filter_map(|b| *site_of.get(b.index())?).collect();
            succs.sort_unstable();
            succs.dedup();
            let (preds, parents, reachable) = (Vec::new(), Vec::new(), FixedBitSet::new());
            self.sites.push(BlockSite { control, block, succs, preds, controlling_branches: parents, reachable });
        }
        for site in first..self.sites.len() {
            for succ in self.sites[site].succs.clone() {
                self.sites[succ].preds.push(site);
            }
        }
        self.compute_controlling_branches(first);
        self.sites.len()
    }

    /// Computes control dependence (Ferrante, Ottenstein and Warren): the blocks from each
    /// successor of a branch up to the branch's immediate post-dominator depend on it.
    fn compute_controlling_branches(&mut self, first: usize) {
        let count = self.sites.len() - first;
        let mut flow = DiGraph::<(), ()>::with_capacity(count + 1, count * 2);
        // One node more, for the exit.
        for _ in 0..=count {
            flow.add_node(());
        }
        let exit = NodeIndex::new(count);
        for site in first..self.sites.len() {
            let node = NodeIndex::new(site - first);
            for &succ in &self.sites[site].succs {
                flow.add_edge(node, NodeIndex::new(succ - first), ());
            }
            if self.sites[site].succs.is_empty() {
                flow.add_edge(node, exit, ());
            }
        }
        debug_assert_eq!(flow.neighbors_directed(exit, Direction::Outgoing).count(), 0);
        let post_dominators = dominators::simple_fast(Reversed(&flow), exit);
        for branch in first..self.sites.len() {
            if self.sites[branch].succs.len() < 2 {
                continue;
            }
            let post_dominator = post_dominators.immediate_dominator(NodeIndex::new(branch - first));
            for succ in self.sites[branch].succs.clone() {
                let mut next = Some(NodeIndex::new(succ - first));
                while next != post_dominator
                    && let Some(node) = next
                    && node != exit
                {
                    let parents = &mut self.sites[first + node.index()].controlling_branches;
                    if parents.last() != Some(&branch) {
                        parents.push(branch);
                    }
                    next = post_dominators.immediate_dominator(node);
                }
            }
        }
    }

    /// Computes the reachable blocks of each block. A packet that leaves a control continues with
    /// the next ones: `bounds` has the end of each control's blocks.
    fn compute_reachability(&mut self, bounds: &[usize]) {
        let count = self.sites.len();
        for site in &mut self.sites {
            site.reachable.grow(count);
            let next = bounds[site.control];
            site.reachable.insert_range(next..count);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for block in (0..count).rev() {
                let mut reachable = std::mem::take(&mut self.sites[block].reachable);
                let before = reachable.count_ones(..);
                for &succ in &self.sites[block].succs {
                    reachable.insert(succ);
                    if succ != block {
                        reachable.union_with(&self.sites[succ].reachable);
                    }
                }
                // Without a back edge, one pass in reverse order is complete.
                changed |= reachable.count_ones(..) != before && self.sites[block].preds.iter().any(|&p| p >= block);
                self.sites[block].reachable = reachable;
            }
        }
    }
}
