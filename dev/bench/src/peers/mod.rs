//! Safe wrappers of DPDK's lookup libraries, one file each, for comparison only.
//!
//! All of them need [`Eal::start`] first, once per process. Bulk lookups work on flat arrays. The
//! pointers and masks that DPDK requires are built inside, as every user of DPDK has to.

#![allow(unsafe_code)] // calls into C

pub mod acl;
pub mod fib;
pub mod fib6;
pub mod hash;
pub mod lpm;

mod ffi;

use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use thiserror::Error;

/// Error of a DPDK library.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerError {
    /// The program was built without DPDK.
    #[error("DPDK was not there when this was built: install libdpdk-dev and build again")]
    Absent,
    /// The EAL does not start.
    #[error("DPDK does not start (errno {errno}): is there enough memory? Are there huge pages?")]
    Start {
        /// Value of `rte_errno`.
        errno: i32,
    },
    /// The EAL was started twice, which DPDK does not support.
    #[error("DPDK was started before in this process")]
    Twice,
    /// A table could not be created.
    #[error("{library} could not make a table of {entries} entries: out of huge pages?")]
    Create {
        /// Name of the library.
        library: &'static str,
        /// Requested number of entries.
        entries: usize,
    },
    /// A key or route was refused.
    #[error("{library} refused entry {index} (error {code}): is the table full?")]
    Refused {
        /// Name of the library.
        library: &'static str,
        /// Index of the entry in the loaded data.
        index: usize,
        /// Return value of the library.
        code: i32,
    },
}

/// DPDK's environment: memory in huge pages, no devices, no files. It must outlive all tables.
#[derive(Debug)]
pub struct Eal(());

static STARTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// Starts DPDK in this process, on core `core`. Enables vectors of 512 bits if the machine has
    /// them, because DPDK defaults to 256 and its tables are measured at their best. Without huge
    /// pages (`huge` false) everything is much slower; for smoke runs.
    ///
    /// # Errors
    /// If DPDK is absent, was started before, or does not start.
    pub fn start(core: usize, huge: bool) -> Result<Eal, PeerError> {
        if cfg!(not(dpdk)) {
            return Err(PeerError::Absent);
        }
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(PeerError::Twice);
        }
        let cores = core.to_string();
        let mut words = vec!["bench", "-l", &cores, "--no-pci", "--in-memory", "--no-telemetry", "--log-level=3"];
        words.push("--force-max-simd-bitwidth=512");
        if !huge {
            words.extend(["--no-huge", "-m", "1024"]);
        }
        let words: Vec<CString> = words.iter().filter_map(|word| CString::new(*word).ok()).collect();
        let mut pointers: Vec<*mut c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
        pointers.push(std::ptr::null_mut());
        // SAFETY: an argument vector as `main` gets it; DPDK copies the parts that it keeps.
        let error = unsafe { ffi::tb_eal_init(words.len() as c_int, pointers.as_mut_ptr()) };
        if error == 0 { Ok(Eal(())) } else { Err(PeerError::Start { errno: -error }) }
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        // SAFETY: it was started, and tables hold a borrow of it.
        unsafe { ffi::tb_eal_cleanup() };
    }
}

/// Returns a unique table name, because DPDK looks up tables by name.
fn unique_name() -> CString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("bench{number}")).unwrap_or_default()
}
