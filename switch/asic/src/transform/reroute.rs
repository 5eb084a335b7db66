//! Repair of code after changes to its control flow: equality of code, and values that no longer
//! dominate their uses.

use ir::{Block, Body, Cfg, ControlId, Entity, Inst, InstData, Pipeline, SourceLoc, Value, VarKind};
use std::collections::{HashMap, HashSet};

/// Returns whether two blocks, and the code after them until their paths join, are equal with the
/// same parameters.
pub(super) fn is_same_code(body: &Body, a: Block, b: Block) -> bool {
    let mut found = CodeComparison { body, values: HashMap::new(), assumed: HashSet::new() };
    found.compare_blocks(a, b)
}

struct CodeComparison<'a> {
    body: &'a Body,
    /// Mapping of values from the second path to the first.
    values: HashMap<Value, Value>,
    assumed: HashSet<(Block, Block)>,
}

impl CodeComparison<'_> {
    /// Returns whether two blocks have equal code up to the names of values, with equal code behind
    /// them. A pair under comparison counts as equal, so loops end.
    fn compare_blocks(&mut self, a: Block, b: Block) -> bool {
        if a == b || !self.assumed.insert((a, b)) {
            return true;
        }
        let (first, second) = (&self.body.blocks[a], &self.body.blocks[b]);
        let types = |values: &[Value]| values.iter().map(|v| self.body.value_type(*v)).collect::<Vec<_>>();
        if types(&first.params) != types(&second.params) || first.insts.len() != second.insts.len() {
            return false;
        }
        self.values.extend(second.params.iter().copied().zip(first.params.iter().copied()));
        for (first_inst, second_inst) in first.insts.iter().zip(&second.insts) {
            let mut inst = second_inst.inst.clone();
            inst.map_values(|v| self.values.get(&v).copied().unwrap_or(v));
            if inst != first_inst.inst || types(&first_inst.results) != types(&second_inst.results) {
                return false;
            }
            self.values.extend(second_inst.results.iter().copied().zip(first_inst.results.iter().copied()));
        }
        let (Some(first_term), Some(second_term)) = (&first.term, &second.term) else {
            return first.term == second.term;
        };
        let (first_next, second_next) = (first_term.term.successors(), second_term.term.successors());
        let mut term = second_term.term.clone();
        term.map_values(|v| self.values.get(&v).copied().unwrap_or(v));
        if first_next.len() != second_next.len() {
            return false;
        }
        let mut targets = first_next.iter();
        term.map_blocks(|block| targets.next().copied().unwrap_or(block));
        term == first_term.term && first_next.into_iter().zip(second_next).all(|(a, b)| self.compare_blocks(a, b))
    }
}

/// Makes values available at their uses after control-flow changes: clones a constant at its use,
/// and passes any other value through a variable. Every path to a use must have computed the value.
pub(super) fn repair_uses(pipeline: &mut Pipeline, control: ControlId) {
    let body = &pipeline.controls[control].body;
    let cfg = Cfg::new(body);
    let mut defined: HashMap<Value, (Block, Option<Inst>)> = HashMap::new();
    for (block, data) in body.blocks.iter() {
        defined.extend(data.params.iter().map(|value| (*value, (block, None))));
        for inst in &data.insts {
            let constant = matches!(inst.inst, Inst::Const(_)).then(|| inst.inst.clone());
            defined.extend(inst.results.iter().map(|value| (*value, (block, constant.clone()))));
        }
    }
    // Values that do not dominate their use, by the block of the use.
    let mut lost: Vec<(Block, Value)> = Vec::new();
    for (block, data) in body.blocks.iter().filter(|(block, _)| cfg.is_reachable(*block)) {
        let mut used = Vec::new();
        data.insts.iter().for_each(|inst| inst.inst.for_each_use(|value| used.push(value)));
        data.term.iter().for_each(|term| term.term.for_each_use(|value| used.push(value)));
        for value in used {
            let dominates =
                defined.get(&value).is_some_and(|(definition_block, _)| cfg.dominates(*definition_block, block));
            if !dominates && !lost.contains(&(block, value)) {
                lost.push((block, value));
            }
        }
    }
    let mut variables = HashMap::new();
    for (block, value) in lost {
        let Some((definition_block, constant)) = defined.get(&value) else { continue };
        let ty = pipeline.controls[control].body.value_type(value);
        let inst = match constant {
            Some(constant) => constant.clone(),
            None => {
                let variable = *variables.entry(value).or_insert_with(|| {
                    let name = format!("{}.rerouted.{}", pipeline.controls[control].name, value.index());
                    let variable = pipeline.add_var(name, ty, VarKind::Local, SourceLoc::default());
                    let store = InstData::new(Inst::Store(variable, value), Vec::new());
                    pipeline.controls[control].body.blocks[*definition_block].insts.push(store);
                    variable
                });
                Inst::Load(variable)
            }
        };
        let body = &mut pipeline.controls[control].body;
        let copy = body.values.push(ty);
        let data = &mut body.blocks[block];
        let replace = |v: Value| if v == value { copy } else { v };
        data.insts.iter_mut().for_each(|inst| inst.inst.map_values(replace));
        if let Some(term) = &mut data.term {
            term.term.map_values(replace);
        }
        data.insts.insert(0, InstData::new(inst, vec![copy]));
    }
}
