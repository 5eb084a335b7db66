//! Dead-store elimination.
//!
//! ```text
//! meta.reason = 3; drop(); exit;    ->  drop(); exit;    no code reads `reason`
//! meta.x = 1; exit;                 ->  exit;            code reads `x`, but not after this exit
//! ```

use super::exits::blocks_before_lookups;
use ir::*;
use std::collections::HashSet;

/// Removes stores to metadata and local variables that nothing reads, for example drop reasons with
/// an omitted counter. `externally_read`: variables that code outside of the pipeline reads.
pub(super) fn remove_dead_stores(p: &mut Pipeline, externally_read: &[VarId]) {
    let plain: Vec<bool> = p.vars.values().map(|v| matches!(v.kind, VarKind::Meta | VarKind::Local)).collect();
    loop {
        p.controls.values_mut().for_each(|control| ir::passes::remove_dead_values(&mut control.body));
        let read = all_read_vars(p, externally_read);
        let gone = |inst: &Inst| matches!(inst, Inst::Store(var, _) if plain[var.index()] && !read.contains(var));
        let mut found = false;
        for data in p.controls.values_mut().flat_map(|control| control.body.blocks.values_mut()) {
            let before = data.insts.len();
            data.insts.retain(|i| !gone(&i.inst));
            found |= data.insts.len() < before;
        }
        if !found {
            break;
        }
    }
}

/// Removes stores to metadata and local variables at exits before the lookups, if nothing reads
/// them afterwards. `body` is not part of the pipeline `p` during the pass.
pub(super) fn remove_dead_stores_at_exits(p: &Pipeline, body: &mut Body, externally_read: &[VarId]) {
    let plain = |var: VarId| matches!(p.vars[var].kind, VarKind::Meta | VarKind::Local);
    let read = all_read_vars(p, externally_read);
    for block in blocks_before_lookups(body).into_iter().collect::<Vec<_>>() {
        let Some(mut later) = reads_until_end(body, block) else { continue };
        let mut kept = Vec::new();
        for data in std::mem::take(&mut body.blocks[block].insts).into_iter().rev() {
            match &data.inst {
                Inst::Store(var, _) if plain(*var) && !read.contains(var) && !later.contains(var) => continue,
                inst => collect_reads(inst, &mut later),
            }
            kept.push(data);
        }
        kept.reverse();
        body.blocks[block].insts = kept;
    }
    ir::passes::remove_dead_values(body);
}

/// Returns the variables read after a block, if only jumps lead from it to an exit.
fn reads_until_end(body: &Body, block: Block) -> Option<HashSet<VarId>> {
    let (mut read, mut at) = (HashSet::new(), block);
    for _ in 0..body.blocks.len() {
        match &body.blocks[at].term.as_ref()?.term {
            Terminator::Exit | Terminator::Return => return Some(read),
            Terminator::Jump(call) if call.args.is_empty() => at = call.block,
            _ => return None,
        }
        body.blocks[at].insts.iter().for_each(|i| collect_reads(&i.inst, &mut read));
    }
    None
}

/// Collects the variables that an instruction reads.
fn collect_reads(inst: &Inst, read: &mut HashSet<VarId>) {
    match inst {
        Inst::Load(var) => _ = read.insert(*var),
        Inst::Extern { args, .. } => {
            read.extend(args.iter().flat_map(|a| if let ExternArg::Vars(vars) = a { vars.as_slice() } else { &[] }));
        }
        _ => {}
    }
}

/// Returns the variables that the pipeline, its architecture or its tables read, and those in
/// `externally_read`.
fn all_read_vars(p: &Pipeline, externally_read: &[VarId]) -> HashSet<VarId> {
    let mut read: HashSet<VarId> = p.intrinsics.values().chain(externally_read).copied().collect();
    read.extend(p.field_lists.values().flatten());
    read.extend(p.tables.values().filter_map(|t| t.meter_result));
    p.insts().for_each(|data| collect_reads(&data.inst, &mut read));
    read
}
