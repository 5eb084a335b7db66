//! Sets of headers that a packet can have at a program point, one for each path to it.

use ir::*;
use std::collections::{BTreeSet, HashMap};

/// Maximum number of sets.
const MAX_SHAPES: usize = 512;

/// Sets of headers, as bits by header number.
type HeaderSets = BTreeSet<u128>;

/// Returns the sets of headers that can be valid before instruction `at` of a block. `None` if
/// there are more than `MAX_SHAPES`.
pub(super) fn valid_header_sets(
    p: &Pipeline,
    parser: ControlId,
    control: ControlId,
    block: Block,
    at: usize,
) -> Option<HeaderSets> {
    (p.headers.len() <= 128).then_some(())?;
    let parsed = propagate_sets(p, &p.controls[parser].body, HeaderSets::from([0]), None)?;
    propagate_sets(p, &p.controls[control].body, parsed, Some((block, at)))
}

/// Propagates sets through a body; returns those at its end or at `place` (block, index of an
/// instruction). `None` if there are too many sets.
fn propagate_sets(p: &Pipeline, body: &Body, begin: HeaderSets, place: Option<(Block, usize)>) -> Option<HeaderSets> {
    let mut at_begin: HashMap<Block, HeaderSets> = HashMap::from([(body.entry?, begin)]);
    let mut end = HeaderSets::new();
    let mut unvisited: Vec<Block> = body.entry.into_iter().collect();
    while let Some(block) = unvisited.pop() {
        let data = &body.blocks[block];
        let mut sets = at_begin.get(&block).cloned().unwrap_or_default();
        let mut tests: HashMap<Value, ValidityTest> = HashMap::new();
        for (n, inst) in data.insts.iter().enumerate() {
            if place == Some((block, n)) {
                end.extend(&sets);
            }
            transfer_sets(p, inst, &mut sets, &mut tests, &mut end, place.is_none());
        }
        if place == Some((block, data.insts.len())) {
            end.extend(&sets);
        }
        let Some(TerminatorData { term, .. }) = &data.term else { continue };
        if term.successors().is_empty() && place.is_none() {
            end.extend(&sets);
        }
        for next in term.successors() {
            let mut edge_sets = sets.clone();
            if let Terminator::Branch { cond, then, els } = term
                && then.block != els.block
                && let Some(test) = tests.get(cond)
            {
                edge_sets.retain(|set| test.allows_header_set(*set, next == then.block));
            }
            let target_sets = at_begin.entry(next).or_default();
            let known_count = target_sets.len();
            target_sets.extend(edge_sets);
            if target_sets.len() > MAX_SHAPES {
                return None;
            }
            if target_sets.len() > known_count {
                unvisited.push(next);
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
    fn allows_header_set(&self, shape: u128, holds: bool) -> bool {
        let known = if holds { &self.then } else { &self.els };
        known.iter().all(|(header, valid)| (shape >> header.index() & 1 == 1) == *valid)
    }
}

/// Applies an instruction to the sets of valid headers (`sets`), one bit for each header id.
/// `tests` has the bools that tell a validity; a change of validity forgets them. With `is_parser`,
/// a packet can end at an extraction, and its set joins `end`.
fn transfer_sets(
    p: &Pipeline,
    inst: &InstData,
    sets: &mut HeaderSets,
    tests: &mut HashMap<Value, ValidityTest>,
    end: &mut HeaderSets,
    is_parser: bool,
) {
    let bit = |h: HeaderId| 1u128 << h.index();
    let test = |v: &Value, tests: &HashMap<Value, ValidityTest>| tests.get(v).cloned().unwrap_or_default();
    match &inst.inst {
        Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
            // The packet can be too short for the header.
            if is_parser {
                end.extend(sets.iter());
            }
            *sets = sets.iter().map(|set| set | bit(*h)).collect();
        }
        Inst::SetValid(h) => {
            let union = p.headers[*h].union.map(|u| p.unions[u].members.clone()).unwrap_or_default();
            let others = union.iter().fold(0, |all, member| all | bit(*member));
            *sets = sets.iter().map(|set| (set & !others) | bit(*h)).collect();
            tests.clear();
        }
        Inst::SetInvalid(h) => {
            *sets = sets.iter().map(|set| set & !bit(*h)).collect();
            tests.clear();
        }
        Inst::CopyHeader { dst, src } => {
            let copy = |set: &u128| if set & bit(*src) == 0 { set & !bit(*dst) } else { set | bit(*dst) };
            *sets = sets.iter().map(copy).collect();
            tests.clear();
        }
        Inst::IsValid(h) => {
            tests.insert(inst.results[0], ValidityTest { then: vec![(*h, true)], els: vec![(*h, false)] });
        }
        Inst::Unary(UnaryOp::LogicalNot, a) => {
            let operand = test(a, tests);
            tests.insert(inst.results[0], ValidityTest { then: operand.els, els: operand.then });
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
