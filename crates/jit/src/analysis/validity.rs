//! Header validity known before each node; such headers need no run-time check.

use crate::analysis::flow::FlowGraph;
use crate::analysis::frame_slots::all_below;
use crate::analysis::headers::HeaderLayout;
use crate::analysis::node::{FlowNodeId, NodeKind};
use crate::analysis::worklist::Worklist;
use fixedbitset::FixedBitSet;
use ir::{Entity, HeaderId, Inst, Pipeline, Terminator, Value};
use std::rc::Rc;

/// Header validity known at one point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownValidity {
    /// Headers that are valid.
    pub valid: FixedBitSet,
    /// Headers that are invalid.
    pub invalid: FixedBitSet,
    /// For each header, those that are valid whenever it is. For example, a parser extracts an
    /// inner header only after the outer one.
    pub implied: Rc<Vec<FixedBitSet>>,
}

impl KnownValidity {
    /// Returns the state in which none of `count` headers is valid.
    pub fn none_valid(count: usize) -> KnownValidity {
        KnownValidity {
            valid: FixedBitSet::with_capacity(count),
            invalid: all_below(count),
            implied: Rc::new(vec![all_below(count); count]),
        }
    }

    /// Returns the validity bits of 64 headers, if each is known; `headers` is the total number of
    /// headers.
    pub fn valid_word(&self, word: u32, headers: usize) -> Option<u64> {
        let first = word as usize * 64;
        let mut bits = 0;
        for header in first..headers.min(first + 64) {
            match (self.valid.contains(header), self.invalid.contains(header)) {
                (true, _) => bits |= 1 << (header - first),
                (false, true) => {}
                (false, false) => return None,
            }
        }
        Some(bits)
    }

    /// Updates the state after the header became valid.
    pub fn set_valid(&mut self, headers: &HeaderLayout, id: HeaderId) {
        self.valid.insert(id.index());
        self.invalid.remove(id.index());
        let implied = Rc::make_mut(&mut self.implied);
        implied[id.index()] = self.valid.clone();
        implied.iter_mut().for_each(|implied| implied.insert(id.index()));
        for sibling in &headers.siblings[id.index()] {
            self.set_invalid(*sibling);
        }
    }

    /// Updates the state after the header became invalid.
    pub fn set_invalid(&mut self, id: HeaderId) {
        self.set_unknown(id);
        self.invalid.insert(id.index());
        // The header is never valid here, so any implication holds.
        let count = self.implied.len();
        Rc::make_mut(&mut self.implied)[id.index()] = all_below(count);
    }

    fn set_unknown(&mut self, id: HeaderId) {
        self.valid.remove(id.index());
        self.invalid.remove(id.index());
        let implied = Rc::make_mut(&mut self.implied);
        implied.iter_mut().for_each(|implied| implied.remove(id.index()));
        implied[id.index()] = FixedBitSet::with_capacity(implied.len());
        implied[id.index()].insert(id.index());
    }

    /// Updates the state after the program found the header valid.
    fn found_valid(&mut self, id: HeaderId) {
        let implied = self.implied[id.index()].clone();
        self.valid.union_with(&implied);
        self.valid.insert(id.index());
        self.invalid.difference_with(&implied);
        self.invalid.remove(id.index());
    }

    /// Intersects with another state.
    fn intersect_with(&mut self, other: &KnownValidity) {
        self.valid.intersect_with(&other.valid);
        self.invalid.intersect_with(&other.invalid);
        if self.implied != other.implied {
            for (own, other) in Rc::make_mut(&mut self.implied).iter_mut().zip(other.implied.iter()) {
                own.intersect_with(other);
            }
        }
    }

