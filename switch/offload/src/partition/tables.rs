//! Cut points that follow from how the switch holds tables.

use super::{CutPoint, PartitionError, PointInBlock};
use ir::{
    Arch, Block, ControlId, ControlKind, CounterUnit, ExternArg, ExternFn, ExternInst, ExternKind, Inst, InstData,
    Pipeline, Preamble, SourceLoc, TableId, Terminator,
};
use std::collections::{BTreeMap, BTreeSet};

/// Mode in which the upper tier holds a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TableMode {
    /// All entries.
    Whole,
    /// At most this number of entries; packets that miss go to the lower tier.
    Hot(u64),
    /// No entries: packets that reach the table go to the lower tier.
    Absent,
}

/// Returns the cut points that follow from table modes. Unlisted tables are whole, except those
/// that packets write to (by adding entries or refreshing idle timeouts): these are always absent,
/// because their entries must be on one side.
///
/// # Errors
/// [`PartitionError::WrongControl`]: a table that is not whole is applied in a control that cannot
/// be partitioned.
pub fn cut_points_for_tables(
    pipeline: &Pipeline,
    held: &BTreeMap<TableId, TableMode>,
) -> Result<Vec<CutPoint>, PartitionError> {
    let partitioned = if pipeline.arch == Arch::Pna { ControlKind::MainControl } else { ControlKind::Ingress };
    let mut cut_points = Vec::new();
    for (control, declared) in pipeline.controls.iter() {
        for (block, data) in declared.body.blocks.iter() {
            let Some(table) = data.applied_table() else { continue };
            let applied = &pipeline.tables[table];
            let name = &applied.preamble.name;
            let is_written_by_packets = applied.add_on_miss || applied.idle_timeout;
            let (is_hot, reason) = match held.get(&table) {
                _ if is_written_by_packets => (false, format!("packets write to `{name}`")),
                Some(TableMode::Hot(entries)) => (true, format!("the switch has {entries} entries of `{name}`")),
                Some(TableMode::Absent) => (false, format!("`{name}` is not on the switch")),
                Some(TableMode::Whole) | None => continue,
            };
            if declared.kind != partitioned {
                return Err(PartitionError::WrongControl { control: declared.name.clone(), why: reason });
            }
            cut_points.push(CutPoint { control, block, at: PointInBlock::Term, is_hot_miss: is_hot, reason });
        }
    }
    Ok(cut_points)
}

/// Adds a direct counter of hits to a table that has none. v1model counts each hit implicitly; PNA
/// actions must call the counter.
pub fn count_hits(pipeline: &mut Pipeline, control: ControlId, table: TableId) {
    if pipeline.tables[table].direct_counter.is_some() {
        return;
    }
    let name = format!("terrace.hits.{}", pipeline.tables[table].preamble.name);
    let preamble = Preamble { name, hidden: true, ..Preamble::default() };
    let kind = ExternKind::DirectCounter { unit: CounterUnit::Both };
    let counter = pipeline.externs.push(ExternInst { preamble, kind, loc: SourceLoc::default() });
    pipeline.tables[table].direct_counter = Some(counter);
    if pipeline.arch != Arch::Pna {
        return;
    }
    let body = &mut pipeline.controls[control].body;
    let mut arms: BTreeSet<Block> = BTreeSet::new();
    for data in body.blocks.values() {
        if let Some(Terminator::Apply { table: applied, arms: found, .. }) = data.term.as_ref().map(|term| &term.term)
            && *applied == table
        {
            arms.extend(found.iter().map(|arm| arm.block));
        }
    }
    for block in arms {
        let count = Inst::Extern {
            object: Some(counter),
            func: ExternFn::DirectCounterCount,
            args: vec![ExternArg::Table(table)],
        };
        body.blocks[block].insts.insert(0, InstData::new(count, Vec::new()));
    }
}
