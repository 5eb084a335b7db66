//! `rte_hash`: cuckoo hashing, CRC-32 of the key, bulk lookups with data, no locks.

use super::{Eal, PeerError, ffi, unique_name};
use std::ffi::c_void;
use std::marker::PhantomData;

/// An `rte_hash` table of keys of `K` bytes and 64-bit data other than 0.
#[derive(Debug)]
pub struct Hash<'e, const K: usize> {
    hash: *mut c_void,
    eal: PhantomData<&'e Eal>,
}

impl<'e, const K: usize> Hash<'e, K> {
    /// Creates an empty table for `entries` keys, with an eighth of spare capacity, because a
    /// cuckoo table cannot be filled completely.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(_eal: &'e Eal, entries: usize) -> Result<Hash<'e, K>, PeerError> {
        let error = PeerError::Create { library: "rte_hash", entries };
        let room = u32::try_from(entries + entries / 8 + 8).map_err(|_| error.clone())?;
        // SAFETY: the name is a C string; the library checks the other arguments.
        let hash = unsafe { ffi::tb_hash_new(unique_name().as_ptr(), room, K as u32) };
        if hash.is_null() { Err(error) } else { Ok(Hash { hash, eal: PhantomData }) }
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    /// If the table is full. The error contains `index`.
    pub fn add(&mut self, key: &[u8; K], data: u64, index: usize) -> Result<(), PeerError> {
        // SAFETY: the table is alive, and keys have the length of its creation.
        match unsafe { ffi::tb_hash_add(self.hash, key.as_ptr(), data) } {
            0.. => Ok(()),
            code => Err(PeerError::Refused { library: "rte_hash", index, code }),
        }
    }

    /// Removes an entry. Returns whether it existed.
    pub fn delete(&mut self, key: &[u8; K]) -> bool {
        // SAFETY: as in `add`.
        unsafe { ffi::tb_hash_delete(self.hash, key.as_ptr()) >= 0 }
    }

    /// Looks up all keys, in bulks of 32. Writes the data, or 0, to `out`. Returns the number of
    /// hits.
    pub fn lookup(&self, keys: &[[u8; K]], out: &mut [u64]) -> usize {
        let n = keys.len().min(out.len()).min(u32::MAX as usize);
        // SAFETY: both arrays have at least `n` elements.
        unsafe { ffi::tb_hash_lookup(self.hash, keys.as_ptr().cast(), K as u32, n as u32, out.as_mut_ptr()) as usize }
    }
}

impl<const K: usize> Drop for Hash<'_, K> {
    fn drop(&mut self) {
        // SAFETY: it was created by the library and is freed once.
        unsafe { ffi::tb_hash_free(self.hash) };
    }
}
