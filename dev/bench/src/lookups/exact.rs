//! Exact lookups: keys of 8 bytes (24-bit VNI, 32-bit address) and of 20 bytes (VNI, IPv6 address)
//! with values of 8 bytes, uniformly random over the whole table; and rates of table changes.
#![allow(unsafe_code)] // what a lookup points to is read

use crate::peers::Eal;
use crate::peers::hash::Hash;
use crate::report::Report;
use crate::run::{EntrantComparison, Options, Unit, format_count};
use anyhow::ensure;
use lookup::exact::ExactTable;
use std::collections::HashMap;
use std::ptr::null;

/// Number of keys in one step.
const STEP: usize = 4096;

/// Maximum number of looked up keys: enough that the keys of a table of 16M are cold, few enough to
/// stream from memory.
const ASKED: usize = 1 << 20;

/// Batch sizes of our table: that of `rte_hash`, and the largest that the cpu tier uses.
const BATCHES: [usize; 2] = [32, 256];

/// Number of entries that are removed, and of entries that are added, in a step.
const CHANGES: usize = 512;

/// Measures 8-byte and 20-byte keys, 1k, 1M and 16M entries, and changes of tables of up to 1M.
///
/// # Errors
/// If two structures give different results, or memory runs out.
pub fn run(eal: Option<&Eal>, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    for entries in options.sizes(&[1_000, 1_000_000, 16_000_000]) {
        run_lookups::<8>(eal, "exact, 8-byte keys", entries, options, report)?;
        run_lookups::<20>(eal, "exact, 20-byte keys", entries, options, report)?;
    }
    for entries in options.sizes(&[100_000, 1_000_000]) {
        run_bulk(eal, entries, options, report)?;
        run_changes(eal, entries, options, report)?;
    }
    Ok(())
}

/// Measures lookups of existing keys of `K` bytes in random order, in a table with `entries`
/// entries, for our table, `rte_hash` and the standard `HashMap`. All answers are checked first.
fn run_lookups<const K: usize>(
    eal: Option<&Eal>,
    chart: &str,
    entries: usize,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let keys: Vec<[u8; K]> = (0..entries as u64).map(numbered_key::<K>).collect();
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let key_numbers: Vec<usize> = (0..ASKED).map(|_| rng.usize(..entries)).collect();
    let sampled_keys: Vec<[u8; K]> = key_numbers.iter().map(|&number| keys[number]).collect();
    let sampled_words: Vec<u64> = sampled_keys.iter().flat_map(words).collect();
    let table = build_table(&keys);
    eprintln!(
        "{chart} [{}]: {:.1} bytes an entry",
        format_count(entries),
        table.memory_bytes() as f64 / entries as f64
    );
    let mut out = vec![null(); ASKED];
    table.lookup_batch(&sampled_words, &mut out);
    ensure!(
        key_numbers.iter().zip(&out).all(|(&number, &found)| value_of(found) == number as u64 + 1),
        "lookup::exact: a wrong answer"
    );
    let mut comparison = EntrantComparison::new(chart, "entries", format_count(entries), Unit::MillionsPerSecond);
    for batch in BATCHES {
        let (mut position, table, sampled_words) = (0, &table, &sampled_words);
        let mut out = vec![null(); batch];
        comparison.entrant(&format!("terrace, batches of {batch}"), move || {
            let key_words = K.div_ceil(8);
            for keys in next_piece(sampled_words, &mut position, STEP * key_words).chunks(batch * key_words) {
                table.lookup_batch(keys, &mut out);
                // The values are read, because rte_hash returns data and not a pointer.
                std::hint::black_box(out.iter().fold(0, |sum, &found| sum ^ value_of(found)));
            }
            STEP as u64
        });
    }
    if let Some(eal) = eal {
        let mut hash = Hash::<K>::new(eal, entries)?;
        for (number, key) in keys.iter().enumerate() {
            hash.add(key, number as u64 + 1, number)?;
        }
        let mut out = vec![0; STEP];
        for (keys, numbers) in sampled_keys.chunks(STEP).zip(key_numbers.chunks(STEP)) {
            hash.lookup(keys, &mut out);
            ensure!(
                numbers.iter().zip(&out).all(|(&number, &found)| found == number as u64 + 1),
                "rte_hash: a wrong answer"
            );
        }
        let (mut position, sampled_keys) = (0, &sampled_keys);
        comparison.entrant("rte_hash", move || {
            let hits = hash.lookup(next_piece(sampled_keys, &mut position, STEP), &mut out);
            std::hint::black_box(hits) as u64
        });
    }
    if entries <= 1_000_000 {
        let map: HashMap<[u8; K], u64> =
            keys.iter().enumerate().map(|(number, key)| (*key, number as u64 + 1)).collect();
        let (mut position, sampled_keys) = (0, &sampled_keys);
        comparison.entrant("std HashMap", move || {
            let keys = next_piece(sampled_keys, &mut position, STEP);
            std::hint::black_box(keys.iter().filter(|key| map.contains_key(*key)).count()) as u64
        });
    }
    report.push(comparison.run(options));
    Ok(())
}

