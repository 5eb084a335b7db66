//! Which headers a packet can have at a place of the program: sets of headers, one for each way there.

use ir::*;
use std::collections::{BTreeSet, HashMap};

/// More sets than this are not looked at.
const MAX_SHAPES: usize = 512;

/// Sets of headers, bit by number.
type Shapes = BTreeSet<u64>;

/// The headers that are valid before instruction `at` of a block of a control: the sets that there are. None if there are too many.
pub(super) fn shapes(p: &Pipeline, parser: ControlId, control: ControlId, block: Block, at: usize) -> Option<Shapes> {
    (p.headers.len() <= 64).then_some(())?;
    let parsed = flow(p, &p.controls[parser].body, Shapes::from([0]), None)?;
    flow(p, &p.controls[control].body, parsed, Some((block, at)))
}

/// What there can be where a body ends, or at a place of it.
fn flow(p: &Pipeline, body: &Body, begin: Shapes, place: Option<(Block, usize)>) -> Option<Shapes> {
    let mut at_begin: HashMap<Block, Shapes> = HashMap::from([(body.entry?, begin)]);
    let mut end = Shapes::new();
    let mut todo: Vec<Block> = body.entry.into_iter().collect();
    while let Some(block) = todo.pop() {
        let data = &body.blocks[block];
        let mut now = at_begin.get(&block).cloned().unwrap_or_default();
        let mut tests: HashMap<Value, Test> = HashMap::new();
        for (n, inst) in data.insts.iter().enumerate() {
            if place == Some((block, n)) {
                end.extend(&now);
            }
            step(p, inst, &mut now, &mut tests, &mut end, place.is_none());
        }
        if place == Some((block, data.insts.len())) {
            end.extend(&now);
        }
        let Some(TermData { term, .. }) = &data.term else { continue };
        if term.successors().is_empty() && place.is_none() {
            end.extend(&now);
        }
        for next in term.successors() {
            let mut there = now.clone();
            if let Term::Branch { cond, then, els } = term
                && then.block != els.block
                && let Some(test) = tests.get(cond)
            {
                there.retain(|shape| test.allows(*shape, next == then.block));
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

/// Headers that a condition says something of.
#[derive(Clone, Default)]
struct Test {
    /// Valid if it holds, by header.
    then: Vec<(HeaderId, bool)>,
    /// The same if it does not.
    els: Vec<(HeaderId, bool)>,
}

impl Test {
    fn allows(&self, shape: u64, holds: bool) -> bool {
        let known = if holds { &self.then } else { &self.els };
        known.iter().all(|(header, valid)| (shape >> header.index() & 1 == 1) == *valid)
    }
}

fn step(
    p: &Pipeline,
    inst: &InstData,
    now: &mut Shapes,
    tests: &mut HashMap<Value, Test>,
    end: &mut Shapes,
    parses: bool,
) {
    let bit = |h: HeaderId| 1u64 << h.index();
    let test = |v: &Value, tests: &HashMap<Value, Test>| tests.get(v).cloned().unwrap_or_default();
    match &inst.inst {
        Inst::Extract(h) | Inst::ExtractVarbit(h, _) => {
            // The packet may be too short for it.
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
            tests.insert(inst.results[0], Test { then: vec![(*h, true)], els: vec![(*h, false)] });
        }
        Inst::Unary(UnaryOp::LogicalNot, a) => {
            let of = test(a, tests);
            tests.insert(inst.results[0], Test { then: of.els, els: of.then });
        }
        Inst::Binary(BinaryOp::And, a, b) => {
            let then = [test(a, tests).then, test(b, tests).then].concat();
            tests.insert(inst.results[0], Test { then, els: Vec::new() });
        }
        Inst::Binary(BinaryOp::Or, a, b) => {
            let els = [test(a, tests).els, test(b, tests).els].concat();
            tests.insert(inst.results[0], Test { then: Vec::new(), els });
        }
        // A verified condition holds behind it; without that knowledge there are more sets, which is no harm.
        _ => {}
    }
}
