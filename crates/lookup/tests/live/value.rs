//! Access to looked-up values; the only test module that needs `unsafe`.

#![allow(unsafe_code)]

use ir::TableId;
use lookup::LookupSet;

/// Returns the first bytes of a value; `None` for a miss.
pub fn bytes(_holder: &LookupSet, value: *const u8, len: usize) -> Option<Vec<u8>> {
    // SAFETY: callers pass a pointer that `_holder` has just returned, and a length that its layout
    // guarantees.
    (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value, len) }.to_vec())
}

/// Returns [`LookupSet::resolve`] of a value that `lookups` has just returned.
pub fn resolve(lookups: &LookupSet, table: TableId, value: *const u8, hash: u64) -> *const u8 {
    // SAFETY: as above.
    unsafe { lookups.resolve(table, value, || hash) }
}

/// Sums all readable bytes of each value, because a value's memory must be valid while its copy is
/// held.
pub fn read_all(_holder: &LookupSet, values: &[*const u8]) -> u64 {
    let hits = values.iter().filter(|value| !value.is_null());
    // SAFETY: at least 8 bytes may be read of any value.
    hits.map(|value| u64::from_le_bytes(unsafe { value.cast::<[u8; 8]>().read() })).fold(0, u64::wrapping_add)
}
