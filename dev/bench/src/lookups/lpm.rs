//! Longest prefix match: a full routing table, IPv4 and IPv6, compared with DPDK's; routes of a
//! million VNIs; cost of changes.
//!
//! Addresses are uniformly random over the routes, and random after each route's prefix. The keys
//! of a step are first copied to hot memory, as if a pipeline's stage had just written them. The
//! copy is not timed for any entrant.
#![allow(unsafe_code)] // what a lookup points to is read

use crate::data;
use crate::peers::Eal;
use crate::peers::fib::Fib;
use crate::peers::fib6::Fib6;
use crate::report::Report;
use crate::run::{CallResult, Clock, EntrantComparison, Options, Unit, format_count};
use anyhow::ensure;
use lookup::lpm::LpmTable;
use std::collections::HashSet;
use std::time::Instant;

/// Name of the chart of a full IPv4 table.
pub const IPV4: &str = "lpm, IPv4, one table";
/// Name of the chart of a full IPv6 table.
pub const IPV6: &str = "lpm, IPv6, one table";

/// Number of addresses, which are cycled through.
const ASKED: usize = 1 << 20;
/// Number of keys in a step. They are hot when its time starts.
const STEP: usize = 1024;
/// Number of keys in a batch. DPDK uses bulks of 32, which are fastest for it.
const BATCH: usize = 256;
/// Number of next hops: few, as in routers.
const HOPS: u64 = 100;
/// Number of routes that are removed and added again in a step that measures updates.
const UPDATES: usize = 256;

/// Measures a full table of each family, if the data set is available, and many tenants' routes.
///
/// # Errors
/// If two structures give different results, or memory runs out.
pub fn run(eal: Option<&Eal>, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    match data::bgp_v4() {
        Ok(routes) => run_ipv4(eal, &routes, options, report)?,
        Err(error) => report.note(format!("without IPv4 routes: {error}")),
    }
    match data::bgp_v6() {
        Ok(routes) => run_ipv6(eal, &routes, options, report)?,
        Err(error) => report.note(format!("without IPv6 routes: {error}")),
    }
    for vnis in options.sizes(&[1, 1_000, 250_000, 1_000_000]) {
        run_tenants(vnis, options, report)?;
    }
    Ok(())
}

/// Number of nodes with 256 children for `rte_fib6`. Many are needed, because its prefixes are
/// expanded through several levels.
const FIB6_NODES: usize = 1 << 18;

/// Measures lookups and updates in a table with all IPv4 routes of the data set. Half the lookups
/// match more bits than the route has. The next hops of both systems are compared first.
fn run_ipv4(eal: Option<&Eal>, routes: &[(u32, u8)], options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut table = LpmTable::new(0, 32, 8);
    let load_start = Instant::now();
    for (number, &(address, len)) in routes.iter().enumerate() {
        table.insert(&[], &[u64::from(address)], u32::from(len), &next_hop(number).to_le_bytes());
    }
    note_load("LPM, IPv4", &table, load_start, report);
    let addresses: Vec<u32> = (0..ASKED)
        .map(|_| {
            let (address, len) = routes[rng.usize(..routes.len())];
            address | rng.u32(..).checked_shr(u32::from(len)).unwrap_or(0)
        })
        .collect();
    let keys: Vec<u64> = addresses.iter().map(|&address| u64::from(address)).collect();
    let mut fib = eal.map(|eal| Fib::new(eal, routes.len(), count_long_tables(routes))).transpose()?;
    if let Some(fib) = &mut fib {
        for (number, &(address, len)) in routes.iter().enumerate() {
            fib.add(address, len, next_hop(number), number)?;
        }
        let mut out = vec![0; ASKED];
        fib.lookup(&mut addresses.clone(), &mut out);
        ensure!(out == look_up_all(&table, &keys), "rte_fib and ours give different next hops");
    }
    let mut comparison = EntrantComparison::new(IPV4, "routes", routes.len().to_string(), Unit::MillionsPerSecond);
    if let Some(fib) = &fib {
        let (mut position, mut step_addresses, mut out) = (0, vec![0; STEP], vec![0; STEP]);
        comparison.entrant("rte_fib", move || {
            step_addresses.copy_from_slice(next_piece(&addresses, STEP, &mut position));
            let clock = Clock::start();
            fib.lookup(&mut step_addresses, &mut out);
            step_result(clock)
        });
    }
    comparison.entrant("terrace", our_entrant(&table, &keys, 1));
    report.push(comparison.run(options));

    let mut comparison =
        EntrantComparison::new("updates of routes, IPv4", "routes", routes.len().to_string(), Unit::MillionsPerSecond);
    if let Some(mut fib) = fib {
        let mut rng = rng.clone();
        comparison.entrant("rte_fib", move || {
            for _ in 0..UPDATES {
                let number = rng.usize(..routes.len());
                let (address, len) = routes[number];
                let was_there = fib.delete(address, len) && fib.add(address, len, next_hop(number), number).is_ok();
                std::hint::black_box(was_there);
            }
            2 * UPDATES as u64
        });
    }
    comparison.entrant("terrace", || {
        for _ in 0..UPDATES {
            let number = rng.usize(..routes.len());
            let (address, len) = (u64::from(routes[number].0), u32::from(routes[number].1));
            table.remove(&[], &[address], len);
            table.insert(&[], &[address], len, &next_hop(number).to_le_bytes());
        }
        2 * UPDATES as u64
    });
    report.push(comparison.run(options));
    Ok(())
}

