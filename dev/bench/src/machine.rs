//! The machine of the measurements: core, huge pages, and description.

#![allow(unsafe_code)] // the thread's clock and affinity are system calls

use crate::external_resources::{ExternalResource, ResourceGuard};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// File with the number of reserved huge pages of 2 MiB.
const RESERVED: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// File with the number of unused huge pages of 2 MiB.
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// File with the number of surplus huge pages of 2 MiB, which are freed when their user releases
/// them.
const SURPLUS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/surplus_hugepages";

/// Size of a huge page in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// Returns the processor time that this thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid memory for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the monotonic time in nanoseconds, which is the same for all processes of this machine.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid memory for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Pins this thread, and the threads that it starts, to a core. Returns false if the machine
/// refuses or has no such core.
pub fn pin_to_core(core: usize) -> bool {
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

/// Allows this thread, and the threads that it starts, to run on all cores. Returns false if the
/// machine refuses.
pub fn unpin_thread() -> bool {
    // SAFETY: as in `pin`.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..cores().min(libc::CPU_SETSIZE as usize)).for_each(|core| libc::CPU_SET(core, &mut set));
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Makes the allocator map large blocks directly and unmap them when freed, as for a process that
/// allocates once. Otherwise `calloc` would clear reused memory.
pub fn unmap_large_blocks() {
    // SAFETY: only sets a parameter of the allocator.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
}

/// Returns the number of cores of the machine.
pub fn cores() -> usize {
    // SAFETY: only reads a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1)
}

/// Gives this session precedence over others on the same cores, because with
/// `sched_autogroup_enabled`, `nice` alone has no effect. Returns false if the machine refuses (not
/// root).
pub fn prefer_session() -> bool {
    fs::write("/proc/self/autogroup", "-20").is_ok()
}

/// Gives this thread real-time priority, so that only the kernel interrupts it. For threads on a
/// core of their own, where pauses are measured. Returns false if the machine refuses (not root).
pub fn set_realtime_priority() -> bool {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: the parameters are valid memory; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) == 0 }
}

/// Returns the time that this thread was ready to run while others used its core.
pub fn waiting_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split_whitespace().nth(1).and_then(|time| time.parse().ok()).unwrap_or(0))
}

/// Returns whether standard input is at its end, without blocking.
pub fn input_ended() -> bool {
    let mut input = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor's events, which are valid memory.
    unsafe { libc::poll(&mut input, 1, 0) > 0 && input.revents & (libc::POLLHUP | libc::POLLERR) != 0 }
}

/// Returns the time that the hypervisor used these cores for others, as far as it reports it to
/// this virtual machine.
pub fn stolen_time(cores: &[usize]) -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = |core: &usize| {
        let name = format!("cpu{core}");
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
        line.split_whitespace().nth(8)?.parse::<u64>().ok()
    };
    // In hundredths of a second, as on all architectures of Linux.
    Duration::from_millis(cores.iter().filter_map(ticks).sum::<u64>() * 10)
}

/// Reserved huge pages, given back when dropped.
#[derive(Debug)]
pub struct HugePages {
    /// Number of available pages of 2 MiB.
    pub reserved: usize,
    _given_back: Option<ResourceGuard>,
}

/// Returns the number of reserved huge pages without surplus ones.
fn lasting_huge_pages() -> usize {
    read_number(RESERVED).unwrap_or(0).saturating_sub(read_number(SURPLUS).unwrap_or(0))
}

/// Gives back `pages` reserved huge pages. Pages in use become surplus ones, which are freed when
/// their user releases them. Waits briefly for that.
pub fn give_back_huge_pages(pages: usize) {
    // Pages that others have reserved meanwhile are kept.
    let wanted = lasting_huge_pages().saturating_sub(pages);
    for _ in 0..20 {
        let _ = fs::write(RESERVED, wanted.to_string());
        let [all, surplus, free] = [RESERVED, SURPLUS, FREE].map(|path| read_number(path).unwrap_or(0));
        if all <= wanted || surplus == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
        // Pages that were released at this moment can be both surplus and free, and would remain
        // so. They are made reserved again.
        let _ = fs::write(RESERVED, (wanted + surplus.min(free)).to_string());
    }
    let _ = fs::write(RESERVED, wanted.to_string());
}

impl HugePages {
    /// Reserves huge pages for `bytes`, in addition to those that others use. Fewer or none are
    /// reserved without permission (not root) or if memory is fragmented.
    pub fn reserve(bytes: usize) -> HugePages {
        let free = read_number(FREE).unwrap_or(0);
        let missing = bytes.div_ceil(HUGE_PAGE).saturating_sub(free);
        if missing == 0 {
            return HugePages { reserved: free, _given_back: None };
        }
        let before = lasting_huge_pages();
        let _ = fs::write(RESERVED, (before + missing).to_string());
        let got = lasting_huge_pages().saturating_sub(before);
        let given_back = ResourceGuard::new(ExternalResource::HugePages(got));
        HugePages { reserved: read_number(FREE).unwrap_or(0), _given_back: Some(given_back) }
    }
}

fn read_number(path: &str) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the resident memory of this process in bytes.
pub fn resident_bytes() -> usize {
    let pages = |text: String| text.split_whitespace().nth(1)?.parse::<usize>().ok();
    std::fs::read_to_string("/proc/self/statm").ok().and_then(pages).unwrap_or(0) * 4096
}

/// Returns the bytes of memory that a process could still allocate.
pub fn available_memory() -> usize {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|kb| kb.trim().parse().ok())
        .map_or(0, |kb: usize| kb << 10)
}

/// Description of the machine and the run in a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the processor.
    pub processor: String,
    /// Number of cores of the machine. The run uses one unless it states otherwise.
    pub cores: usize,
    /// Available memory at the start, in bytes.
    pub memory: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Number of huge pages of 2 MiB that the run got.
    pub huge_pages: usize,
    /// Whether the run had precedence over other work on the same core.
    pub preferred: bool,
}

impl Machine {
    /// Describes this machine.
    pub fn here(huge_pages: &HugePages, preferred: bool) -> Machine {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = cpu.lines().find(|line| line.starts_with("model name"));
        let processor = name.and_then(|line| line.split(':').nth(1)).unwrap_or("unknown").trim().to_owned();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let memory = available_memory();
        Machine { processor, cores: cores(), memory, kernel, huge_pages: huge_pages.reserved, preferred }
    }
}

/// Returns the root directory of the repository.
pub fn root() -> PathBuf {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    bench.ancestors().nth(2).unwrap_or(bench).to_owned()
}

/// Returns the folder for results: `target/bench`.
pub fn results() -> PathBuf {
    root().join("target/bench")
}
