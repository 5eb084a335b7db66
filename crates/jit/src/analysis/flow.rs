//! The blocks of all bodies as one graph, with the architecture's own steps between them.
//!
//! A packet's way is a chain: begin, parser, control, deparser, end. Here the ways out of one body (`return`, `exit`, `reject`) are
//! edges to the next body, so that a stage can span the end of the parser and the beginning of the control.

use crate::analysis::copies::{Companion, Onward, Trace};
use crate::analysis::node::{Glue, Node, Step};
use crate::unsupported::Unsupported;
use ir::{Arch, Block, ControlKind, Entity, Pipeline, TableId, Term};

/// The graph.
#[derive(Clone, Debug)]
pub struct Flow {
    /// All nodes; the first is [`Glue::Begin`].
    pub nodes: Vec<Step>,
    /// For each glue node, where it goes on.
    next: Vec<Option<Node>>,
    /// For each control (by index), its first node and where it leads.
    controls: Vec<Option<(Node, Node)>>,
    /// The first node of the deparser.
    pub deparser: Option<Node>,
    /// Whether it begins a stage of its own, so that its code is there once.
    pub cut_deparser: bool,
    /// The copies of a trace's nodes and of those behind it, behind all others.
    copies: Vec<Twin>,
    /// Whether packets that turn off a trace begin once more, at what is no copy: nothing on it leaves a mark.
    pub turns_back: bool,
    /// The first of them, and how many bytes packets have that begin there.
    pub trace: Option<(Node, u32)>,
}

/// A node that is there twice.
#[derive(Clone, Debug)]
struct Twin {
    origin: Node,
    /// If it leads to the first of a pair, it leads to the second instead.
    detours: Vec<(Node, Node)>,
    /// Whether it is a parser's or lies between it and the first lookup: packets are long enough for what the parser takes there.
    traced: bool,
    /// Whether the lookup that it ends with begins a stage of its own.
    looks_up: bool,
    /// Whether its stage goes on behind that lookup, as long as the table's entries are a handful.
    in_place: bool,
    /// What is looked up together with that.
    together: Option<Box<Companion>>,
}

impl Twin {
    fn new(origin: Node, detours: Vec<(Node, Node)>, traced: bool) -> Twin {
        Twin { origin, detours, traced, looks_up: false, in_place: false, together: None }
    }
}

impl Flow {
    /// The graph of a pipeline.
    pub fn new(pipeline: &Pipeline) -> Result<Flow, Unsupported> {
        use ControlKind::*;
        let mut flow = Flow {
            nodes: Vec::new(),
            next: Vec::new(),
            controls: vec![None; pipeline.controls.len()],
            deparser: None,
            cut_deparser: true,
            copies: Vec::new(),
            turns_back: false,
            trace: None,
        };
        let mut chain = Chain { flow: &mut flow, pipeline, pending: Vec::new() };
        chain.glue(Glue::Begin);
        match pipeline.arch {
            Arch::Pna => {
                chain.glue(Glue::PnaTell(0));
                chain.body(PreControl)?;
                chain.glue(Glue::PnaTell(1));
                chain.body(MainParser)?;
                chain.glue(Glue::PnaTell(2));
                chain.body(MainControl)?;
                chain.glue(Glue::PnaVerdict);
                chain.body(MainDeparser)?;
            }
            Arch::V1Model => {
                chain.glue(Glue::V1Arrive);
                chain.body(Parser)?;
                chain.glue(Glue::V1Parsed);
                chain.body(VerifyChecksum)?;
                chain.glue(Glue::V1Verified);
                chain.body(Ingress)?;
                chain.glue(Glue::V1Traffic);
                chain.body(Egress)?;
                chain.glue(Glue::V1Leave);
                chain.body(ComputeChecksum)?;
                chain.body(Deparser)?;
            }
        }
        chain.glue(Glue::End);
        Ok(flow)
    }

    /// Puts copies of a trace's nodes behind all others. Packets begin there that are long enough.
    pub fn follow(&mut self, trace: &Trace) {
        let first = self.nodes.len();
        let copy = |node: Node| trace.nodes.iter().position(|there| *there == node).map(|place| first + place);
        for node in trace.nodes.iter().copied() {
            let ways = trace.ways.iter().filter(|(from, _)| *from == node);
            let detours = ways.filter_map(|(_, to)| Some((*to, copy(*to)?))).collect();
            self.copies.push(Twin::new(node, detours, true));
            self.nodes.push(self.nodes[node]);
            self.next.push(self.next[node]);
        }
        self.trace = Some((first, trace.bytes));
        self.turns_back = trace.leaves_no_mark;
    }

