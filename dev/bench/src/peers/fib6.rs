//! `rte_fib6`: a trie for IPv6 in one routing table, next hops of 4 bytes, the widest vectors of
//! the machine.

use super::{Eal, PeerError, ffi, unique_name};
use std::ffi::c_void;
use std::marker::PhantomData;

/// An `rte_fib6` table. Addresses are in network order.
#[derive(Debug)]
pub struct Fib6<'e> {
    fib: *mut c_void,
    eal: PhantomData<&'e Eal>,
}

impl<'e> Fib6<'e> {
    /// Creates an empty table for `routes` routes that need at most `nodes` nodes with 256
    /// children.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(_eal: &'e Eal, routes: usize, nodes: usize) -> Result<Fib6<'e>, PeerError> {
        let error = PeerError::Create { library: "rte_fib6", entries: routes };
        let max = u32::try_from(routes + 16).map_err(|_| error.clone())?;
        let tbl8 = u32::try_from(nodes.max(256)).map_err(|_| error.clone())?;
        // SAFETY: the name is a C string; the library checks the other arguments.
        let fib = unsafe { ffi::tb_fib6_new(unique_name().as_ptr(), max, tbl8) };
        if fib.is_null() { Err(error) } else { Ok(Fib6 { fib, eal: PhantomData }) }
    }

    /// Adds or replaces a route. Next hops start at 1, because 0 is "no route".
    ///
    /// # Errors
    /// If the table is full. The error contains `index`.
    pub fn add(&mut self, ip: &[u8; 16], depth: u8, next_hop: u64, index: usize) -> Result<(), PeerError> {
        // SAFETY: the table is alive, and an address has 16 bytes.
        match unsafe { ffi::tb_fib6_add(self.fib, ip.as_ptr(), depth, next_hop) } {
            0 => Ok(()),
            code => Err(PeerError::Refused { library: "rte_fib6", index, code }),
        }
    }

    /// Removes a route. Returns whether it existed.
    pub fn delete(&mut self, ip: &[u8; 16], depth: u8) -> bool {
        // SAFETY: as in `add`.
        unsafe { ffi::tb_fib6_delete(self.fib, ip.as_ptr(), depth) == 0 }
    }

    /// Looks up all addresses, in bulks of 32. Writes the next hops to `out`.
    pub fn lookup(&self, ips: &mut [[u8; 16]], out: &mut [u64]) {
        let n = ips.len().min(out.len()).min(u32::MAX as usize);
        // SAFETY: both arrays have at least `n` elements.
        unsafe { ffi::tb_fib6_lookup(self.fib, ips.as_mut_ptr().cast(), out.as_mut_ptr(), n as u32) };
    }
}

impl Drop for Fib6<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created by the library and is freed once.
        unsafe { ffi::tb_fib6_free(self.fib) };
    }
}
