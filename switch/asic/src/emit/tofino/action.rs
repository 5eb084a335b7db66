//! Actions of the chip: a single step on operands that exist before the action.

use ir::*;
use std::collections::HashSet;

/// Returns the number of leading instructions of a block that fit in one action: assignments of
/// existing values, header validity, verdicts, counters.
pub(in crate::emit) fn simple_prefix(p: &Pipeline, body: &Body, block: Block) -> usize {
    let mut written: HashSet<VarId> = HashSet::new();
    let mut computed: HashSet<Value> = HashSet::new();
    for (n, inst) in body.blocks[block].insts.iter().enumerate() {
        let mut uses = Vec::new();
        inst.inst.for_each_use(|v| uses.push(v));
        let uses_computed = uses.iter().any(|v| computed.contains(v));
        let fits_action = match &inst.inst {
            Inst::Const(_) | Inst::SetValid(_) | Inst::SetInvalid(_) => true,
            Inst::Load(var) => !written.contains(var),
            Inst::Slice { .. } => !uses_computed,
            Inst::Store(var, value) => {
                let is_move = p.vars[*var].ty != Type::Bool || !computed.contains(value);
                let is_first_write = written.insert(*var);
                is_move && is_first_write
            }
            Inst::Cast(..) | Inst::Concat(..) | Inst::Unary(..) => {
                computed.extend(inst.results.iter().copied());
                !uses_computed
            }
            Inst::Binary(op, ..) => {
                computed.extend(inst.results.iter().copied());
                !uses_computed && !op.is_comparison()
            }
            Inst::Extern { func, .. } => {
                let is_action_call = matches!(
                    func,
                    ExternFn::DropPacket
                        | ExternFn::SendToPort
                        | ExternFn::CounterCount
                        | ExternFn::DirectCounterCount
                        | ExternFn::MeterExecute
                        | ExternFn::DirectMeterExecute
                );
                is_action_call && !uses_computed
            }
            _ => false,
        };
        if !fits_action {
            return n;
        }
    }
    body.blocks[block].insts.len()
}
