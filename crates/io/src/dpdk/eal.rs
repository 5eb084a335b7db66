//! DPDK's environment: started once, its log kept for errors, threads made known to it.
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

/// Lines of DPDK's log that are kept.
const LOG_LINES: usize = 16;
/// A PCI device that no machine has. As the only one that is allowed, it keeps DPDK from taking devices that nobody asked for; those
/// that somebody asks for can still be added.
const NO_PCI_DEVICE: &str = "ffff:ff:1f.7";

/// The last lines that DPDK wrote.
static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
/// Whether memory is in huge pages, or why the start failed.
static STARTED: OnceLock<Result<bool, String>> = OnceLock::new();

/// Starts DPDK, unless it runs already. Whether its memory is in huge pages.
pub(super) fn start(options: &EalOptions) -> Result<bool, DpdkError> {
    let mut failure = None;
    let outcome = STARTED.get_or_init(|| {
        try_start(options).map_err(|error| {
            let text = error.to_string();
            failure = Some(error);
            text
        })
    });
    match (failure, outcome) {
        (Some(error), _) => Err(error),
        (None, Err(first)) => Err(DpdkError::NotStarted { first: first.clone() }),
        (None, Ok(huge)) => Ok(*huge),
    }
}

fn try_start(options: &EalOptions) -> Result<bool, DpdkError> {
    let (free_mb, wanted_mb) = (free_huge_mb(), u64::from(options.memory_mb));
    let huge = match options.huge_pages {
        HugePages::Avoid => false,
        HugePages::IfFree => free_mb >= wanted_mb,
        HugePages::Require if free_mb >= wanted_mb => true,
        HugePages::Require => return Err(DpdkError::NoHugePages { free_mb, wanted_mb }),
    };
    // A thread of its own, as DPDK pins the one that starts it. It must not stay in the network namespace of a caller: a thread of
    // DPDK's would inherit it, and keep it alive.
    let outcome = thread::scope(|scope| scope.spawn(|| leave_namespace().and_then(|()| init(options, huge))).join());
    let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("the starting thread panicked")));
    outcome.map_err(|problem| DpdkError::Start { problem, log: log() })?;
    Ok(huge)
}

/// The network namespace of the process, in which not all of its threads need to be.
fn leave_namespace() -> io::Result<()> {
    // Without /proc there is no way of being in another namespace that this crate knows.
    let (Ok(own), Ok(thread)) = (File::open("/proc/self/ns/net"), File::open("/proc/thread-self/ns/net")) else {
        return Ok(());
    };
    if own.metadata()?.st_ino() == thread.metadata()?.st_ino() {
        return Ok(());
    }
    sys::enter_network_namespace(own.as_fd())
}

fn init(options: &EalOptions, huge: bool) -> io::Result<()> {
    // SAFETY: the function has the signature that is asked for and lives as long as the program.
    unsafe { ffi::td_log_to(write_log) };
    let cores: Vec<String> = sys::allowed_cores()?.iter().map(usize::to_string).collect();
    let mut arguments: Vec<String> =
        ["terrace", "--no-telemetry", "-a", NO_PCI_DEVICE, "--lcores"].iter().map(ToString::to_string).collect();
    arguments.push(format!("0@({})", cores.join(",")));
    let memory = options.memory_mb.max(16).to_string();
    match huge {
        // One file, without a name, for each kind of page: what memif needs to share it.
        true => arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned)),
        // DPDK does not take these together with --in-memory; nothing is left behind in either case.
        false => arguments.extend(["--no-huge", "--no-shconf", "-m", &memory].map(str::to_owned)),
    }
    let arguments: Result<Vec<CString>, _> = arguments.into_iter().map(CString::new).collect();
    // DPDK keeps pointers to its arguments.
    let pointers: Vec<*mut c_char> = arguments.map_err(io::Error::other)?.into_iter().map(CString::into_raw).collect();
    let pointers = pointers.leak();
    // SAFETY: `pointers` are as many strings that end with a zero, never freed, and nothing else uses them. This runs once in a process.
    let outcome = unsafe { ffi::rte_eal_init(pointers.len() as c_int, pointers.as_mut_ptr()) };
    if outcome < 0 { Err(last_error()) } else { Ok(()) }
}

/// Memory in huge pages that nobody has taken, in MiB.
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

/// The error of the DPDK function that was called last on this thread.
pub(super) fn last_error() -> io::Error {
    // SAFETY: reads a variable of this thread.
    io::Error::from_raw_os_error(unsafe { ffi::td_errno() })
}

/// Called by the C library with what DPDK writes to its log.
extern "C" fn write_log(_: *mut c_void, text: *const c_char, len: usize) -> ssize_t {
    // SAFETY: the C library passes `len` bytes that stay as they are during the call.
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

/// Forgets what DPDK wrote, so that an error does not quote what belongs to another.
pub(super) fn forget_log() {
    LOG.lock().clear();
}

/// The last lines that DPDK wrote, as one.
pub(super) fn log() -> String {
    let lines = LOG.lock();
    match lines.len() {
        0 => "nothing".to_owned(),
        count => lines.iter().skip(count.saturating_sub(4)).cloned().collect::<Vec<_>>().join("; "),
    }
}

/// A thread that DPDK knows: it then has buffers at hand without asking all others.
struct Known(bool);

impl Known {
    fn new() -> Known {
        // SAFETY: DPDK has been started: only threads that use a port get here. If no place is left, everything works as before, slower.
        Known(unsafe { ffi::rte_thread_register() } == 0)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: this thread was registered and has not been unregistered.
            unsafe { ffi::rte_thread_unregister() };
        }
    }
}

thread_local! {
    static KNOWN: Known = Known::new();
}

/// Makes this thread known to DPDK until it ends.
#[inline]
pub(super) fn know_thread() {
    // A thread that is ending, and sends something yet, can do without.
    let _ = KNOWN.try_with(|known| known.0);
}
