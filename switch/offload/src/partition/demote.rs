//! Demotion of SSA values to variables (LLVM: reg2mem). A value has one definition; a value that
//! crosses a cut point needs one in each half.

use ir::{Block, Body, ControlId, Entity, Inst, InstData, Pipeline, SourceLoc, Value, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// Prefix of the names of demoted values. Each is stored once, before it is loaded.
pub const CARRIED_PREFIX: &str = "terrace.carried_";

/// Demotes values that are used in another block than their definition. Later passes turn those
/// that cross no cut point into values again.
pub fn demote_values(pipeline: &mut Pipeline, control: ControlId) {
    let mut vars: BTreeMap<Value, VarId> = BTreeMap::new();
    for value in values_across_blocks(&pipeline.controls[control].body) {
        let ty = pipeline.controls[control].body.value_type(value);
        let name = format!("{CARRIED_PREFIX}{}", value.index());
        vars.insert(value, pipeline.add_var(name, ty, VarKind::Local, SourceLoc::default()));
    }
    let body = &mut pipeline.controls[control].body;
    let blocks: Vec<Block> = body.blocks.keys().collect();
    for block in blocks {
        demote_block(body, block, &vars);
    }
}

/// Returns values that are used in another block than their definition.
fn values_across_blocks(body: &Body) -> BTreeSet<Value> {
    let mut defined: BTreeMap<Value, Block> = BTreeMap::new();
    for (block, data) in body.blocks.iter() {
        let results = data.insts.iter().flat_map(|inst| &inst.results);
        data.params.iter().chain(results).for_each(|value| {
            defined.insert(*value, block);
        });
    }
    let mut crossing = BTreeSet::new();
    for (block, data) in body.blocks.iter() {
        let mut record_use = |value: Value| {
            if defined.get(&value) != Some(&block) {
                crossing.insert(value);
            }
        };
        data.insts.iter().for_each(|inst| inst.inst.for_each_use(&mut record_use));
        if let Some(term) = &data.term {
            term.term.for_each_use(&mut record_use);
        }
    }
    crossing
}

/// Stores demoted values that the block defines, and loads those that it uses from other blocks.
/// `vars` has the variable of each demoted value.
fn demote_block(body: &mut Body, block: Block, vars: &BTreeMap<Value, VarId>) {
    let data = std::mem::take(&mut body.blocks[block]);
    let mut insts: Vec<InstData> = Vec::with_capacity(data.insts.len());
    // Demoted values that are available in this block, by original value.
    let mut available: BTreeMap<Value, Value> = BTreeMap::new();
    let store = |value: Value, loc: SourceLoc, insts: &mut Vec<InstData>, available: &mut BTreeMap<Value, Value>| {
        if let Some(var) = vars.get(&value) {
            insts.push(InstData { inst: Inst::Store(*var, value), results: Vec::new(), loc });
            available.insert(value, value);
        }
    };
    data.params.iter().for_each(|param| store(*param, SourceLoc::default(), &mut insts, &mut available));
    for mut inst in data.insts {
        let loc = inst.loc;
        inst.inst.map_values(|value| load_demoted(body, value, loc, vars, &mut insts, &mut available));
        let results = inst.results.clone();
        insts.push(inst);
        results.iter().for_each(|result| store(*result, loc, &mut insts, &mut available));
    }
    let term = data.term.map(|mut term| {
        let loc = term.loc;
        term.term.map_values(|value| load_demoted(body, value, loc, vars, &mut insts, &mut available));
        term
    });
    body.blocks[block] = ir::BlockData { params: data.params, insts, term };
}

fn load_demoted(
    body: &mut Body,
    value: Value,
    loc: SourceLoc,
    vars: &BTreeMap<Value, VarId>,
    out: &mut Vec<InstData>,
    here: &mut BTreeMap<Value, Value>,
) -> Value {
    let Some(var) = vars.get(&value) else { return value };
    if let Some(known) = here.get(&value) {
        return *known;
    }
    let ty = body.value_type(value);
    let loaded = body.values.push(ty);
    out.push(InstData { inst: Inst::Load(*var), results: vec![loaded], loc });
    here.insert(value, loaded);
    loaded
}
