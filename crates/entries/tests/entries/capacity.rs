//! Inserts a million entries in reasonable time and memory.

use crate::pipeline::*;
use entries::*;
use std::time::{Duration, Instant};

/// Returns the resident memory in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[test]
fn a_million_routes() {
    let mut s = sample();
    let before = resident();
    let mut batch = WriteBatch::new();
    for n in 0..1_000_000u128 {
        batch.insert(s.route(n / 1000, (n % 1000) << 12, 20, n % 512));
    }
    let start = Instant::now();
    let changes = s.state.apply(&batch).unwrap();
    let took = start.elapsed();
    drop(changes);
    drop(batch);
    assert_eq!(s.state.entry_count(s.routes), 1_000_000);
    let found = s.state.lookup(s.routes, &[big(999), big(999 << 12 | 5)]).unwrap();
    assert_eq!(found.action(), StoredActionRef::Call(s.forward, &[999_999 % 512, 0]));
    // Generous bounds, because the build may be unoptimised and the machine busy. They catch
    // quadratic time and waste.
    assert!(took < Duration::from_secs(30), "{took:?}");
    let used = resident().saturating_sub(before);
    assert!(used < 1 << 30, "{} MiB", used >> 20);
}

/// Deletes all entries in one batch.
#[test]
fn emptying() {
    let mut s = sample();
    let all: Vec<TableEntry> = (0..50_000u128).map(|n| s.acl(n, 1)).collect();
    let each = |kind| all.iter().map(move |e| StateUpdate::Entry(kind, e.clone())).collect::<WriteBatch>();
    s.state.apply(&each(UpdateKind::Insert)).unwrap();
    s.state.apply(&each(UpdateKind::Delete)).unwrap();
    assert_eq!(s.state.entry_count(s.acl), 0);
}
