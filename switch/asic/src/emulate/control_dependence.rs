//! Control dependence of block parameters: the decisions on which each parameter's value depends.
//!
//! At a join, a parameter depends on the taken path only if another path gives it a different
//! value. A reader of a parameter with the same value on all paths need not wait for the decision.

use ir::{Block, BlockData, Body, Entity, Value};

/// Maximum number of rounds. A chain of parameters in the opposite order needs one round per
/// parameter; parameters that are unresolved after this count as distinct values.
const MAX_ROUNDS: usize = 64;

/// For each deciding block: the parameters of its join that depend on the decision.
#[derive(Debug, Default)]
pub(super) struct MergeDependence {
    /// Whether each parameter depends on the decision. Empty if the join has no parameters.
    depends: Vec<Vec<bool>>,
}

impl MergeDependence {
    /// Computes the dependence for a body with its joins.
    pub fn new(body: &Body, joins: &[Option<Block>]) -> MergeDependence {
        let names = canonical_values(body);
        let of = |(branch, data): (Block, &BlockData)| match joins[branch.index()] {
            Some(join) if data.successors().len() > 1 => depending_params(body, &names, branch, join),
            _ => Vec::new(),
        };
        MergeDependence { depends: body.blocks.iter().map(of).collect() }
    }

    /// Returns whether parameter number `param` of the join of `branch` depends on the taken path.
    pub fn depends_on(&self, branch: Block, param: usize) -> bool {
        self.depends[branch.index()].get(param).is_none_or(|told| *told)
    }
}

/// Returns for each parameter of `join` whether the paths from `branch` give it different values.
/// `names` has the canonical value of each value.
fn depending_params(body: &Body, names: &[Value], branch: Block, join: Block) -> Vec<bool> {
    let mut first_value: Vec<Option<Value>> = vec![None; body.blocks[join].params.len()];
    let mut differs = vec![false; first_value.len()];
    if first_value.is_empty() {
        return differs;
    }
    let (mut seen, mut waiting) = (vec![false; body.blocks.len()], vec![branch]);
    while let Some(block) = waiting.pop() {
        if block == join || std::mem::replace(&mut seen[block.index()], true) {
            continue;
        }
        let data = &body.blocks[block];
        waiting.extend(data.successors());
        let Some(term) = &data.term else { continue };
        term.term.for_each_call(|call| {
            let args = if call.block == join { &call.args[..] } else { &[] };
            for (index, arg) in args.iter().enumerate() {
                let name = names[arg.index()];
                differs[index] |= *first_value[index].get_or_insert(name) != name;
            }
        });
    }
    differs
}

/// Returns the canonical value of each value: a parameter with equal arguments everywhere is equal
/// to them.
fn canonical_values(body: &Body) -> Vec<Value> {
    let mut args_of: Vec<Vec<Value>> = vec![Vec::new(); body.values.len()];
    for term in body.blocks.values().filter_map(|data| data.term.as_ref()) {
        term.term.for_each_call(|call| {
            let params = &body.blocks[call.block].params;
            params.iter().zip(&call.args).for_each(|(param, arg)| args_of[param.index()].push(*arg));
        });
    }
    let mut canonical: Vec<Value> = body.values.keys().collect();
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for param in body.values.keys().filter(|value| !args_of[value.index()].is_empty()) {
            let mut others =
                args_of[param.index()].iter().map(|arg| canonical[arg.index()]).filter(|name| *name != param);
            let Some(first) = others.next() else { continue };
            if others.all(|name| name == first) && canonical[param.index()] != first {
                canonical[param.index()] = first;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    canonical
}
