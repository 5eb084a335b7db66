//! Requests for cache lines that will be used soon. They have no effect but on time.
#![allow(unsafe_code)]

/// Requests a line that will be read. Any address is valid.
#[inline(always)]
pub(crate) fn for_read(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; invalid addresses are ignored.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Requests a line that will be written, so that it comes from another core once and not twice.
#[inline(always)]
pub(crate) fn for_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(address.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