/// Measures lookups in a table with all IPv6 routes of the data set.
fn run_ipv6(eal: Option<&Eal>, routes: &[(u128, u8)], options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let mut table = LpmTable::new(0, 128, 8);
    let load_start = Instant::now();
    for (number, &(address, len)) in routes.iter().enumerate() {
        table.insert(&[], &words(address), u32::from(len), &next_hop(number).to_le_bytes());
    }
    note_load("LPM, IPv6", &table, load_start, report);
    let addresses: Vec<u128> = (0..ASKED)
        .map(|_| {
            let (address, len) = routes[rng.usize(..routes.len())];
            address | rng.u128(..).checked_shr(u32::from(len)).unwrap_or(0)
        })
        .collect();
    let keys: Vec<u64> = addresses.iter().flat_map(|&address| words(address)).collect();
    let addresses: Vec<[u8; 16]> = addresses.iter().map(|address| address.to_be_bytes()).collect();
    let fib = match eal.map(|eal| Fib6::new(eal, routes.len(), FIB6_NODES)).transpose()? {
        Some(mut fib) => {
            for (number, &(address, len)) in routes.iter().enumerate() {
                fib.add(&address.to_be_bytes(), len, next_hop(number), number)?;
            }
            let mut out = vec![0; ASKED];
            fib.lookup(&mut addresses.clone(), &mut out);
            ensure!(out == look_up_all(&table, &keys), "rte_fib6 and ours give different next hops");
            Some(fib)
        }
        None => None,
    };
    let mut comparison = EntrantComparison::new(IPV6, "routes", routes.len().to_string(), Unit::MillionsPerSecond);
    if let Some(fib) = &fib {
        let (mut position, mut step_addresses, mut out) = (0, vec![[0; 16]; STEP], vec![0; STEP]);
        comparison.entrant("rte_fib6", move || {
            step_addresses.copy_from_slice(next_piece(&addresses, STEP, &mut position));
            let clock = Clock::start();
            fib.lookup(&mut step_addresses, &mut out);
            step_result(clock)
        });
    }
    comparison.entrant("terrace", our_entrant(&table, &keys, 2));
    report.push(comparison.run(options));
    Ok(())
}