    /// Puts copies of nodes behind a trace behind all others.
    pub fn go_on(&mut self, onward: &Onward) {
        for node in onward.nodes.iter().copied() {
            self.copies.push(Twin::new(node, Vec::new(), false));
            self.nodes.push(self.nodes[node]);
            self.next.push(self.next[node]);
        }
        let first = self.nodes.len() - self.copies.len();
        for (from, to, instead) in &onward.ways {
            self.copies[from - first].detours.push((*to, *instead));
        }
        for node in &onward.lookups {
            self.copies[node - first].looks_up = true;
        }
    }

    fn copy(&self, node: Node) -> Option<&Twin> {
        self.copies.get(node.checked_sub(self.originals().end)?)
    }

    fn copy_mut(&mut self, node: Node) -> Option<&mut Twin> {
        let number = node.checked_sub(self.originals().end)?;
        self.copies.get_mut(number)
    }

    /// Says that the stage of a copy goes on behind its lookup, as long as the table's entries are a handful.
    pub fn look_up_in_place(&mut self, node: Node) {
        if let Some(copy) = self.copy_mut(node) {
            copy.in_place = true;
        }
    }

    /// Says what is looked up together with what a copy looks up.
    pub fn look_up_together(&mut self, node: Node, companion: Companion) {
        if let Some(copy) = self.copy_mut(node) {
            copy.together = Some(Box::new(companion));
        }
    }

    /// What is looked up together with what a node looks up.
    pub fn together(&self, node: Node) -> Option<&Companion> {
        self.copy(node)?.together.as_deref()
    }

    /// Whether a node is one of a trace's copies.
    pub fn on_trace(&self, node: Node) -> bool {
        self.copy(node).is_some_and(|copy| copy.traced)
    }

    /// Whether it is one of them, or where packets arrive that begin there.
    pub fn begins_or_on_trace(&self, node: Node) -> bool {
        self.nodes[node] == Step::Glue(Glue::Begin) || self.on_trace(node)
    }

    /// The node that the stage behind a node's lookup is named after: itself, or what it is a copy of.
    pub fn site(&self, node: Node) -> Node {
        self.copy(node).filter(|copy| !copy.looks_up).map_or(node, |copy| copy.origin)
    }

    /// Whether a node is a copy whose lookup begins a stage of its own.
    pub fn looks_up(&self, node: Node) -> bool {
        self.copy(node).is_some_and(|copy| copy.looks_up)
    }

    /// Whether a stage goes on behind a node's lookup, as long as the table's entries are a handful.
    pub fn in_place(&self, node: Node) -> bool {
        self.copy(node).is_some_and(|copy| copy.in_place)
    }

    /// The nodes that are no copies.
    pub fn originals(&self) -> std::ops::Range<Node> {
        0..self.nodes.len() - self.copies.len()
    }

    /// The node itself, or the one that it is a copy of.
    pub fn origin(&self, node: Node) -> Node {
        self.copy(node).map_or(node, |copy| copy.origin)
    }

    /// Where a node leads that would lead to `to` if there were no copies.
    fn led(&self, from: Node, to: Node) -> Node {
        let detour = self.copy(from).and_then(|copy| copy.detours.iter().find(|(there, _)| *there == to));
        detour.map_or(to, |(_, instead)| *instead)
    }

    /// The node of a block, for those who come from another node of its control.
    pub fn block(&self, from: Node, block: Block) -> Option<Node> {
        let Step::Block(control, _) = self.nodes[from] else { return None };
        let first = self.controls.get(control).copied().flatten()?.0;
        Some(self.led(from, first + block.index()))
    }

    /// Where a body leads if it is left before its block has ended: if the parser rejects.
    pub fn after(&self, control: usize) -> Option<Node> {
        Some(self.controls.get(control).copied().flatten()?.1)
    }

    /// Where a node leads whose block returns from its body.
    pub fn returns(&self, node: Node) -> Option<Node> {
        let Step::Block(control, _) = self.nodes[node] else { return None };
        Some(self.led(node, self.after(control)?))
    }

