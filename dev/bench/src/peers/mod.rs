//! DPDK's lookup libraries behind safe types, one file each, for comparison only.
//!
//! All of them need [`Eal::start`] first, once a process. Bulk lookups work on flat arrays; pointers and masks that
//! DPDK asks for are made inside, as every user of DPDK has to.

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

/// Why a peer is not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PeerError {
    /// Built without DPDK.
    #[error("DPDK was not there when this was built: install libdpdk-dev and build again")]
    Absent,
    /// The EAL does not start.
    #[error("DPDK does not start (errno {errno}): is there enough memory? Are there huge pages?")]
    Start {
        /// `rte_errno`.
        errno: i32,
    },
    /// A second start, which DPDK does not allow.
    #[error("DPDK was started before in this process")]
    Twice,
    /// A table could not be made.
    #[error("{library} could not make a table of {entries} entries: out of huge pages?")]
    Create {
        /// The library.
        library: &'static str,
        /// How many entries it was to hold.
        entries: usize,
    },
    /// A key or route was refused.
    #[error("{library} refused entry {index} (error {code}): is the table full?")]
    Refused {
        /// The library.
        library: &'static str,
        /// Position in what was loaded.
        index: usize,
        /// What it returned.
        code: i32,
    },
}

/// DPDK's environment: memory in huge pages, no devices, no files. Keep it until all peers are gone.
#[derive(Debug)]
pub struct Eal(());

static STARTED: AtomicBool = AtomicBool::new(false);

impl Eal {
    /// Starts DPDK in this process, on core `core`. With vectors of 512 bits where the machine has them: DPDK takes 256 unless it is
    /// told so, and peers are measured at their best. Without huge pages (`huge` false) everything is slower by far; for smoke runs.
    ///
    /// # Errors
    /// DPDK is absent, was started before, or does not start.
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
        // SAFETY: an argument vector as `main` gets it; DPDK copies what it keeps.
        let error = unsafe { ffi::tb_eal_init(words.len() as c_int, pointers.as_mut_ptr()) };
        if error == 0 { Ok(Eal(())) } else { Err(PeerError::Start { errno: -error }) }
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        // SAFETY: it was started, and peers hold a borrow of it.
        unsafe { ffi::tb_eal_cleanup() };
    }
}

/// A name that no other table of this process has: DPDK finds tables by name.
fn name() -> CString {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("bench{number}")).unwrap_or_default()
}
