//! The way that most packets take from their arrival to the first lookup, made a stretch of code by itself.
//!
//! A parser's ways meet again where the control begins, and behind that nothing is certain: which headers there are, how far the parser came, whether there was an error.
//! So the nodes of one way are there twice. Whoever goes through the copies has come by no other way: headers, errors and places are what they are on it,
//! and what has been read of the packet need not be read again. Packets that turn off go on at the originals. Only packets that are long enough for all
//! that the way takes from them begin it, so their length is not looked at again.

use crate::analysis::copies::Trace;
use crate::analysis::flow::{Flow, looked_up};
use crate::analysis::headers::Headers;
use crate::analysis::node::{Node, Step};
use crate::analysis::validity::{Known, leave};
use crate::plan::stages::{Start, region};
use ir::{Entity, HeaderId, Inst, Pipeline, Term, VarKind};
use std::collections::HashMap;

/// The most nodes that are there twice.
const LONGEST: usize = 256;
/// The most nodes that are looked at to see whether a way comes back.
const DETOUR: usize = 64;

/// What has become of headers on a way, in order.
type Done = Vec<(u8, HeaderId, u32)>;

impl Trace {
    /// Finds the way by the first case of each selection that takes more of the packet and leads to a lookup: programs name the usual first. `None` if packets get to no
    /// lookup, or if how much the parser takes is known only at run time.
    pub fn find(pipeline: &Pipeline, flow: &Flow, headers: &Headers) -> Option<Trace> {
        let mut finder = Finder { pipeline, flow, headers, most: vec![None; flow.nodes.len()] };
        for node in region(pipeline, flow, Start::Begin).into_iter().rev() {
            finder.most[node] = finder.taken(node);
        }
        let mut nodes = finder.way()?;
        let bytes = finder.bytes(&nodes)?;
        let ways = finder.ways(&mut nodes);
        let leaves_no_mark = finder.leaves_no_mark(&nodes);
        Some(Trace { nodes, ways, bytes, leaves_no_mark })
    }
}

struct Finder<'a> {
    pipeline: &'a Pipeline,
    flow: &'a Flow,
    headers: &'a Headers,
    /// From each node on, how often the parser takes something of the packet, at most, until a table is looked up; `None` if that never happens.
    most: Vec<Option<usize>>,
}

