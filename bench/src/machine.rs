//! The machine under the measurements: which core, how many huge pages, and what it is.

#![allow(unsafe_code)] // the thread's clock and affinity are system calls

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Where huge pages of 2 MiB are reserved.
const RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// Where huge pages of 2 MiB that nobody uses are counted.
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// The processor time that this thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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

/// Huge pages that are given back when this is dropped.
#[derive(Debug)]
pub struct HugePages {
    before: Option<usize>,
    /// Pages of 2 MiB that could be had.
    pub reserved: usize,
}

impl HugePages {
    /// Reserves huge pages for `bytes`, besides those that others use. It may get fewer, or none (not root, memory in pieces).
    pub fn reserve(bytes: usize) -> HugePages {
        let Some(before) = number(RESERVED) else { return HugePages { before: None, reserved: 0 } };
        let free = number(FREE).unwrap_or(0);
        let wanted = before - free.min(before) + bytes.div_ceil(HUGE_PAGE);
        if wanted <= before || fs::write(RESERVED, wanted.to_string()).is_err() {
            return HugePages { before: None, reserved: free };
        }
        HugePages { before: Some(before), reserved: number(FREE).unwrap_or(0) }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // Pages that are still in use stay until their user gives them up.
            let _ = fs::write(RESERVED, before.to_string());
        }
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
    let bench = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    bench.parent().map_or(bench.clone(), PathBuf::from)
}

/// Where results go: `target/bench`.
pub fn results() -> PathBuf {
    root().join("target/bench")
}
