//! `rte_fib`: DIR-24-8 for IPv4 in one routing table, next hops of 4 bytes, the widest vectors of
//! the machine.

use super::{Eal, PeerError, ffi, unique_name};
use std::ffi::c_void;
use std::marker::PhantomData;

/// An `rte_fib` table. Addresses are in host order.
#[derive(Debug)]
pub struct Fib<'e> {
    fib: *mut c_void,
    eal: PhantomData<&'e Eal>,
}

impl<'e> Fib<'e> {
    /// Creates an empty table for `routes` routes. At most `long` different /24 contain longer
    /// routes.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(_eal: &'e Eal, routes: usize, long: usize) -> Result<Fib<'e>, PeerError> {
        let error = PeerError::Create { library: "rte_fib", entries: routes };
        let max = u32::try_from(routes + 16).map_err(|_| error.clone())?;
        let tbl8 = u32::try_from(long.max(256)).map_err(|_| error.clone())?;
        // SAFETY: the name is a C string; the library checks the other arguments.
        let fib = unsafe { ffi::tb_fib_new(unique_name().as_ptr(), max, tbl8) };
        if fib.is_null() { Err(error) } else { Ok(Fib { fib, eal: PhantomData }) }
    }

    /// Adds or replaces a route. Next hops start at 1, because 0 is "no route".
    ///
    /// # Errors
    /// If the table is full. The error contains `index`.
    pub fn add(&mut self, ip: u32, depth: u8, next_hop: u64, index: usize) -> Result<(), PeerError> {
        // SAFETY: the table is alive.
        match unsafe { ffi::tb_fib_add(self.fib, ip, depth, next_hop) } {
            0 => Ok(()),
            code => Err(PeerError::Refused { library: "rte_fib", index, code }),
        }
    }

    /// Removes a route. Returns whether it existed.
    pub fn delete(&mut self, ip: u32, depth: u8) -> bool {
        // SAFETY: the table is alive.
        unsafe { ffi::tb_fib_delete(self.fib, ip, depth) == 0 }
    }

    /// Looks up all addresses, in bulks of 32. Writes the next hops to `out`.
    pub fn lookup(&self, ips: &mut [u32], out: &mut [u64]) {
        let n = ips.len().min(out.len()).min(u32::MAX as usize);
        // SAFETY: both arrays have at least `n` elements.
        unsafe { ffi::tb_fib_lookup(self.fib, ips.as_mut_ptr(), out.as_mut_ptr(), n as u32) };
    }
}

impl Drop for Fib<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created by the library and is freed once.
        unsafe { ffi::tb_fib_free(self.fib) };
    }
}
