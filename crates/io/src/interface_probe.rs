//! [`InterfaceProbe`]: asks the kernel for interfaces by name, at any time.

use crate::sys::{InterfaceState, find_interface, request_socket};
use std::io;
use std::os::fd::OwnedFd;

/// Asks for the interfaces of the network namespace in which it was opened, from any thread.
///
/// In contrast to a port, it is bound to no interface: it also finds one that was removed and made
/// again, or that does not exist yet.
#[derive(Debug)]
pub struct InterfaceProbe {
    socket: OwnedFd,
}

impl InterfaceProbe {
    /// Opens a probe in the calling thread's network namespace (see [`crate::Namespace::run`]).
    ///
    /// # Errors
    /// There is no free descriptor.
    pub fn open() -> io::Result<InterfaceProbe> {
        request_socket().map(|socket| InterfaceProbe { socket })
    }

    /// Returns the state of an interface now, or `None` if there is none of this name. Its carrier
    /// is that which the driver reports, because the kernel's own flag can lag a second behind.
    /// Takes about 5 us.
    pub fn find(&self, interface: &str) -> Option<InterfaceState> {
        find_interface(&self.socket, interface)
    }
}
