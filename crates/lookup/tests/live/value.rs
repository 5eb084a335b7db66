//! Reading the values that lookups give: the one place of these tests that needs `unsafe`.

#![allow(unsafe_code)]

use ir::TableId;
use lookup::Lookups;

/// The first bytes of a value; `None` for a miss.
pub fn bytes(_holder: &Lookups, value: *const u8, len: usize) -> Option<Vec<u8>> {
    // SAFETY: the callers pass what `_holder` has just given, with a length that the value has by its layout.
    (!value.is_null()).then(|| unsafe { std::slice::from_raw_parts(value, len) }.to_vec())
}

/// [`Lookups::resolve`] of a value that `lookups` has just given.
pub fn resolve(lookups: &Lookups, table: TableId, value: *const u8, hash: u64) -> *const u8 {
    // SAFETY: as above.
    unsafe { lookups.resolve(table, value, || hash) }
}

/// Sums up all bytes that may be read of each value: a value's memory must be there for as long as its copy is held.
pub fn read_all(_holder: &Lookups, values: &[*const u8]) -> u64 {
    let hits = values.iter().filter(|value| !value.is_null());
    // SAFETY: at least 8 bytes may be read of any value.
    hits.map(|value| u64::from_le_bytes(unsafe { value.cast::<[u8; 8]>().read() })).fold(0, u64::wrapping_add)
}
