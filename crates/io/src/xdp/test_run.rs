//! `BPF_PROG_TEST_RUN` (Documentation/bpf/bpf_prog_run.rst of the kernel): with live frames, the
//! kernel runs the XDP program on generated frames and really sends them; otherwise, it runs the tc
//! program on one packet and returns it. The aya library does not have this call.
#![allow(unsafe_code)]

use super::XdpError;
use super::classifier::classifier;
use super::kernel::XdpProgram;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

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
    // SAFETY: frame and context live until the call returns.
    unsafe { call(&mut attributes) }
}

/// Makes the system call.
///
/// # Safety
/// The memory that the attributes point to lives until it returns, and has the given sizes.
unsafe fn call(attributes: &mut Attributes) -> io::Result<()> {
    let size = size_of::<Attributes>() as libc::c_ulong;
    // SAFETY: the attributes have the layout of the command; the caller answers for the rest.
    let result = unsafe { libc::syscall(libc::SYS_bpf, COMMAND, &raw mut *attributes, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Result of the tc program for one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcRun {
    /// Returned action: -1 (to the stack), 2 (dropped), 7 (redirected).
    pub action: i32,
    /// The packet after it.
    pub bytes: Vec<u8>,
}

/// `struct __sk_buff`, as 32-bit words.
#[repr(C, align(8))]
struct SocketBuffer([u32; 48]);

/// Words of [`SocketBuffer`].
const IFINDEX: usize = 10;
const GSO_SEGS: usize = 41;
const GSO_SIZE: usize = 44;

impl XdpProgram {
    /// Runs the tc program on a packet, as if received on an interface of the calling thread's
    /// network namespace. `segments`: number and payload size of a super-frame's segments. For
    /// tests; the packet is not sent, but counted.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn run_tc(&self, interface: u32, packet: &[u8], segments: Option<(u32, u32)>) -> Result<TcRun, XdpError> {
        let system_error = |source| XdpError::System { step: "run the tc program on a packet", source };
        let mut inner = self.inner();
        let program = classifier(&mut inner.ebpf, "terrace_tc").map_err(XdpError::Refused)?;
        let program = program.fd().map_err(super::kernel::refused)?.as_fd();
        let mut context = SocketBuffer([0; 48]);
        context.0[IFINDEX] = interface;
        (context.0[GSO_SEGS], context.0[GSO_SIZE]) = segments.unwrap_or_default();
        let mut bytes = vec![0; packet.len() + 256];
        let mut attributes = Attributes {
            program: program.as_raw_fd() as u32,
            data_size_in: packet.len() as u32,
            data_in: packet.as_ptr() as u64,
            data_size_out: bytes.len() as u32,
            data_out: bytes.as_mut_ptr() as u64,
            repeat: 1,
            context_size_in: size_of::<SocketBuffer>() as u32,
            context_in: &raw const context as u64,
            ..Attributes::default()
        };
        // SAFETY: packet, result and context live until the call returns, with these sizes.
        unsafe { call(&mut attributes) }.map_err(system_error)?;
        bytes.truncate(attributes.data_size_out as usize);
        Ok(TcRun { action: attributes.result as i32, bytes })
    }
}
