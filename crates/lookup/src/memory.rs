//! Memory for lookup structures: zeroed, growing in place, in transparent huge pages where
//! available.
//!
//! Large allocations use huge pages, because a lookup touches random lines of hundreds of
//! megabytes: with 4 KiB pages each access would also miss the TLB and cost about twice as much
//! (`madvise`, Linux `Documentation/admin-guide/mm/transhuge.rst`). An administrator has to reserve
//! nothing. If huge pages are disabled or none is free, the kernel uses small pages.
//!
//! | size | memory |
//! |---|---|
//! | up to 1 MiB | the heap |
//! | more | a mapping with reserved address space; touching allocates pages, growing copies none |
//!
//! The last 2 MiB of a mapping use small pages until they are full, so that a table of 20 MB does
//! not occupy 22 MB. On systems other than Linux all memory comes from the heap.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Items for which any bytes, zeros included, are a valid value (as `bytemuck::Pod`).
///
/// # Safety
/// No padding, no pointer, no niche, alignment of at most 64.
pub unsafe trait Pod: Copy + Send + Sync + 'static {}

// SAFETY: integers, and arrays of `Pod` items.
unsafe impl Pod for u8 {}
// SAFETY: as above.
unsafe impl Pod for u16 {}
// SAFETY: as above.
unsafe impl Pod for u32 {}
// SAFETY: as above.
unsafe impl Pod for u64 {}
// SAFETY: as above.
unsafe impl<T: Pod, const N: usize> Pod for [T; N] {}

/// Alignment of the first item in bytes: a cache line.
const LINE_BYTES: usize = 64;
/// Largest allocation on the heap, in bytes; larger ones use a mapping.
const HEAP_MAX_BYTES: usize = if cfg!(target_os = "linux") { 1 << 20 } else { usize::MAX };

/// Vector that only grows. It is zeroed and aligned to a cache line, and 64 bytes after the last
/// item may be read, so that a kernel can read a whole line or word at the last item.
pub struct HugeVec<T: Pod> {
    start: NonNull<u8>,
    len: usize,
    /// Bytes available for items and the trailing line.
    capacity_bytes: usize,
    backing: Backing,
    item: std::marker::PhantomData<T>,
}

enum Backing {
    /// No allocation; `capacity_bytes` is 0.
    None,
    Heap(Layout),
    #[cfg(target_os = "linux")]
    Map(mapping::HugePageMapping),
}

// SAFETY: this value owns the memory exclusively, and items are `Send + Sync`.
unsafe impl<T: Pod> Send for HugeVec<T> {}
// SAFETY: as above; the memory is only read through `&self`.
unsafe impl<T: Pod> Sync for HugeVec<T> {}

impl<T: Pod> HugeVec<T> {
    /// Creates an empty vector without allocating.
    pub fn new() -> Self {
        const { assert!(align_of::<T>() <= LINE_BYTES) };
        HugeVec {
            start: NonNull::dangling(),
            len: 0,
            capacity_bytes: 0,
            backing: Backing::None,
            item: std::marker::PhantomData,
        }
    }

