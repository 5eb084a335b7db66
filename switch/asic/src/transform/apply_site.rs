//! Inspection and modification of the code around a table's application.

use super::TransformError;
use ir::{
    ActionArm, Block, BlockData, Body, Const, ControlId, EntityMap, ExternArg, Inst, InstData, Pipeline, Preamble,
    SourceLoc, Table, TableId, Terminator, TerminatorData, Type, Value,
};

/// Position of a table's application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TableSite {
    pub control: ControlId,
    pub block: Block,
}

/// Returns the table with a name.
pub(super) fn find_table(pipeline: &Pipeline, name: &str) -> Result<TableId, TransformError> {
    let mut named = pipeline.tables.iter().filter(|(_, table)| table.preamble.name == name);
    named.next().map(|(id, _)| id).ok_or_else(|| {
        let known: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        TransformError::new(name, format!("the program has no such table; it has {}", known.join(", ")))
    })
}

/// Returns the only position at which the table is applied.
pub(super) fn find_apply_site(pipeline: &Pipeline, table: TableId) -> Result<TableSite, TransformError> {
    let name = &pipeline.tables[table].preamble.name;
    let mut found = None;
    for (control, data) in pipeline.controls.iter() {
        for (block, data) in data.body.blocks.iter() {
            if matches!(&data.term, Some(TerminatorData { term: Terminator::Apply { table: t, .. }, .. }) if *t == table)
                && found.replace(TableSite { control, block }).is_some()
            {
                return Err(TransformError::new(
                    name,
                    "it is applied at several places; transforms support tables with one",
                ));
            }
        }
    }
    found.ok_or_else(|| TransformError::new(name, "it is applied nowhere, so there is nothing to gain"))
}

/// Checks that the table's entries consist only of keys and actions, so that they can move to other
/// tables.
pub(super) fn check_movable(pipeline: &Pipeline, id: TableId) -> Result<&Table, TransformError> {
    let table = &pipeline.tables[id];
    let refused = |reason: &str| Err(TransformError::new(&table.preamble.name, reason));
    if table.implementation.is_some() {
        return refused(
            "its actions are in a profile or selector, whose members name this table's entries; leave it as it is",
        );
    }
    if table.direct_counter.is_some() || table.direct_meter.is_some() {
        return refused(
            "each entry has a counter or meter, which would restart at 0 when the entry is moved; use an indexed one",
        );
    }
    if table.idle_timeout {
        return refused(
            "its entries have idle times, which would restart at 0 when an entry is moved; leave it as it is",
        );
    }
    if table.add_on_miss {
        return refused("packets add entries to it, which the control plane cannot place; it belongs on another tier");
    }
    if super::alpm::partition_dimensions(table).is_some() {
        return refused("its entries are in partitions already; transform it before it is partitioned");
    }
    let names_table = |inst: &InstData| match &inst.inst {
        Inst::Extern { args, .. } => args.iter().any(|arg| matches!(arg, ExternArg::Table(t) if *t == id)),
        _ => false,
    };
    if pipeline.insts().any(names_table) {
        return refused("an action calls something that belongs to the entry that was hit; leave it as it is");
    }
    Ok(table)
}

/// Appends code to a block, before or without a terminator.
pub(super) struct CodeInserter<'a> {
    pub body: &'a mut Body,
    pub block: Block,
    pub loc: SourceLoc,
}

impl CodeInserter<'_> {
    pub(super) fn push_inst(&mut self, inst: Inst, ty: Type) -> Value {
        let value = self.body.values.push(ty);
        let data = InstData { inst, results: vec![value], loc: self.loc };
        self.body.blocks[self.block].insts.push(data);
        value
    }

    pub(super) fn const_bits(&mut self, width: u32, value: impl Into<num_bigint::BigUint>) -> Value {
        let value = Const::new(Type::Bit(width), value);
        self.push_inst(Inst::Const(value), Type::Bit(width))
    }

    pub(super) fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.body.value_type(value) == ty { value } else { self.push_inst(Inst::Cast(ty, value), ty) }
    }

    pub(super) fn concat(&mut self, high: Value, low: Value) -> Value {
        let width = self.body.value_type(high).width() + self.body.value_type(low).width();
        self.push_inst(Inst::Concat(high, low), Type::Bit(width))
    }

    pub(super) fn set_terminator(&mut self, term: Terminator) {
        self.body.blocks[self.block].term = Some(TerminatorData { term, loc: self.loc });
    }

    /// Adds an empty block.
    pub(super) fn new_block(&mut self) -> Block {
        self.body.blocks.push(BlockData::default())
    }

    /// Adds a block with the parameters of an action's arm.
    pub(super) fn arm_block(&mut self, params: &[Type]) -> (Block, Vec<Value>) {
        let block = self.new_block();
        let types = std::iter::once(Type::Bool).chain(params.iter().copied());
        let values: Vec<Value> = types.map(|ty| self.body.values.push(ty)).collect();
        self.body.blocks[block].params = values.clone();
        (block, values)
    }
}

/// Removes the application at the end of its block. Returns its keys, arms, and source location.
///
/// # Errors
/// The block ends in no application of `table`, which is a bug.
pub(super) fn take_apply(
    body: &mut Body,
    block: Block,
    table: &str,
) -> Result<(Vec<Value>, Vec<ActionArm>, SourceLoc), TransformError> {
    match body.blocks[block].term.take() {
        Some(TerminatorData { term: Terminator::Apply { keys, arms, .. }, loc }) => Ok((keys, arms, loc)),
        other => {
            body.blocks[block].term = other;
            Err(TransformError::new(table, "its application is gone, which is a bug"))
        }
    }
}

/// Returns an empty copy of a table with a suffix, hidden from the first pipeline's control plane.
pub(super) fn derived_table(table: &Table, suffix: &str) -> Table {
    Table {
        preamble: Preamble { name: format!("{}_{suffix}", table.preamble.name), hidden: true, ..Preamble::default() },
        entries: Vec::new(),
        const_entries: false,
        properties: Vec::new(),
        ..table.clone()
    }
}

/// Removes a table from the pipeline and returns the new number of each old one. The table must not
/// be applied any more. `heir` is the old number of the table that takes its place.
pub(super) fn remove_table(pipeline: &mut Pipeline, removed: TableId, heir: TableId) -> Vec<TableId> {
    let mut remaining = EntityMap::new();
    let mut numbers: Vec<TableId> = Vec::new();
    for (id, table) in pipeline.tables.iter() {
        numbers.push(if id == removed { id } else { remaining.push(table.clone()) });
    }
    numbers[removed.0 as usize] = numbers[heir.0 as usize];
    pipeline.tables = remaining;
    let renumber = |id: &mut TableId| *id = numbers.get(id.0 as usize).copied().unwrap_or(*id);
    for control in pipeline.controls.values_mut() {
        for block in control.body.blocks.values_mut() {
            for inst in &mut block.insts {
                if let Inst::Extern { args, .. } = &mut inst.inst {
                    for arg in args {
                        if let ExternArg::Table(table) = arg {
                            renumber(table);
                        }
                    }
                }
            }
            if let Some(TerminatorData { term: Terminator::Apply { table, .. }, .. }) = &mut block.term {
                renumber(table);
            }
        }
    }
    numbers
}
