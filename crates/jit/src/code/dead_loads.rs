//! Dead-load elimination: removes loads without a use. Cranelift removes dead computations, but
//! keeps loads that may not move. Such loads arise because a field is loaded where the program does
//! so, and then its bytes are summed or compared directly in memory.

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Function, Inst, InstructionData, Value};

/// Removes dead loads and the computations that only they feed.
pub fn remove_dead_loads(func: &mut Function) {
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

/// Returns whether an instruction has no effect besides its results.
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
