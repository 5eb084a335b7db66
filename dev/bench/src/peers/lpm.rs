//! `rte_lpm`: DIR-24-8 for IPv4, the older of DPDK's two implementations.

use super::{Eal, PeerError, ffi, unique_name};
use std::ffi::c_void;
use std::marker::PhantomData;

/// An `rte_lpm` table. Addresses are in host order. Adding a route takes time proportional to the
/// number of routes: a million routes take a minute.
#[derive(Debug)]
pub struct Lpm<'e> {
    lpm: *mut c_void,
    eal: PhantomData<&'e Eal>,
}

impl<'e> Lpm<'e> {
    /// Creates an empty table for `routes` routes. At most `long` different /24 contain longer
    /// routes.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(_eal: &'e Eal, routes: usize, long: usize) -> Result<Lpm<'e>, PeerError> {
        let error = PeerError::Create { library: "rte_lpm", entries: routes };
        let max = u32::try_from(routes + 16).map_err(|_| error.clone())?;
        let tbl8 = u32::try_from(long.max(256)).map_err(|_| error.clone())?;
        // SAFETY: the name is a C string; the library checks the other arguments.
        let lpm = unsafe { ffi::tb_lpm_new(unique_name().as_ptr(), max, tbl8) };
        if lpm.is_null() { Err(error) } else { Ok(Lpm { lpm, eal: PhantomData }) }
    }

    /// Adds or replaces a route. Next hops are 1 to 2^24 - 1.
    ///
    /// # Errors
    /// If the table is full. The error contains `index`.
    pub fn add(&mut self, ip: u32, depth: u8, next_hop: u32, index: usize) -> Result<(), PeerError> {
        // SAFETY: the table is alive.
        match unsafe { ffi::tb_lpm_add(self.lpm, ip, depth, next_hop) } {
            0 => Ok(()),
            code => Err(PeerError::Refused { library: "rte_lpm", index, code }),
        }
    }

    /// Looks up all addresses, in bulks of 32. Writes the next hops, or 0, to `out`.
    pub fn lookup(&self, ips: &[u32], out: &mut [u32]) {
        let n = ips.len().min(out.len()).min(u32::MAX as usize);
        // SAFETY: both arrays have at least `n` elements.
        unsafe { ffi::tb_lpm_lookup(self.lpm, ips.as_ptr(), out.as_mut_ptr(), n as u32) };
    }
}

impl Drop for Lpm<'_> {
    fn drop(&mut self) {
        // SAFETY: it was created by the library and is freed once.
        unsafe { ffi::tb_lpm_free(self.lpm) };
    }
}
