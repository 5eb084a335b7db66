//! Tables to which packets add entries (PNA: add-on-miss).

use crate::{Entity, ExternArg, ExternFn, Inst, MatchKind, Pipeline, TableId};

/// Returns for each table whether packets add entries to it: a call of `add_entry` names it, its
/// keys are exact, and its entries may change. In other tables `add_entry` has no effect.
pub fn packet_written_tables(pipeline: &Pipeline) -> Vec<bool> {
    let mut written = vec![false; pipeline.tables.len()];
    for data in pipeline.insts() {
        if let Some(table) = added_table(&data.inst)
            && can_hold_added_entries(pipeline, table)
        {
            written[table.index()] = true;
        }
    }
    written
}

/// Returns the table to which an instruction adds an entry.
pub fn added_table(inst: &Inst) -> Option<TableId> {
    let Inst::Extern { func: ExternFn::AddEntry, args, .. } = inst else { return None };
    args.iter().find_map(|arg| if let ExternArg::Table(table) = arg { Some(*table) } else { None })
}

fn can_hold_added_entries(pipeline: &Pipeline, table: TableId) -> bool {
    let Some(declared) = pipeline.tables.get(table) else { return false };
    let is_exact = declared.keys.iter().all(|key| key.kind == MatchKind::Exact);
    is_exact && !declared.keys.is_empty() && !declared.const_entries
}
