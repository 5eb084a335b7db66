//! Errors of DPDK and its devices.

use std::io;
use thiserror::Error;

/// Error of opening a DPDK port.
#[derive(Debug, Error)]
pub enum DpdkError {
    /// The program was built without DPDK.
    #[error("`{device}`: built without DPDK: install libdpdk-dev and build again")]
    NotBuilt {
        /// The device.
        device: String,
    },
    /// The device string is invalid.
    #[error("`{device}` is not a DPDK device: {why}")]
    BadDevice {
        /// The device string as given.
        device: String,
        /// The problem of the string.
        why: String,
    },
    /// Too few huge pages are free, and the options require them.
    #[error(
        "DPDK cannot start with huge pages: {free_mb} MiB of them are free and {wanted_mb} MiB are needed; reserve some \
         (sysctl -w vm.nr_hugepages=N, each has 2 MiB), or go without them, which is slower"
    )]
    NoHugePages {
        /// Free, in MiB.
        free_mb: u64,
        /// Needed, in MiB.
        wanted_mb: u64,
    },
    /// The EAL does not start. A second attempt in this process is impossible.
    #[error("DPDK cannot start: {problem}; fix it and start this program again. DPDK reports: {log}")]
    Start {
        /// The error of the start.
        problem: io::Error,
        /// The last lines of DPDK's log.
        log: String,
    },
    /// The EAL did not start when an earlier port was opened.
    #[error("DPDK could not be started when the first port was opened ({first})")]
    NotStarted {
        /// The error of that start.
        first: String,
    },
    /// Not enough memory for packet buffers.
    #[error(
        "`{device}`: {wanted_mb} MiB of memory for {buffers} packet buffers cannot be allocated ({memory}); {help}"
    )]
    TooLittleMemory {
        /// The device.
        device: String,
        /// Needed memory, in MiB.
        wanted_mb: u64,
        /// Number of buffers.
        buffers: u32,
        /// Source of the memory.
        memory: &'static str,
        /// How to fix the problem.
        help: &'static str,
    },
    /// The device does not exist, or its driver refuses it.
    #[error("there is no DPDK device `{device}`: {help}. DPDK reports: {log}")]
    NoSuchDevice {
        /// The device.
        device: String,
        /// How to fix the problem.
        help: String,
        /// The last lines of DPDK's log.
        log: String,
    },
    /// A file or socket that the device needs cannot be used.
    #[error("`{device}`: cannot use `{path}`")]
    Path {
        /// The device.
        device: String,
        /// The path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The device is already open.
    #[error("the DPDK device `{device}` is open already; each device can be one port")]
    InUse {
        /// The device.
        device: String,
    },
    /// The device does not support this number of queues.
    #[error("`{device}` can have 1 to {most} queues, not {asked}; run as many workers as it has queues{hint}")]
    Queues {
        /// The device.
        device: String,
        /// Requested number of queues.
        asked: usize,
        /// Maximum number of queues.
        most: usize,
        /// How to configure more queues, if possible.
        hint: &'static str,
    },
    /// Buffer length and MTU are incompatible.
    #[error("`{device}`: {why}")]
    Size {
        /// The device.
        device: String,
        /// The problem, and the fix.
        why: String,
    },
    /// The driver refuses an operation.
    #[error("cannot {step} the DPDK device `{device}`. DPDK reports: {log}")]
    Configure {
        /// The device.
        device: String,
        /// The operation that failed.
        step: String,
        /// The last lines of DPDK's log.
        log: String,
        /// The driver's error.
        source: io::Error,
    },
    /// The caller's network namespace cannot be determined.
    #[error("`{device}`: cannot find out in which network namespace this is; is /proc mounted?")]
    Namespace {
        /// The device.
        device: String,
        /// The system's error.
        source: io::Error,
    },
}
