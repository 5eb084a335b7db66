//! Memory for lookup structures: zeroed, growing in place, in huge pages where the machine has them.
//!
//! A lookup touches random lines of hundreds of megabytes. With 4 KiB pages each of them would miss the TLB as well and cost about
//! twice as much, so all that is large lies in transparent huge pages (`madvise`, Linux `Documentation/admin-guide/mm/transhuge.rst`).
//! Nothing has to be reserved by an administrator, and where huge pages are off or none is free, everything works with small pages.
//!
//! | size | memory |
//! |---|---|
//! | up to 1 MiB | the heap |
//! | more | a mapping with room to grow in address space; pages become real when first touched, so growing copies nothing |
//!
//! The last, partly used 2 MiB of a mapping are small pages until they are full: a table of 20 MB doesn't pay for 22.
//! Elsewhere than on Linux all of it is the heap.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Items of which any bytes are a value, zeros included.
///
/// # Safety
/// No padding, no pointer, no niche, alignment of at most 64.
pub unsafe trait Plain: Copy + Send + Sync + 'static {}

// SAFETY: integers, and arrays of what is plain.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// The alignment of the first item: a cache line.
const LINE: usize = 64;
/// From here on a mapping is used.
const SMALL: usize = if cfg!(target_os = "linux") { 1 << 20 } else { usize::MAX };

/// A vector that only grows: zeroed, aligned to a cache line, and followed by 64 more bytes that may be read (so a kernel may
/// read a whole line or word at the last item).
pub struct HugeVec<T: Plain> {
    start: NonNull<u8>,
    len: usize,
    /// Bytes that items may take before more room is needed.
    room: usize,
    backing: Backing,
    item: std::marker::PhantomData<T>,
}

enum Backing {
    /// Nothing allocated: `room` is 0.
    None,
    Heap(Layout),
    #[cfg(target_os = "linux")]
    Map(mapping::Mapping),
}

// SAFETY: the memory belongs to this value alone, and items are `Send + Sync`.
unsafe impl<T: Plain> Send for HugeVec<T> {}
// SAFETY: as above; through `&self` it is only read.
unsafe impl<T: Plain> Sync for HugeVec<T> {}

impl<T: Plain> HugeVec<T> {
    /// An empty one, which takes no memory.
    pub fn new() -> Self {
        const { assert!(align_of::<T>() <= LINE) };
        HugeVec { start: NonNull::dangling(), len: 0, room: 0, backing: Backing::None, item: std::marker::PhantomData }
    }

    /// Makes it `len` items long; new ones are zero. Shorter than it is: nothing happens.
    /// Pointers to items are invalid afterwards.
    pub fn grow(&mut self, len: usize) {
        if len <= self.len {
            return;
        }
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(LINE)).expect("address space");
        if bytes > self.room {
            self.make_room(bytes);
        }
        #[cfg(target_os = "linux")]
        if let Backing::Map(map) = &mut self.backing {
            map.advise(bytes);
        }
        self.len = len;
    }

    /// As [`HugeVec::grow`], to at least `len` items: to twice what there was while that is little, and then by whole huge pages. So it is rare, and none is made of small ones
    /// that are full by now, which takes the kernel milliseconds.
    pub fn grow_by_steps(&mut self, len: usize) {
        const STEP: usize = 2 << 20;
        if len <= self.len {
            return;
        }
        let bytes = len.checked_mul(size_of::<T>()).and_then(|bytes| bytes.checked_add(LINE)).expect("address space");
        let bytes = if bytes <= STEP / 4 { bytes.next_power_of_two() } else { bytes.next_multiple_of(STEP) };
        self.grow((bytes - LINE) / size_of::<T>());
    }

    /// Memory that is held, in bytes: whole pages that have been or may be touched.
    pub fn bytes(&self) -> usize {
        match &self.backing {
            Backing::None => 0,
            Backing::Heap(layout) => layout.size(),
            #[cfg(target_os = "linux")]
            Backing::Map(map) => map.held(),
        }
    }

    /// Bytes in use, the readable ones behind the last item included.
    fn used(&self) -> usize {
        if self.len == 0 { 0 } else { self.len * size_of::<T>() + LINE }
    }

    fn make_room(&mut self, bytes: usize) {
        #[cfg(target_os = "linux")]
        if bytes > SMALL {
            return self.make_mapping(bytes);
        }
        let room = bytes.max((self.room + self.room / 4).min(SMALL)).next_multiple_of(LINE);
        let layout = Layout::from_size_align(room, LINE).expect("address space");
        // SAFETY: the layout has a size: `bytes` is at least LINE.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: both are at least `used` long, and the new one is nobody else's.
        unsafe { start.as_ptr().copy_from_nonoverlapping(self.start.as_ptr(), self.used()) };
        self.release();
        (self.start, self.room, self.backing) = (start, room, Backing::Heap(layout));
    }

    #[cfg(target_os = "linux")]
    fn make_mapping(&mut self, bytes: usize) {
        let mut map = mapping::Mapping::new(bytes);
        let used = self.used();
        if let Backing::Map(old) = &mut self.backing {
            map.take_over(old, used);
        } else {
            map.advise(bytes);
            // SAFETY: both are at least `used` long, and the new one is nobody else's.
            unsafe { map.start().as_ptr().copy_from_nonoverlapping(self.start.as_ptr(), used) };
        }
        self.release();
        (self.start, self.room, self.backing) = (map.start(), map.room(), Backing::Map(map));
    }

    fn release(&mut self) {
        // A mapping is unmapped when it is dropped.
        if let Backing::Heap(layout) = std::mem::replace(&mut self.backing, Backing::None) {
            // SAFETY: allocated in `make_room` with this layout, and freed once, as the backing is gone now.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl<T: Plain> Deref for HugeVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` items are there, zeroed or written (dangling but aligned when there is none).
        unsafe { std::slice::from_raw_parts(self.first(), self.len) }
    }
}

