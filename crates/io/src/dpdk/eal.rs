//! DPDK's environment (EAL): started once, with its log kept for errors, and with registered
//! threads.
#![allow(unsafe_code)]

use super::ffi;
use super::{DpdkError, EalOptions, HugePages};
use crate::sys;
use libc::{c_char, c_int, c_void, ssize_t};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt;
use std::sync::OnceLock;
use std::thread;

/// Number of lines of DPDK's log that are stored.
const LOG_LINES: usize = 16;
/// Address of a PCI device that no machine has. DPDK gets it as its only allowed device, so that it
/// does not claim unrequested devices; requested ones can still be added.
const NO_PCI_DEVICE: &str = "ffff:ff:1f.7";

/// The last lines of DPDK's log.
static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// Whether memory is in huge pages, or why the start failed.
static STARTED: OnceLock<Result<bool, String>> = OnceLock::new();

/// Starts DPDK unless it is running. Returns whether its memory is in huge pages. DPDK can be
/// started once per process, so after a failure each further call fails, too, with the text of the
/// first error.
pub(super) fn start_eal(options: &EalOptions) -> Result<bool, DpdkError> {
    let mut failure = None;
    let first_outcome = STARTED.get_or_init(|| {
        try_start(options).map_err(|error| {
            let text = error.to_string();
            failure = Some(error);
            text
        })
    });
    match (failure, first_outcome) {
        (Some(error), _) => Err(error),
        (None, Err(first)) => Err(DpdkError::NotStarted { first: first.clone() }),
        (None, Ok(has_huge_pages)) => Ok(*has_huge_pages),
    }
}

/// Starts DPDK, with memory in huge pages if the options want it and enough are free. Returns
/// whether it uses huge pages.
fn try_start(options: &EalOptions) -> Result<bool, DpdkError> {
    let (free_mb, wanted_mb) = (free_huge_mb(), u64::from(options.memory_mb));
    let use_huge_pages = match options.huge_pages {
        HugePages::Avoid => false,
        HugePages::IfFree => free_mb >= wanted_mb,
        HugePages::Require if free_mb >= wanted_mb => true,
        HugePages::Require => return Err(DpdkError::NoHugePages { free_mb, wanted_mb }),
    };
    // Start on a separate thread, because DPDK pins the starting thread. The thread leaves the
    // caller's network namespace, because a DPDK thread would inherit it and keep it alive.
    let outcome =
        thread::scope(|scope| scope.spawn(|| leave_namespace().and_then(|()| init(options, use_huge_pages))).join());
    let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("the starting thread panicked")));
    outcome.map_err(|problem| DpdkError::Start { problem, log: log() })?;
    Ok(use_huge_pages)
}

/// Enters the network namespace of the process, because the calling thread can be in another one.
fn leave_namespace() -> io::Result<()> {
    // Without /proc, this crate cannot enter another namespace.
    let (Ok(own), Ok(thread)) = (File::open("/proc/self/ns/net"), File::open("/proc/thread-self/ns/net")) else {
        return Ok(());
    };
    if own.metadata()?.st_ino() == thread.metadata()?.st_ino() {
        return Ok(());
    }
    sys::enter_network_namespace(own.as_fd())
}

/// Calls DPDK's initialisation with the arguments for these options. Must run once per process, on
/// a thread of its own, because DPDK changes the processors of the calling thread.
fn init(options: &EalOptions, use_huge_pages: bool) -> io::Result<()> {
    // SAFETY: the function has the required signature and lives as long as the program.
    unsafe { ffi::td_log_to(write_log) };
    let cores: Vec<String> = sys::allowed_cores()?.iter().map(usize::to_string).collect();
    let mut arguments: Vec<String> =
        ["terrace", "--no-telemetry", "-a", NO_PCI_DEVICE, "--lcores"].iter().map(ToString::to_string).collect();
    // One DPDK thread (number 0), which may run on each processor of this process.
    arguments.push(format!("0@({})", cores.join(",")));
    let memory = options.memory_mb.max(16).to_string();
    match use_huge_pages {
        // One unnamed file per page size, which memif needs for sharing it.
        true => arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned)),
        // DPDK does not accept these together with --in-memory. No files remain in either case.
        false => arguments.extend(["--no-huge", "--no-shconf", "-m", &memory].map(str::to_owned)),
    }
    let arguments: Result<Vec<CString>, _> = arguments.into_iter().map(CString::new).collect();
    // DPDK keeps pointers to its arguments.
    let pointers: Vec<*mut c_char> = arguments.map_err(io::Error::other)?.into_iter().map(CString::into_raw).collect();
    let pointers = pointers.leak();
    // SAFETY: `pointers` are that number of zero-terminated strings, never freed and not used
    // elsewhere. This runs once per process.
    let outcome = unsafe { ffi::rte_eal_init(pointers.len() as c_int, pointers.as_mut_ptr()) };
    if outcome < 0 { Err(last_error()) } else { Ok(()) }
}

/// Returns the free memory in huge pages, in MiB.
fn free_huge_mb() -> u64 {
    let folders = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free_kb = folders.filter_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        let size: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let free: u64 = fs::read_to_string(folder.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
        Some(size * free)
    });
    free_kb.sum::<u64>() / 1024
}

/// Returns the error of the last DPDK function on this thread.
pub(super) fn last_error() -> io::Error {
    // SAFETY: reads a variable of this thread.
    io::Error::from_raw_os_error(unsafe { ffi::td_errno() })
}

/// Stores DPDK's log output; called by the C library. Keeps the last [`LOG_LINES`] lines, which an
/// error quotes.
extern "C" fn write_log(_: *mut c_void, text: *const c_char, len: usize) -> ssize_t {
    // SAFETY: the C library passes `len` bytes that do not change during the call.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    let mut lines = LOG.lock();
    for line in String::from_utf8_lossy(bytes).lines().map(str::trim).filter(|line| !line.is_empty()) {
        if lines.len() == LOG_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }
    len as ssize_t
}

/// Clears the stored log, so that an error does not quote earlier output.
pub(super) fn forget_log() {
    LOG.lock().clear();
}

/// Returns the last lines of DPDK's log, joined to one.
pub(super) fn log() -> String {
    let lines = LOG.lock();
    match lines.len() {
        0 => "nothing".to_owned(),
        count => lines.iter().skip(count.saturating_sub(4)).cloned().collect::<Vec<_>>().join("; "),
    }
}

/// Registers the thread with the EAL, because only registered threads have a mempool cache.
struct RegisteredThread(bool);

impl RegisteredThread {
    fn new() -> RegisteredThread {
        // SAFETY: DPDK is running, because only threads that use a port get here. If all thread ids
        // are used, the thread works without a cache, slower.
        RegisteredThread(unsafe { ffi::rte_thread_register() } == 0)
    }
}

impl Drop for RegisteredThread {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was registered and has not been unregistered.
            unsafe { ffi::rte_thread_unregister() };
        }
    }
}

thread_local! {
    static REGISTERED: RegisteredThread = RegisteredThread::new();
}

/// Registers this thread with DPDK until it ends.
#[inline]
pub(super) fn register_thread() {
    // A thread that is ending can still send, without registration.
    let _ = REGISTERED.try_with(|known| known.0);
}
