//! Entries that are added and removed while another core looks up continuously: the overlay's
//! tables in [`lookup::LiveTables`]. The time includes the control plane's checks, its own state,
//! and both copies of the lookups. Entries are packed in advance ([`entries::PackedEntry`]), as a
//! server builds them from the bytes that it receives.

#![allow(unsafe_code)] // what a lookup points to is read

use crate::machine;
use crate::program::{BenchProgram, Program};
use crate::report::Report;
use crate::run::{Options, format_count};
use crate::workload::{Entries, TenantLayout, Workload};
use anyhow::ensure;
use entries::{StateUpdate, TableEntry, UpdateKind, WriteBatch, WriteError};
use ir::TableId;
use lookup::{LeftRightReader, LiveTables};
use std::hint::black_box;
use std::path::Path;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Number of entries in a bulk batch.
const BULK: usize = 50_000;

/// Number of rounds of each kind of change; the median is reported.
const ROUNDS: usize = 5;

/// Number of keys in a lookup.
const BATCH: usize = 256;

/// Returns the group of the results in the report.
pub fn group(vms: usize) -> String {
    format!("VMs added and removed under lookups, {} of many tenants", format_count(vms))
}

/// Rates that are judged.
pub const RATES: [&str; 4] = ["inserts in bulk", "deletes in bulk", "inserts one at a time", "deletes one at a time"];

/// Number of VMs for which rates are judged.
pub const JUDGED: usize = 1_000_000;

/// Measures changes in bulk, one at a time, and one at a time until readers see each.
///
/// # Errors
/// If the program is missing, a write is refused, or a reader misses an existing entry.
pub fn run(programs: &Path, core: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    if machine::cores() < 2 {
        report.note("updates: left out: it takes two cores");
        return Ok(());
    }
    let program = Program::load(BenchProgram::Overlay, programs)?;
    let vms = if options.quick { 100_000 } else { JUDGED };
    let world = Workload { layout: TenantLayout::ManyTenants, vms };
    let mut live = LiveTables::new(program.pipeline.clone(), |_| false)?;
    let entries = Entries::new(world, &program)?;
    entries.write_all(|batch| live.write(batch).map(drop))?;
    let new_vms = if options.quick { 20_000 } else { 200_000 };
    let mut added = Vec::new();
    entries.write_subset(0..0, vms..vms + new_vms, |batch| {
        added.extend(batch.updates.iter().filter_map(|update| match update {
            StateUpdate::Entry(_, entry) => Some(entry.clone()),
            _ => None,
        }));
        Ok::<(), WriteError>(())
    })?;
    let table = entries.vm_table();
    let keys: Vec<u64> = (0..1usize << 16).map(|index| vm_key(world, index.wrapping_mul(0x9e37_79b1) % vms)).collect();
    let (stop, reader) = (AtomicBool::new(false), live.reader());
    let reader_core = if core == 0 { 1 } else { 0 };
    let reader_result = std::thread::scope(|scope| {
        let reader_thread = scope.spawn(|| {
            machine::pin_to_core(reader_core);
            measure_lookups(reader, table, &keys, &stop)
        });
        let outcome = measure_writes(&mut live, &added, vms, report);
        stop.store(true, Ordering::Relaxed);
        outcome.map(|()| reader_thread.join())
    })?;
    let (rate, missed) = reader_result.map_err(|_| anyhow::anyhow!("the reader panics"))?;
    ensure!(missed == 0, "updates: {missed} lookups do not find VMs that were there all the time");
    report.fact(&group(vms), "lookups meanwhile, on another core", rate / 1e6, "M/s");
    Ok(())
}

/// Measures each kind of change: all inserts, then all deletes, so that the table is unchanged at
/// the end.
fn measure_writes(
    live: &mut LiveTables,
    entries: &[TableEntry],
    vms: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let group = group(vms);
    let state = live.state();
    let batches = |kind: UpdateKind, size: usize| -> anyhow::Result<Vec<WriteBatch>> {
        let packed = |entry: &TableEntry| Ok(StateUpdate::Packed(kind, state.pack_entry(kind, entry)?));
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
                live.write_deferred(batch)?;
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
        let mut times_us = Vec::with_capacity(entries.len());
        for batch in batches {
            let start = Instant::now();
            live.write(batch)?;
            times_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times_us.sort_by(f64::total_cmp);
        for (fraction, quantile) in [(0.5, "median"), (0.99, "p99")] {
            let index = ((times_us.len() as f64 * fraction) as usize).min(times_us.len() - 1);
            report.fact(&group, &format!("one {name} until readers see it, {quantile}"), times_us[index], "us");
        }
    }
    Ok(())
}

/// Looks up until `stop` is set. Returns the lookups per second, and the number of misses.
fn measure_lookups(mut reader: LeftRightReader, table: TableId, keys: &[u64], stop: &AtomicBool) -> (f64, u64) {
    let (mut out, mut looked, mut missed) = (vec![null(); BATCH], 0u64, 0);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        for keys in keys.chunks(BATCH) {
            reader.acquire().lookup_batch(table, keys, &mut out[..keys.len()]);
            missed += out.iter().filter(|found| found.is_null()).count() as u64;
            // SAFETY: 8 bytes of a found value are readable until the reader enters again.
            let first = |found: &*const u8| if found.is_null() { 0 } else { unsafe { **found } };
            black_box(out.iter().fold(0, |sum, found| sum ^ first(found)));
            looked += keys.len() as u64;
        }
    }
    (looked as f64 / start.elapsed().as_secs_f64().max(1e-9), missed)
}

/// Returns a VM's key as lookups take it: the address, which is the wider part, first.
fn vm_key(world: Workload, number: usize) -> u64 {
    let vm = world.vm(number);
    u64::from(vm.address) | u64::from(vm.to_vni) << 32
}
