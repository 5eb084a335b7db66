//! Which headers are certainly valid, or certainly not, before each node: then no code has to ask.

use crate::analysis::cells::all_below;
use crate::analysis::flow::Flow;
use crate::analysis::headers::Headers;
use crate::analysis::node::{Node, Step};
use fixedbitset::FixedBitSet;
use ir::{Entity, HeaderId, Inst, Pipeline, Term, Value};
use std::rc::Rc;

/// What is certain at one point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known {
    /// Headers that are valid.
    pub valid: FixedBitSet,
    /// Headers that are not.
    pub invalid: FixedBitSet,
    /// For each header, those that are valid whenever it is: a parser takes the inner header only behind the outer one.
    pub implied: Rc<Vec<FixedBitSet>>,
}

impl Known {
    /// None of so many headers is valid.
    pub fn none_valid(count: usize) -> Known {
        Known {
            valid: FixedBitSet::with_capacity(count),
            invalid: all_below(count),
            implied: Rc::new(vec![all_below(count); count]),
        }
    }

    /// 64 headers' validity as a number, if it is certain of each; `headers` is the number of headers.
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

    /// After something made the header valid.
    pub fn set_valid(&mut self, headers: &Headers, id: HeaderId) {
        self.valid.insert(id.index());
        self.invalid.remove(id.index());
        let implied = Rc::make_mut(&mut self.implied);
        implied[id.index()] = self.valid.clone();
        implied.iter_mut().for_each(|implied| implied.insert(id.index()));
        for sibling in &headers.siblings[id.index()] {
            self.set_invalid(*sibling);
        }
    }

    /// After something made the header invalid.
    pub fn set_invalid(&mut self, id: HeaderId) {
        self.forget(id);
        self.invalid.insert(id.index());
        // It is never valid here, so whatever is said of that case is true.
        let count = self.implied.len();
        Rc::make_mut(&mut self.implied)[id.index()] = all_below(count);
    }

    fn forget(&mut self, id: HeaderId) {
        self.valid.remove(id.index());
        self.invalid.remove(id.index());
        let implied = Rc::make_mut(&mut self.implied);
        implied.iter_mut().for_each(|implied| implied.remove(id.index()));
        implied[id.index()] = FixedBitSet::with_capacity(implied.len());
        implied[id.index()].insert(id.index());
    }

    /// The program has found that the header is valid.
    fn found_valid(&mut self, id: HeaderId) {
        let implied = self.implied[id.index()].clone();
        self.valid.union_with(&implied);
        self.valid.insert(id.index());
        self.invalid.difference_with(&implied);
        self.invalid.remove(id.index());
    }

    /// What is true of both.
    fn meet(&mut self, other: &Known) {
        self.valid.intersect_with(&other.valid);
        self.invalid.intersect_with(&other.invalid);
        if self.implied != other.implied {
            for (own, other) in Rc::make_mut(&mut self.implied).iter_mut().zip(other.implied.iter()) {
                own.intersect_with(other);
            }
        }
    }

    /// After an instruction.
    pub fn step(&mut self, headers: &Headers, inst: &Inst) {
        match inst {
            Inst::SetValid(h) | Inst::Extract(h) | Inst::ExtractVarbit(h, _) => self.set_valid(headers, *h),
            Inst::SetInvalid(h) => self.set_invalid(*h),
            Inst::CopyHeader { dst, src } if dst == src => {}
            Inst::CopyHeader { dst, src } if self.valid.contains(src.index()) => self.set_valid(headers, *dst),
            Inst::CopyHeader { dst, src } if self.invalid.contains(src.index()) => self.set_invalid(*dst),
            Inst::CopyHeader { dst, .. } => {
                self.forget(*dst);
                headers.siblings[dst.index()].iter().for_each(|sibling| self.forget(*sibling));
            }
            _ => {}
        }
    }
}

/// What is known before each node; `None` for nodes that nothing leads to.
pub fn validity(pipeline: &Pipeline, flow: &Flow, headers: &Headers) -> Vec<Option<Known>> {
    let count = pipeline.headers.len();
    let mut known: Vec<Option<Known>> = vec![None; flow.nodes.len()];
    known[0] = Some(Known::none_valid(count));
    let mut work: Vec<Node> = vec![0];
    while let Some(node) = work.pop() {
        let Some(before) = known[node].clone() else { continue };
        for (next, after) in leave(pipeline, flow, headers, node, before) {
            let changed = match &mut known[next] {
                Some(there) => {
                    let old = there.clone();
                    there.meet(&after);
                    *there != old
                }
                none => {
                    *none = Some(after);
                    true
                }
            };
            if changed {
                work.push(next);
            }
        }
    }
    known
}

/// What is known on each way out of a node that packets can take.
pub fn leave(pipeline: &Pipeline, flow: &Flow, headers: &Headers, node: Node, before: Known) -> Vec<(Node, Known)> {
    let Step::Block(control, block) = flow.nodes[node] else {
        return flow.ends(pipeline, node).into_iter().map(|next| (next, before.clone())).collect();
    };
    let body = &pipeline.controls[ir::ControlId(control as u32)].body;
    let mut ways = Vec::new();
    let mut known = before;
    for data in &body.blocks[block].insts {
        // The parser may give up here, with what is known so far.
        if crate::analysis::facts::may_reject(&data.inst)
            && !flow.turned_back(node)
            && let Some(after) = flow.after(control)
        {
            ways.push((after, known.clone()));
        }
        known.step(headers, &data.inst);
    }
    if let Some(Term::Branch { cond, then, els }) = body.blocks[block].term.as_ref().map(|term| &term.term)
        && let Some(asked) = asked_header(body, block, *cond)
    {
        if !known.invalid.contains(asked.index()) {
            let mut known = known.clone();
            known.found_valid(asked);
            ways.extend(flow.block(node, then.block).map(|next| (next, known)));
        }
        if !known.valid.contains(asked.index()) {
            known.set_invalid(asked);
            ways.extend(flow.block(node, els.block).map(|next| (next, known)));
        }
        let ends = flow.ends(pipeline, node);
        ways.retain(|(next, _)| ends.contains(next) || flow.after(control) == Some(*next));
        return ways;
    }
    ways.extend(flow.ends(pipeline, node).into_iter().map(|next| (next, known.clone())));
    ways
}

/// The header whose validity a condition is, if nothing in the block changes it afterwards.
fn asked_header(body: &ir::Body, block: ir::Block, cond: Value) -> Option<HeaderId> {
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
