//! [`RingDrops`]: packets that the kernel dropped because a ring of DPDK's AF_PACKET driver was
//! full.
//!
//! The driver (of DPDK 22.11) does not count them, but the kernel does at the driver's sockets.
//! These are the process's packet sockets of the interface that exist after the device was added
//! but did not before.

#![allow(unsafe_code)] // a descriptor that is another one's

use crate::sys::{packet_socket_drops, packet_socket_interface};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// The sockets of a device's rings.
pub(super) struct RingDrops(Vec<OwnedFd>);

impl RingDrops {
    /// Calls `add`, which adds a device, and finds its sockets on the interface of this index.
    pub fn of_added<T, E>(interface: i32, add: impl FnOnce() -> Result<T, E>) -> Result<(T, RingDrops), E> {
        let before = packet_sockets(interface);
        let added = add()?;
        let new = packet_sockets(interface).into_iter().filter(|socket| !before.contains(socket));
        Ok((added, RingDrops(new.filter_map(duplicate).collect())))
    }

    /// Returns the number of dropped packets since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.0.iter().map(packet_socket_drops).sum()
    }
}

/// Returns the process's packet sockets that are bound to an interface.
fn packet_sockets(interface: i32) -> BTreeSet<RawFd> {
    let numbers = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<RawFd>().ok());
    numbers.filter(|number| packet_socket_interface(*number) == Some(interface)).collect()
}

/// Returns a second descriptor of a socket.
fn duplicate(socket: RawFd) -> Option<OwnedFd> {
    // SAFETY: the driver has just opened it and closes it with the device; devices are added and
    // removed by one thread at a time. If it were closed, the call would fail.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    socket.try_clone_to_owned().ok()
}
