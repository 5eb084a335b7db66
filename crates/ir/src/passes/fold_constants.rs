//! Folds constants with [`crate::eval`], and branches on them. Whether a packet hit is a constant in
//! the code of an action that a table runs only for hits, or only for misses.

use crate::body::{Body, Inst, InstData, Terminator, UnaryOp};
use crate::cfg::reverse_postorder;
use crate::entity::{Entity, EntityMap, TableId, Value};
use crate::eval;
use crate::passes::merge_blocks::{fold_same_targets, rename_values};
use crate::pipeline::Pipeline;
use crate::table::Table;
use crate::types::{Const, Type};
use num_traits::Zero;

pub(super) fn fold_constants(pipeline: &mut Pipeline) {
    let Pipeline { controls, tables, .. } = pipeline;
    controls.values_mut().for_each(|control| fold_body(&mut control.body, tables));
}

/// Replaces instructions with constant operands by constants, results that equal an operand by that
/// operand, and branches on constants by jumps.
fn fold_body(body: &mut Body, tables: &EntityMap<TableId, Table>) {
    define_known_hits(body, tables);
    let mut known_constants =
        KnownConstants { constants: vec![None; body.values.len()], negation_of: vec![None; body.values.len()] };
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    // In this order a definition comes before its uses.
    for block in reverse_postorder(body) {
        let mut data = std::mem::take(&mut body.blocks[block]);
        for inst in &mut data.insts {
            inst.inst.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            let [result] = inst.results[..] else { continue };
            // A cast can produce an ordinal without a member, which a constant must not be.
            let may_fold = !matches!(inst.inst, Inst::Cast(Type::Error | Type::Enum(_), _));
            if let Some(constant) = eval::fold(&inst.inst, |v| known_constants.constant(v)).filter(|_| may_fold) {
                inst.inst = Inst::Const(constant.clone());
                known_constants.constants[result.index()] = Some(constant);
            } else if let Some(equal_operand) = known_constants.equivalent_operand(&inst.inst) {
                renamed[result.index()] = Some(equal_operand);
            } else if let Inst::Unary(UnaryOp::LogicalNot, operand) = inst.inst {
                known_constants.negation_of[result.index()] = Some(operand);
            }
        }
        if let Some(term) = &mut data.term {
            term.term.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            fold_terminator(&mut term.term, &known_constants);
            fold_same_targets(&mut term.term);
        }
        body.blocks[block] = data;
    }
    rename_values(body, &renamed);
}

/// Replaces the parameter `hit` of each arm by a constant, if the table runs its action only for hits or
/// only for misses.
fn define_known_hits(body: &mut Body, tables: &EntityMap<TableId, Table>) {
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    for block in body.blocks.keys() {
        let Some(Terminator::Apply { table, arms, .. }) = body.blocks[block].term.as_ref().map(|term| &term.term)
        else {
            continue;
        };
        let (table, arms) = (&tables[*table], arms.clone());
        for arm in arms {
            let Some(is_hit) = table.known_hit(arm.action) else { continue };
            let Some(hit) = body.blocks[arm.block].params.first().copied() else { continue };
            let constant = body.values.push(Type::Bool);
            let inst = InstData::new(Inst::Const(Const::bool(is_hit)), vec![constant]);
            body.blocks[arm.block].insts.insert(0, inst);
            renamed[hit.index()] = Some(constant);
        }
    }
    renamed.resize(body.values.len(), None);
    rename_values(body, &renamed);
}

struct KnownConstants {
    constants: Vec<Option<Const>>,
    /// The operand of each value that is a logical negation.
    negation_of: Vec<Option<Value>>,
}

impl KnownConstants {
    fn constant(&self, value: Value) -> Option<&Const> {
        self.constants.get(value.index())?.as_ref()
    }

    /// Returns the operand that equals the instruction's result, if one does.
    fn equivalent_operand(&self, inst: &Inst) -> Option<Value> {
        match inst {
            Inst::Select { cond, then, els } => match self.constant(*cond) {
                Some(c) => Some(if c.bits.is_zero() { *els } else { *then }),
                None => (then == els).then_some(*then),
            },
            Inst::Unary(UnaryOp::LogicalNot, a) => self.negation_of.get(a.index()).copied().flatten(),
            _ => None,
        }
    }
}

/// Replaces a branch or switch on a constant by a jump. A branch on the negation of a value becomes
/// a branch on that value with swapped targets.
fn fold_terminator(term: &mut Terminator, known_constants: &KnownConstants) {
    if let Terminator::Branch { cond, then, els } = term
        && let Some(operand) = known_constants.negation_of.get(cond.index()).copied().flatten()
    {
        *cond = operand;
        std::mem::swap(then, els);
    }
    let target = match term {
        Terminator::Branch { cond, then, els } => match known_constants.constant(*cond) {
            Some(constant) => {
                if constant.bits.is_zero() {
                    els.clone()
                } else {
                    then.clone()
                }
            }
            None => return,
        },
        Terminator::Switch { value, cases, default } => match known_constants.constant(*value) {
            Some(constant) => {
                let case = cases.iter().find(|(case, _)| case.bits == constant.bits);
                case.map_or(&*default, |(_, call)| call).clone()
            }
            None => return,
        },
        _ => return,
    };
    *term = Terminator::Jump(target);
}
