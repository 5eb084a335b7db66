//! [`LpmTable`]: longest prefix match under an exact key, as in (VNI, IP prefix).
//!
//! | content | module |
//! |---|---|
//! | hash table from exact keys to their lines | `directory.rs` |
//! | prefix line: a few prefixes in a cache line, with their values | `prefix_line.rs` |
//! | many prefixes: nodes of a multibit trie | `node.rs` |
//! | choice between lines and nodes, and of strides | `build.rs` |
//! | direct index by the first 24 bits, for large tables without exact keys | `dir24/` |
//! | direct index by the first 48 bits, for wider addresses | `dir16x3/` |
//! | expansion of the trie into entries of a direct index | `prefix_expansion.rs` |
//! | insertion and removal of prefixes | `forest.rs` |
//! | memory | `pool.rs` for lines, `next_hops.rs` for values shared by prefixes |
//! | batch lookups, and their view of a table | `batch.rs`, `view.rs` |
//! | lookups: the first line or node | `root.rs` |
//! | lookups: lines | `directory_lookup.rs`, `matcher.rs`; AVX-512: `directory_avx512.rs` |
//! | lookups: nodes with AVX-512 | `trie_avx512.rs` |
//! | addresses of more than 128 bits | `per_length.rs` |
//!
//! With a million tenants of a few prefixes each, a lookup reads one random cache line: the line of
//! the tenant's key holds its prefixes and their (short) values. A tenant with a million prefixes
//! costs one slot in a node of 512 KiB and usually one slot in a node of a few hundred bytes.
//! Between these extremes each part of a trie changes its form as it grows and shrinks. If a
//! million prefixes are the whole table, an index entry of one or two bytes resolves the first 24
//! bits, and the trie resolves longer prefixes.

mod address;
mod batch;
mod build;
mod dir16x3;
mod dir24;
mod directory;
#[cfg(target_arch = "x86_64")]
mod directory_avx512;
mod directory_lookup;
mod forest;
mod hash;
mod matcher;
mod next_hops;
mod node;
mod per_length;
mod pool;
mod prefix_expansion;
mod prefix_line;
mod root;
mod table;
#[cfg(target_arch = "x86_64")]
mod trie_avx512;
mod view;
mod window;

#[cfg(test)]
mod tests;

use per_length::PerLengthTable;
use table::TypedLpmTable;

/// Prefixes with opaque values, under exact keys.
///
/// One writer, and no reader while it writes (see [`crate`]). Keys and prefixes are 64-bit words,
/// least significant first, packed as described by [`crate::LookupLayout`]; bits outside all keys
/// are 0.
///
/// ```
/// use lookup::lpm::LpmTable;
///
/// let mut routes = LpmTable::new(24, 32, 4);
/// let vni = 7;
/// routes.insert(&[vni], &[0x0a00_0000], 8, &[1, 0, 0, 0]);
/// routes.insert(&[vni], &[0x0a01_0000], 16, &[2, 0, 0, 0]);
/// assert_eq!(routes.lookup(&[vni, 0x0a01_0203]), Some(&[2, 0, 0, 0][..]));
/// routes.remove(&[vni], &[0x0a01_0000], 16);
/// assert_eq!(routes.lookup(&[vni, 0x0a01_0203]), Some(&[1, 0, 0, 0][..]));
/// assert_eq!(routes.lookup(&[8, 0x0a01_0203]), None);
/// ```
#[derive(Clone, Debug)]
pub struct LpmTable {
    variant: LpmVariant,
}

/// Table by address width.
#[derive(Clone, Debug)]
enum LpmVariant {
    Narrow(Box<TypedLpmTable<u64>>),
    Wide(Box<TypedLpmTable<u128>>),
    PerLength(Box<PerLengthTable>),
}

/// Calls the same method for each address width.
macro_rules! with_variant {
    ($table:expr, $inner:ident => $call:expr) => {
        match $table {
            LpmVariant::Narrow($inner) => $call,
            LpmVariant::Wide($inner) => $call,
            LpmVariant::PerLength($inner) => $call,
        }
    };
}

impl LpmTable {
    /// Creates an empty table with exact keys of `exact_bits` (0: no exact key), addresses of
    /// `lpm_bits` (0 counts as 1) and values of at most `longest_value` bytes.
    pub fn new(exact_bits: u32, lpm_bits: u32, longest_value: usize) -> LpmTable {
        let width = match lpm_bits.max(1) {
            bits @ ..=64 => LpmVariant::Narrow(Box::new(TypedLpmTable::new(exact_bits, bits, longest_value))),
            bits @ 65..=128 => LpmVariant::Wide(Box::new(TypedLpmTable::new(exact_bits, bits, longest_value))),
            bits => LpmVariant::PerLength(Box::new(PerLengthTable::new(exact_bits, bits, longest_value))),
        };
        LpmTable { variant: width }
    }

    /// Inserts the prefix of the first `len` bits of `prefix`, which is as wide as an address, or
    /// replaces its value. Returns whether the prefix existed.
    ///
    /// `exact` holds all words of an exact key. Bits of `prefix` after `len` are ignored, as are
    /// bytes of `value` beyond the maximum length; a shorter value is padded with zeros.
    pub fn insert(&mut self, exact: &[u64], prefix: &[u64], len: u32, value: &[u8]) -> bool {
        with_variant!(&mut self.variant, table => table.insert(exact, prefix, len, value))
    }

    /// Removes a prefix. Returns whether it existed.
    pub fn remove(&mut self, exact: &[u64], prefix: &[u64], len: u32) -> bool {
        with_variant!(&mut self.variant, table => table.remove(exact, prefix, len))
    }

    /// Returns the value of the longest matching prefix, padded to the table's maximum value
    /// length. `key` holds the words of the exact key followed by those of the address.
    pub fn lookup(&self, key: &[u64]) -> Option<&[u8]> {
        with_variant!(&self.variant, table => table.lookup(key))
    }

    /// Looks up consecutive keys, one for each element of `out`. Writes the address of each value,
    /// or null on a miss. At least 8 bytes may be read at that address, or 16 if the table has
    /// longer values. Valid until the table changes.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        with_variant!(&self.variant, table => table.lookup_batch(keys, out));
    }

    /// Returns the number of prefixes.
    pub fn len(&self) -> usize {
        with_variant!(&self.variant, table => table.len())
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the allocated memory in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<LpmTable>() + with_variant!(&self.variant, table => table.memory_bytes())
    }
}
