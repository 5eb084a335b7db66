//! Cutting the graph into stages: the stretches between table applications.

use crate::analysis::flow::{Flow, looked_up};
use crate::analysis::node::{Node, Step};
use crate::unsupported::Unsupported;
use ir::{Pipeline, TableId, Term};
use std::collections::BTreeMap;

/// Where a stage begins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Start {
    /// A packet enters.
    Begin,
    /// A packet that has turned off the trace begins once more.
    Again,
    /// Behind the table application that ends this node.
    Site(Node, TableId),
    /// At the deparser.
    Deparser(Node),
}

/// A stage: one function of native code.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Where it begins.
    pub start: Start,
    /// Which of [`starts`] that is, of which copies count as one.
    pub slot: usize,
    /// The nodes it runs through, the first ones first.
    pub nodes: Vec<Node>,
}

/// What the engine does for a stage.
#[derive(Clone, Copy, Debug)]
pub struct StageInfo {
    /// Where it begins.
    pub start: Start,
    /// Which of the plan's starts that is, of which copies count as one.
    pub slot: usize,
    /// Whether it is a copy for packets that came by the trace.
    pub copied: bool,
    /// The table that is looked up before it.
    pub table: Option<TableId>,
    /// 64-bit words of a key.
    pub words: usize,
    /// The table that is looked up together with that, and the words of its keys.
    pub together: Option<(TableId, usize)>,
    /// Whether entries lead to members of a profile.
    pub profile: bool,
}

/// Where the stages of a pipeline can begin, of which copies count as one: the same for all ways in which code is made of it.
pub fn starts(pipeline: &Pipeline, flow: &Flow) -> Vec<Start> {
    let site = |node: Node| Some(Start::Site(node, looked_up(pipeline, flow, node)?));
    let sites = flow.originals().filter_map(site);
    [Start::Begin].into_iter().chain(sites).chain(flow.deparser.map(Start::Deparser)).collect()
}

/// Which of [`starts`] a stage begins with.
pub fn slot(flow: &Flow, starts: &[Start], start: Start) -> usize {
    let original = match start {
        Start::Site(node, table) => Start::Site(flow.origin(node), table),
        Start::Again => Start::Begin,
        start => start,
    };
    starts.iter().position(|there| *there == original).unwrap_or(0)
}

/// The nodes that a stage begins with.
pub fn entries(pipeline: &Pipeline, flow: &Flow, start: Start) -> Vec<Node> {
    match start {
        Start::Begin => vec![0],
        Start::Again => flow.next(0).into_iter().collect(),
        Start::Deparser(node) => vec![node],
        Start::Site(node, _) => {
            let Step::Block(control, block) = flow.nodes[node] else { return Vec::new() };
            let body = &pipeline.controls[ir::ControlId(control as u32)].body;
            match body.blocks[block].term.as_ref().map(|t| &t.term) {
                Some(Term::Apply { arms, .. }) => arms.iter().filter_map(|arm| flow.block(node, arm.block)).collect(),
                _ => Vec::new(),
            }
        }
    }
}

/// The nodes that follow within the stage that begins there.
pub fn inside(pipeline: &Pipeline, flow: &Flow, start: Start, node: Node) -> Vec<Node> {
    if looked_up(pipeline, flow, node).is_some() && !flow.in_place(node) && !in_hand(flow, start, node) {
        return Vec::new();
    }
    let cut = |next: &Node| is_cut_off(flow, *next) || node == 0 && again(flow) == Some(*next);
    flow.successors(pipeline, node).into_iter().filter(|next| !cut(next)).collect()
}

/// Whether what a node looks up was looked up together with what the stage begins behind.
pub fn in_hand(flow: &Flow, start: Start, node: Node) -> bool {
    matches!(start, Start::Site(first, _) if flow.together(first).is_some_and(|there| there.node == node))
}

/// Whether a node begins a stage by being the deparser.
fn is_cut_off(flow: &Flow, node: Node) -> bool {
    flow.cut_deparser && Some(node) == flow.deparser
}

/// Where packets begin once more that turn off the trace.
fn again(flow: &Flow) -> Option<Node> {
    flow.next(0).filter(|_| flow.turns_back)
}

