//! Packet buffers: pools, mbufs that came and mbufs that go, and the loan of an mbuf's bytes to a packet.
#![allow(unsafe_code)]

use super::eal;
use super::ffi::{self, Opaque, RawDeparture, RawPacket};
use packet::{Lender, Loan, Packet};
use parking_lot::Mutex;
use std::ffi::CString;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that DPDK's drivers leave free in front of a packet (RTE_PKTMBUF_HEADROOM).
pub(super) const HEADROOM: usize = 128;
/// Bytes of an mbuf besides its data room: `struct rte_mbuf`, the mempool's header, and padding between them.
pub(super) const OVERHEAD: u64 = 128 + 64 + 64;
/// Buffers that a thread keeps at hand (at most RTE_MEMPOOL_CACHE_MAX_SIZE, which is 512).
const CACHE: u32 = 256;

/// Mbufs on loan; the token is the address of the mbuf. Private to this module, so that every such token is one.
static MBUFS: Lender = Lender::new("DPDK", release);

fn release(token: usize) {
    // SAFETY: only `Arrived::lend` makes loans of this lender, with an mbuf that it owned; a token comes back once.
    unsafe { ffi::td_free(std::ptr::with_exposed_provenance_mut(token)) };
}

/// A pool of mbufs. Freed when nothing of it is used any more.
pub(super) struct Pool(*mut Opaque);

// SAFETY: DPDK's mempools can be used by all threads at once.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

/// Pools whose ports are closed while some of their mbufs are still in use: on loan, or in the queue of another device.
static LINGERING: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

impl Pool {
    /// `count` mbufs with `len` bytes behind their headroom, on a NUMA socket (negative: any).
    pub(super) fn new(count: u32, len: u16, socket: i32) -> io::Result<Pool> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let name = CString::new(format!("terrace{}", NEXT.fetch_add(1, Ordering::Relaxed)))?;
        let room = len.checked_add(HEADROOM as u16).ok_or(io::ErrorKind::InvalidInput)?;
        // The caches of threads must not be able to hold all there is.
        let cache = if count / 3 > CACHE { CACHE } else { 0 };
        // SAFETY: the name ends with a zero and lives across the call, which copies it. DPDK has been started.
        let pool = unsafe { ffi::td_pool(name.as_ptr(), count, cache, room, socket) };
        if pool.is_null() { Err(eal::last_error()) } else { Ok(Pool(pool)) }
    }

    pub(super) fn as_ptr(&self) -> *mut Opaque {
        self.0
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool has not been freed: that happens only here. If all its mbufs are in it, nobody else has one, and with
        // the last handle on it gone nobody can get one.
        unsafe {
            if ffi::td_pool_is_full(self.0) != 0 {
                ffi::td_pool_free(self.0);
                return;
            }
        }
        LINGERING.lock().push(Pool(self.0));
    }
}

/// Frees pools whose mbufs have come back meanwhile.
fn sweep() {
    let pools = mem::take(&mut *LINGERING.lock());
    drop(pools);
}

/// A packet that a device received, owned.
pub(super) struct Arrived(RawPacket);

impl Arrived {
    /// # Safety
    /// `packet` describes an mbuf that the caller owns and does not use again.
    pub(super) unsafe fn new(packet: RawPacket) -> Arrived {
        Arrived(packet)
    }

    /// Bytes of all segments.
    pub(super) fn len(&self) -> usize {
        self.0.total as usize
    }

    pub(super) fn segments(&self) -> u16 {
        self.0.segments
    }

    /// The VLAN tags that the device took out, outer first.
    pub(super) fn tags(&self) -> &[u16] {
        &self.0.tags[..usize::from(self.0.vlans.min(2))]
    }

    /// Whether the bytes lie in one piece within the buffer, which is nobody else's: only then they can be lent.
    #[inline]
    pub(super) fn can_be_lent(&self) -> bool {
        let RawPacket { start, len, total, room_len, segments, alone, .. } = self.0;
        let inside = start.checked_add(len).is_some_and(|end| end <= room_len);
        segments == 1 && alone != 0 && inside && len == total
    }

