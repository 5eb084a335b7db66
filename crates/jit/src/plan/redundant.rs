//! Stores of what a variable holds already, in a block or in all that lead to it, go away: what is copied back unchanged would be taken for changed, and put into packets'
//! frames once more.

use ir::{Block, Body, Cfg, Entity, Inst, Pipeline, Value, VarId};
use std::collections::BTreeSet;

/// Variables and values that they hold, at one point.
type Held = BTreeSet<(VarId, Value)>;

/// Takes them away. `kept`: the variables that loads and stores alone name.
pub fn without(pipeline: &mut Pipeline, kept: &BTreeSet<VarId>) {
    for control in pipeline.controls.values_mut() {
        let before = before_blocks(&control.body, kept);
        for (data, before) in control.body.blocks.values_mut().zip(before) {
            let Some(mut held) = before else { continue };
            data.params.iter().for_each(|param| held.retain(|(_, value)| value != param));
            data.insts.retain(|inst| {
                let again = matches!(&inst.inst, Inst::Store(var, value) if held.contains(&(*var, *value)));
                step(&mut held, inst, kept);
                !again
            });
        }
    }
}

/// What is held before each block, whichever way a packet came there; `None` where no way leads.
fn before_blocks(body: &Body, kept: &BTreeSet<VarId>) -> Vec<Option<Held>> {
    let mut before: Vec<Option<Held>> = vec![None; body.blocks.len()];
    let Some(entry) = body.entry else { return before };
    before[entry.index()] = Some(Held::new());
    let order: Vec<Block> = Cfg::new(body).reverse_postorder().to_vec();
    loop {
        let mut changed = false;
        for block in &order {
            let Some(mut held) = before[block.index()].clone() else { continue };
            let data = &body.blocks[*block];
            data.params.iter().for_each(|param| held.retain(|(_, value)| value != param));
            data.insts.iter().for_each(|inst| step(&mut held, inst, kept));
            let Some(term) = &data.term else { continue };
            for next in term.term.successors() {
                changed |= meet(&mut before[next.index()], &held);
            }
        }
        if !changed {
            return before;
        }
    }
}

/// Adds one more way to a block; whether that changed what is held there.
fn meet(there: &mut Option<Held>, held: &Held) -> bool {
    match there {
        Some(there) => {
            let count = there.len();
            there.retain(|pair| held.contains(pair));
            there.len() != count
        }
        none => {
            *none = Some(held.clone());
            true
        }
    }
}

/// After an instruction.
fn step(held: &mut Held, inst: &ir::InstData, kept: &BTreeSet<VarId>) {
    // In a loop a value is made anew.
    inst.results.iter().for_each(|result| held.retain(|(_, value)| value != result));
    match &inst.inst {
        Inst::Load(var) if kept.contains(var) => held.extend(inst.results.first().map(|result| (*var, *result))),
        Inst::Store(var, value) if kept.contains(var) && !held.contains(&(*var, *value)) => {
            held.retain(|(other, _)| other != var);
            held.insert((*var, *value));
        }
        _ => {}
    }
}