    /// Updates the state after an instruction.
    pub fn apply_inst(&mut self, headers: &HeaderLayout, inst: &Inst) {
        match inst {
            Inst::SetValid(h) | Inst::Extract(h) | Inst::ExtractVarbit(h, _) => self.set_valid(headers, *h),
            Inst::SetInvalid(h) => self.set_invalid(*h),
            Inst::CopyHeader { dst, src } if dst == src => {}
            Inst::CopyHeader { dst, src } if self.valid.contains(src.index()) => self.set_valid(headers, *dst),
            Inst::CopyHeader { dst, src } if self.invalid.contains(src.index()) => self.set_invalid(*dst),
            Inst::CopyHeader { dst, .. } => {
                self.set_unknown(*dst);
                headers.siblings[dst.index()].iter().for_each(|sibling| self.set_unknown(*sibling));
            }
            _ => {}
        }
    }
}

/// Computes the validity known before each node; `None` for unreachable nodes.
/// A header is known to be valid or invalid if it is so on all paths.
pub fn analyze_validity(pipeline: &Pipeline, flow: &FlowGraph, headers: &HeaderLayout) -> Vec<Option<KnownValidity>> {
    let count = pipeline.headers.len();
    let mut known: Vec<Option<KnownValidity>> = vec![None; flow.nodes.len()];
    known[0] = Some(KnownValidity::none_valid(count));
    let mut work = Worklist::new(pipeline, flow);
    while let Some(node) = work.pop() {
        let Some(before) = known[node].clone() else { continue };
        for (next, after) in exit_validity(pipeline, flow, headers, node, before) {
            let has_changed = match &mut known[next] {
                Some(joined) => {
                    let old = joined.clone();
                    joined.intersect_with(&after);
                    *joined != old
                }
                unreached => {
                    *unreached = Some(after);
                    true
                }
            };
            if has_changed {
                work.push(next);
            }
        }
    }
    known
}

/// Returns the reachable successors of a node, with the validity known on each edge.
pub fn exit_validity(
    pipeline: &Pipeline,
    flow: &FlowGraph,
    headers: &HeaderLayout,
    node: FlowNodeId,
    before: KnownValidity,
) -> Vec<(FlowNodeId, KnownValidity)> {
    let NodeKind::Block(control, block) = flow.nodes[node] else {
        return flow.end_successors(pipeline, node).into_iter().map(|next| (next, before.clone())).collect();
    };
    let body = &pipeline.controls[ir::ControlId(control as u32)].body;
    let mut edges = Vec::new();
    let mut known = before;
    for data in &body.blocks[block].insts {
        // The parser may reject here.
        if crate::analysis::facts::may_reject(&data.inst)
            && !flow.restarts_on_exit_from(node)
            && let Some(after) = flow.body_exit(control)
        {
            edges.push((after, known.clone()));
        }
        known.apply_inst(headers, &data.inst);
    }
    if let Some(Terminator::Branch { cond, then, els }) = body.blocks[block].term.as_ref().map(|term| &term.term)
        && let Some(header) = tested_header(body, block, *cond)
    {
        if !known.invalid.contains(header.index()) {
            let mut known = known.clone();
            known.found_valid(header);
            edges.extend(flow.block_node(node, then.block).map(|next| (next, known)));
        }
        if !known.valid.contains(header.index()) {
            known.set_invalid(header);
            edges.extend(flow.block_node(node, els.block).map(|next| (next, known)));
        }
        let ends = flow.end_successors(pipeline, node);
        edges.retain(|(next, _)| ends.contains(next) || flow.body_exit(control) == Some(*next));
        return edges;
    }
    edges.extend(flow.end_successors(pipeline, node).into_iter().map(|next| (next, known.clone())));
    edges
}

/// Returns the header that the condition tests for validity, if the block does not change it
/// afterwards.
fn tested_header(body: &ir::Body, block: ir::Block, cond: Value) -> Option<HeaderId> {
    let insts = &body.blocks[block].insts;
    let at = insts.iter().position(|data| data.results.first() == Some(&cond))?;
    let Inst::IsValid(id) = insts[at].inst else { return None };
    let changes = |inst: &Inst| {
        matches!(
            inst,
            Inst::SetValid(_)
                | Inst::SetInvalid(_)
                | Inst::CopyHeader { .. }
                | Inst::Extract(_)
                | Inst::ExtractVarbit(..)
        )
    };
    (!insts[at..].iter().any(|data| changes(&data.inst))).then_some(id)
}
