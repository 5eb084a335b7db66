//! The engines that a gateway can run on: those of a node, with room on a chip for what the region has.

use super::stats::{Count, CounterCell};
use ir::{ExternKind, Pipeline, TableId};
use node::engine::{Controlled, Room};
use packet::{ReasonId, ReasonTable};
use std::collections::BTreeMap;
use tables::{Update, UpdateKind, WriteBatch};

/// The most cells of one counter that are looked at.
const MAX_CELLS: u64 = 1 << 21;

/// Entries that a chip has room for in each table at least, unless the program gives it a smaller size. It also has as many elements of each counter,
/// meter and register: a program declares them for all numbers that there can be, which no chip holds.
const LEAST_ROOM: u64 = 512;

/// Room for twice the entries that are to be written at first, and for some where there are few; never more than the program declares.
pub fn room(pipeline: &Pipeline, entries: &WriteBatch) -> Room {
    let mut count: BTreeMap<TableId, u64> = BTreeMap::new();
    for update in &entries.updates {
        match update {
            Update::Entry(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            Update::Packed(UpdateKind::Insert, entry) => *count.entry(entry.table).or_default() += 1,
            _ => {}
        }
    }
    let room = |(id, table): (TableId, &ir::Table)| {
        let own = table.entries.len() as u64;
        let wanted = (2 * count.get(&id).copied().unwrap_or(0)).max(LEAST_ROOM).max(own);
        (table.preamble.name.clone(), table.size.map_or(wanted, |size| wanted.min(size.max(1))))
    };
    Room { sizing: None, tables: pipeline.tables.iter().map(room).collect(), others: LEAST_ROOM }
}

/// The program's counters that are not zero.
pub fn counters(engine: &dyn Controlled, reasons: &ReasonTable) -> Vec<CounterCell> {
    let mut cells = Vec::new();
    for (id, object) in engine.pipeline().externs.iter() {
        let ExternKind::Counter { size, .. } = object.kind else { continue };
        let name = &object.preamble.name;
        // A counter of drops or punts is indexed by the program's own reasons.
        let by_reason = name.rsplit('.').next().is_some_and(|last| matches!(last, "drops" | "punts"));
        for (index, value) in engine.counted(id, size.min(MAX_CELLS)) {
            let reason = u32::try_from(index).ok().and_then(|index| reasons.get(ReasonId(index)));
            cells.push(CounterCell {
                counter: name.clone(),
                index,
                label: reason.filter(|_| by_reason).map(str::to_owned),
                count: Count { packets: value.packets, bytes: value.bytes },
            });
        }
    }
    cells
}