    /// Moves all segments into the first, if they fit there.
    pub(super) fn linearise(&mut self) -> bool {
        // SAFETY: the mbuf is owned, and `self.0` describes it.
        self.0.alone != 0 && unsafe { ffi::td_linearise(&raw mut self.0) } != 0
    }

    /// Copies the bytes of all segments to `to`, as far as it has room, and returns how many.
    pub(super) fn copy_to(&self, to: &mut [u8]) -> usize {
        // SAFETY: the mbuf is owned, and the pointer and length describe `to`.
        unsafe { ffi::td_copy_out(self.0.mbuf, to.as_mut_ptr(), to.len() as u32) as usize }
    }

    /// The buffer as a loan, with the place of the packet in it. `None`, and the packet is gone, if it cannot be lent.
    #[inline]
    pub(super) fn lend(self) -> Option<(Loan, usize, usize)> {
        if !self.can_be_lent() {
            return None;
        }
        let packet = self.0;
        mem::forget(self);
        // SAFETY: the data room of an mbuf that is owned, not attached to another's, and referenced once: nobody else reads or writes
        // it until the mbuf is freed, which only `release` or `Leaving` do, after the loan has ended. DPDK's memory is
        // mapped from the system and hence initialised.
        let bytes = unsafe { std::slice::from_raw_parts_mut(packet.room, packet.room_len as usize) };
        let loan = Loan::new(bytes, packet.mbuf.expose_provenance(), &MBUFS);
        Some((loan, packet.start as usize, packet.len as usize))
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        // SAFETY: the mbuf is owned.
        unsafe { ffi::td_free(self.0.mbuf) };
    }
}

/// Why a packet could not be copied into an mbuf.
pub(super) enum CopyFailure {
    NoBuffer,
    TooLong,
}

/// A packet that is ready to be sent, owned. Has the layout of what the shim takes.
#[repr(transparent)]
pub(super) struct Leaving(RawDeparture);

// SAFETY: an mbuf that is owned can be used and freed on any thread.
unsafe impl Send for Leaving {}

impl Leaving {
    /// Takes the buffer of a packet, if it is an mbuf.
    #[inline]
    pub(super) fn take(packet: &mut Packet) -> Option<Leaving> {
        let (token, start, len) = packet.reclaim(&MBUFS)?;
        let mbuf = std::ptr::with_exposed_provenance_mut(token);
        // A packet lies within its buffer, whose length has 16 bits.
        Some(Leaving(RawDeparture { mbuf, start: start as u32, len: len as u32, keep: 0 }))
    }

    /// Copies `bytes` into mbufs of a pool, at most `segments`.
    pub(super) fn copy_of(bytes: &[u8], pool: &Pool, segments: u16) -> Result<Leaving, CopyFailure> {
        let len = u32::try_from(bytes.len()).map_err(|_| CopyFailure::TooLong)?;
        // SAFETY: the pool exists, and the pointer and length describe `bytes`.
        let mbuf = unsafe { ffi::td_copy_in(pool.as_ptr(), bytes.as_ptr(), len, segments) };
        if !mbuf.is_null() {
            return Ok(Leaving(RawDeparture { mbuf, start: 0, len, keep: 1 }));
        }
        match eal::last_error().raw_os_error() {
            Some(libc::EMSGSIZE) => Err(CopyFailure::TooLong),
            _ => Err(CopyFailure::NoBuffer),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len as usize
    }

    /// For the shim: as many `RawDeparture`s.
    pub(super) fn as_raw(all: &[Leaving]) -> *const RawDeparture {
        all.as_ptr().cast()
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        // SAFETY: the mbuf is owned.
        unsafe { ffi::td_free(self.0.mbuf) };
    }
}