impl<T: Plain> DerefMut for HugeVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; `&mut self` makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(self.first(), self.len) }
    }
}

impl<T: Plain> HugeVec<T> {
    fn first(&self) -> *mut T {
        if self.len == 0 { NonNull::dangling().as_ptr() } else { self.start.as_ptr().cast() }
    }
}

impl<T: Plain> Clone for HugeVec<T> {
    fn clone(&self) -> Self {
        let mut copy = HugeVec::new();
        copy.grow(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: Plain> Default for HugeVec<T> {
    fn default() -> Self {
        HugeVec::new()
    }
}

impl<T: Plain> Drop for HugeVec<T> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<T: Plain + std::fmt::Debug> std::fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HugeVec").field("len", &self.len).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(target_os = "linux")]
mod mapping {
    use std::ptr::NonNull;

    use libc::c_void;

    /// A huge page of x86-64 and of most arm64 kernels.
    const HUGE: usize = 2 << 20;
    const PAGE: usize = 4096;
    /// From here on the last huge page is taken whole: what it wastes is below 3 %.
    const LARGE: usize = 64 << 20;

    /// Address space of which the first `used` bytes are memory.
    pub(super) struct Mapping {
        start: NonNull<u8>,
        /// Bytes of address space.
        room: usize,
        /// The first bytes, a multiple of [`HUGE`], for which huge pages have been asked.
        huge: usize,
        used: usize,
    }

    impl Mapping {
        /// Address space for `bytes` and for growing to four times as much. Aborts, as the allocator does, if there is none.
        pub(super) fn new(bytes: usize) -> Mapping {
            let least = bytes.next_multiple_of(HUGE);
            let start = aligned(least * 4).map(|start| (start, least * 4));
            let Some((start, room)) = start.or_else(|| aligned(least).map(|start| (start, least))) else {
                let layout = std::alloc::Layout::from_size_align(bytes, 64).expect("address space");
                std::alloc::handle_alloc_error(layout)
            };
            Mapping { start, room, huge: 0, used: 0 }
        }

        pub(super) fn start(&self) -> NonNull<u8> {
            self.start
        }

        pub(super) fn room(&self) -> usize {
            self.room
        }

        pub(super) fn held(&self) -> usize {
            self.used.next_multiple_of(PAGE).max(self.huge)
        }

        /// Says that the first `bytes` are used from now on, and asks for huge pages for them.
        pub(super) fn advise(&mut self, bytes: usize) {
            let whole = bytes / HUGE * HUGE;
            let huge = if bytes >= LARGE { bytes.next_multiple_of(HUGE).min(self.room) } else { whole };
            if huge > self.huge {
                // A tail of small pages that has become a huge page's worth is made one: the kernel copies it, which takes a few
                // milliseconds. Better now, when nobody reads what is being written, than whenever the kernel finds the time.
                let tail = self.used > self.huge;
                self.madvise(self.huge, huge, libc::MADV_HUGEPAGE);
                if tail {
                    self.madvise(self.huge, self.huge + HUGE, libc::MADV_COLLAPSE);
                }
                self.huge = huge;
            }
            self.used = bytes;
        }

        /// A hint: where the kernel doesn't follow it, pages stay small.
        fn madvise(&self, from: usize, to: usize, advice: i32) {
            // SAFETY: inside of this mapping; none of the advices used changes what the memory holds.
            unsafe { libc::madvise(self.start.as_ptr().add(from).cast(), to - from, advice) };
        }

        /// Moves the pages of `old`, of which `used` bytes are in use, to the start of this one. Page tables move, bytes don't.
        pub(super) fn take_over(&mut self, old: &mut Mapping, used: usize) {
            let end = used.next_multiple_of(PAGE).max(old.huge);
            // Two moves, as areas of different advice are different areas to the kernel.
            let moved = self.take_range(old, 0, old.huge) && self.take_range(old, old.huge, end);
            assert!(moved, "cannot move a table in memory: {}", std::io::Error::last_os_error());
            (self.huge, self.used) = (old.huge, used);
        }

        fn take_range(&self, old: &Mapping, from: usize, to: usize) -> bool {
            if from == to {
                return true;
            }
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            // SAFETY: the source lies in `old`, the target in this mapping, which is larger; both are ours alone. `old` is
            // dropped afterwards, and unmapping what has moved away is harmless: nothing is mapped there unless ...
            // another thread maps it. So the hole is filled again below.
            unsafe {
                let source: *mut c_void = old.start.as_ptr().add(from).cast();
                let target: *mut c_void = self.start.as_ptr().add(from).cast();
                libc::mremap(source, to - from, to - from, flags | MREMAP_DONTUNMAP, target) == target
            }
        }
    }

    /// The source stays mapped (and empty), so that no other thread can map something there before it is unmapped. Linux 5.7.
    const MREMAP_DONTUNMAP: i32 = 4;

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: mapped by `aligned` with this length, and nobody has a pointer into it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.room) };
        }
    }

    /// Maps `bytes` (a multiple of [`HUGE`]) at an address that is one too; they count as memory only when touched.
    fn aligned(bytes: usize) -> Option<NonNull<u8>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let all = bytes.checked_add(HUGE)?;
        // SAFETY: a new mapping wherever the kernel likes; what is cut off at both ends lies inside of it.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), all, access, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let skip = (start as usize).next_multiple_of(HUGE) - start as usize;
            if skip > 0 {
                libc::munmap(start, skip);
            }
            if HUGE - skip > 0 {
                libc::munmap(start.byte_add(skip + bytes), HUGE - skip);
            }
            NonNull::new(start.byte_add(skip).cast())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HugeVec;

    /// From the heap to a mapping to a larger mapping: contents stay, what is new is zero, and it is aligned.
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
            assert!(vec.bytes() >= len * 8 && vec.bytes() <= len * 8 * 5 / 4 + 8192, "{} for {}", vec.bytes(), len * 8);
        }
        assert!((3..12).contains(&moved), "{moved}");
        let copy = vec.clone();
        vec[5] = 0;
        assert_eq!((copy[5], copy.len()), (5, vec.len()));
    }

    /// One at a time, as tables grow.
    #[test]
    fn grows_by_ones() {
        let mut vec: HugeVec<u32> = HugeVec::default();
        assert_eq!((vec.bytes(), vec.len()), (0, 0));
        for index in 0..600_000 {
            vec.grow(index + 1);
            vec[index] = index as u32;
        }
        assert!(vec.iter().copied().eq(0..600_000));
    }

    /// A mapping that has moved leaves nothing behind.
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
        // Other tests run at the same time and have areas of their own.
        assert!(areas() < before + 150, "{before} {}", areas());
    }
}
