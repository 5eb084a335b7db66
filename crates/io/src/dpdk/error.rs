//! What can go wrong with DPDK and its devices.

use std::io;
use thiserror::Error;

/// A DPDK port could not be opened.
#[derive(Debug, Error)]
pub enum DpdkError {
    /// There was no DPDK when this program was built.
    #[error("`{device}`: built without DPDK: install libdpdk-dev and build again")]
    NotBuilt {
        /// The device.
        device: String,
    },
    /// Not a device string.
    #[error("`{device}` is not a DPDK device: {why}")]
    BadDevice {
        /// What was given.
        device: String,
        /// What is wrong with it.
        why: String,
    },
    /// Huge pages were asked for.
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
    /// The environment does not start. It cannot be tried again in this process.
    #[error("DPDK cannot start: {problem}; mend it and start this program again. DPDK says: {log}")]
    Start {
        /// What happened.
        problem: io::Error,
        /// Its last words.
        log: String,
    },
    /// It did not start when a port was opened before.
    #[error("DPDK could not be started when the first port was opened ({first})")]
    NotStarted {
        /// What was said then.
        first: String,
    },
    /// Not enough memory for packets.
    #[error("`{device}`: {wanted_mb} MiB of memory for {buffers} packet buffers cannot be had ({memory}); {mend}")]
    TooLittleMemory {
        /// The device.
        device: String,
        /// How much is needed.
        wanted_mb: u64,
        /// How many buffers.
        buffers: u32,
        /// Where it was to come from.
        memory: &'static str,
        /// What helps.
        mend: &'static str,
    },
    /// No such device, or its driver refuses it.
    #[error("there is no DPDK device `{device}`: {mend}. DPDK says: {log}")]
    NoSuchDevice {
        /// The device.
        device: String,
        /// What helps.
        mend: String,
        /// DPDK's last words.
        log: String,
    },
    /// A file or socket that the device needs.
    #[error("`{device}`: cannot use `{path}`")]
    Path {
        /// The device.
        device: String,
        /// The path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The device is open already.
    #[error("the DPDK device `{device}` is open already; each device can be one port")]
    InUse {
        /// The device.
        device: String,
    },
    /// More queues than there can be.
    #[error("`{device}` can have 1 to {most} queues, not {asked}; run as many workers as it has queues{hint}")]
    Queues {
        /// The device.
        device: String,
        /// How many were asked for.
        asked: usize,
        /// How many it can have.
        most: usize,
        /// How it can have more, if it can.
        hint: &'static str,
    },
    /// Buffers and MTU do not go together.
    #[error("`{device}`: {why}")]
    Size {
        /// The device.
        device: String,
        /// What does not fit, and the mend.
        why: String,
    },
    /// The driver refuses a step.
    #[error("cannot {step} the DPDK device `{device}`. DPDK says: {log}")]
    Configure {
        /// The device.
        device: String,
        /// What was tried.
        step: String,
        /// DPDK's last words.
        log: String,
        /// The driver's error.
        source: io::Error,
    },
    /// The network namespace of the caller cannot be found out.
    #[error("`{device}`: cannot find out in which network namespace this is; is /proc mounted?")]
    Namespace {
        /// The device.
        device: String,
        /// The system's error.
        source: io::Error,
    },
}
