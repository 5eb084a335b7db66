//! Which decisions the parameters of a block tell of.
//!
//! Where ways come together, a parameter says which of them a packet came by only if another way would have given it another value. What gives the
//! same value on all its ways has decided nothing: whoever reads the parameter need not wait for it.

use ir::{Block, BlockData, Body, Entity, Value};

/// Parameters that pass values on to each other in a long row need as many looks at all of them, if they stand in the opposite order. What is not found
/// by then is taken for a value of its own.
const MAX_ROUNDS: usize = 64;

/// For each block that decides: what its decision is to the parameters of the block where its ways join.
#[derive(Debug, Default)]
pub(super) struct Merges {
    /// Whether each parameter's value depends on the decision; nothing where the joining block has no parameters.
    told: Vec<Vec<bool>>,
}

impl Merges {
    /// Of a body whose blocks' ways join there.
    pub fn new(body: &Body, joins: &[Option<Block>]) -> Merges {
        let names = names(body);
        let of = |(branch, data): (Block, &BlockData)| match joins[branch.index()] {
            Some(join) if data.successors().len() > 1 => told(body, &names, branch, join),
            _ => Vec::new(),
        };
        Merges { told: body.blocks.iter().map(of).collect() }
    }

    /// Whether parameter number `param` of the block where the ways of `branch` join depends on the way.
    pub fn tells(&self, branch: Block, param: usize) -> bool {
        self.told[branch.index()].get(param).is_none_or(|told| *told)
    }
}

/// For each parameter of `join` whether the ways from `branch` to it give it different values.
fn told(body: &Body, names: &[Value], branch: Block, join: Block) -> Vec<bool> {
    let mut given: Vec<Option<Value>> = vec![None; body.blocks[join].params.len()];
    let mut told = vec![false; given.len()];
    if given.is_empty() {
        return told;
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
            for (at, arg) in args.iter().enumerate() {
                let name = names[arg.index()];
                told[at] |= *given[at].get_or_insert(name) != name;
            }
        });
    }
    told
}

/// For each value the one that it always is: a parameter that is given the same from everywhere is that.
fn names(body: &Body) -> Vec<Value> {
    let mut given: Vec<Vec<Value>> = vec![Vec::new(); body.values.len()];
    for term in body.blocks.values().filter_map(|data| data.term.as_ref()) {
        term.term.for_each_call(|call| {
            let params = &body.blocks[call.block].params;
            params.iter().zip(&call.args).for_each(|(param, arg)| given[param.index()].push(*arg));
        });
    }
    let mut names: Vec<Value> = body.values.keys().collect();
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        for param in body.values.keys().filter(|value| !given[value.index()].is_empty()) {
            let mut others = given[param.index()].iter().map(|arg| names[arg.index()]).filter(|name| *name != param);
            let Some(first) = others.next() else { continue };
            if others.all(|name| name == first) && names[param.index()] != first {
                names[param.index()] = first;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    names
}
