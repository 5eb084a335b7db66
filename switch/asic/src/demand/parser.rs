//! Parser states, with the resources of a chip's parser that they need.

use super::ParserStateDemand;
use ir::{Block, Body, Cfg, Inst, Pipeline, Terminator};
use std::collections::BTreeMap;

/// Returns the states of the pipeline's parser, empty if it has none.
pub(super) fn parser_states(pipeline: &Pipeline) -> Vec<ParserStateDemand> {
    let parser = pipeline.controls.values().find(|c| c.kind.is_parser());
    parser.map_or(Vec::new(), |p| states_of_body(pipeline, &p.body))
}

/// Returns the states of a body. A state consists of the blocks reachable from its first one
/// without entering another state.
fn states_of_body(pipeline: &Pipeline, body: &Body) -> Vec<ParserStateDemand> {
    let first: BTreeMap<Block, usize> = body.states.iter().enumerate().map(|(n, s)| (s.block, n)).collect();
    let cfg = Cfg::new(body);
    let states = body.states.iter().filter(|s| cfg.is_reachable(s.block));
    let reachable: Vec<usize> = states.filter_map(|s| first.get(&s.block).copied()).collect();
    let number: BTreeMap<usize, usize> = reachable.iter().enumerate().map(|(n, s)| (*s, n)).collect();
    let next = |block: &Block| first.get(block).and_then(|s| number.get(s)).copied();
    let states = reachable.iter().map(|s| parser_state(pipeline, body, &body.states[*s], &next)).collect();
    join_start(states)
}

/// Joins a start state that extracts and selects nothing with its successor, if no other state leads
/// there: the chip's parser starts in the successor.
fn join_start(mut states: Vec<ParserStateDemand>) -> Vec<ParserStateDemand> {
    let Some(ParserStateDemand { extracts: 0, selects: 0, next, .. }) = states.first() else { return states };
    let [second] = next[..] else { return states };
    let leads_to = |to: usize| states.iter().filter(|s| s.next.contains(&to)).count();
    if second == 0 || leads_to(second) != 1 || leads_to(0) != 0 {
        return states;
    }
    let joined = states.remove(second);
    states[0] = ParserStateDemand { name: states[0].name.clone(), ..joined };
    for next in states.iter_mut().flat_map(|state| &mut state.next) {
        *next -= usize::from(*next > second);
    }
    states
}

/// Returns the demand of one parser state: extracted and selected bits, rows of cases, and the next
/// states. A state can consist of several blocks; `number` returns the number of the state that
/// starts at a block.
fn parser_state(
    pipeline: &Pipeline,
    body: &Body,
    state: &ir::ParserStateBlock,
    number: &impl Fn(&Block) -> Option<usize>,
) -> ParserStateDemand {
    let mut demand =
        ParserStateDemand { name: state.name.clone(), extracts: 0, selects: 0, cases: 0, next: Vec::new() };
    let mut waiting = vec![state.block];
    let mut seen = vec![state.block];
    while let Some(block) = waiting.pop() {
        let data = &body.blocks[block];
        for inst in &data.insts {
            match &inst.inst {
                Inst::Extract(header) | Inst::ExtractVarbit(header, _) => {
                    let fields = pipeline.headers.get(*header).map_or(&[][..], |h| &h.fields);
                    let bits: u32 = fields.iter().map(|f| pipeline.vars[*f].ty.width()).sum();
                    demand.extracts = demand.extracts.saturating_add(bits);
                }
                Inst::Lookahead(ty) => demand.selects = demand.selects.saturating_add(ty.width()),
                Inst::InValueSet(set, _) => {
                    let members = pipeline.value_sets.get(*set).map_or(1, |s| s.size);
                    demand.cases = demand.cases.saturating_add(u32::try_from(members).unwrap_or(u32::MAX));
                }
                _ => {}
            }
        }
        let Some(term) = &data.term else { continue };
        let (bits, cases) = match &term.term {
            Terminator::Switch { value, cases, .. } => (body.value_type(*value).width(), cases.len() as u32 + 1),
            Terminator::Branch { .. } => (1, 2),
            _ => (0, 1),
        };
        demand.selects = demand.selects.saturating_add(bits);
        // A block that only continues within the state costs no row.
        let successors = term.term.successors();
        let is_in_state = |b: &Block| !seen.contains(b) && number(b).is_none();
        let rows = if cases == 1 && successors.iter().any(is_in_state) { 0 } else { cases };
        demand.cases = demand.cases.saturating_add(rows);
        for target in successors {
            match number(&target) {
                Some(n) if !demand.next.contains(&n) => demand.next.push(n),
                None if !seen.contains(&target) => {
                    seen.push(target);
                    waiting.push(target);
                }
                _ => {}
            }
        }
    }
    demand
}
