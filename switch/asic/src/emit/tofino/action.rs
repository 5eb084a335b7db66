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
        let nested = uses.iter().any(|v| computed.contains(v));
        let fine = match &inst.inst {
            Inst::Const(_) | Inst::SetValid(_) | Inst::SetInvalid(_) => true,
            Inst::Load(var) => !written.contains(var),
            Inst::Slice { .. } => !nested,
            Inst::Store(var, value) => {
                let plain = p.vars[*var].ty != Type::Bool || !computed.contains(value);
                let once = written.insert(*var);
                plain && once
            }
            Inst::Cast(..) | Inst::Concat(..) | Inst::Unary(..) => {
                computed.extend(inst.results.iter().copied());
                !nested
            }
            Inst::Binary(op, ..) => {
                computed.extend(inst.results.iter().copied());
                !nested && !op.is_comparison()
            }
            Inst::Extern { func, .. } => {
                let known = matches!(
                    func,
                    ExternFn::DropPacket
                        | ExternFn::SendToPort
                        | ExternFn::CounterCount
                        | ExternFn::DirectCounterCount
                        | ExternFn::MeterExecute
                        | ExternFn::DirectMeterExecute
                );
                known && !nested
            }
            _ => false,
        };
        if !fine {
            return n;
        }
    }
    body.blocks[block].insts.len()
}
