//! The shape of a body as structured code sees it: joins, loops, and what a branch of the graph may become.

use ir::*;
use std::collections::{HashMap, HashSet};

/// The shape of a body, and where its values are used and its state is written.
pub(super) struct Graph<'a> {
    pub(super) body: &'a Body,
    pub(super) cfg: Cfg,
    position: HashMap<Block, usize>,
    children: HashMap<Block, Vec<Block>>,
    /// Edges into a block, repeats included.
    edges: HashMap<Block, Vec<Block>>,
    loops: HashSet<Block>,
    /// Where each value is used: block, and number of the instruction (`usize::MAX`: the terminator).
    uses: HashMap<Value, Vec<(Block, usize)>>,
    defined: HashMap<Value, Block>,
    /// Values that say whether a lookup hit, with the block that ends in it.
    hits: HashMap<Value, Block>,
}

impl<'a> Graph<'a> {
    /// The shape of a body.
    pub(super) fn new(body: &'a Body) -> Graph<'a> {
        let cfg = Cfg::new(body);
        let order = cfg.reverse_postorder().to_vec();
        let position: HashMap<Block, usize> = order.iter().enumerate().map(|(n, b)| (*b, n)).collect();
        let mut graph = Graph {
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
            if let Some(above) = graph.cfg.immediate_dominator(block) {
                graph.children.entry(above).or_default().push(block);
            }
            graph.block(block);
        }
        graph
    }

    fn block(&mut self, block: Block) {
        let data = &self.body.blocks[block];
        let Graph { uses, defined, .. } = self;
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
        if let Term::Apply { arms, .. } = &term.term {
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

    /// Place in the reverse postorder.
    pub(super) fn position(&self, block: Block) -> usize {
        self.position.get(&block).copied().unwrap_or(usize::MAX)
    }

    /// Whether some edge leads back to the block.
    pub(super) fn is_loop(&self, block: Block) -> bool {
        self.loops.contains(&block)
    }

    /// Whether the body has loops.
    pub(super) fn has_loops(&self) -> bool {
        !self.loops.is_empty()
    }

    /// Edges into a block that do not lead back.
    pub(super) fn forward_edges(&self, block: Block) -> Vec<Block> {
        let edges = self.edges.get(&block).map_or(&[][..], Vec::as_slice);
        edges.iter().copied().filter(|from| !self.cfg.dominates(block, *from)).collect()
    }

    /// Blocks whose nearest dominator this is, in order.
    pub(super) fn children(&self, block: Block) -> &[Block] {
        self.children.get(&block).map_or(&[], Vec::as_slice)
    }

    /// The blocks that this one dominates, itself first.
    pub(super) fn dominated(&self, block: Block) -> Vec<Block> {
        let mut all = vec![block];
        let mut at = 0;
        while let Some(next) = all.get(at).copied() {
            all.extend(self.children(next));
            at += 1;
        }
        all
    }

    /// Whether the block is nothing but `exit` or `return`, which is written where others jump to it.
    pub(super) fn leaf(&self, block: Block) -> Option<&'a Term> {
        let data = &self.body.blocks[block];
        let plain = data.params.is_empty() && data.insts.is_empty();
        let term = &data.term.as_ref()?.term;
        (plain && matches!(term, Term::Exit | Term::Return | Term::Reject)).then_some(term)
    }

    /// If a block's parameter is always whether a lookup hit: one of the arguments.
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

    /// Where a value is used.
    pub(super) fn uses(&self, value: Value) -> &[(Block, usize)] {
        self.uses.get(&value).map_or(&[], Vec::as_slice)
    }

    /// Whether the value is used behind its block, or by the lookup at the block's end.
    pub(super) fn leaves_block(&self, value: Value, block: Block) -> bool {
        let apply = matches!(self.term(block), Some(Term::Apply { .. }));
        self.uses(value).iter().any(|(at, n)| *at != block || (apply && *n == usize::MAX))
    }

    /// Whether the value is used in another block.
    pub(super) fn is_used_elsewhere(&self, value: Value, block: Block) -> bool {
        self.uses(value).iter().any(|(at, _)| *at != block)
    }

    /// Whether the value is used in the block behind instruction `n`.
    pub(super) fn is_used_after(&self, value: Value, block: Block, n: usize) -> bool {
        self.uses(value).iter().any(|(at, m)| *at == block && *m > n)
    }

    /// The block that a value is defined in.
    pub(super) fn defined_in(&self, value: Value) -> Option<Block> {
        self.defined.get(&value).copied()
    }

    /// How a block ends.
    pub(super) fn term(&self, block: Block) -> Option<&'a Term> {
        self.body.blocks[block].term.as_ref().map(|t| &t.term)
    }

    /// The joins below a block: its children that several edges lead to, which no `case` of its own holds.
    pub(super) fn joins(&self, block: Block) -> Vec<Block> {
        let cases = self.cases(block);
        let join = |b: &Block| self.forward_edges(*b).len() > 1 && self.leaf(*b).is_none() && !cases.contains(b);
        self.children(block).iter().copied().filter(join).collect()
    }

    /// The blocks that are reached from nowhere but the cases of the `switch` or lookup that ends `from`.
    pub(super) fn cases(&self, from: Block) -> Vec<Block> {
        let children = self.children(from).iter().copied().filter(|b| self.leaf(*b).is_none() && !self.is_loop(*b));
        match self.term(from) {
            Some(Term::Switch { .. }) => {
                let case = |b: &Block| {
                    self.body.blocks[*b].params.is_empty() && self.forward_edges(*b).iter().all(|f| *f == from)
                };
                children.filter(case).collect()
            }
            Some(Term::Apply { arms, .. }) => {
                let of_arm = |b: &Block| arms.iter().any(|arm| arm.block == *b);
                let case = |b: &Block| {
                    !of_arm(b)
                        && self
                            .forward_edges(*b)
                            .iter()
                            .all(|f| of_arm(f) && matches!(self.term(*f), Some(Term::Jump(_))))
                };
                let all: Vec<Block> = children.filter(case).collect();
                let lone = all.len() == 1;
                all.into_iter().filter(|b| lone || self.body.blocks[*b].params.is_empty()).collect()
            }
            _ => Vec::new(),
        }
    }
}
