//! [`Redirect`]: a tc program of four instructions that sends all packets which arrive on one
//! interface out of another one.
//!
//! It is attached by a link of the kernel's tcx hook (Linux 6.6), so it needs no `tc` command, no
//! queueing discipline, and goes when the process ends.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `BPF_PROG_LOAD` and `BPF_LINK_CREATE` of `enum bpf_cmd`.
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
/// `BPF_PROG_TYPE_SCHED_CLS`.
const SCHED_CLS: u32 = 3;
/// `BPF_TCX_INGRESS` of `enum bpf_attach_type`.
const TCX_INGRESS: u32 = 46;
/// Number of the helper `bpf_redirect`.
const REDIRECT: i32 = 23;

/// `struct bpf_insn`.
#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

/// `union bpf_attr`, the part for `BPF_PROG_LOAD`.
#[repr(C)]
struct LoadAttributes {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

/// `union bpf_attr`, the part for `BPF_LINK_CREATE` at a tcx hook.
#[repr(C)]
struct LinkAttributes {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    expected_revision: u64,
}

/// The program's attachment. Dropping it detaches the program.
#[derive(Debug)]
pub(crate) struct Redirect(OwnedFd);

impl Redirect {
    /// Attaches the program to the ingress of the interface with index `from`, for packets to leave
    /// by that with index `to`. Both are in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel's error: EPERM without CAP_BPF and CAP_NET_ADMIN, EINVAL before Linux 6.6.
    pub(crate) fn attach(from: u32, to: u32) -> io::Result<Redirect> {
        let instruction = |code, register, value| Instruction { code, registers: register, offset: 0, value };
        let instructions = [
            // r1 = to; r2 = 0; r0 = bpf_redirect(r1, r2); exit
            instruction(0xb4, 1, to as i32),
            instruction(0xb4, 2, 0),
            instruction(0x85, 0, REDIRECT),
            instruction(0x95, 0, 0),
        ];
        let mut load = LoadAttributes {
            kind: SCHED_CLS,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: c"Apache-2.0".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: *b"terrace_redirect",
        };
        // The kernel requires a name that ends with a zero.
        load.name[15] = 0;
        // SAFETY: the attributes have the layout of the command, and the instructions and the
        // string that they point to live until it returns.
        let program = unsafe { bpf(PROG_LOAD, &mut load) }?;
        let mut link = LinkAttributes {
            program: program.as_raw_fd() as u32,
            interface: from,
            attach_type: TCX_INGRESS,
            flags: 0,
            relative: 0,
            padding: 0,
            expected_revision: 0,
        };
        // SAFETY: the attributes have the layout of the command and contain no pointers.
        Ok(Redirect(unsafe { bpf(LINK_CREATE, &mut link) }?))
    }

    /// Wraps a link that another process has created.
    pub(crate) fn from_descriptor(link: OwnedFd) -> Redirect {
        Redirect(link)
    }

    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }
}

/// Runs a command that returns a descriptor.
///
/// # Safety
/// `attributes` must have the layout of the command, and its pointers must be valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: guaranteed by the caller.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<T>() as libc::c_ulong) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the descriptor is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