    /// Grows the vector to `len` items; new items are zero. Does nothing if it is longer already.
    /// Invalidates pointers to items.
    pub fn grow(&mut self, len: usize) {
        if len <= self.len {
            return;
        }
        let bytes =
            len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(LINE_BYTES)).expect("address space");
        if bytes > self.capacity_bytes {
            self.reallocate(bytes);
        }
        #[cfg(target_os = "linux")]
        if let Backing::Map(map) = &mut self.backing {
            map.extend_used(bytes);
        }
        self.len = len;
    }

    /// Grows the vector to at least `len` items as [`HugeVec::grow`] does, but rarely: it doubles
    /// small vectors and extends large ones by whole huge pages. Whole huge pages also save the
    /// kernel from collapsing a filled tail of small pages, which takes milliseconds.
    pub fn grow_amortized(&mut self, len: usize) {
        const STEP: usize = 2 << 20;
        if len <= self.len {
            return;
        }
        let bytes =
            len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(LINE_BYTES)).expect("address space");
        let bytes = if bytes <= STEP / 4 { bytes.next_power_of_two() } else { bytes.next_multiple_of(STEP) };
        self.grow((bytes - LINE_BYTES) / size_of::<T>());
    }

    /// Returns the allocated memory in bytes: whole pages that have been or may be touched.
    pub fn memory_bytes(&self) -> usize {
        match &self.backing {
            Backing::None => 0,
            Backing::Heap(layout) => layout.size(),
            #[cfg(target_os = "linux")]
            Backing::Map(map) => map.resident_bytes(),
        }
    }

    /// Returns the bytes in use, including the readable line after the last item.
    fn used_bytes(&self) -> usize {
        if self.len == 0 { 0 } else { self.len * size_of::<T>() + LINE_BYTES }
    }

    fn reallocate(&mut self, bytes: usize) {
        #[cfg(target_os = "linux")]
        if bytes > HEAP_MAX_BYTES {
            return self.move_to_mapping(bytes);
        }
        let room =
            bytes.max((self.capacity_bytes + self.capacity_bytes / 4).min(HEAP_MAX_BYTES)).next_multiple_of(LINE_BYTES);
        let layout = Layout::from_size_align(room, LINE_BYTES).expect("address space");
        // SAFETY: the layout has a nonzero size, because `bytes` is at least `LINE_BYTES`.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: both blocks have at least `used_bytes` bytes, and this function owns the new one.
        unsafe { start.as_ptr().copy_from_nonoverlapping(self.start.as_ptr(), self.used_bytes()) };
        self.free_heap_block();
        (self.start, self.capacity_bytes, self.backing) = (start, room, Backing::Heap(layout));
    }

    #[cfg(target_os = "linux")]
    fn move_to_mapping(&mut self, bytes: usize) {
        let mut map = mapping::HugePageMapping::new(bytes);
        let used = self.used_bytes();
        if let Backing::Map(old) = &mut self.backing {
            map.move_pages_from(old, used);
        } else {
            map.extend_used(bytes);
            // SAFETY: both blocks have at least `used` bytes, and this function owns the new one.
            unsafe { map.start().as_ptr().copy_from_nonoverlapping(self.start.as_ptr(), used) };
        }
        self.free_heap_block();
        (self.start, self.capacity_bytes, self.backing) = (map.start(), map.capacity_bytes(), Backing::Map(map));
    }

    fn free_heap_block(&mut self) {
        // Dropping a mapping unmaps it.
        if let Backing::Heap(layout) = std::mem::replace(&mut self.backing, Backing::None) {
            // SAFETY: allocated in `reallocate` with this layout, and freed once, because the
            // backing is replaced.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl<T: Pod> Deref for HugeVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` items exist, zeroed or written. An empty vector gives a dangling but
        // aligned pointer.
        unsafe { std::slice::from_raw_parts(self.items_ptr(), self.len) }
    }
}

