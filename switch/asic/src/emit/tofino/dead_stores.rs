//! Dead-store elimination.
//!
//! ```text
//! meta.reason = 3; drop(); exit;    ->  drop(); exit;    no code reads `reason`
//! meta.x = 1; exit;                 ->  exit;            code reads `x`, but not behind this exit
//! ```

use super::exits::before_lookups;
use ir::*;
use std::collections::HashSet;

/// Takes out stores to metadata and local variables that nothing reads: reasons of drops, say, if
/// what counts them is left out. `asked`: variables that are read by what is not in the pipeline.
pub(super) fn remove_dead_stores(p: &mut Pipeline, asked: &[VarId]) {
    let plain: Vec<bool> = p.vars.values().map(|v| matches!(v.kind, VarKind::Meta | VarKind::Local)).collect();
    loop {
        p.controls.values_mut().for_each(|control| ir::passes::drop_unused(&mut control.body));
        let read = read(p, asked);
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

/// Takes out of the ends of a body before its lookups what is stored to metadata and local
/// variables that nothing reads behind it. The body itself is not in the pipeline.
pub(super) fn remove_dead_stores_at_exits(p: &Pipeline, body: &mut Body, asked: &[VarId]) {
    let plain = |var: VarId| matches!(p.vars[var].kind, VarKind::Meta | VarKind::Local);
    let read = read(p, asked);
    for block in before_lookups(body).into_iter().collect::<Vec<_>>() {
        let Some(mut later) = read_to_the_end(body, block) else { continue };
        let mut kept = Vec::new();
        for data in std::mem::take(&mut body.blocks[block].insts).into_iter().rev() {
            match &data.inst {
                Inst::Store(var, _) if plain(*var) && !read.contains(var) && !later.contains(var) => continue,
                inst => reads(inst, &mut later),
            }
            kept.push(data);
        }
        kept.reverse();
        body.blocks[block].insts = kept;
    }
    ir::passes::drop_unused(body);
}

/// What is read behind a block, if it goes straight to the end.
fn read_to_the_end(body: &Body, block: Block) -> Option<HashSet<VarId>> {
    let (mut read, mut at) = (HashSet::new(), block);
    for _ in 0..body.blocks.len() {
        match &body.blocks[at].term.as_ref()?.term {
            Term::Exit | Term::Return => return Some(read),
            Term::Jump(call) if call.args.is_empty() => at = call.block,
            _ => return None,
        }
        body.blocks[at].insts.iter().for_each(|i| reads(&i.inst, &mut read));
    }
    None
}

/// What an instruction reads of variables.
fn reads(inst: &Inst, read: &mut HashSet<VarId>) {
    match inst {
        Inst::Load(var) => _ = read.insert(*var),
        Inst::Extern { args, .. } => {
            read.extend(args.iter().flat_map(|a| if let Arg::Vars(vars) = a { vars.as_slice() } else { &[] }));
        }
        _ => {}
    }
}

/// The variables that something in a pipeline reads, its architecture and its tables too, and those
/// that are `asked` for besides.
fn read(p: &Pipeline, asked: &[VarId]) -> HashSet<VarId> {
    let mut read: HashSet<VarId> = p.intrinsics.values().chain(asked).copied().collect();
    read.extend(p.field_lists.values().flatten());
    read.extend(p.tables.values().filter_map(|t| t.meter_result));
    p.insts().for_each(|data| reads(&data.inst, &mut read));
    read
}
