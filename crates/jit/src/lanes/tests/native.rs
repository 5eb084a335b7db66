//! Bytes that are run.
#![allow(unsafe_code)]

/// Machine code in memory of its own.
pub struct Native {
    memory: *mut libc::c_void,
    bytes: usize,
}

impl Native {
    pub fn new(code: &[u8]) -> Native {
        let bytes = code.len().next_multiple_of(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages at an address of the system's choice, checked below.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: the pages are as long, writable, and nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), memory.cast(), code.len()) };
        // SAFETY: they are this function's own pages.
        let result = unsafe { libc::mprotect(memory, bytes, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(result, 0);
        Native { memory, bytes }
    }

    /// Runs it. The addresses that it reads and writes have to be as the evaluator, which checks each, found them.
    pub fn run(&self, context: u64, count: u64) {
        // SAFETY: the pages hold a function of this form.
        let function: unsafe extern "sysv64" fn(*mut u8, u64) = unsafe { std::mem::transmute(self.memory) };
        // SAFETY: the evaluator found all places that it touches within the world's memory.
        unsafe { function(context as *mut u8, count) };
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used any more.
        unsafe { libc::munmap(self.memory, self.bytes) };
    }
}

/// Pages behind which there is one that faults when it is touched.
pub struct Fenced {
    memory: *mut libc::c_void,
}

/// A page, in bytes.
const PAGE: usize = 4096;

impl Fenced {
    /// One page, with one on each side that faults, filled with this.
    pub fn new(fill: &[u8; PAGE]) -> Fenced {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new pages at an address of the system's choice, checked below.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        let fenced = Fenced { memory };
        let middle = fenced.first() as *mut u8;
        // SAFETY: the second of the three pages; it may be written once it is allowed.
        unsafe {
            assert_eq!(libc::mprotect(middle.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            std::ptr::copy_nonoverlapping(fill.as_ptr(), middle, PAGE);
        }
        fenced
    }

    /// Its first byte's address.
    pub fn first(&self) -> u64 {
        self.memory as u64 + PAGE as u64
    }

    /// What is in it.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: the page is mapped, readable, and nobody writes to it now.
        unsafe { std::slice::from_raw_parts(self.first() as *const u8, PAGE) }.to_vec()
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used any more.
        unsafe { libc::munmap(self.memory, 3 * PAGE) };
    }
}
