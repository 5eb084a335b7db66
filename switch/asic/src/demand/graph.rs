//! The blocks between parser and deparser as one graph: which leads to which, and which branch decides over which.

use super::error::DemandError;
use fixedbitset::FixedBitSet;
use ir::{Block, BlockData, Body, Cfg, Control, ControlKind, Entity, Pipeline};
use petgraph::Direction;
use petgraph::algo::dominators;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::Reversed;

/// More blocks than this are no program for a chip; the bound keeps quadratic tables small.
const MAX_BLOCKS: usize = 20_000;

/// A block of some control: an index into [`Graph::sites`].
pub(super) type At = usize;

/// A block that can be reached, and where it is.
pub(super) struct Site {
    /// Index of its control in [`Graph::controls`].
    pub control: usize,
    /// The block.
    pub block: Block,
    /// Blocks that it leads to, each once.
    pub succs: Vec<At>,
    /// Blocks that lead to it, each once.
    pub preds: Vec<At>,
    /// Branches that decide whether it is reached, the nearest ones.
    pub parents: Vec<At>,
    /// All blocks that may come later.
    pub reach: FixedBitSet,
}

/// The controls that run in a chip's stages.
pub(super) struct Graph<'p> {
    pub controls: Vec<&'p Control>,
    /// All their blocks that can be reached, each before its successors except along back edges.
    pub sites: Vec<Site>,
    /// Whether some block can come twice: a chip has no loops.
    pub loops: bool,
}

/// Whether a chip runs the control in its stages, and not in its parser or deparser.
pub(super) fn in_stages(kind: ControlKind) -> bool {
    matches!(kind, ControlKind::Ingress | ControlKind::Egress | ControlKind::PreControl | ControlKind::MainControl)
}

impl<'p> Graph<'p> {
    pub fn new(pipeline: &'p Pipeline) -> Result<Self, DemandError> {
        let controls: Vec<&Control> = pipeline.controls.values().filter(|c| in_stages(c.kind)).collect();
        let blocks = controls.iter().map(|c| c.body.blocks.len()).sum();
        if blocks > MAX_BLOCKS {
            return Err(DemandError::TooLarge { what: "blocks of code", count: blocks, most: MAX_BLOCKS });
        }
        let mut graph = Graph { controls, sites: Vec::new(), loops: false };
        let bounds: Vec<usize> = (0..graph.controls.len()).map(|n| graph.add(n)).collect();
        graph.reach(&bounds);
        for at in 0..graph.sites.len() {
            graph.loops |= graph.sites[at].reach.contains(at);
        }
        Ok(graph)
    }

    /// The body that the block is in.
    pub fn body(&self, at: At) -> &'p Body {
        &self.controls[self.sites[at].control].body
    }

    /// The block's code.
    pub fn data(&self, at: At) -> &'p BlockData {
        &self.body(at).blocks[self.sites[at].block]
    }

    /// Whether a packet can meet `a` and later `b`.
    pub fn leads(&self, a: At, b: At) -> bool {
        self.sites[a].reach.contains(b)
    }

    /// Adds a control's blocks; gives how many there are then.
    fn add(&mut self, control: usize) -> usize {
        let body = &self.controls[control].body;
        let cfg = Cfg::new(body);
        let first = self.sites.len();
        let mut site_of = vec![None; body.blocks.len()];
        for (n, block) in cfg.reverse_postorder().iter().enumerate() {
            site_of[block.index()] = Some(first + n);
        }
        for &block in cfg.reverse_postorder() {
            let term = body.blocks[block].term.as_ref();
            let mut succs: Vec<At> =
                term.iter().flat_map(|t| t.term.successors()).filter_map(|b| *site_of.get(b.index())?).collect();
            succs.sort_unstable();
            succs.dedup();
            let (preds, parents, reach) = (Vec::new(), Vec::new(), FixedBitSet::new());
            self.sites.push(Site { control, block, succs, preds, parents, reach });
        }
        for at in first..self.sites.len() {
            for succ in self.sites[at].succs.clone() {
                self.sites[succ].preds.push(at);
            }
        }
        self.control_parents(first);
        self.sites.len()
    }

    /// Ferrante, Ottenstein and Warren: of a branch, each way's blocks up to where all ways meet again depend on it.
    fn control_parents(&mut self, first: usize) {
        let count = self.sites.len() - first;
        let mut flow = DiGraph::<(), ()>::with_capacity(count + 1, count * 2);
        for _ in 0..=count {
            flow.add_node(());
        }
        let exit = NodeIndex::new(count);
        for at in first..self.sites.len() {
            let from = NodeIndex::new(at - first);
            for &succ in &self.sites[at].succs {
                flow.add_edge(from, NodeIndex::new(succ - first), ());
            }
            if self.sites[at].succs.is_empty() {
                flow.add_edge(from, exit, ());
            }
        }
        debug_assert_eq!(flow.neighbors_directed(exit, Direction::Outgoing).count(), 0);
        let above = dominators::simple_fast(Reversed(&flow), exit);
        for branch in first..self.sites.len() {
            if self.sites[branch].succs.len() < 2 {
                continue;
            }
            let meet = above.immediate_dominator(NodeIndex::new(branch - first));
            for succ in self.sites[branch].succs.clone() {
                let mut next = Some(NodeIndex::new(succ - first));
                while next != meet
                    && let Some(node) = next
                    && node != exit
                {
                    let parents = &mut self.sites[first + node.index()].parents;
                    if parents.last() != Some(&branch) {
                        parents.push(branch);
                    }
                    next = above.immediate_dominator(node);
                }
            }
        }
    }

    /// What can come after what. A packet that leaves a control goes on to the next ones.
    fn reach(&mut self, bounds: &[usize]) {
        let count = self.sites.len();
        for site in &mut self.sites {
            site.reach.grow(count);
            let next = bounds[site.control];
            site.reach.insert_range(next..count);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for at in (0..count).rev() {
                let mut reach = std::mem::take(&mut self.sites[at].reach);
                let before = reach.count_ones(..);
                for &succ in &self.sites[at].succs {
                    reach.insert(succ);
                    if succ != at {
                        reach.union_with(&self.sites[succ].reach);
                    }
                }
                changed |= reach.count_ones(..) != before && self.sites[at].preds.iter().any(|&p| p >= at);
                self.sites[at].reach = reach;
            }
        }
    }
}