/// Measures routes of tenants: a million of one, or four of each. The value is a scope and a next
/// hop, five bytes, distinct for each route.
fn run_tenants(vnis: usize, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let per_vni = if vnis == 1 { 1_000_000 } else { 4 };
    let mut rng = fastrand::Rng::with_seed(options.seed);
    let route = |vni: u64, index: usize, rng: &mut fastrand::Rng| {
        let len = [24, 16, 24, 20][index % 4];
        let net = if vnis == 1 { rng.u32(..) } else { 0x0a00_0000 | rng.u32(..) >> 8 };
        (vni, net & u32::MAX << (32 - len), len)
    };
    let routes: Vec<(u64, u32, u32)> =
        (0..vnis * per_vni).map(|number| route((number / per_vni) as u64 + 1, number % per_vni, &mut rng)).collect();
    let mut table = LpmTable::new(24, 32, 5);
    let load_start = Instant::now();
    for (number, &(vni, net, len)) in routes.iter().enumerate() {
        table.insert(&[vni], &[u64::from(net)], len, &tenant_value(number));
    }
    note_load(&format!("LPM, {} VNIs", format_count(vnis)), &table, load_start, report);
    let key = |rng: &mut fastrand::Rng| {
        let (vni, net, len) = routes[rng.usize(..routes.len())];
        [vni, u64::from(net | rng.u32(..).checked_shr(len).unwrap_or(0))]
    };
    let keys: Vec<u64> = (0..ASKED).flat_map(|_| key(&mut rng)).collect();
    let mut out = vec![std::ptr::null(); ASKED];
    table.lookup_batch(&keys, &mut out);
    ensure!(out.iter().all(|value| !value.is_null()), "a lookup under a VNI misses");
    let mut comparison = EntrantComparison::new("lpm under a VNI", "VNIs", format_count(vnis), Unit::MillionsPerSecond);
    comparison.entrant("terrace", our_entrant(&table, &keys, 2));
    report.push(comparison.run(options));

    let mut comparison =
        EntrantComparison::new("updates of routes under a VNI", "VNIs", format_count(vnis), Unit::MillionsPerSecond);
    comparison.entrant("terrace", || {
        for _ in 0..UPDATES {
            let number = rng.usize(..routes.len());
            let (vni, net, len) = routes[number];
            table.remove(&[vni], &[u64::from(net)], len);
            table.insert(&[vni], &[u64::from(net)], len, &tenant_value(number));
        }
        2 * UPDATES as u64
    });
    report.push(comparison.run(options));
    Ok(())
}

/// Creates an entrant of our table. Keys have `words` words each.
fn our_entrant<'t>(table: &'t LpmTable, keys: &'t [u64], words: usize) -> impl FnMut() -> CallResult + 't {
    let (mut at, mut hot, mut out) = (0, vec![0; STEP * words], vec![std::ptr::null(); STEP]);
    move || {
        hot.copy_from_slice(next_piece(keys, STEP * words, &mut at));
        let clock = Clock::start();
        for (keys, out) in hot.chunks(BATCH * words).zip(out.chunks_mut(BATCH)) {
            table.lookup_batch(keys, out);
        }
        step_result(clock)
    }
}

/// Returns the result of a step, with the time since `clock` started.
fn step_result(clock: Clock) -> CallResult {
    CallResult { operations: STEP as u64, took: Some(clock.elapsed()) }
}

/// Returns the next `len` elements, cyclically.
fn next_piece<'k, T>(asked: &'k [T], len: usize, at: &mut usize) -> &'k [T] {
    let start = *at;
    *at = if start + 2 * len > asked.len() { 0 } else { start + len };
    &asked[start..start + len]
}

/// Returns the next hop of route number `at`.
fn next_hop(at: usize) -> u64 {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % HOPS + 1
}

/// Returns the value of route number `at` in a VNI.
fn tenant_value(at: usize) -> [u8; 5] {
    let [a, b, c, d, ..] = at.to_le_bytes();
    [1, a, b, c, d]
}

/// Returns the results of our table, 0 for a miss.
fn look_up_all(table: &LpmTable, keys: &[u64]) -> Vec<u64> {
    let mut out = vec![std::ptr::null(); ASKED];
    table.lookup_batch(keys, &mut out);
    // SAFETY: the table is alive, and has 8 bytes for each value.
    out.iter().map(|value| if value.is_null() { 0 } else { unsafe { value.cast::<u64>().read_unaligned() } }).collect()
}

fn words(address: u128) -> [u64; 2] {
    [address as u64, (address >> 64) as u64]
}

fn note_load(name: &str, table: &LpmTable, since: Instant, report: &mut Report) {
    let rate = table.len() as f64 / since.elapsed().as_secs_f64() / 1e6;
    let bytes = table.memory_bytes() as f64 / table.len().max(1) as f64;
    report.note(format!("{name}: {} routes loaded in order at {rate:.1} M/s; {bytes:.0} bytes a route", table.len()));
}

/// Returns the number of second-level tables that DIR-24-8 needs.
fn count_long_tables(routes: &[(u32, u8)]) -> usize {
    routes.iter().filter(|(_, len)| *len > 24).map(|(address, _)| address >> 8).collect::<HashSet<_>>().len()
}
