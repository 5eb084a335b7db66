//! Where to cut, by what the switch holds of each table.

use super::{At, CutError, Stop};
use ir::{
    Arch, Arg, Block, ControlId, ControlKind, CounterUnit, ExternFn, ExternInst, ExternKind, Inst, InstData, Loc,
    Pipeline, Preamble, TableId, Term,
};
use std::collections::{BTreeMap, BTreeSet};

/// How the upper tier holds a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Held {
    /// All its entries.
    Whole,
    /// So many entries at most; a packet that finds none of them goes down.
    Hot(u64),
    /// None: packets that come to the table go down.
    Absent,
}

/// The stops that follow from how tables are held. Tables that are not named are whole; but those that packets write to (they add entries, or keep them from
/// growing too old) are always absent: their entries are in one place.
///
/// # Errors
/// [`CutError::Elsewhere`]: a table that is not whole is applied in a control that cannot be cut.
pub fn stops(pipeline: &Pipeline, held: &BTreeMap<TableId, Held>) -> Result<Vec<Stop>, CutError> {
    let cut = if pipeline.arch == Arch::Pna { ControlKind::MainControl } else { ControlKind::Ingress };
    let mut stops = Vec::new();
    for (control, declared) in pipeline.controls.iter() {
        for (block, data) in declared.body.blocks.iter() {
            let Some(table) = data.applied() else { continue };
            let own = &pipeline.tables[table];
            let name = &own.preamble.name;
            let written = own.add_on_miss || own.idle_timeout;
            let (hot, why) = match held.get(&table) {
                _ if written => (false, format!("packets write to `{name}`")),
                Some(Held::Hot(entries)) => (true, format!("the switch has {entries} entries of `{name}`")),
                Some(Held::Absent) => (false, format!("`{name}` is not on the switch")),
                Some(Held::Whole) | None => continue,
            };
            if declared.kind != cut {
                return Err(CutError::Elsewhere { control: declared.name.clone(), why });
            }
            stops.push(Stop { control, block, at: At::Term, hot, why });
        }
    }
    Ok(stops)
}

/// Gives a table a direct counter that counts its hits, if it has none. v1model counts at each hit by itself; PNA's actions must say so.
pub fn count_hits(pipeline: &mut Pipeline, control: ControlId, table: TableId) {
    if pipeline.tables[table].direct_counter.is_some() {
        return;
    }
    let name = format!("terrace.hits.{}", pipeline.tables[table].preamble.name);
    let preamble = Preamble { name, hidden: true, ..Preamble::default() };
    let kind = ExternKind::DirectCounter { unit: CounterUnit::Both };
    let counter = pipeline.externs.push(ExternInst { preamble, kind, loc: Loc::default() });
    pipeline.tables[table].direct_counter = Some(counter);
    if pipeline.arch != Arch::Pna {
        return;
    }
    let body = &mut pipeline.controls[control].body;
    let mut arms: BTreeSet<Block> = BTreeSet::new();
    for data in body.blocks.values() {
        if let Some(Term::Apply { table: applied, arms: found, .. }) = data.term.as_ref().map(|term| &term.term)
            && *applied == table
        {
            arms.extend(found.iter().map(|arm| arm.block));
        }
    }
    for block in arms {
        let count =
            Inst::Extern { object: Some(counter), func: ExternFn::DirectCounterCount, args: vec![Arg::Table(table)] };
        body.blocks[block].insts.insert(0, InstData::new(count, Vec::new()));
    }
}