impl Finder<'_> {
    fn looks_up(&self, node: Node) -> bool {
        looked_up(self.pipeline, self.flow, node).is_some()
    }

    /// The instructions of a node.
    fn insts(&self, node: Node) -> impl Iterator<Item = &Inst> {
        let block = match self.flow.nodes[node] {
            Step::Block(control, block) => {
                Some(&self.pipeline.controls[ir::ControlId(control as u32)].body.blocks[block])
            }
            Step::Glue(_) => None,
        };
        block.into_iter().flat_map(|block| block.insts.iter().map(|data| &data.inst))
    }

    /// Where a node's end leads, unless that is a parser's rejection.
    fn ends(&self, node: Node) -> Vec<Node> {
        if let Step::Block(control, block) = self.flow.nodes[node] {
            let control = &self.pipeline.controls[ir::ControlId(control as u32)];
            let term = control.body.blocks[block].term.as_ref().map(|term| &term.term);
            if control.kind.is_parser() && matches!(term, Some(Term::Reject)) {
                return Vec::new();
            }
        }
        self.flow.ends(self.pipeline, node)
    }

    /// How often a node and those behind it take something, as [`Finder::most`] says it.
    fn taken(&self, node: Node) -> Option<usize> {
        let own = self.insts(node).filter(|inst| matches!(inst, Inst::Extract(_) | Inst::Lookahead(_))).count();
        if self.looks_up(node) {
            return Some(own);
        }
        self.ends(node).into_iter().filter_map(|next| self.most[next]).max().map(|rest| own + rest)
    }

    /// The nodes of the way.
    fn way(&self) -> Option<Vec<Node>> {
        let mut known = Known::none_valid(self.pipeline.headers.len());
        let (mut nodes, mut node): (Vec<Node>, Node) = (Vec::new(), 0);
        while !self.looks_up(node) {
            let mut ways = leave(self.pipeline, self.flow, self.headers, node, known);
            let next = self.on(node, &ways)?;
            if nodes.contains(&next) || nodes.len() == LONGEST {
                return None;
            }
            // A parser that is left at its end is left there last.
            known = ways.remove(ways.iter().rposition(|(to, _)| *to == next)?).1;
            nodes.push(next);
            node = next;
        }
        Some(nodes)
    }

    /// The next node, of those that packets can get to.
    fn on(&self, node: Node, ways: &[(Node, Known)]) -> Option<Node> {
        let most = |next: &Node| self.most[*next].filter(|_| ways.iter().any(|(to, _)| to == next));
        let ends = self.ends(node);
        let takes_more = ends.iter().find(|next| most(next).is_some_and(|most| most > 0));
        takes_more.or_else(|| ends.iter().find(|next| most(next).is_some())).copied()
    }

    /// What a way needs of a packet.
    fn bytes(&self, nodes: &[Node]) -> Option<u32> {
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

    /// Whether nothing that these nodes do is to be seen by anybody else before their ways' end.
    fn leaves_no_mark(&self, nodes: &[Node]) -> bool {
        nodes.iter().all(|node| {
            let inline = self.flow.applies(self.pipeline, *node).is_some() && !self.looks_up(*node);
            !inline && self.insts(*node).all(|inst| self.passes(inst))
        })
    }

    /// Whether an instruction only changes what a packet carries from node to node.
    fn passes(&self, inst: &Inst) -> bool {
        match inst {
            Inst::Store(var, _) => !matches!(self.pipeline.vars[*var].kind, VarKind::Field(..)),
            Inst::SetValid(_) | Inst::CopyHeader { .. } | Inst::Emit(_) => false,
            Inst::Extern { func, .. } => !func.outlives_packet(),
            _ => true,
        }
    }

    /// What has become of headers behind a node.
    fn behind(&self, node: Node, mut done: Done) -> Done {
        done.extend(self.insts(node).filter_map(|inst| match inst {
            Inst::Extract(header) => Some((0, *header, 0)),
            Inst::SetValid(header) => Some((1, *header, 0)),
            Inst::SetInvalid(header) => Some((2, *header, 0)),
            Inst::CopyHeader { dst, src } => Some((3, *dst, src.0)),
            _ => None,
        }));
        done
    }

    /// The ways between nodes of the trace on which the same has become of headers, those through other nodes included, which are put behind `nodes`.
    fn ways(&self, nodes: &mut Vec<Node>) -> Vec<(Node, Node)> {
        let mut before: HashMap<Node, Done> = HashMap::new();
        let mut done = Done::new();
        for node in nodes.iter() {
            before.insert(*node, done.clone());
            done = self.behind(*node, done);
        }
        let mut ways = Vec::new();
        let mut at = 0;
        while let Some(node) = nodes.get(at).copied() {
            at += 1;
            if self.looks_up(node) {
                continue;
            }
            let behind = self.behind(node, before[&node].clone());
            for next in self.ends(node) {
                if !before.contains_key(&next) && nodes.len() < LONGEST && self.comes_back(next, &behind, &before) {
                    before.insert(next, behind.clone());
                    nodes.push(next);
                }
                if before.get(&next) == Some(&behind) {
                    ways.push((node, next));
                }
            }
        }
        ways
    }

    /// Whether a way through a node that is not on the trace does nothing to headers and takes nothing of the packet until it is back.
    fn comes_back(&self, node: Node, done: &Done, before: &HashMap<Node, Done>) -> bool {
        let takes = |node: Node| self.insts(node).any(crate::analysis::facts::may_reject);
        let (mut seen, mut at) = (vec![node], 0);
        while let Some(node) = seen.get(at).copied() {
            at += 1;
            if self.looks_up(node) || takes(node) || self.behind(node, done.clone()) != *done {
                continue;
            }
            for next in self.ends(node) {
                match before.get(&next) {
                    Some(there) if there == done => return true,
                    None if seen.len() < DETOUR && !seen.contains(&next) => seen.push(next),
                    _ => {}
                }
            }
        }
        false
    }
}
