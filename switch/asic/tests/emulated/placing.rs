//! Random placements that keep the order of a program.

use asic::emulate::{ParallelSplit, PipeSpread, PlacedPart, PlacedTable, PlacementMap};
use fastrand::Rng;
use ir::{Arch, ControlKind, Entity, ExternFn, Inst, MatchKind, Pipeline, TableId, Terminator};
use std::collections::BTreeSet;

/// Stages of the tested chip.
pub const STAGES: u32 = 96;

/// Returns the tables of a control in an order in which packets can reach them. `Err`: some packet
/// reaches a table twice.
pub fn tables(control: &ir::Control) -> Result<Vec<TableId>, String> {
    let body = &control.body;
    let order = ir::reverse_postorder(body);
    let mut seen = Vec::new();
    let mut sites = Vec::new();
    for block in &order {
        if let Some(Terminator::Apply { table, .. }) = body.blocks[*block].term.as_ref().map(|term| &term.term) {
            sites.push((*block, *table));
            if !seen.contains(table) {
                seen.push(*table);
            }
        }
    }
    for (block, table) in &sites {
        // Whether a path from the table's successors reaches the table again.
        let mut open = body.blocks[*block].successors();
        let mut done = BTreeSet::new();
        while let Some(next) = open.pop() {
            if !done.insert(next.index()) {
                continue;
            }
            if sites.iter().any(|(at, of)| *at == next && of == table) {
                return Err("applied twice: a table on one way".to_owned());
            }
            open.extend(body.blocks[next].successors());
        }
    }
    Ok(seen)
}

fn calls(pipeline: &Pipeline, kind: Option<ControlKind>, wanted: &[ExternFn]) -> bool {
    let controls = pipeline.controls.values().filter(|control| kind.is_none_or(|kind| control.kind == kind));
    let insts = controls.flat_map(|control| control.body.blocks.values()).flat_map(|block| &block.insts);
    insts.into_iter().any(|data| matches!(&data.inst, Inst::Extern { func, .. } if wanted.contains(func)))
}

/// Returns a random placement: tables follow each other in stages and passes, and some are split
/// into parts. With `wild`, tables are in any passes, which the order of the program may forbid.
pub fn random(pipeline: &Pipeline, seed: u64, wild: bool) -> Result<PlacementMap, String> {
    let mut rng = Rng::with_seed(seed ^ 0x0a51c);
    let folds = *rng.choice(&[1, 1, 2, 4]).unwrap_or(&1);
    let passes = PlacementMap::folded_passes(folds);
    let last = passes.len() as u32 - 1;
    // Start of egress.
    let boundary = match pipeline.arch {
        Arch::V1Model => 2 * rng.u32(0..folds) + 1,
        Arch::Pna => last,
    };
    let mut placed = PlacementMap { stages: STAGES, passes, ..PlacementMap::default() };
    let mut split = BTreeSet::new();
    for control in pipeline.controls.values() {
        let (first, end) = match control.kind {
            ControlKind::Egress => (boundary, last),
            ControlKind::Ingress => (0, boundary - 1),
            ControlKind::PreControl => (0, 0),
            _ => (0, last),
        };
        let stays = calls(pipeline, Some(control.kind), &[ExternFn::Assert, ExternFn::Assume])
            || control.kind == ControlKind::Ingress
                && calls(pipeline, Some(control.kind), &[ExternFn::Clone, ExternFn::Resubmit]);
        let end = if stays { first } else { end };
        let (mut pass, mut stage) = (first, 0);
        for table in tables(control)? {
            if wild {
                pass = rng.u32(first..=end);
            }
            while !wild && pass < end && rng.u8(..3) == 0 {
                (pass, stage) = (pass + 1, 0);
            }
            stage += rng.u32(0..2);
            // State of an entry is stored with the entry.
            let declared = &pipeline.tables[table];
            let keeps = declared.direct_counter.is_some()
                || declared.direct_meter.is_some()
                || declared.idle_timeout
                || declared.add_on_miss;
            let until = if keeps { pass } else { end };
            let table_placed = parts(&mut rng, (&mut pass, &mut stage, until));
            let fresh = table_placed.parts.iter().all(|part| !split.contains(&part.pass));
            let keys = &pipeline.tables[table].keys;
            let key = rng.usize(..keys.len().max(1));
            let spread = fresh && rng.u8(..4) == 0 && keys.get(key).is_some_and(|key| key.kind != MatchKind::Selector);
            if spread {
                split.extend(table_placed.parts.iter().map(|part| part.pass));
            }
            let by = [PipeSpread::Bit(rng.u32(..4)), PipeSpread::Parity, PipeSpread::Hash][rng.usize(..3)];
            let pipes = if by == PipeSpread::Parity { 2 } else { rng.u32(1..5) };
            let split = spread.then_some(ParallelSplit { key, by, pipes });
            if placed.tables.insert(table, PlacedTable { split, ..table_placed }).is_some() {
                return Err("applied twice: a table in two controls".to_owned());
            }
        }
    }
    Ok(placed)
}

/// Returns the parts of one table from a position on; the next table follows after them.
fn parts(rng: &mut Rng, (pass, stage, end): (&mut u32, &mut u32, u32)) -> PlacedTable {
    let count = if rng.u8(..3) == 0 { rng.u32(2..5) } else { 1 };
    let mut parts = Vec::new();
    for index in 0..count {
        let capacity = if index + 1 == count { 1 << 40 } else { rng.u64(0..6) };
        parts.push(PlacedPart { pass: *pass, stage: *stage, capacity });
        *stage += 1;
        if index + 1 < count && *pass < end && rng.u8(..4) == 0 {
            *pass += 1;
        }
    }
    PlacedTable { parts, split: None }
}
