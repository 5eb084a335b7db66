//! Looking at, and changing, the code around a table's application.

use super::RewriteError;
use ir::{
    Arg, Arm, Block, BlockData, Body, Const, ControlId, EntityMap, Inst, InstData, Loc, Pipeline, Preamble, Table,
    TableId, Term, TermData, Type, Value,
};

/// Where a table is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Site {
    pub control: ControlId,
    pub block: Block,
}

/// The table of that name.
pub(super) fn find(pipeline: &Pipeline, name: &str) -> Result<TableId, RewriteError> {
    let mut named = pipeline.tables.iter().filter(|(_, table)| table.preamble.name == name);
    named.next().map(|(id, _)| id).ok_or_else(|| {
        let known: Vec<&str> = pipeline.tables.values().map(|table| table.preamble.name.as_str()).collect();
        RewriteError::new(name, format!("the program has no such table; it has {}", known.join(", ")))
    })
}

/// The one place where the table is applied.
pub(super) fn site(pipeline: &Pipeline, table: TableId) -> Result<Site, RewriteError> {
    let name = &pipeline.tables[table].preamble.name;
    let mut found = None;
    for (control, data) in pipeline.controls.iter() {
        for (block, data) in data.body.blocks.iter() {
            if matches!(&data.term, Some(TermData { term: Term::Apply { table: t, .. }, .. }) if *t == table)
                && found.replace(Site { control, block }).is_some()
            {
                return Err(RewriteError::new(name, "it is applied at several places; rewrites take tables with one"));
            }
        }
    }
    found.ok_or_else(|| RewriteError::new(name, "it is applied nowhere, so there is nothing to gain"))
}

/// Whether the table's entries are nothing but keys and actions, so that they may lie in other tables.
pub(super) fn plain(pipeline: &Pipeline, id: TableId) -> Result<&Table, RewriteError> {
    let table = &pipeline.tables[id];
    let refused = |reason: &str| Err(RewriteError::new(&table.preamble.name, reason));
    if table.implementation.is_some() {
        return refused(
            "its actions are in a profile or selector, whose members name this table's entries; leave it as it is",
        );
    }
    if table.direct_counter.is_some() || table.direct_meter.is_some() {
        return refused(
            "each entry has a counter or meter, which would start anew when the entry is moved; use an indexed one",
        );
    }
    if table.idle_timeout {
        return refused(
            "its entries have idle times, which would start anew when an entry is moved; leave it as it is",
        );
    }
    if table.add_on_miss {
        return refused(
            "packets add entries to it, which cannot be placed by the control side; it belongs on another tier",
        );
    }
    if super::alpm::partitioned(table).is_some() {
        return refused("its entries are in partitions already; rewrite it before it is parted");
    }
    let names_table = |inst: &InstData| match &inst.inst {
        Inst::Extern { args, .. } => args.iter().any(|arg| matches!(arg, Arg::Table(t) if *t == id)),
        _ => false,
    };
    if pipeline.insts().any(names_table) {
        return refused("an action calls something that belongs to the entry that was hit; leave it as it is");
    }
    Ok(table)
}

/// Adds code at the end of a block that has no terminator yet, or before it.
pub(super) struct Code<'a> {
    pub body: &'a mut Body,
    pub block: Block,
    pub loc: Loc,
}

impl Code<'_> {
    pub(super) fn inst(&mut self, inst: Inst, ty: Type) -> Value {
        let value = self.body.values.push(ty);
        let data = InstData { inst, results: vec![value], loc: self.loc };
        self.body.blocks[self.block].insts.push(data);
        value
    }

    pub(super) fn bits(&mut self, width: u32, value: impl Into<num_bigint::BigUint>) -> Value {
        let value = Const::new(Type::Bit(width), value);
        self.inst(Inst::Const(value), Type::Bit(width))
    }

    pub(super) fn cast(&mut self, ty: Type, value: Value) -> Value {
        if self.body.value_type(value) == ty { value } else { self.inst(Inst::Cast(ty, value), ty) }
    }

    pub(super) fn concat(&mut self, high: Value, low: Value) -> Value {
        let width = self.body.value_type(high).width() + self.body.value_type(low).width();
        self.inst(Inst::Concat(high, low), Type::Bit(width))
    }

    pub(super) fn end(&mut self, term: Term) {
        self.body.blocks[self.block].term = Some(TermData { term, loc: self.loc });
    }

    /// Another block, empty.
    pub(super) fn new_block(&mut self) -> Block {
        self.body.blocks.push(BlockData::default())
    }

    /// A block with the parameters of an action's arm.
    pub(super) fn arm_block(&mut self, params: &[Type]) -> (Block, Vec<Value>) {
        let block = self.new_block();
        let types = std::iter::once(Type::Bool).chain(params.iter().copied());
        let values: Vec<Value> = types.map(|ty| self.body.values.push(ty)).collect();
        self.body.blocks[block].params = values.clone();
        (block, values)
    }
}

/// Takes the application off the end of its block: its keys, its arms, its place in the source.
pub(super) fn take_apply(body: &mut Body, block: Block) -> Option<(Vec<Value>, Vec<Arm>, Loc)> {
    match body.blocks[block].term.take() {
        Some(TermData { term: Term::Apply { keys, arms, .. }, loc }) => Some((keys, arms, loc)),
        other => {
            body.blocks[block].term = other;
            None
        }
    }
}

/// A table like another one with another name, which the control plane of the first pipeline does not see, and without entries.
pub(super) fn like(table: &Table, suffix: &str) -> Table {
    Table {
        preamble: Preamble { name: format!("{}_{suffix}", table.preamble.name), hidden: true, ..Preamble::default() },
        entries: Vec::new(),
        const_entries: false,
        properties: Vec::new(),
        ..table.clone()
    }
}

/// Takes a table out of the pipeline and gives the new number of each old one. Nothing may apply it any more; `heir` is what the number of
/// the removed table becomes (an old number).
pub(super) fn remove(pipeline: &mut Pipeline, removed: TableId, heir: TableId) -> Vec<TableId> {
    let mut kept = EntityMap::new();
    let mut numbers: Vec<TableId> = Vec::new();
    for (id, table) in pipeline.tables.iter() {
        numbers.push(if id == removed { id } else { kept.push(table.clone()) });
    }
    numbers[removed.0 as usize] = numbers[heir.0 as usize];
    pipeline.tables = kept;
    let number = |id: &mut TableId| *id = numbers.get(id.0 as usize).copied().unwrap_or(*id);
    for control in pipeline.controls.values_mut() {
        for block in control.body.blocks.values_mut() {
            for inst in &mut block.insts {
                if let Inst::Extern { args, .. } = &mut inst.inst {
                    for arg in args {
                        if let Arg::Table(table) = arg {
                            number(table);
                        }
                    }
                }
            }
            if let Some(TermData { term: Term::Apply { table, .. }, .. }) = &mut block.term {
                number(table);
            }
        }
    }
    numbers
}
