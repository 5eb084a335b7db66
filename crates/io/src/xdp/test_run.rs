//! `BPF_PROG_TEST_RUN` with live frames (Documentation/bpf/bpf_prog_run.rst of the kernel): the
//! kernel runs a program on generated frames and really sends them. The aya library does not have
//! this call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `BPF_PROG_TEST_RUN` of `enum bpf_cmd`.
const COMMAND: libc::c_long = 10;
/// `BPF_F_TEST_XDP_LIVE_FRAMES`.
const LIVE_FRAMES: u32 = 1 << 1;

/// `union bpf_attr`, the part for this command.
#[derive(Default)]
#[repr(C)]
struct Attributes {
    program: u32,
    result: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_size_in: u32,
    context_size_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    processor: u32,
    batch_size: u32,
    unused: u32,
}

/// `struct xdp_md`.
#[repr(C)]
struct XdpContext {
    data: u32,
    data_end: u32,
    data_meta: u32,
    ingress: u32,
    queue: u32,
    egress: u32,
}

/// Runs an XDP program `count` times on a frame, as if received on queue 0 of an interface of the
/// calling thread's network namespace. `interface` 0 means no interface.
///
/// # Errors
/// The kernel's error.
pub(super) fn run_live(program: BorrowedFd<'_>, interface: u32, frame: &[u8], count: u32) -> io::Result<()> {
    let context =
        XdpContext { data: 0, data_end: frame.len() as u32, data_meta: 0, ingress: interface, queue: 0, egress: 0 };
    let mut attributes = Attributes {
        program: program.as_raw_fd() as u32,
        data_size_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: count,
        context_size_in: size_of::<XdpContext>() as u32,
        context_in: &raw const context as u64,
        flags: LIVE_FRAMES,
        batch_size: 64,
        ..Attributes::default()
    };
    // SAFETY: the attributes have the layout of the command, and the memory that they point to
    // lives until it returns.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, COMMAND, &raw mut attributes, size_of::<Attributes>() as libc::c_ulong) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
