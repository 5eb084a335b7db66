//! Packet buffers: pools, received mbufs, mbufs to send, and external buffers of packets that are
//! mbufs.
#![allow(unsafe_code)]

use super::eal;
use super::ffi::{self, Opaque, RawDeparture, RawPacket};
use packet::{ExternalBuf, ExternalBufOwner, Packet};
use parking_lot::Mutex;
use std::ffi::CString;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that DPDK's drivers leave free before a packet (RTE_PKTMBUF_HEADROOM).
pub(super) const HEADROOM: usize = 128;
/// Bytes of an mbuf besides its data room: `struct rte_mbuf`, the mempool's header, and padding.
pub(super) const OVERHEAD: u64 = 128 + 64 + 64;
/// Number of buffers in the cache of a thread (at most RTE_MEMPOOL_CACHE_MAX_SIZE, which is 512).
const CACHE: u32 = 256;

/// Owner of external buffers that are mbufs; the token is the address of the mbuf. It is private to
/// this module, so that every such token is valid.
static MBUFS: ExternalBufOwner = ExternalBufOwner::new("DPDK", release);

fn release(token: usize) {
    // SAFETY: only `RxMbuf::into_external` creates buffers of this owner, with an mbuf that it
    // owned; each token is released once.
    unsafe { ffi::td_free(std::ptr::with_exposed_provenance_mut(token)) };
}

/// A pool of mbufs, freed after its last use.
pub(super) struct Pool(*mut Opaque);

// SAFETY: DPDK's mempools are thread-safe.
unsafe impl Send for Pool {}
// SAFETY: DPDK's mempools are thread-safe.
unsafe impl Sync for Pool {}

/// Pools of closed ports with mbufs still in use: by packets, or in the queue of another device.
static LINGERING: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

impl Pool {
    /// Creates a pool of `count` mbufs with `len` bytes after their headroom, on a NUMA node
    /// (negative: any). `socket` is the node, as DPDK calls it.
    pub(super) fn new(count: u32, len: u16, socket: i32) -> io::Result<Pool> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        free_lingering_pools();
        let name = CString::new(format!("terrace{}", NEXT.fetch_add(1, Ordering::Relaxed)))?;
        let data_room = len.checked_add(HEADROOM as u16).ok_or(io::ErrorKind::InvalidInput)?;
        // The caches of three threads must not be able to hold all mbufs.
        let cache_size = if count / 3 > CACHE { CACHE } else { 0 };
        // SAFETY: the name ends with a zero and lives across the call, which copies it. DPDK has
        // been started.
        let pool = unsafe { ffi::td_pool(name.as_ptr(), count, cache_size, data_room, socket) };
        if pool.is_null() { Err(eal::last_error()) } else { Ok(Pool(pool)) }
    }

    pub(super) fn as_ptr(&self) -> *mut Opaque {
        self.0
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool has not been freed, because only this frees it. If it contains all its
        // mbufs, no other code has one or can get one, because this is the last handle.
        unsafe {
            if ffi::td_pool_is_full(self.0) != 0 {
                ffi::td_pool_free(self.0);
                return;
            }
        }
        LINGERING.lock().push(Pool(self.0));
    }
}

/// Frees pools of closed ports once all their mbufs were returned.
fn free_lingering_pools() {
    let pools = mem::take(&mut *LINGERING.lock());
    drop(pools);
}

/// An owned mbuf with a received packet.
pub(super) struct RxMbuf(RawPacket);

impl RxMbuf {
    /// Wraps a received packet.
    ///
    /// # Safety
    /// `packet` describes an mbuf that the caller owns and does not use again.
    pub(super) unsafe fn new(packet: RawPacket) -> RxMbuf {
        RxMbuf(packet)
    }

    /// Returns the number of bytes of all segments.
    pub(super) fn len(&self) -> usize {
        self.0.total as usize
    }

    pub(super) fn segments(&self) -> u16 {
        self.0.segments
    }

    /// Returns the VLAN tags that the device removed, outer first.
    pub(super) fn tags(&self) -> &[u16] {
        &self.0.tags[..usize::from(self.0.vlans.min(2))]
    }

