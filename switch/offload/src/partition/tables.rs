//! Cut points that follow from how the switch holds tables.

use super::{CutPoint, PartitionError, PointInBlock, Resumption};
use ir::{
    Arch, Block, Body, ControlId, ControlKind, CounterUnit, ExternArg, ExternFn, ExternId, ExternInst, ExternKind,
    Inst, InstData, Pipeline, Preamble, SourceLoc, TableId, Terminator,
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
    let is_cached =
        |table: TableId| matches!(held.get(&table), Some(TableMode::Hot(_))) && can_be_cached(pipeline, table);
    let mut cut_points = Vec::new();
    for (control, declared) in pipeline.controls.iter() {
        for (block, data) in declared.body.blocks.iter() {
            let Some(table) = data.applied_table() else { continue };
            let applied = &pipeline.tables[table];
            let name = &applied.preamble.name;
            let is_written_by_packets = applied.add_on_miss || applied.idle_timeout;
            let some_entries = |entries: &u64| format!("the switch has {entries} entries of `{name}`");
            let (is_hot, resumption, reason) = match held.get(&table) {
                Some(TableMode::Hot(entries)) if is_cached(table) => (true, Resumption::Restart, some_entries(entries)),
                _ if is_written_by_packets => (false, Resumption::Continue, format!("packets write to `{name}`")),
                Some(TableMode::Hot(entries)) => (true, Resumption::Continue, some_entries(entries)),
                Some(TableMode::Absent) => (false, Resumption::Continue, format!("`{name}` is not on the switch")),
                Some(TableMode::Whole) | None => continue,
            };
            if declared.kind != partitioned {
                return Err(PartitionError::WrongControl { control: declared.name.clone(), why: reason });
            }
            let at = PointInBlock::Term;
            cut_points.push(CutPoint { control, block, at, is_hot_miss: is_hot, resumption, reason });
        }
        if declared.kind == partitioned {
            cut_points.extend(changes_of_expire_times(pipeline, control, is_cached));
        }
    }
    Ok(cut_points)
}

/// Returns whether the upper tier can have some entries of a table to which packets add entries. It
/// reads them only; packets that miss, or that change an expire time, restart below.
fn can_be_cached(pipeline: &Pipeline, table: TableId) -> bool {
    let declared = &pipeline.tables[table];
    declared.add_on_miss && declared.direct_meter.is_none() && declared.implementation.is_none()
}

/// Returns cut points at the calls that change the expire time of an entry of such tables.
fn changes_of_expire_times(
    pipeline: &Pipeline,
    control: ControlId,
    is_cached: impl Fn(TableId) -> bool,
) -> Vec<CutPoint> {
    let mut cut_points = Vec::new();
    for (block, data) in pipeline.controls[control].body.blocks.iter() {
        for (n, inst) in data.insts.iter().enumerate() {
            let Inst::Extern { func: ExternFn::SetEntryExpireTime, args, .. } = &inst.inst else { continue };
            let Some(table) = table_arg(args).filter(|table| is_cached(*table)) else { continue };
            let reason = format!("packets change expire times in `{}`", pipeline.tables[table].preamble.name);
            let (at, resumption) = (PointInBlock::Inst(n), Resumption::Restart);
            cut_points.push(CutPoint { control, block, at, is_hot_miss: false, resumption, reason });
        }
    }
    cut_points
}

/// Returns the tables for which the program itself says when the timer of an entry restarts. In others
/// each hit restarts it.
pub fn restarted_by_call(body: &Body) -> BTreeSet<TableId> {
    let calls = body.insts().filter_map(|inst| match &inst.inst {
        Inst::Extern { func: ExternFn::RestartExpireTimer | ExternFn::SetEntryExpireTime, args, .. } => table_arg(args),
        _ => None,
    });
    calls.collect()
}

/// Returns the table among the arguments of a call.
pub fn table_arg(args: &[ExternArg]) -> Option<TableId> {
    args.iter().find_map(|arg| if let ExternArg::Table(table) = arg { Some(*table) } else { None })
}

/// Makes a table to which packets add entries one that they only read: the upper half gets entries,
/// and loses them, by writes. Where the timer of an entry restarts, the upper half counts a hit, for
/// which the timer below is restarted later. `by_call`: the program says where.
pub fn make_read_only(pipeline: &mut Pipeline, body: &mut Body, table: TableId, by_call: bool) {
    let declared = &mut pipeline.tables[table];
    (declared.add_on_miss, declared.idle_timeout) = (false, false);
    let is_counted = declared.direct_counter.is_some();
    let restarts = |inst: &InstData| {
        matches!(&inst.inst, Inst::Extern { func: ExternFn::RestartExpireTimer, args, .. }
            if args.contains(&ExternArg::Table(table)))
    };
    if !is_counted {
        let counter = add_hit_counter(pipeline, table);
        for inst in body.blocks.values_mut().flat_map(|data| &mut data.insts).filter(|inst| restarts(inst)) {
            inst.inst = count_of_hit(counter, table);
        }
        if !by_call {
            count_in_arms(body, counter, table);
        }
    }
    body.blocks.values_mut().for_each(|data| data.insts.retain(|inst| !restarts(inst)));
}

/// Adds a direct counter of hits to a table that has none. v1model counts each hit implicitly; PNA
/// actions must call the counter.
pub fn count_hits(pipeline: &mut Pipeline, control: ControlId, table: TableId) {
    if pipeline.tables[table].direct_counter.is_some() {
        return;
    }
    let counter = add_hit_counter(pipeline, table);
    if pipeline.arch == Arch::Pna {
        count_in_arms(&mut pipeline.controls[control].body, counter, table);
    }
}

/// Declares a direct counter for a table, which is not part of its P4Info.
fn add_hit_counter(pipeline: &mut Pipeline, table: TableId) -> ExternId {
    let name = format!("terrace.hits.{}", pipeline.tables[table].preamble.name);
    let preamble = Preamble { name, hidden: true, ..Preamble::default() };
    let kind = ExternKind::DirectCounter { unit: CounterUnit::Both };
    let counter = pipeline.externs.push(ExternInst { preamble, kind, loc: SourceLoc::default() });
    pipeline.tables[table].direct_counter = Some(counter);
    counter
}

fn count_of_hit(counter: ExternId, table: TableId) -> Inst {
    let args = vec![ExternArg::Table(table)];
    Inst::Extern { object: Some(counter), func: ExternFn::DirectCounterCount, args }
}

/// Counts at the start of each action of a table.
fn count_in_arms(body: &mut Body, counter: ExternId, table: TableId) {
    let mut arms: BTreeSet<Block> = BTreeSet::new();
    for data in body.blocks.values() {
        if let Some(Terminator::Apply { table: applied, arms: found, .. }) = data.term.as_ref().map(|term| &term.term)
            && *applied == table
        {
            arms.extend(found.iter().map(|arm| arm.block));
        }
    }
    for block in arms {
        body.blocks[block].insts.insert(0, InstData::new(count_of_hit(counter, table), Vec::new()));
    }
}
