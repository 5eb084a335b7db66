//! Control-flow graph of a body for structured code: dominator tree, joins, loops and uses.

use ir::*;
use std::collections::{HashMap, HashSet};

/// Control-flow graph of a body with the uses of its values.
pub(super) struct BodyGraph<'a> {
    pub(super) body: &'a Body,
    pub(super) cfg: Cfg,
    position: HashMap<Block, usize>,
    children: HashMap<Block, Vec<Block>>,
    /// Predecessors of each block, with duplicates.
    edges: HashMap<Block, Vec<Block>>,
    loops: HashSet<Block>,
    /// Uses of each value: block and index of the instruction (`usize::MAX`: the terminator).
    uses: HashMap<Value, Vec<(Block, usize)>>,
    defined: HashMap<Value, Block>,
    /// Hit results of lookups, with the block that ends in the lookup.
    hits: HashMap<Value, Block>,
}

impl<'a> BodyGraph<'a> {
    /// Builds the graph of a body.
    pub(super) fn new(body: &'a Body) -> BodyGraph<'a> {
        let cfg = Cfg::new(body);
        let order = cfg.reverse_postorder().to_vec();
        let position: HashMap<Block, usize> = order.iter().enumerate().map(|(n, b)| (*b, n)).collect();
        let mut graph = BodyGraph {
            body,
            cfg,
            position,
            children: HashMap::new(),
            edges: HashMap::new(),
            loops: HashSet::new(),
            uses: HashMap::new(),
            defined: HashMap::new(),
            hits: HashMap::new(),
        };
        for block in order {
            if let Some(dominator) = graph.cfg.immediate_dominator(block) {
                graph.children.entry(dominator).or_default().push(block);
            }
            graph.index_block(block);
        }
        graph
    }

    /// Indexes a block's definitions, uses, hit flags and edges. A use by the terminator has the
    /// index `usize::MAX`.
    fn index_block(&mut self, block: Block) {
        let data = &self.body.blocks[block];
        let BodyGraph { uses, defined, .. } = self;
        data.params.iter().for_each(|v| {
            defined.insert(*v, block);
        });
        for (n, inst) in data.insts.iter().enumerate() {
            inst.inst.for_each_use(|v| uses.entry(v).or_default().push((block, n)));
            inst.results.iter().for_each(|v| {
                defined.insert(*v, block);
            });
        }
        let Some(term) = &data.term else { return };
        term.term.for_each_use(|v| uses.entry(v).or_default().push((block, usize::MAX)));
        if let Terminator::Apply { arms, .. } = &term.term {
            let hits = arms.iter().filter_map(|arm| self.body.blocks[arm.block].params.first());
            self.hits.extend(hits.map(|hit| (*hit, block)));
        }
        for next in term.term.successors() {
            self.edges.entry(next).or_default().push(block);
            if self.cfg.dominates(next, block) {
                self.loops.insert(next);
            }
        }
    }

    /// Returns a block's index in reverse postorder.
    pub(super) fn position(&self, block: Block) -> usize {
        self.position.get(&block).copied().unwrap_or(usize::MAX)
    }

    /// Returns whether a back edge enters the block.
    pub(super) fn is_loop(&self, block: Block) -> bool {
        self.loops.contains(&block)
    }

    /// Returns whether the body has loops.
    pub(super) fn has_loops(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Returns the predecessors of a block without back edges.
    pub(super) fn forward_edges(&self, block: Block) -> Vec<Block> {
        let edges = self.edges.get(&block).map_or(&[][..], Vec::as_slice);
        edges.iter().copied().filter(|from| !self.cfg.dominates(block, *from)).collect()
    }

    /// Returns a block's children in the dominator tree, in order.
    pub(super) fn children(&self, block: Block) -> &[Block] {
        self.children.get(&block).map_or(&[], Vec::as_slice)
    }

    /// Returns the blocks that a block dominates, starting with itself.
    pub(super) fn dominated(&self, block: Block) -> Vec<Block> {
        let mut all = vec![block];
        let mut at = 0;
        while let Some(next) = all.get(at).copied() {
            all.extend(self.children(next));
            at += 1;
        }
        all
    }

    /// Returns the terminator of a block that only exits, returns or rejects. Such a block is
    /// emitted at each jump to it.
    pub(super) fn exit_term(&self, block: Block) -> Option<&'a Terminator> {
        let data = &self.body.blocks[block];
        let plain = data.params.is_empty() && data.insts.is_empty();
        let term = &data.term.as_ref()?.term;
        (plain && matches!(term, Terminator::Exit | Terminator::Return | Terminator::Reject)).then_some(term)
    }

    /// Returns one of the arguments of a block parameter, if all of them are hit results of the
    /// same lookup.
    pub(super) fn hit_param(&self, block: Block, n: usize) -> Option<Value> {
        let mut args: Vec<Option<Value>> = Vec::new();
        for from in self.edges.get(&block)? {
            self.term(*from)?.for_each_call(|call| {
                if call.block == block {
                    args.push(call.args.get(n).copied());
                }
            });
        }
        let lookups: HashSet<Option<&Block>> = args.iter().map(|arg| arg.and_then(|v| self.hits.get(&v))).collect();
        let same = lookups.len() == 1 && !lookups.contains(&None);
        args.first().copied().flatten().filter(|_| same)
    }

    /// Returns the uses of a value.
    pub(super) fn uses(&self, value: Value) -> &[(Block, usize)] {
        self.uses.get(&value).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a value is used in other blocks, or by the lookup at the block's end.
    pub(super) fn leaves_block(&self, value: Value, block: Block) -> bool {
        let apply = matches!(self.term(block), Some(Terminator::Apply { .. }));
        self.uses(value).iter().any(|(at, n)| *at != block || (apply && *n == usize::MAX))
    }

    /// Returns whether a value is used in another block.
    pub(super) fn is_used_elsewhere(&self, value: Value, block: Block) -> bool {
        self.uses(value).iter().any(|(at, _)| *at != block)
    }

    /// Returns whether a value is used in its block after instruction `n`.
    pub(super) fn is_used_after(&self, value: Value, block: Block, n: usize) -> bool {
        self.uses(value).iter().any(|(at, m)| *at == block && *m > n)
    }

    /// Returns the block that defines a value.
    pub(super) fn defined_in(&self, value: Value) -> Option<Block> {
        self.defined.get(&value).copied()
    }

    /// Returns the terminator of a block.
    pub(super) fn term(&self, block: Block) -> Option<&'a Terminator> {
        self.body.blocks[block].term.as_ref().map(|t| &t.term)
    }

    /// Returns the joins of a block: its children with several incoming edges that are not one of
    /// its cases.
    pub(super) fn join_blocks(&self, block: Block) -> Vec<Block> {
        let cases = self.case_blocks(block);
        let join = |b: &Block| self.forward_edges(*b).len() > 1 && self.exit_term(*b).is_none() && !cases.contains(b);
        self.children(block).iter().copied().filter(join).collect()
    }

    /// Returns the blocks that only the cases of the `switch` or lookup at the end of `from` reach.
    /// After a lookup, a block with parameters counts only if it is the only one.
    pub(super) fn case_blocks(&self, from: Block) -> Vec<Block> {
        let children =
            self.children(from).iter().copied().filter(|b| self.exit_term(*b).is_none() && !self.is_loop(*b));
        match self.term(from) {
            Some(Terminator::Switch { .. }) => {
                let is_case = |b: &Block| {
                    self.body.blocks[*b].params.is_empty() && self.forward_edges(*b).iter().all(|f| *f == from)
                };
                children.filter(is_case).collect()
            }
            Some(Terminator::Apply { arms, .. }) => {
                let is_arm_block = |b: &Block| arms.iter().any(|arm| arm.block == *b);
                let is_case = |b: &Block| {
                    !is_arm_block(b)
                        && self
                            .forward_edges(*b)
                            .iter()
                            .all(|f| is_arm_block(f) && matches!(self.term(*f), Some(Terminator::Jump(_))))
                };
                let cases: Vec<Block> = children.filter(is_case).collect();
                let is_only_one = cases.len() == 1;
                cases.into_iter().filter(|b| is_only_one || self.body.blocks[*b].params.is_empty()).collect()
            }
            _ => Vec::new(),
        }
    }
}
