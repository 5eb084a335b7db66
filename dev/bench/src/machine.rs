//! The machine under the measurements: which core, how many huge pages, and what it is.

#![allow(unsafe_code)] // the thread's clock and affinity are system calls

use crate::leftovers::{Leftover, What};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where huge pages of 2 MiB are reserved.
const RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// Where huge pages of 2 MiB that nobody uses are counted.
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Where huge pages of 2 MiB that are there only until their user gives them up are counted.
const SURPLUS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";

/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// The processor time that this thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The time since some moment, the same for all processes of this machine, in nanoseconds.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Pins this thread, and those it starts, to a core. False: the machine refuses, or has no such core.
pub fn pin(core: usize) -> bool {
    if core >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: the set is plain bits, zero is a valid value, and `core` is within it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Lets this thread, and those it starts, run on all cores. False: the machine refuses.
pub fn unpin() -> bool {
    // SAFETY: as in `pin`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..cores().min(libc::CPU_SETSIZE as usize)).for_each(|core| libc::CPU_SET(core, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Large memory comes from the system and goes back to it, as for who asks once: or else `calloc` clears what was used before.
pub fn large_memory_goes_back() {
    // SAFETY: sets a number of the allocator's.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
}

/// How many cores the machine has.
pub fn cores() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Prefers this session to others that run on the same cores: with `sched_autogroup_enabled`, `nice` alone does not.
/// False if the machine refuses (not root).
pub fn prefer() -> bool {
    fs::write("/proc/self/autogroup", "-20").is_ok()
}

/// Makes this thread run whenever it can, before all that is not of this kind, so that nothing but the kernel stops it. For threads
/// that have a core of their own and whose pauses are measured. False if the machine refuses (not root).
pub fn never_stopped() -> bool {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: the parameters are there; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) == 0 }
}

/// How long this thread has been ready to run while others had its core.
pub fn kept_waiting() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().nth(1).and_then(|time| time.parse().ok()).unwrap_or(0))
}

/// Whether nothing more can come from standard input, found out without waiting.
pub fn input_ended() -> bool {
    let mut input = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor's events, which are there.
    unsafe { libc::poll(&mut input, 1, 0) > 0 && input.revents & (libc::POLLHUP | libc::POLLERR) != 0 }
}

/// How long the machine under this one had these cores for others, where this is a virtual machine that is told.
pub fn stolen(cores: &[usize]) -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |core: &usize| {
        let name = format!("cpu{core}");
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
        line.split_whitespace().nth(8)?.parse::<u64>().ok()
    };
    // Hundredths of a second, on every machine that Linux calls by these names.
    Duration::from_millis(cores.iter().filter_map(ticks).sum::<u64>() * 10)
}

/// Huge pages that are given back when this is dropped.
#[derive(Debug)]
pub struct HugePages {
    /// Pages of 2 MiB that could be had.
    pub reserved: usize,
    _given_back: Option<Leftover>,
}

/// Huge pages that are there for good, as far as the machine is concerned.
fn lasting_huge_pages() -> usize {
    number(RESERVED).unwrap_or(0).saturating_sub(number(SURPLUS).unwrap_or(0))
}

/// Gives back so many reserved huge pages. Those in use become surplus ones, which go when their user gives them up; it is waited for a moment
/// that they do.
pub fn give_back_huge_pages(pages: usize) {
    // What others have reserved meanwhile stays theirs.
    let wanted = lasting_huge_pages().saturating_sub(pages);
    for _ in 0..20 {
        let _ = fs::write(RESERVED, wanted.to_string());
        let [all, surplus, free] = [RESERVED, SURPLUS, FREE].map(|path| number(path).unwrap_or(0));
        if all <= wanted || surplus == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
        // Pages that were given up in that very moment can be surplus and free, and would stay so. They are made lasting ones once more.
        let _ = fs::write(RESERVED, (wanted + surplus.min(free)).to_string());
    }
    let _ = fs::write(RESERVED, wanted.to_string());
}

impl HugePages {
    /// Reserves huge pages for `bytes`, besides those that others use. It may get fewer, or none (not root, memory in pieces).
    pub fn reserve(bytes: usize) -> HugePages {
        let free = number(FREE).unwrap_or(0);
        let missing = bytes.div_ceil(HUGE_PAGE).saturating_sub(free);
        if missing == 0 {
            return HugePages { reserved: free, _given_back: None };
        }
        let before = lasting_huge_pages();
        let _ = fs::write(RESERVED, (before + missing).to_string());
        let got = lasting_huge_pages().saturating_sub(before);
        let given_back = Leftover::new(What::HugePages(got));
        HugePages { reserved: number(FREE).unwrap_or(0), _given_back: Some(given_back) }
    }
}

fn number(path: &str) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Bytes of memory that a process could still have.
pub fn available_memory() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|kb| kb.trim().parse().ok())
        .map_or(0, |kb: usize| kb << 10)
}

/// What a report says about the machine and the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor, as it calls itself.
    pub processor: String,
    /// Cores of the machine; the run uses one unless it says otherwise.
    pub cores: usize,
    /// Bytes of memory that were free at the start.
    pub memory: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Huge pages of 2 MiB that the run got.
    pub huge_pages: usize,
    /// Whether it was preferred to other work on the same core.
    pub preferred: bool,
}

impl Machine {
    /// This machine.
    pub fn here(huge_pages: &HugePages, preferred: bool) -> Machine {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpu.lines().find(|line| line.starts_with("model name"));
        let processor = name.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown").trim().to_owned();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let memory = available_memory();
        Machine { processor, cores: cores(), memory, kernel, huge_pages: huge_pages.reserved, preferred }
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.ancestors().nth(2).unwrap_or(bench).to_owned()
}

/// Where results go: `target/bench`.
pub fn results() -> PathBuf {
    root().join("target/bench")
}
