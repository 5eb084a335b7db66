//! Reads whose value nobody uses go away. Cranelift drops what computes in vain, but lowers each read that may not move: a field's read is made where the program
//! loads it, and then its bytes are summed or compared as they lie.

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Function, Inst, InstructionData, Value};

/// Takes them away, with what was computed from them in vain.
pub fn remove(func: &mut Function) {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    let insts: Vec<Inst> = func.layout.blocks().flat_map(|block| func.layout.block_insts(block)).collect();
    for inst in &insts {
        for value in operands(func, *inst) {
            uses[value] += 1;
        }
    }
    for inst in insts.into_iter().rev() {
        let unused = func.dfg.inst_results(inst).iter().all(|result| uses[*result] == 0);
        if unused && only_computes(func, inst) {
            for value in operands(func, inst) {
                uses[value] -= 1;
            }
            func.layout.remove_inst(inst);
        }
    }
}

fn operands(func: &Function, inst: Inst) -> Vec<Value> {
    func.dfg.inst_values(inst).map(|value| func.dfg.resolve_aliases(value)).collect()
}

/// Whether an instruction does nothing but give its results.
fn only_computes(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    let opcode = data.opcode();
    let acts = opcode.can_trap()
        || opcode.other_side_effects()
        || opcode.can_store()
        || opcode.is_call()
        || opcode.is_branch()
        || opcode.is_terminator();
    match data {
        InstructionData::Load { flags, .. } => func.dfg.mem_flags[*flags].notrap(),
        _ => !acts && !opcode.can_load(),
    }
}