/// The stages that a node of the stage that begins there leads to.
pub(super) fn leads_to(pipeline: &Pipeline, flow: &Flow, start: Start, node: Node) -> Vec<Start> {
    let mut starts = Vec::new();
    if node == 0 && again(flow).is_some() {
        starts.push(Start::Again);
    }
    let table = looked_up(pipeline, flow, node).filter(|_| !in_hand(flow, start, node));
    starts.extend(table.map(|table| Start::Site(flow.site(node), table)));
    let to_deparser = flow.successors(pipeline, node).into_iter().find(|next| is_cut_off(flow, *next));
    starts.extend(to_deparser.map(Start::Deparser));
    starts
}

/// Cuts the graph, and orders the stages so that each comes before those that it leads to.
pub fn cut(pipeline: &Pipeline, flow: &Flow) -> Result<Vec<Stage>, Unsupported> {
    let starts = starts(pipeline, flow);
    let mut found: BTreeMap<Start, Stage> = BTreeMap::new();
    let mut next: BTreeMap<Start, Vec<Start>> = BTreeMap::new();
    let mut work = vec![Start::Begin];
    while let Some(start) = work.pop() {
        if found.contains_key(&start) {
            continue;
        }
        let nodes = region(pipeline, flow, start);
        let mut leads: Vec<Start> = nodes.iter().flat_map(|n| leads_to(pipeline, flow, start, *n)).collect();
        leads.sort();
        leads.dedup();
        work.extend(leads.iter().copied());
        next.insert(start, leads);
        found.insert(start, Stage { start, slot: slot(flow, &starts, start), nodes });
        if found.len() > 512 {
            return Err(Unsupported::TooLarge);
        }
    }
    let order = topological(&next)?;
    Ok(order.into_iter().filter_map(|start| found.remove(&start)).collect())
}

/// The nodes of a stage. Each comes behind all that lead to it, but for loops.
pub(super) fn region(pipeline: &Pipeline, flow: &Flow, start: Start) -> Vec<Node> {
    in_order(flow, entries(pipeline, flow, start), |node| inside(pipeline, flow, start, node))
}

/// The nodes that these lead to, by the ways that are given. Each comes behind all that lead to it, but for loops.
pub(super) fn in_order(flow: &Flow, first: Vec<Node>, ways: impl Fn(Node) -> Vec<Node>) -> Vec<Node> {
    let (mut seen, mut nodes) = (vec![false; flow.nodes.len()], Vec::new());
    // Whoever is met again has all that it leads to behind it.
    let mut work: Vec<(Node, bool)> = first.into_iter().map(|node| (node, false)).collect();
    while let Some((node, again)) = work.pop() {
        if again {
            nodes.push(node);
        } else if !std::mem::replace(&mut seen[node], true) {
            work.push((node, true));
            work.extend(ways(node).into_iter().map(|node| (node, false)));
        }
    }
    nodes.reverse();
    nodes
}

/// How many stages lead to the deparser's.
pub fn lead_to_deparser(pipeline: &Pipeline, flow: &Flow, stages: &[Stage]) -> usize {
    let leads = |stage: &&Stage| {
        let mut starts = stage.nodes.iter().flat_map(|node| leads_to(pipeline, flow, stage.start, *node));
        starts.any(|start| matches!(start, Start::Deparser(_)))
    };
    stages.iter().filter(leads).count()
}

fn topological(next: &BTreeMap<Start, Vec<Start>>) -> Result<Vec<Start>, Unsupported> {
    let mut incoming: BTreeMap<Start, usize> = next.keys().map(|start| (*start, 0)).collect();
    for start in next.values().flatten() {
        *incoming.entry(*start).or_default() += 1;
    }
    let mut order = Vec::new();
    let mut ready: Vec<Start> = incoming.iter().filter(|(_, n)| **n == 0).map(|(s, _)| *s).collect();
    while let Some(start) = ready.pop() {
        order.push(start);
        for to in &next[&start] {
            if let Some(count) = incoming.get_mut(to) {
                *count -= 1;
                if *count == 0 {
                    ready.push(*to);
                }
            }
        }
    }
    // Whatever is left stands in a loop.
    if order.len() == next.len() { Ok(order) } else { Err(Unsupported::TableInLoop) }
}