    /// Where a step of the architecture goes on; the first one, for packets that are not long enough for the trace.
    pub fn next(&self, node: Node) -> Option<Node> {
        Some(self.led(node, self.next.get(node).copied().flatten()?))
    }

    /// The nodes that can follow, table applications included.
    pub fn successors(&self, pipeline: &Pipeline, node: Node) -> Vec<Node> {
        let mut nodes = self.ends(pipeline, node);
        // A parser's instruction may reject as well.
        if let Step::Block(control, _) = self.nodes[node]
            && !self.turned_back(node)
            && pipeline.controls[ir::ControlId(control as u32)].kind.is_parser()
        {
            nodes.extend(self.after(control).filter(|after| !nodes.contains(after)));
        }
        nodes
    }

    /// The nodes that can follow where a node is left at its end.
    pub fn ends(&self, pipeline: &Pipeline, node: Node) -> Vec<Node> {
        let mut ends = self.ways(pipeline, node);
        if self.turned_back(node) && looked_up(pipeline, self, node).is_none() {
            ends.retain(|next| self.on_trace(*next));
        }
        ends
    }

    /// Whether packets begin once more that leave a node before its end, or for another one than a trace's copy.
    pub fn turned_back(&self, node: Node) -> bool {
        self.turns_back && self.on_trace(node)
    }

    fn ways(&self, pipeline: &Pipeline, node: Node) -> Vec<Node> {
        let Step::Block(control, block) = self.nodes[node] else {
            let trace = self.trace.filter(|_| self.nodes[node] == Step::Glue(Glue::Begin));
            return self.next(node).into_iter().chain(trace.map(|(first, _)| first)).collect();
        };
        match pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].term.as_ref().map(|term| &term.term) {
            None => Vec::new(),
            Some(Term::Return | Term::Exit | Term::Reject) => self.returns(node).into_iter().collect(),
            Some(term) => term.successors().into_iter().filter_map(|block| self.block(node, block)).collect(),
        }
    }

    /// The table that a node ends by applying.
    pub fn applies(&self, pipeline: &Pipeline, node: Node) -> Option<TableId> {
        let Step::Block(control, block) = self.nodes[node] else { return None };
        let body = &pipeline.controls[ir::ControlId(control as u32)].body;
        body.blocks[block].applied()
    }
}

/// Whether a table is looked up apart from the code around it; one without keys isn't.
pub fn is_cut(pipeline: &Pipeline, table: TableId) -> bool {
    pipeline.tables[table].match_keys().next().is_some()
}

/// The table that is looked up where a node ends.
pub fn looked_up(pipeline: &Pipeline, flow: &Flow, node: Node) -> Option<TableId> {
    flow.applies(pipeline, node).filter(|table| is_cut(pipeline, *table))
}

/// The chain that is being built: what stands at its end waits for the next node.
struct Chain<'a> {
    flow: &'a mut Flow,
    pipeline: &'a Pipeline,
    /// Glue nodes and controls whose successor is not there yet.
    pending: Vec<Pending>,
}

enum Pending {
    Glue(Node),
    Control(usize),
}

impl Chain<'_> {
    fn link(&mut self, node: Node) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Glue(glue) => self.flow.next[glue] = Some(node),
                Pending::Control(control) => {
                    if let Some((_, after)) = &mut self.flow.controls[control] {
                        *after = node;
                    }
                }
            }
        }
    }

    fn glue(&mut self, glue: Glue) {
        let node = self.flow.nodes.len();
        self.flow.nodes.push(Step::Glue(glue));
        self.flow.next.push(None);
        self.link(node);
        self.pending.push(Pending::Glue(node));
    }

    fn body(&mut self, kind: ControlKind) -> Result<(), Unsupported> {
        let found = self.pipeline.controls.iter().find(|(_, control)| control.kind == kind);
        let Some((id, control)) = found else { return Ok(()) };
        let Some(entry) = control.body.entry else { return Ok(()) };
        let first = self.flow.nodes.len();
        for block in control.body.blocks.keys() {
            self.flow.nodes.push(Step::Block(id.index(), block));
            self.flow.next.push(None);
        }
        let entry = first + entry.index();
        self.link(entry);
        self.flow.controls[id.index()] = Some((first, first));
        self.pending.push(Pending::Control(id.index()));
        if matches!(kind, ControlKind::Deparser | ControlKind::MainDeparser) {
            self.flow.deparser = Some(entry);
        }
        Ok(())
    }
}
