//! Parameter hoisting: removes constant block parameters and sets those that are lookup keys before
//! the preceding lookups.
//!
//! The jumps to a block pass its parameters. In the source a parameter is a variable that is
//! assigned at the end of each path: an additional step, which depends on the whole path.
//!
//! ```text
//! b1: jump b3(x)   b2: jump b3(x)                ->    b3 uses x
//!
//! b1: apply t1 -> b2   b2: k = hash(h); jump b3(k)     b1: k = hash(h); apply t1
//! b3(key): apply t2(key)                         ->    b3: apply t2(k)
//! ```
//!
//! As a result, a conflict table of a key digest is looked up beside the computation of the digest.

use crate::emit::names::to_identifier;
use ir::*;

/// Maximum number of instructions between two lookups that move before both.
const MAX_MOVED: usize = 16;

/// Removes block parameters that have the same value on all edges.
pub(super) fn remove_constant_parameters(body: &mut Body) {
    body.blocks.keys().for_each(|block| remove_constant_params_of(body, block));
}

/// Moves the computation of keys before lookups that they do not depend on.
pub(super) fn hoist_lookup_keys(p: &mut Pipeline, body: &mut Body) {
    let cfg = Cfg::new(body);
    for block in body.blocks.keys() {
        hoist_arm_keys(p, body, &cfg, block);
    }
    ir::passes::remove_dead_values(body);
}

/// Returns the edges into a block with their arguments. `None` if the block is also an entry, a
/// parser state, an arm or part of a loop.
fn incoming_edges(body: &Body, to: Block) -> Option<Vec<(Block, Vec<Value>)>> {
    let mut found = Vec::new();
    for block in reverse_postorder(body) {
        let Some(data) = &body.blocks[block].term else { continue };
        match &data.term {
            Terminator::Apply { arms, .. } if arms.iter().any(|arm| arm.block == to) => return None,
            term => term.for_each_call(|call| {
                if call.block == to {
                    found.push((block, call.args.clone()));
                }
            }),
        }
    }
    let begins = body.entry == Some(to) || body.states.iter().any(|state| state.block == to);
    (!begins && !found.is_empty() && !body.can_reach(to, to)).then_some(found)
}

/// Removes the parameters of a block that have the same value on all edges, or that hold the same
/// variable on all edges, which the block then loads.
fn remove_constant_params_of(body: &mut Body, block: Block) {
    if body.blocks[block].params.is_empty() {
        return;
    }
    let Some(edges) = incoming_edges(body, block) else { return };
    for n in (0..body.blocks[block].params.len()).rev() {
        let mut args_of_param = edges.iter().map(|(from, args)| (*from, args[n]));
        let Some((_, first)) = args_of_param.next() else { return };
        let replacement = if args_of_param.clone().all(|(_, value)| value == first) {
            Some(first)
        } else {
            let held_vars =
                edges.iter().map(|(from, args)| variable_held_by(body, *from, args[n])).collect::<Option<Vec<_>>>();
            held_vars.filter(|vars| vars.windows(2).all(|pair| pair[0] == pair[1])).map(|vars| {
                let value = body.values.push(body.value_type(first));
                body.blocks[block].insts.insert(0, InstData::new(Inst::Load(vars[0]), vec![value]));
                value
            })
        };
        if let Some(replacement) = replacement {
            let param = body.blocks[block].params.remove(n);
            body.blocks.values_mut().for_each(|data| {
                if let Some(data) = &mut data.term {
                    data.term.for_each_call_mut(|call| _ = (call.block == block).then(|| call.args.remove(n)));
                }
            });
            replace_value(body, param, replacement);
        }
    }
}

/// Returns the variable that a value was loaded from, if it still has that value at the end of the
/// block.
fn variable_held_by(body: &Body, block: Block, value: Value) -> Option<VarId> {
    let insts = &body.blocks[block].insts;
    let at = insts.iter().position(|data| data.results.contains(&value))?;
    let Inst::Load(var) = insts[at].inst else { return None };
    insts[at..].iter().all(|data| data.inst.is_pure()).then_some(var)
}

fn replace_value(body: &mut Body, from: Value, to: Value) {
    let of = |value: Value| if value == from { to } else { value };
    for data in body.blocks.values_mut() {
        data.insts.iter_mut().for_each(|data| data.inst.map_values(of));
        data.term.iter_mut().for_each(|data| data.term.map_values(of));
    }
}

