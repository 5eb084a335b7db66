//! Threads jumps: a jump to a branch on an argument that is a constant goes to the target of the branch.
//! So the paths of hits and misses do not meet before `if (t.apply().miss)`, and engines see that only
//! one of them takes each side.

use crate::body::{
    BinaryOp, BlockCall, BlockData, Body, Inst, InstData, Terminator, TerminatorData, UnaryOp, copy_insts,
};
use crate::entity::{Block, Entity, EntityMap, Value};
use crate::pipeline::Pipeline;
use crate::types::Type;
use num_traits::Zero;
use std::collections::HashMap;

/// Number of instructions at most that a jump past a branch copies.
const MAX_COPIED_INSTS: usize = 8;

/// Number of branches at most that a jump passes.
const MAX_PASSED_BRANCHES: usize = 8;

pub(super) fn thread_branches(pipeline: &mut Pipeline) {
    for control in pipeline.controls.values_mut() {
        thread_body(&mut control.body);
    }
}

fn thread_body(body: &mut Body) {
    let branches = BranchesOnParameters { by_block: parameter_branches(body), constants: bool_constants(body) };
    for block in body.blocks.keys() {
        let Some(mut term) = body.blocks[block].term.take() else { continue };
        let loc = term.loc;
        if let Terminator::Jump(call) = &mut term.term {
            let copied = branches.thread_call(call, &mut body.values);
            body.blocks[block].insts.extend(copied);
        } else {
            term.term.for_each_call_mut(|call| {
                let insts = branches.thread_call(call, &mut body.values);
                if !insts.is_empty() {
                    let jump = TerminatorData { term: Terminator::Jump(call.clone()), loc };
                    *call = BlockCall::to(body.blocks.push(BlockData { params: Vec::new(), insts, term: Some(jump) }));
                }
            });
        }
        body.blocks[block].term = Some(term);
    }
}

/// Returns the value of each constant of type bool.
fn bool_constants(body: &Body) -> Vec<Option<bool>> {
    let mut constants = vec![None; body.values.len()];
    for data in body.insts() {
        if let (Inst::Const(constant), [result]) = (&data.inst, &data.results[..])
            && body.values[*result] == Type::Bool
        {
            constants[result.index()] = Some(!constant.bits.is_zero());
        }
    }
    constants
}

/// A short block with parameters that ends with a branch.
struct ParameterBranch {
    params: Vec<Value>,
    /// Stores, and instructions without effect.
    insts: Vec<InstData>,
    cond: Value,
    then: BlockCall,
    els: BlockCall,
}

/// Returns the branches that may depend on parameters, by block. No other block may use values that
/// the block defines, because a jump that passes the block defines none of them.
fn parameter_branches(body: &Body) -> Vec<Option<ParameterBranch>> {
    let mut definer: Vec<Option<Block>> = vec![None; body.values.len()];
    for (block, data) in body.blocks.iter() {
        let defined = data.params.iter().chain(data.insts.iter().flat_map(|inst| &inst.results));
        defined.for_each(|value| definer[value.index()] = Some(block));
    }
    let mut is_used_elsewhere = vec![false; body.blocks.len()];
    for (block, data) in body.blocks.iter() {
        let mut mark = |value: Value| match definer[value.index()] {
            Some(other) if other != block => is_used_elsewhere[other.index()] = true,
            _ => {}
        };
        data.insts.iter().for_each(|inst| inst.inst.for_each_use(&mut mark));
        data.term.iter().for_each(|term| term.term.for_each_use(&mut mark));
    }
    let is_state = |block: Block| body.states.iter().any(|state| state.block == block);
    let branch_of = |(block, data): (Block, &BlockData)| match &data.term.as_ref()?.term {
        Terminator::Branch { cond, then, els } if !is_used_elsewhere[block.index()] && !is_state(block) => {
            let is_copied = |data: &InstData| matches!(data.inst, Inst::Store(..)) || data.inst.is_pure();
            let is_short = data.insts.len() <= MAX_COPIED_INSTS && data.insts.iter().all(is_copied);
            if !is_short || data.params.is_empty() {
                return None;
            }
            let (params, insts) = (data.params.clone(), data.insts.clone());
            Some(ParameterBranch { params, insts, cond: *cond, then: then.clone(), els: els.clone() })
        }
        _ => None,
    };
    body.blocks.iter().map(branch_of).collect()
}

/// Branches that jumps can pass.
struct BranchesOnParameters {
    by_block: Vec<Option<ParameterBranch>>,
    /// The constants of type bool, by value.
    constants: Vec<Option<bool>>,
}

impl BranchesOnParameters {
    /// Returns a bool of a block that gets these arguments, if it is constant.
    fn decide(&self, branch: &ParameterBranch, args: &[Value], value: Value) -> Option<bool> {
        if let Some(index) = branch.params.iter().position(|param| *param == value) {
            return *self.constants.get(args.get(index)?.index())?;
        }
        let decide = |operand: Value| self.decide(branch, args, operand);
        match branch.insts.iter().find(|inst| inst.results.contains(&value)).map(|inst| &inst.inst) {
            Some(Inst::Unary(UnaryOp::LogicalNot, operand)) => decide(*operand).map(|operand| !operand),
            Some(Inst::Binary(operator @ (BinaryOp::And | BinaryOp::Or), left, right)) => {
                // One operand can decide alone.
                let deciding = *operator == BinaryOp::Or;
                match (decide(*left), decide(*right)) {
                    (Some(left), Some(right)) if left != deciding && right != deciding => Some(!deciding),
                    (left, right) => (left == Some(deciding) || right == Some(deciding)).then_some(deciding),
                }
            }
            _ => *self.constants.get(value.index())?,
        }
    }

    /// Redirects a jump with a constant argument past the branch on it, to the target of the branch.
    /// Returns copies of the instructions of the passed blocks, which have to precede the jump.
    fn thread_call(&self, call: &mut BlockCall, values: &mut EntityMap<Value, Type>) -> Vec<InstData> {
        let mut copied = Vec::new();
        for _ in 0..MAX_PASSED_BRANCHES {
            let Some(branch) = self.by_block.get(call.block.index()).and_then(Option::as_ref) else { break };
            let Some(is_true) = self.decide(branch, &call.args, branch.cond) else { break };
            let mut target = if is_true { branch.then.clone() } else { branch.els.clone() };
            let mut copies: HashMap<Value, Value> =
                branch.params.iter().copied().zip(call.args.iter().copied()).collect();
            copied.extend(copy_insts(&branch.insts, values, &mut copies));
            target.args.iter_mut().for_each(|arg| *arg = copies.get(arg).copied().unwrap_or(*arg));
            *call = target;
        }
        copied
    }
}
