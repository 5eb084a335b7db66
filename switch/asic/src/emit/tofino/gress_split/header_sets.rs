//! Sets of headers that a packet can have at a program point, one for each path to it.

use ir::*;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of sets.
const MAX_SHAPES: usize = 512;

/// Sets of headers, as bits by header number.
type HeaderSets = BTreeSet<u64>;

/// Returns the sets of headers that can be valid before instruction `at` of a block. `None` if
/// there are more than `MAX_SHAPES`.
pub(super) fn valid_header_sets(
    p: &Pipeline,
    parser: ControlId,
    control: ControlId,
    block: Block,
    at: usize,
) -> Option<HeaderSets> {
    (p.headers.len() <= 64).then_some(())?;
    let parsed = propagate_sets(p, &p.controls[parser].body, HeaderSets::from([0]), None)?;
    propagate_sets(p, &p.controls[control].body, parsed, Some((block, at)))
}

/// Propagates sets through a body; returns those at its end or at `place`.
fn propagate_sets(p: &Pipeline, body: &Body, begin: HeaderSets, place: Option<(Block, usize)>) -> Option<HeaderSets> {
    let mut at_begin: HashMap<Block, HeaderSets> = HashMap::from([(body.entry?, begin)]);
    let mut end = HeaderSets::new();
    let mut todo: Vec<Block> = body.entry.into_iter().collect();
    while let Some(block) = todo.pop() {
        let data = &body.blocks[block];
        let mut now = at_begin.get(&block).cloned().unwrap_or_default();
        let mut tests: HashMap<Value, ValidityTest> = HashMap::new();
        for (n, inst) in data.insts.iter().enumerate() {
            if place == Some((block, n)) {
                end.extend(&now);
            }
            transfer_sets(p, inst, &mut now, &mut tests, &mut end, place.is_none());
        }
        if place == Some((block, data.insts.len())) {
            end.extend(&now);
        }
        let Some(TerminatorData { term, .. }) = &data.term else { continue };
        if term.successors().is_empty() && place.is_none() {
            end.extend(&now);
        }
        for next in term.successors() {
            let mut there = now.clone();
            if let Terminator::Branch { cond, then, els } = term
                && then.block != els.block
                && let Some(test) = tests.get(cond)
            {
                there.retain(|shape| test.allows_header_set(*shape, next == then.block));
            }
            let known = at_begin.entry(next).or_default();
            let before = known.len();
            known.extend(there);
            if known.len() > MAX_SHAPES {
                return None;
            }
            if known.len() > before {
                todo.push(next);
            }
        }
    }
    (end.len() <= MAX_SHAPES).then_some(end)
}

/// Header validity that a condition implies.
#[derive(Clone, Default)]
struct ValidityTest {
    /// Validity of headers if the condition holds.
    then: Vec<(HeaderId, bool)>,
    /// Validity of headers if the condition does not hold.
    els: Vec<(HeaderId, bool)>,
}

impl ValidityTest {
    fn allows_header_set(&self, shape: u64, holds: bool) -> bool {
        let known = if holds { &self.then } else { &self.els };
        known.iter().all(|(header, valid)| (shape >> header.index() & 1 == 1) == *valid)
    }
}

fn transfer_sets(
    p: &Pipeline,
    inst: &InstData,
    now: &mut HeaderSets,
    tests: &mut HashMap<Value, ValidityTest>,
    end: &mut HeaderSets,
    parses: bool,
) {
    let bit = |h: HeaderId| 1u64 << h.index();
    let test = |v: &Value, tests: &HashMap<Value, ValidityTest>| tests.get(v).cloned().unwrap_or_default();
    match &inst.inst {
        Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
            // The packet can be too short for the header.
            if parses {
                end.extend(now.iter());
            }
            *now = now.iter().map(|shape| shape | bit(*h)).collect();
        }
        Inst::SetValid(h) => {
            let union = p.headers[*h].union.map(|u| p.unions[u].members.clone()).unwrap_or_default();
            let others = union.iter().fold(0, |all, member| all | bit(*member));
            *now = now.iter().map(|shape| (shape & !others) | bit(*h)).collect();
            tests.clear();
        }
        Inst::SetInvalid(h) => {
            *now = now.iter().map(|shape| shape & !bit(*h)).collect();
            tests.clear();
        }
        Inst::CopyHeader { dst, src } => {
            let copy = |shape: &u64| if shape & bit(*src) == 0 { shape & !bit(*dst) } else { shape | bit(*dst) };
            *now = now.iter().map(copy).collect();
            tests.clear();
        }
        Inst::IsValid(h) => {
            tests.insert(inst.results[0], ValidityTest { then: vec![(*h, true)], els: vec![(*h, false)] });
        }
        Inst::Unary(UnaryOp::LogicalNot, a) => {
            let of = test(a, tests);
            tests.insert(inst.results[0], ValidityTest { then: of.els, els: of.then });
        }
        Inst::Binary(BinaryOp::And, a, b) => {
            let then = [test(a, tests).then, test(b, tests).then].concat();
            tests.insert(inst.results[0], ValidityTest { then, els: Vec::new() });
        }
        Inst::Binary(BinaryOp::Or, a, b) => {
            let els = [test(a, tests).els, test(b, tests).els].concat();
            tests.insert(inst.results[0], ValidityTest { then: Vec::new(), els });
        }
        // A `verify` also implies its condition; ignoring that only adds sets.
        _ => {}
    }
}