/// Measures building tables of a size that is known in advance, in entries per second. One copy of
/// each table; the cpu tier holds two.
fn run_bulk(eal: Option<&Eal>, entries: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let keys: Vec<[u8; 8]> = (0..entries as u64).map(numbered_key::<8>).collect();
    let mut comparison = EntrantComparison::new(
        "exact, 8-byte keys, inserts in bulk",
        "entries",
        format_count(entries),
        Unit::MillionsPerSecond,
    );
    comparison.entrant("terrace", || std::hint::black_box(build_table(&keys)).len() as u64);
    if let Some(eal) = eal {
        // Built once before the comparison, to know that it succeeds.
        fill(&mut Hash::new(eal, entries)?, &keys)?;
        comparison.entrant("rte_hash", || {
            let filled = Hash::new(eal, entries).and_then(|mut hash| fill(&mut hash, &keys));
            if filled.is_ok() { entries as u64 } else { 0 }
        });
    }
    report.push(comparison.run(options));
    Ok(())
}

/// Measures removing entries and adding others, one at a time, in a table of constant size, in
/// changes per second.
fn run_changes(eal: Option<&Eal>, entries: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let keys: Vec<[u8; 8]> = (0..entries as u64).map(numbered_key::<8>).collect();
    let chart = "exact, 8-byte keys, one insert and one delete";
    let mut table = build_table(&keys);
    let mut comparison = EntrantComparison::new(chart, "entries", format_count(entries), Unit::MillionsPerSecond);
    let mut oldest = 0;
    comparison.entrant("terrace", move || {
        for number in oldest..oldest + CHANGES as u64 {
            table.remove(&[u64::from_le_bytes(numbered_key(number))]);
            let key = [u64::from_le_bytes(numbered_key(number + entries as u64))];
            table.insert(&key, &(number + 1).to_le_bytes());
        }
        oldest += CHANGES as u64;
        2 * CHANGES as u64
    });
    if let Some(eal) = eal {
        let mut hash = Hash::new(eal, entries)?;
        fill(&mut hash, &keys)?;
        let mut oldest = 0;
        comparison.entrant("rte_hash", move || {
            for number in oldest..oldest + CHANGES as u64 {
                hash.delete(&numbered_key(number));
                if hash.add(&numbered_key(number + entries as u64), number + 1, 0).is_err() {
                    return 0;
                }
            }
            oldest += CHANGES as u64;
            2 * CHANGES as u64
        });
    }
    report.push(comparison.run(options));
    Ok(())
}

fn build_table<const K: usize>(keys: &[[u8; K]]) -> ExactTable {
    let mut table = ExactTable::new(8 * K as u32, 8);
    table.reserve(keys.len());
    let key_words = |key: &[u8; K]| {
        let mut room = [0; 3];
        room.iter_mut().zip(words(key)).for_each(|(room, word)| *room = word);
        room
    };
    for (at, key) in keys.iter().enumerate() {
        if let Some(soon) = keys.get(at + 12) {
            table.prefetch(&key_words(soon)[..K.div_ceil(8)]);
        }
        table.insert(&key_words(key)[..K.div_ceil(8)], &(at as u64 + 1).to_le_bytes());
    }
    table
}

/// Returns a key in the form of `entries`: words, least significant first.
fn words<const K: usize>(key: &[u8; K]) -> impl Iterator<Item = u64> {
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    key.chunks(8).map(word)
}

/// Returns the data of a lookup result; 0 for a miss.
fn value_of(found: *const u8) -> u64 {
    // SAFETY: `lookup_batch` returned the pointer, and at least 8 bytes are readable there, because
    // the table has not changed since.
    if found.is_null() { 0 } else { unsafe { found.cast::<u64>().read_unaligned() } }
}

fn fill(hash: &mut Hash<'_, 8>, keys: &[[u8; 8]]) -> Result<(), crate::peers::PeerError> {
    keys.iter().enumerate().try_for_each(|(at, key)| hash.add(key, at as u64 + 1, at))
}

/// Returns the next piece of the keys, cyclically.
fn next_piece<'k, T>(asked: &'k [T], at: &mut usize, step: usize) -> &'k [T] {
    let start = *at;
    *at = if start + 2 * step > asked.len() { 0 } else { start + step };
    &asked[start..start + step]
}
/// Returns key number `number`: 64 VMs per VNI, addresses of one /16 per VNI.
fn numbered_key<const K: usize>(number: u64) -> [u8; K] {
    let (vni, host) = ((number >> 6) as u32 + 1, 0x0a00_0000 | (number as u32 & 63) << 4 | 1);
    let mut key = [0; K];
    key[..4].copy_from_slice(&vni.to_le_bytes());
    if K == 8 {
        key[4..8].copy_from_slice(&host.to_le_bytes());
    } else {
        key[4..8].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        key[16..20].copy_from_slice(&host.to_be_bytes());
    }
    key
}
