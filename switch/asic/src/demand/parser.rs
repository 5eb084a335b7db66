//! The parser's states, as a chip's parser sees them.

use super::ParserState;
use ir::{Block, Body, Cfg, Inst, Pipeline, Term};
use std::collections::BTreeMap;

/// The states of the pipeline's parser; none without one.
pub(super) fn states(pipeline: &Pipeline) -> Vec<ParserState> {
    let parser = pipeline.controls.values().find(|c| c.kind.is_parser());
    parser.map_or(Vec::new(), |p| of(pipeline, &p.body))
}

/// A state is the blocks that are reached from its first one without entering another state.
fn of(pipeline: &Pipeline, body: &Body) -> Vec<ParserState> {
    let first: BTreeMap<Block, usize> = body.states.iter().enumerate().map(|(n, s)| (s.block, n)).collect();
    let cfg = Cfg::new(body);
    let states = body.states.iter().filter(|s| cfg.is_reachable(s.block));
    let reachable: Vec<usize> = states.filter_map(|s| first.get(&s.block).copied()).collect();
    let number: BTreeMap<usize, usize> = reachable.iter().enumerate().map(|(n, s)| (*s, n)).collect();
    let next = |block: &Block| first.get(block).and_then(|s| number.get(s)).copied();
    reachable.iter().map(|s| state(pipeline, body, &body.states[*s], &next)).collect()
}

fn state(
    pipeline: &Pipeline,
    body: &Body,
    state: &ir::State,
    number: &impl Fn(&Block) -> Option<usize>,
) -> ParserState {
    let mut found = ParserState { name: state.name.clone(), extracts: 0, selects: 0, cases: 0, next: Vec::new() };
    let mut waiting = vec![state.block];
    let mut seen = vec![state.block];
    while let Some(block) = waiting.pop() {
        let data = &body.blocks[block];
        for inst in &data.insts {
            match &inst.inst {
                Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                    let fields = pipeline.headers.get(*header).map_or(&[][..], |h| &h.fields);
                    let bits: u32 = fields.iter().map(|f| pipeline.vars[*f].ty.width()).sum();
                    found.extracts = found.extracts.saturating_add(bits);
                }
                Inst::Lookahead(ty) => found.selects = found.selects.saturating_add(ty.width()),
                Inst::InValueSet(set, _) => {
                    let members = pipeline.value_sets.get(*set).map_or(1, |s| s.size);
                    found.cases = found.cases.saturating_add(u32::try_from(members).unwrap_or(u32::MAX));
                }
                _ => {}
            }
        }
        let Some(term) = &data.term else { continue };
        let (bits, cases) = match &term.term {
            Term::Switch { value, cases, .. } => (body.value_type(*value).width(), cases.len() as u32 + 1),
            Term::Branch { .. } => (1, 2),
            _ => (0, 1),
        };
        found.selects = found.selects.saturating_add(bits);
        // A block that only leads on within the state costs no row.
        let leaves = term.term.successors();
        let inner = |b: &Block| !seen.contains(b) && number(b).is_none();
        let rows = if cases == 1 && leaves.iter().any(inner) { 0 } else { cases };
        found.cases = found.cases.saturating_add(rows);
        for to in leaves {
            match number(&to) {
                Some(n) if !found.next.contains(&n) => found.next.push(n),
                None if !seen.contains(&to) => {
                    seen.push(to);
                    waiting.push(to);
                }
                _ => {}
            }
        }
    }
    found
}
