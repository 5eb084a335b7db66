//! [`KernelInterface`]: a port's interface that the kernel's own stack uses too, and the filter that
//! hides packets from that stack.

use crate::control_queues::{ControlQueues, ControlQueuesSlot};
use crate::sys;
use crate::xdp::error_chain;
use aya::Ebpf;
use aya::programs::{SchedClassifier, TcAttachType, tc};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use thiserror::Error;

#[cfg(has_bpf)]
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/hide.bpf.o"));
#[cfg(not(has_bpf))]
static OBJECT: &[u8] = &[];

/// Received packets that the kernel's own stack does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenPackets {
    /// All of them.
    All,
    /// UDP to port 4789.
    Vxlan,
}

impl HiddenPackets {
    /// Returns the name of the program in `bpf/hide.bpf.c`.
    fn program(self) -> &'static str {
        match self {
            HiddenPackets::All => "hide_all",
            HiddenPackets::Vxlan => "hide_vxlan",
        }
    }
}

/// Error: packets cannot be hidden from the kernel.
#[derive(Debug, Error)]
#[error("the packets of `{interface}` cannot be divided between the node and the kernel: {why}")]
pub struct KernelFilterError {
    interface: String,
    why: String,
}

/// A network interface whose packets both a port and the kernel's own stack receive.
pub struct KernelInterface {
    name: String,
    /// A socket in the interface's network namespace.
    socket: OwnedFd,
    /// Where the port takes queues of control traffic from, if it can use them.
    queues: Option<Arc<ControlQueuesSlot>>,
}

impl KernelInterface {
    /// Describes an interface; `socket` is any socket of its network namespace. `None` if the system
    /// provides no descriptor.
    pub(crate) fn new(
        name: &str,
        socket: BorrowedFd<'_>,
        queues: Option<Arc<ControlQueuesSlot>>,
    ) -> Option<KernelInterface> {
        Some(KernelInterface { name: name.to_owned(), socket: socket.try_clone_to_owned().ok()?, queues })
    }

    /// Gives the port receive queues of its own for control traffic, so that a flood of tunnels
    /// loses no BGP and no BFD. Does nothing for ports of other kinds than raw sockets.
    ///
    /// # Errors
    /// The queues cannot be opened; the port has one queue for all packets.
    pub fn divide_queues(&self) -> Result<(), KernelFilterError> {
        let Some(slot) = &self.queues else { return Ok(()) };
        slot.put(self.run_inside(|| ControlQueues::open(&self.name))?);
        Ok(())
    }

    /// Returns the name of the interface in its namespace.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Hides packets from the kernel's own stack until the filter is dropped. The port receives them
    /// as before. Needs CAP_NET_ADMIN and CAP_BPF, and Linux 6.6 or the qdisc `clsact`.
    ///
    /// # Errors
    /// The kernel refuses the filter, or this build has none.
    pub fn hide(&self, hidden: HiddenPackets) -> Result<KernelFilter, KernelFilterError> {
        let filter_error = |why: String| KernelFilterError { interface: self.name.clone(), why };
        if OBJECT.is_empty() {
            return Err(filter_error("this build has no eBPF programs; install clang and build again".to_owned()));
        }
        self.run_inside(|| attach(&self.name, hidden))
    }

    /// Runs `work` in the interface's network namespace.
    fn run_inside<T: Send>(&self, work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, KernelFilterError> {
        let failed = |why: String| KernelFilterError { interface: self.name.clone(), why };
        let namespace = sys::network_namespace_of(self.socket.as_fd()).map_err(|error| {
            failed(format!("its network namespace cannot be entered ({error}); this needs CAP_NET_ADMIN"))
        })?;
        let inside = || {
            sys::enter_network_namespace(namespace.as_fd()).map_err(|error| error.to_string())?;
            work()
        };
        // A thread of its own, because the namespace of the calling thread must not change.
        let outcome = thread::scope(|scope| scope.spawn(inside).join());
        outcome.unwrap_or_else(|_| Err("the thread in the namespace failed".to_owned())).map_err(failed)
    }
}

/// Attaches the filter that hides packets from the kernel's stack to an interface of the calling
/// thread's network namespace.
fn attach(interface: &str, hidden: HiddenPackets) -> Result<KernelFilter, String> {
    let refused = |error: &dyn std::error::Error| {
        format!("{}; this needs CAP_NET_ADMIN, CAP_BPF and Linux 6.6 or later", error_chain(error))
    };
    let mut ebpf = Ebpf::load(OBJECT).map_err(|error| refused(&error))?;
    let program = ebpf.program_mut(hidden.program()).ok_or("the object lacks the program")?;
    let program: &mut SchedClassifier = program.try_into().map_err(|error| refused(&error))?;
    program.load().map_err(|error| refused(&error))?;
    // Before Linux 6.6, the filter needs this qdisc. An existing one is an error that means nothing.
    let _ = tc::qdisc_add_clsact(interface);
    program.attach(interface, TcAttachType::Ingress).map_err(|error| refused(&error))?;
    Ok(KernelFilter { _ebpf: ebpf })
}

/// Hides packets from the kernel's own stack. Dropping it ends this.
pub struct KernelFilter {
    // Keeps the program attached.
    _ebpf: Ebpf,
}

impl fmt::Debug for KernelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KernelFilter")
    }
}
