//! [`LpmTable`]: the longest prefix under an exact key, as gateways have it: (VNI, IP prefix).
//!
//! | what | where |
//! |---|---|
//! | the line of an exact key | `directory.rs` |
//! | a few prefixes in a line, their values beside them | `set.rs` |
//! | many prefixes: a multibit trie | `node.rs` |
//! | which of the two, and of which stride | `build.rs` |
//! | the first 24 bits of a large table without exact keys | `direct/` |
//! | the first 48 bits of one with wider addresses | `levels/` |
//! | what the trie says of all addresses with the same first bits | `painter.rs` |
//! | how prefixes come and go | `forest.rs` |
//! | memory | `pool.rs` for lines, `values.rs` for values that many prefixes share |
//! | lookups | `batch.rs`; what they read and share: `view.rs`; what all keys see first: `root.rs`; in lines: `lines.rs`, `matcher.rs`, eight keys at once `eights.rs`; through nodes, eight keys at once: `lanes.rs` |
//! | addresses beyond 128 bits | `plain.rs` |
//!
//! A million tenants with a few prefixes each cost one random cache line per lookup: the line that the tenant's key hashes to has
//! its prefixes and their (short) values. One tenant with a million prefixes costs one slot of 512 KiB and, mostly, one slot of a
//! few hundred bytes. What is between changes form as it grows and shrinks, each part of a trie for itself.
//! Where these million are the whole table, an entry of a byte or two answers for the first 24 bits, and the trie for what is longer.

mod address;
mod batch;
mod build;
mod direct;
mod directory;
#[cfg(target_arch = "x86_64")]
mod eights;
mod forest;
mod hash;
#[cfg(target_arch = "x86_64")]
mod lanes;
mod levels;
mod lines;
mod matcher;
mod node;
mod painter;
mod plain;
mod pool;
mod root;
mod set;
mod table;
mod values;
mod view;
mod window;

#[cfg(test)]
mod tests;

use plain::PlainTable;
use table::Table;

/// Prefixes with values of opaque bytes, under exact keys.
///
/// One writer, and no reader while it writes (see [`crate`]). Keys and prefixes are 64-bit words, least significant first,
/// packed as [`crate::LookupShape`] says; bits that belong to no key are 0.
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
    width: Width,
}

/// By the width of an address.
#[derive(Clone, Debug)]
enum Width {
    Narrow(Box<Table<u64>>),
    Wide(Box<Table<u128>>),
    Plain(Box<PlainTable>),
}

/// The same call for every width.
macro_rules! each {
    ($table:expr, $inner:ident => $call:expr) => {
        match $table {
            Width::Narrow($inner) => $call,
            Width::Wide($inner) => $call,
            Width::Plain($inner) => $call,
        }
    };
}

impl LpmTable {
    /// An empty table: exact keys of `exact_bits` (0: there is none, and everything is one table), addresses of `lpm_bits` (0 counts
    /// as 1), values of at most `longest_value` bytes.
    pub fn new(exact_bits: u32, lpm_bits: u32, longest_value: usize) -> LpmTable {
        let width = match lpm_bits.max(1) {
            bits @ ..=64 => Width::Narrow(Box::new(Table::new(exact_bits, bits, longest_value))),
            bits @ 65..=128 => Width::Wide(Box::new(Table::new(exact_bits, bits, longest_value))),
            bits => Width::Plain(Box::new(PlainTable::new(exact_bits, bits, longest_value))),
        };
        LpmTable { width }
    }

    /// Adds the prefix of the first `len` bits of `prefix` (as wide as an address), or gives it another value. Whether it was there.
    ///
    /// `exact` has all words of an exact key. Bits of `prefix` behind `len` don't count, nor bytes of `value` beyond the longest;
    /// a shorter value has zeros behind it.
    pub fn insert(&mut self, exact: &[u64], prefix: &[u64], len: u32, value: &[u8]) -> bool {
        each!(&mut self.width, table => table.insert(exact, prefix, len, value))
    }

    /// Removes a prefix. Whether it was there.
    pub fn remove(&mut self, exact: &[u64], prefix: &[u64], len: u32) -> bool {
        each!(&mut self.width, table => table.remove(exact, prefix, len))
    }

    /// The value of the longest prefix that the address has, as long as the table's longest: the exact key's words and then the
    /// address's.
    pub fn lookup(&self, key: &[u64]) -> Option<&[u8]> {
        each!(&self.width, table => table.lookup(key))
    }

    /// The same for as many keys as `out` has room for, one behind the other in `keys`. Gives the first byte of each value, of
    /// which at least 8 may be read whatever its length, 16 if values may be longer, or null. Valid until the table changes.
    pub fn lookup_batch(&self, keys: &[u64], out: &mut [*const u8]) {
        each!(&self.width, table => table.lookup_batch(keys, out));
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        each!(&self.width, table => table.len())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the table takes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<LpmTable>() + each!(&self.width, table => table.memory_bytes())
    }
}