    /// Returns whether the packet can be an external buffer: it has one segment, within a buffer
    /// with no other reference.
    #[inline]
    pub(super) fn can_be_external(&self) -> bool {
        let RawPacket { start, len, total, room_len, segments, alone, .. } = self.0;
        let inside = start.checked_add(len).is_some_and(|end| end <= room_len);
        segments == 1 && alone != 0 && inside && len == total
    }

    /// Moves all segments into the first if they fit. Returns whether they did.
    pub(super) fn linearise(&mut self) -> bool {
        // SAFETY: the mbuf is owned, and `self.0` describes it.
        self.0.alone != 0 && unsafe { ffi::td_linearise(&raw mut self.0) } != 0
    }

    /// Copies the bytes of all segments to `to`, up to its length. Returns the number of copied
    /// bytes.
    pub(super) fn copy_to(&self, to: &mut [u8]) -> usize {
        // SAFETY: the mbuf is owned, and the pointer and length describe `to`.
        unsafe { ffi::td_copy_out(self.0.mbuf, to.as_mut_ptr(), to.len() as u32) as usize }
    }

    /// Converts the mbuf to an external buffer, with start and length of the packet in it. If it
    /// cannot be converted, drops the packet and returns `None`.
    #[inline]
    pub(super) fn into_external(self) -> Option<(ExternalBuf, usize, usize)> {
        if !self.can_be_external() {
            return None;
        }
        let packet = self.0;
        // The external buffer owns the mbuf from here on.
        mem::forget(self);
        // SAFETY: the mbuf is owned, not attached to another one, and referenced once, so no other
        // code accesses its data room until it is freed. Only `release` and `TxMbuf` free it,
        // after the end of the external buffer. DPDK's memory is mapped from the system and hence
        // initialised.
        let bytes = unsafe { std::slice::from_raw_parts_mut(packet.room, packet.room_len as usize) };
        let loan = ExternalBuf::new(bytes, packet.mbuf.expose_provenance(), &MBUFS);
        Some((loan, packet.start as usize, packet.len as usize))
    }
}

impl Drop for RxMbuf {
    fn drop(&mut self) {
        // SAFETY: the mbuf is owned.
        unsafe { ffi::td_free(self.0.mbuf) };
    }
}

/// Reason why a packet could not be copied to an mbuf.
pub(super) enum CopyFailure {
    NoBuffer,
    TooLong,
}

/// An owned mbuf that is ready to be sent, in the layout of the shim.
#[repr(transparent)]
pub(super) struct TxMbuf(RawDeparture);

// SAFETY: an owned mbuf can be used and freed on any thread.
unsafe impl Send for TxMbuf {}

impl TxMbuf {
    /// Takes the buffer of a packet if it is an mbuf.
    #[inline]
    pub(super) fn take(packet: &mut Packet) -> Option<TxMbuf> {
        let (token, start, len) = packet.take_external_token(&MBUFS)?;
        let mbuf = std::ptr::with_exposed_provenance_mut(token);
        // The casts do not truncate, because a packet is within its buffer, and a buffer's length
        // has 16 bits.
        Some(TxMbuf(RawDeparture { mbuf, start: start as u32, len: len as u32, keep: 0 }))
    }

    /// Copies `bytes` to mbufs of a pool, with at most `segments` segments.
    pub(super) fn copy_bytes(bytes: &[u8], pool: &Pool, segments: u16) -> Result<TxMbuf, CopyFailure> {
        let len = u32::try_from(bytes.len()).map_err(|_| CopyFailure::TooLong)?;
        // SAFETY: the pool exists, and the pointer and length describe `bytes`.
        let mbuf = unsafe { ffi::td_copy_in(pool.as_ptr(), bytes.as_ptr(), len, segments) };
        if !mbuf.is_null() {
            return Ok(TxMbuf(RawDeparture { mbuf, start: 0, len, keep: 1 }));
        }
        match eal::last_error().raw_os_error() {
            Some(libc::EMSGSIZE) => Err(CopyFailure::TooLong),
            _ => Err(CopyFailure::NoBuffer),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len as usize
    }

    /// Returns a pointer to the mbufs as an array of `RawDeparture`, for the shim.
    pub(super) fn as_raw(all: &[TxMbuf]) -> *const RawDeparture {
        all.as_ptr().cast()
    }
}

impl Drop for TxMbuf {
    fn drop(&mut self) {
        // SAFETY: the mbuf is owned.
        unsafe { ffi::td_free(self.0.mbuf) };
    }
}
