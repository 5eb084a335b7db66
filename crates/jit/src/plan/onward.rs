//! What lies behind the lookups of a trace, for packets that have come by it: once more, as long as each header is there, or not, as it was at the trace's end.
//!
//! What a program does for all its packets asks of each header whether it is there, and where. Packets that came by the trace have answered that: on the copies of the
//! nodes behind it no code asks, no packet carries where its headers lie, and the deparser has nothing to do. Whoever adds or removes a header goes on at the
//! originals. So do all packets from a lookup on behind which something remembers packets in their order (meters, registers): that must be one stage for all of
//! them.
//!
//! Most programs have tables of a few entries: own addresses, next hops. A stage looks them up itself, one packet after the other, and goes on behind them; only when they
//! have become large do packets wait for a lookup of all together.

use crate::analysis::copies::Onward;
use crate::analysis::flow::{Flow, looked_up};
use crate::analysis::headers::Headers;
use crate::analysis::node::{Node, Step};
use crate::analysis::order::remembers;
use crate::analysis::validity::{Known, leave};
use crate::plan::stages::{Start, in_order, inside, region, starts};
use crate::plan::together::likely_nodes;
use ir::{Entity, Pipeline, TableId};
use std::collections::HashMap;

/// The most nodes that are there once more.
const MOST: usize = 2048;
/// Most programs have far fewer stages than this; with more, no more lookups are there once more.
const MOST_STAGES: usize = 256;

impl Onward {
    /// Finds them. `known`: of headers, before each node, the trace's copies among them.
    pub fn find(pipeline: &Pipeline, flow: &Flow, headers: &Headers, known: &[Option<Known>]) -> Onward {
        let first = flow.nodes.len();
        let room = MOST_STAGES.saturating_sub(starts(pipeline, flow).len());
        let mut onward = Onward::default();
        // Of each node, the copies by what is known of headers before them.
        let mut copies: HashMap<Node, Vec<(Node, Known)>> = HashMap::new();
        let mut work: Vec<(Node, Known)> = Vec::new();
        for node in (0..first).filter(|node| flow.on_trace(*node)) {
            let Some(known) = known[node].clone() else { continue };
            copies.entry(flow.origin(node)).or_default().push((node, known.clone()));
            if looked_up(pipeline, flow, node).is_some() {
                work.push((node, known));
            }
        }
        while let Some((copy, before)) = work.pop() {
            let node = copy.checked_sub(first).map_or_else(|| flow.origin(copy), |number| onward.nodes[number]);
            if let Some(table) = looked_up(pipeline, flow, node) {
                if onward.lookups.len() == room || remembered(pipeline, flow, node, table) {
                    continue;
                }
                onward.lookups.push(copy);
            }
            for (next, after) in leave(pipeline, flow, headers, node, before.clone()) {
                if Some(next) == flow.deparser || !alike(&before, &after) {
                    continue;
                }
                let there = copies.entry(next).or_default();
                let instead = match there.iter().find(|(_, known)| alike(known, &after)) {
                    Some((copy, _)) => *copy,
                    None if onward.nodes.len() == MOST => continue,
                    None => {
                        let copy = first + onward.nodes.len();
                        onward.nodes.push(next);
                        there.push((copy, after.clone()));
                        work.push((copy, after));
                        copy
                    }
                };
                onward.ways.push((copy, next, instead));
            }
        }
        onward
    }
}

/// Says at which copies tables are looked up in place, of those that may be `small` and that most packets come to: at the first on each way through a stage. What such a
/// lookup finds is waited for, and so is the next one's key if it comes of that: in a row of them a core has not enough of other packets to do meanwhile.
pub fn look_up_in_place(pipeline: &Pipeline, flow: &mut Flow, small: &[bool]) {
    // Whether a stage has looked something up in place before it comes to a node.
    let mut behind = vec![false; flow.nodes.len()];
    let nodes = in_order(flow, vec![0], |node| flow.successors(pipeline, node));
    let likely = likely_nodes(pipeline, flow, (vec![0], &nodes), |node| flow.successors(pipeline, node));
    for node in nodes {
        let table = looked_up(pipeline, flow, node).filter(|_| flow.looks_up(node) && likely.contains(&node));
        if table.is_some_and(|table| small[table.index()]) && !behind[node] {
            flow.look_up_in_place(node);
        }
        let there = behind[node] || flow.in_place(node);
        inside(pipeline, flow, Start::Begin, node).into_iter().for_each(|next| behind[next] |= there);
    }
}

/// Whether the same is known of which headers are there.
fn alike(one: &Known, other: &Known) -> bool {
    one.valid == other.valid && one.invalid == other.invalid
}

/// Whether the stage behind a lookup keeps something that the next packet finds.
fn remembered(pipeline: &Pipeline, flow: &Flow, node: Node, table: TableId) -> bool {
    let told = |table: TableId| pipeline.tables[table].direct_meter.is_some();
    let keeps = |node: Node| {
        let Step::Block(control, block) = flow.nodes[node] else { return false };
        let insts = &pipeline.controls[ir::ControlId(control as u32)].body.blocks[block].insts;
        insts.iter().any(|data| remembers(&data.inst)) || flow.applies(pipeline, node).is_some_and(told)
    };
    told(table) || region(pipeline, flow, Start::Site(node, table)).into_iter().any(keeps)
}
