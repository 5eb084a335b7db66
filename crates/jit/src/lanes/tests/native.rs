//! Execution of machine code.
#![allow(unsafe_code)]

/// Machine code in its own memory.
pub struct ExecutableCode {
    memory: *mut libc::c_void,
    bytes: usize,
}

impl ExecutableCode {
    pub fn new(code: &[u8]) -> ExecutableCode {
        let bytes = code.len().next_multiple_of(4096);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new pages at an address of the system's choice, checked below.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert_ne!(memory, libc::MAP_FAILED);
        // SAFETY: the pages are long enough, writable, and exclusively owned.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), memory.cast(), code.len()) };
        // SAFETY: the pages are owned by this function.
        let result = unsafe { libc::mprotect(memory, bytes, libc::PROT_READ | libc::PROT_EXEC) };
        assert_eq!(result, 0);
        ExecutableCode { memory, bytes }
    }

    /// Runs the code. The evaluator must have checked all addresses that it accesses.
    pub fn run(&self, context: u64, count: u64) {
        // SAFETY: the pages hold a function with this signature.
        let function: unsafe extern "sysv64" fn(*mut u8, u64) = unsafe { std::mem::transmute(self.memory) };
        // SAFETY: the evaluator has checked that all accesses are within the world's memory.
        unsafe { function(context as *mut u8, count) };
    }
}

impl Drop for ExecutableCode {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used after this.
        unsafe { libc::munmap(self.memory, self.bytes) };
    }
}

/// A page with inaccessible pages before and after it.
pub struct Fenced {
    memory: *mut libc::c_void,
}

/// Size of a page in bytes.
const PAGE: usize = 4096;

impl Fenced {
    /// Maps one page, with an inaccessible one on each side, and fills it.
    pub fn new(fill: &[u8; PAGE]) -> Fenced {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new pages at an address of the system's choice, checked below.
        let memory = unsafe { libc::mmap(std::ptr::null_mut(), 3 * PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(memory, libc::MAP_FAILED);
        let fenced = Fenced { memory };
        let middle = fenced.first() as *mut u8;
        // SAFETY: the second of the three pages, which is written after it is made writable.
        unsafe {
            assert_eq!(libc::mprotect(middle.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            std::ptr::copy_nonoverlapping(fill.as_ptr(), middle, PAGE);
        }
        fenced
    }

    /// Returns the address of the first byte.
    pub fn first(&self) -> u64 {
        self.memory as u64 + PAGE as u64
    }

    /// Returns the contents.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: the page is mapped and readable, and is not written now.
        unsafe { std::slice::from_raw_parts(self.first() as *const u8, PAGE) }.to_vec()
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used after this.
        unsafe { libc::munmap(self.memory, 3 * PAGE) };
    }
}