impl<T: Pod> DerefMut for HugeVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; `&mut self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.items_ptr(), self.len) }
    }
}

impl<T: Pod> HugeVec<T> {
    fn items_ptr(&self) -> *mut T {
        if self.len == 0 { NonNull::dangling().as_ptr() } else { self.start.as_ptr().cast() }
    }
}

impl<T: Pod> Clone for HugeVec<T> {
    fn clone(&self) -> Self {
        let mut copy = HugeVec::new();
        copy.grow(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: Pod> Default for HugeVec<T> {
    fn default() -> Self {
        HugeVec::new()
    }
}

impl<T: Pod> Drop for HugeVec<T> {
    fn drop(&mut self) {
        self.free_heap_block();
    }
}

impl<T: Pod + std::fmt::Debug> std::fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HugeVec").field("len", &self.len).field("bytes", &self.memory_bytes()).finish()
    }
}

#[cfg(target_os = "linux")]
mod mapping {
    use std::ptr::NonNull;

    use libc::c_void;

    /// Huge page of x86-64 and of most arm64 kernels, in bytes.
    const HUGE_PAGE_BYTES: usize = 2 << 20;
    const PAGE_BYTES: usize = 4096;
    /// Mappings from this size on use a huge page for their tail too, because it wastes less than 3
    /// %.
    const WHOLE_HUGE_PAGE_MIN_BYTES: usize = 64 << 20;

    /// Reserved address space; the first `used_bytes` are in use as memory.
    pub(super) struct HugePageMapping {
        start: NonNull<u8>,
        /// Reserved address space in bytes.
        capacity_bytes: usize,
        /// Bytes from the start, a multiple of [`HUGE_PAGE_BYTES`], for which huge pages were
        /// requested.
        huge_bytes: usize,
        used_bytes: usize,
    }

    impl HugePageMapping {
        /// Reserves address space for growth to four times `bytes`, or for `bytes` alone if that
        /// fails. Aborts, as the allocator does, if neither is available.
        pub(super) fn new(bytes: usize) -> HugePageMapping {
            let least = bytes.next_multiple_of(HUGE_PAGE_BYTES);
            let start = map_aligned(least * 4).map(|start| (start, least * 4));
            let Some((start, room)) = start.or_else(|| map_aligned(least).map(|start| (start, least))) else {
                let layout = std::alloc::Layout::from_size_align(bytes, 64).expect("address space");
                std::alloc::handle_alloc_error(layout)
            };
            HugePageMapping { start, capacity_bytes: room, huge_bytes: 0, used_bytes: 0 }
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            self.start
        }

        pub(super) fn capacity_bytes(&self) -> usize {
            self.capacity_bytes
        }

        pub(super) fn resident_bytes(&self) -> usize {
            self.used_bytes.next_multiple_of(PAGE_BYTES).max(self.huge_bytes)
        }

        /// Sets the used size to the first `bytes` and requests huge pages for them.
        pub(super) fn extend_used(&mut self, bytes: usize) {
            let full_pages = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
            let new_huge_bytes = if bytes >= WHOLE_HUGE_PAGE_MIN_BYTES {
                bytes.next_multiple_of(HUGE_PAGE_BYTES).min(self.capacity_bytes)
            } else {
                full_pages
            };
            if new_huge_bytes > self.huge_bytes {
                // Converts a tail of small pages that fills a huge page now, because the kernel's
                // copy takes a few milliseconds. Readers don't use this copy of the tables yet; a
                // later conversion by the kernel would delay them.
                let has_small_tail = self.used_bytes > self.huge_bytes;
                self.madvise(self.huge_bytes, new_huge_bytes, libc::MADV_HUGEPAGE);
                if has_small_tail {
                    self.madvise(self.huge_bytes, self.huge_bytes + HUGE_PAGE_BYTES, libc::MADV_COLLAPSE);
                }
                self.huge_bytes = new_huge_bytes;
            }
            self.used_bytes = bytes;
        }

        /// Advises the kernel. Errors are ignored because pages merely stay small.
        fn madvise(&self, from: usize, to: usize, advice: i32) {
            // SAFETY: inside this mapping; none of the advices used changes the memory's content.
            unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), to - from, advice) };
        }

        /// Moves the pages of `old`, with `used` bytes in use, to the start of this mapping. Only
        /// page tables change; no bytes are copied.
        pub(super) fn move_pages_from(&mut self, old: &mut HugePageMapping, used: usize) {
            let end = used.next_multiple_of(PAGE_BYTES).max(old.huge_bytes);
            // Two moves, because the kernel treats ranges with different advice as different areas.
            let moved = self.move_range_from(old, 0, old.huge_bytes) && self.move_range_from(old, old.huge_bytes, end);
            assert!(moved, "cannot move a table in memory: {}", std::io::Error::last_os_error());
            (self.huge_bytes, self.used_bytes) = (old.huge_bytes, used);
        }

        fn move_range_from(&self, old: &HugePageMapping, from: usize, to: usize) -> bool {
            if from == to {
                return true;
            }
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: the source lies in `old` and the target in this larger mapping; both are
            // owned here. The later unmapping of `old` is harmless because MREMAP_DONTUNMAP keeps
            // the source range mapped, so that no other thread can map it in the meantime.
            unsafe {
                let source: *mut c_void = old.start.as_ptr().add(from).cast();
                let target: *mut c_void = self.start.as_ptr().add(from).cast();
                libc::mremap(source, to - from, to - from, flags | MREMAP_DONTUNMAP, target) == target
            }
        }
    }

    /// Keeps the source mapped but empty, so that no other thread can map the range before it is
    /// unmapped. Since Linux 5.7.
    const MREMAP_DONTUNMAP: i32 = 4;

    impl Drop for HugePageMapping {
        fn drop(&mut self) {
            // SAFETY: `map_aligned` mapped this length, and no pointer into it remains.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.capacity_bytes) };
        }
    }

    /// Maps `bytes` (a multiple of [`HUGE_PAGE_BYTES`]) at an address aligned to a huge page. The
    /// mapping uses memory only when touched.
    fn map_aligned(bytes: usize) -> Option<NonNull<u8>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapped_bytes = bytes.checked_add(HUGE_PAGE_BYTES)?;
        // SAFETY: a new mapping at an address that the kernel chooses; the trimmed ends lie inside
        // it.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), mapped_bytes, access, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let unaligned_bytes = (start as usize).next_multiple_of(HUGE_PAGE_BYTES) - start as usize;
            if unaligned_bytes > 0 {
                libc::munmap(start, unaligned_bytes);
            }
            if HUGE_PAGE_BYTES - unaligned_bytes > 0 {
                libc::munmap(start.byte_add(unaligned_bytes + bytes), HUGE_PAGE_BYTES - unaligned_bytes);
            }
            NonNull::new(start.byte_add(unaligned_bytes).cast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HugeVec;

    /// From the heap to a mapping to a larger mapping: contents are kept, new items are zero and
    /// aligned.
    #[test]
    fn grows_and_keeps() {
        let mut vec: HugeVec<u64> = HugeVec::new();
        let mut moved = 0;
        for round in 1..=30_u64 {
            let (old, len) = (vec.as_ptr(), (round * round * 10_000) as usize);
            let before = vec.len();
            vec.grow(len);
            assert!(vec[before..].iter().all(|&word| word == 0));
            assert!((0..before).all(|index| vec[index] == index as u64));
            for index in before..len {
                vec[index] = index as u64;
            }
            moved += usize::from(vec.as_ptr() != old);
            assert_eq!(vec.as_ptr() as usize % 64, 0);
            assert!(
                vec.memory_bytes() >= len * 8 && vec.memory_bytes() <= len * 8 * 5 / 4 + 8192,
                "{} for {}",
                vec.memory_bytes(),
                len * 8
            );
        }
        assert!((3..12).contains(&moved), "{moved}");
        let copy = vec.clone();
        vec[5] = 0;
        assert_eq!((copy[5], copy.len()), (5, vec.len()));
    }

    /// Growth by one item at a time, as tables grow.
    #[test]
    fn grows_by_ones() {
        let mut vec: HugeVec<u32> = HugeVec::default();
        assert_eq!((vec.memory_bytes(), vec.len()), (0, 0));
        for index in 0..600_000 {
            vec.grow(index + 1);
            vec[index] = index as u32;
        }
        assert!(vec.iter().copied().eq(0..600_000));
    }

    /// A mapping that was moved leaves no area mapped.
    #[cfg(target_os = "linux")]
    #[test]
    fn gives_back_its_address_space() {
        let areas = || std::fs::read_to_string("/proc/self/maps").map(|maps| maps.lines().count()).unwrap_or(0);
        let before = areas();
        for _ in 0..200 {
            let mut vec: HugeVec<[u8; 64]> = HugeVec::new();
            vec.grow(20_000);
            vec.grow(200_000);
            vec.grow(1_000_000);
        }
        // Tests that run concurrently have their own areas.
        assert!(areas() < before + 150, "{before} {}", areas());
    }
}
