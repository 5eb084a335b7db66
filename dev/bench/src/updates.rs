//! Entries that come and go while another core looks up without a pause: the overlay's tables in [`lookup::Live`], which the control
//! plane's checks, its own state, and both copies of the lookups are part of. Entries are packed before ([`entries::PackedEntry`]), as a
//! server makes them of the bytes that it gets.

#![allow(unsafe_code)] // what a lookup points to is read

use crate::machine;
use crate::program::{Kind, Program};
use crate::report::Report;
use crate::run::{Options, count};
use crate::world::{Entries, Layout, World};
use anyhow::ensure;
use entries::{TableEntry, Update, UpdateKind, WriteBatch, WriteError};
use ir::TableId;
use lookup::{Live, Reader};
use std::hint::black_box;
use std::path::Path;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Entries of a batch in bulk.
const BULK: usize = 50_000;

/// How often each kind of change is made; the median counts.
const ROUNDS: usize = 5;

/// Keys of a lookup.
const BATCH: usize = 256;

/// Its place in the report.
pub fn group(vms: usize) -> String {
    format!("VMs added and removed under lookups, {} of many tenants", count(vms))
}

/// The rates that are judged.
pub const RATES: [&str; 4] = ["inserts in bulk", "deletes in bulk", "inserts one at a time", "deletes one at a time"];

/// The size that is judged.
pub const JUDGED: usize = 1_000_000;

/// In bulk, one at a time, and one at a time until readers see it.
///
/// # Errors
/// The program is missing, a write is refused, or a reader does not find what is there.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("updates: left out: it takes two cores");
        return Ok(());
    }
    let program = Program::load(Kind::Overlay, programs)?;
    let vms = if options.quick { 100_000 } else { JUDGED };
    let world = World { layout: Layout::ManyTenants, vms };
    let mut live = Live::new(program.pipeline.clone(), |_| false)?;
    let entries = Entries::new(world, &program)?;
    entries.all(|batch| live.write(batch).map(drop))?;
    let more = if options.quick { 20_000 } else { 200_000 };
    let mut added = Vec::new();
    entries.some(0..0, vms..vms + more, |batch| {
        added.extend(batch.updates.iter().filter_map(|update| match update {
            Update::Entry(_, entry) => Some(entry.clone()),
            _ => None,
        }));
        Ok::<(), WriteError>(())
    })?;
    let table = entries.vm_table();
    let keys: Vec<u64> = (0..1usize << 16).map(|at| key(world, at.wrapping_mul(0x9e37_79b1) % vms)).collect();
    let (stop, reader) = (AtomicBool::new(false), live.reader());
    let other = if core == 0 { 1 } else { 0 };
    let looked = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            machine::pin(other);
            read(reader, table, &keys, &stop)
        });
        let written = write(&mut live, &added, vms, report);
        stop.store(true, Ordering::Relaxed);
        written.map(|()| reading.join())
    })?;
    let (rate, missed) = looked.map_err(|_| anyhow::anyhow!("the reader panics"))?;
    ensure!(missed == 0, "updates: {missed} lookups do not find VMs that were there all the time");
    report.fact(&group(vms), "lookups meanwhile, on another core", rate / 1e6, "M/s");
    Ok(())
}

/// Each kind of change: all inserts, then all deletes, so that the table is what it was.
fn write(live: &mut Live, entries: &[TableEntry], vms: usize, report: &mut Report) -> anyhow::Result<()> {
    let group = group(vms);
    let state = live.state();
    let batches = |kind: UpdateKind, size: usize| -> anyhow::Result<Vec<WriteBatch>> {
        let packed = |entry: &TableEntry| Ok(Update::Packed(kind, state.pack(kind, entry)?));
        entries.chunks(size).map(|entries| entries.iter().map(packed).collect()).collect()
    };
    let (insert, delete) = (UpdateKind::Insert, UpdateKind::Delete);
    let bulk = [batches(insert, BULK)?, batches(delete, BULK)?];
    let single = [batches(insert, 1)?, batches(delete, 1)?];
    let mut rates: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (batches, rates) in bulk.iter().chain(&single).zip(&mut rates) {
            let start = Instant::now();
            for batch in batches {
                live.write_soon(batch)?;
            }
            live.publish();
            rates.push(entries.len() as f64 / start.elapsed().as_secs_f64() / 1e6);
        }
    }
    for (name, mut rates) in RATES.into_iter().zip(rates) {
        rates.sort_by(f64::total_cmp);
        report.fact(&group, name, rates[ROUNDS / 2], "M/s");
    }
    for (batches, name) in single.iter().zip(["insert", "delete"]) {
        let mut took = Vec::with_capacity(entries.len());
        for batch in batches {
            let start = Instant::now();
            live.write(batch)?;
            took.push(start.elapsed().as_secs_f64() * 1e6);
        }
        took.sort_by(f64::total_cmp);
        for (part, quantile) in [(0.5, "median"), (0.99, "p99")] {
            let at = ((took.len() as f64 * part) as usize).min(took.len() - 1);
            report.fact(&group, &format!("one {name} until readers see it, {quantile}"), took[at], "us");
        }
    }
    Ok(())
}

/// Looks up until it is told to stop: lookups a second, and how many found nothing.
fn read(mut reader: Reader, table: TableId, keys: &[u64], stop: &AtomicBool) -> (f64, u64) {
    let (mut out, mut looked, mut missed) = (vec![null(); BATCH], 0u64, 0);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        for keys in keys.chunks(BATCH) {
            reader.enter().lookup_batch(table, keys, &mut out[..keys.len()]);
            missed += out.iter().filter(|found| found.is_null()).count() as u64;
            // SAFETY: of a value that was found, 8 bytes may be read until the reader enters again.
            let first = |found: &*const u8| if found.is_null() { 0 } else { unsafe { **found } };
            black_box(out.iter().fold(0, |sum, found| sum ^ first(found)));
            looked += keys.len() as u64;
        }
    }
    (looked as f64 / start.elapsed().as_secs_f64().max(1e-9), missed)
}

/// A VM's key as lookups take it: the address, the wider part, first.
fn key(world: World, number: usize) -> u64 {
    let vm = world.vm(number);
    u64::from(vm.address) | u64::from(vm.to_vni) << 32
}
