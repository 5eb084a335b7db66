//! Folds constants, by [`crate::eval`], and branches on them.

use crate::body::{Body, Inst, Term, UnaryOp};
use crate::cfg::reverse_postorder;
use crate::entity::{Entity, Value};
use crate::eval;
use crate::passes::thread::{rename_values, same_targets};
use crate::pipeline::Pipeline;
use crate::types::{Const, Type};
use num_traits::Zero;

pub(super) fn run(pipeline: &mut Pipeline) {
    pipeline.controls.values_mut().for_each(|c| body(&mut c.body));
}

fn body(body: &mut Body) {
    let mut known = Known { constants: vec![None; body.values.len()], not: vec![None; body.values.len()] };
    let mut renamed: Vec<Option<Value>> = vec![None; body.values.len()];
    // In this order a definition comes before its uses.
    for block in reverse_postorder(body) {
        let mut data = std::mem::take(&mut body.blocks[block]);
        for inst in &mut data.insts {
            inst.inst.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            let [result] = inst.results[..] else { continue };
            // A cast may make an ordinal that no member has, which a constant may not be.
            let folds = !matches!(inst.inst, Inst::Cast(Type::Error | Type::Enum(_), _));
            if let Some(constant) = eval::fold(&inst.inst, |v| known.constant(v)).filter(|_| folds) {
                inst.inst = Inst::Const(constant.clone());
                known.constants[result.index()] = Some(constant);
            } else if let Some(same) = known.same_as(&inst.inst) {
                renamed[result.index()] = Some(same);
            } else if let Inst::Unary(UnaryOp::LogicalNot, of) = inst.inst {
                known.not[result.index()] = Some(of);
            }
        }
        if let Some(term) = &mut data.term {
            term.term.map_values(|v| renamed.get(v.index()).copied().flatten().unwrap_or(v));
            fold_term(&mut term.term, &known);
            same_targets(&mut term.term);
        }
        body.blocks[block] = data;
    }
    rename_values(body, &renamed);
}

struct Known {
    constants: Vec<Option<Const>>,
    /// The operand, of a value that is its negation.
    not: Vec<Option<Value>>,
}

impl Known {
    fn constant(&self, value: Value) -> Option<&Const> {
        self.constants.get(value.index())?.as_ref()
    }

    /// The operand that an instruction results in, whatever the others are.
    fn same_as(&self, inst: &Inst) -> Option<Value> {
        match inst {
            Inst::Select { cond, then, els } => match self.constant(*cond) {
                Some(c) => Some(if c.bits.is_zero() { *els } else { *then }),
                None => (then == els).then_some(*then),
            },
            Inst::Unary(UnaryOp::LogicalNot, a) => self.not.get(a.index()).copied().flatten(),
            _ => None,
        }
    }
}

fn fold_term(term: &mut Term, known: &Known) {
    if let Term::Branch { cond, then, els } = term
        && let Some(of) = known.not.get(cond.index()).copied().flatten()
    {
        *cond = of;
        std::mem::swap(then, els);
    }
    let way = match term {
        Term::Branch { cond, then, els } => match known.constant(*cond) {
            Some(c) => {
                if c.bits.is_zero() {
                    els.clone()
                } else {
                    then.clone()
                }
            }
            None => return,
        },
        Term::Switch { value, cases, default } => match known.constant(*value) {
            Some(c) => {
                let case = cases.iter().find(|(case, _)| case.bits == c.bits);
                case.map_or(&*default, |(_, call)| call).clone()
            }
            None => return,
        },
        _ => return,
    };
    *term = Term::Jump(way);
}
