//! Values that are needed behind a stop become variables: a value has one definition, and behind a cut it has two, one in each half.

use ir::{Block, Body, ControlId, Entity, Inst, InstData, Loc, Pipeline, Value, VarId, VarKind};
use std::collections::{BTreeMap, BTreeSet};

/// How the names of those variables begin. Each is set once, before it is read.
pub const CARRIED: &str = "terrace.carried_";

/// Makes variables of the values that are used in another block than the one that defines them. The passes make values again of those that
/// no cut is between.
pub fn demote(pipeline: &mut Pipeline, control: ControlId) {
    let mut vars: BTreeMap<Value, VarId> = BTreeMap::new();
    for value in crossing(&pipeline.controls[control].body) {
        let ty = pipeline.controls[control].body.value_type(value);
        let name = format!("{CARRIED}{}", value.index());
        vars.insert(value, pipeline.add_var(name, ty, VarKind::Local, Loc::default()));
    }
    let body = &mut pipeline.controls[control].body;
    let blocks: Vec<Block> = body.blocks.keys().collect();
    for block in blocks {
        rewrite(body, block, &vars);
    }
}

/// The values that are used in another block than theirs.
fn crossing(body: &Body) -> BTreeSet<Value> {
    let mut defined: BTreeMap<Value, Block> = BTreeMap::new();
    for (block, data) in body.blocks.iter() {
        let results = data.insts.iter().flat_map(|inst| &inst.results);
        data.params.iter().chain(results).for_each(|value| {
            defined.insert(*value, block);
        });
    }
    let mut crossing = BTreeSet::new();
    for (block, data) in body.blocks.iter() {
        let mut used = |value: Value| {
            if defined.get(&value) != Some(&block) {
                crossing.insert(value);
            }
        };
        data.insts.iter().for_each(|inst| inst.inst.for_each_use(&mut used));
        if let Some(term) = &data.term {
            term.term.for_each_use(&mut used);
        }
    }
    crossing
}

/// Stores what the block defines, and loads what it uses and does not define.
fn rewrite(body: &mut Body, block: Block, vars: &BTreeMap<Value, VarId>) {
    let data = std::mem::take(&mut body.blocks[block]);
    let mut out: Vec<InstData> = Vec::with_capacity(data.insts.len());
    // Values that this block has already, and under which name.
    let mut here: BTreeMap<Value, Value> = BTreeMap::new();
    let store = |value: Value, loc: Loc, out: &mut Vec<InstData>, here: &mut BTreeMap<Value, Value>| {
        if let Some(var) = vars.get(&value) {
            out.push(InstData { inst: Inst::Store(*var, value), results: Vec::new(), loc });
            here.insert(value, value);
        }
    };
    data.params.iter().for_each(|param| store(*param, Loc::default(), &mut out, &mut here));
    for mut inst in data.insts {
        let loc = inst.loc;
        inst.inst.map_values(|value| load(body, value, loc, vars, &mut out, &mut here));
        let results = inst.results.clone();
        out.push(inst);
        results.iter().for_each(|result| store(*result, loc, &mut out, &mut here));
    }
    let term = data.term.map(|mut term| {
        let loc = term.loc;
        term.term.map_values(|value| load(body, value, loc, vars, &mut out, &mut here));
        term
    });
    body.blocks[block] = ir::BlockData { params: data.params, insts: out, term };
}

fn load(
    body: &mut Body,
    value: Value,
    loc: Loc,
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