/// Returns whether an instruction only reads and computes.
fn is_pure_computation(p: &Pipeline, inst: &Inst) -> bool {
    match inst {
        // A lookup can write the color of its meter.
        Inst::Load(var) => p.tables.values().all(|table| table.meter_result != Some(*var)),
        Inst::Extern { func, .. } => matches!(func, ExternFn::HashGet | ExternFn::Hash),
        inst => inst.is_pure(),
    }
}

/// Moves the computations of arms that lead to another lookup before the block's own lookup,
/// together with the arguments that they pass to a join.
fn hoist_arm_keys(p: &mut Pipeline, body: &mut Body, cfg: &Cfg, block: Block) {
    let Some(TerminatorData { term: Terminator::Apply { arms, .. }, .. }) = body.blocks[block].term.clone() else {
        return;
    };
    for arm in arms {
        let data = &body.blocks[arm.block];
        let is_arm_param = |value: Value| data.params.contains(&value);
        let mut is_movable = cfg.predecessors(arm.block) == [block] && data.insts.len() <= MAX_MOVED;
        for data in &data.insts {
            is_movable &= is_pure_computation(p, &data.inst);
            data.inst.for_each_use(|value| is_movable &= !is_arm_param(value));
        }
        let has_hash = data.insts.iter().any(|data| matches!(data.inst, Inst::Extern { .. }));
        let is_moved = is_movable
            && match data.term.as_ref().map(|data| &data.term) {
                Some(Terminator::Apply { .. }) => has_hash,
                Some(Terminator::Jump(BlockCall { block, args })) => {
                    let (join, has_outer_args) =
                        (*block, !args.is_empty() && !args.iter().any(|value| is_arm_param(*value)));
                    has_outer_args && params_to_variables(p, body, join).is_some()
                }
                _ => false,
            };
        if is_moved {
            let moved = std::mem::take(&mut body.blocks[arm.block].insts);
            body.blocks[block].insts.extend(moved);
        }
    }
}

/// Replaces the parameters of a block by variables, if the block only looks them up and is reached
/// by jumps. `None` for other blocks.
fn params_to_variables(p: &mut Pipeline, body: &mut Body, join: Block) -> Option<()> {
    let edges = incoming_edges(body, join)?;
    let ends_in_jump =
        |block: Block| matches!(body.blocks[block].term.as_ref().map(|t| &t.term), Some(Terminator::Jump(_)));
    let Some(Terminator::Apply { table, keys, .. }) = body.blocks[join].term.as_ref().map(|data| data.term.clone())
    else {
        return None;
    };
    let is_key = body.blocks[join].params.iter().any(|param| keys.contains(param));
    (edges.len() > 1 && is_key && edges.iter().all(|(block, _)| ends_in_jump(*block))).then_some(())?;
    let params = std::mem::take(&mut body.blocks[join].params);
    let table_name = to_identifier(p.tables[table].preamble.name.rsplit('.').next().unwrap_or_default());
    let mut vars = Vec::new();
    for (n, param) in params.into_iter().enumerate() {
        let key = keys.iter().position(|key| *key == param);
        let suffix =
            key.map_or_else(|| n.to_string(), |key_index| to_identifier(&p.tables[table].keys[key_index].name));
        let var = Var {
            name: format!("{table_name}_{suffix}"),
            ty: body.value_type(param),
            kind: VarKind::Local,
            loc: SourceLoc::default(),
        };
        vars.push(p.vars.push(var));
        body.blocks[join].insts.insert(n, InstData::new(Inst::Load(vars[n]), vec![param]));
    }
    for (block, _) in edges {
        store_jump_args(&mut body.blocks[block], &vars);
    }
    Some(())
}

/// Stores the arguments of a block's jump, each right after its definition, so that it is computed
/// directly into the variable.
fn store_jump_args(data: &mut BlockData, vars: &[VarId]) {
    let Some(TerminatorData { term: Terminator::Jump(call), loc }) = &mut data.term else { return };
    for (var, value) in vars.iter().zip(std::mem::take(&mut call.args)) {
        let made = data.insts.iter().position(|data| data.results.contains(&value));
        let store = InstData { inst: Inst::Store(*var, value), results: Vec::new(), loc: *loc };
        data.insts.insert(made.map_or(data.insts.len(), |at| at + 1), store);
    }
}
