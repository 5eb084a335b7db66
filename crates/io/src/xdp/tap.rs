//! [`MissTap`]: a TAP interface through which the tc program passes packets without a flow to this
//! process.
//!
//! The program redirects them into the TAP, so the host's network stack does not see them. The TAP
//! supports no offloads: before it, the kernel completes open checksums, cuts super-frames into
//! segments and puts VLAN tags back. So this process only receives packets as on a wire, whatever
//! the sender left to the hardware.
#![allow(unsafe_code)]

use crate::device_drops::DeviceDrops;
use crate::sys::{check_result, interface_name, interface_request, request_socket};
use crate::tap_device;
use packet::{Batch, MAX_LEN, PortId};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Pattern of the interfaces' names; the kernel inserts a number.
const NAME: &str = "tcmiss%d";
/// Packets that wait for this process at most, as many as in a ring of an AF_XDP socket.
const QUEUE: libc::c_int = 4096;

/// A TAP interface. Dropping it removes the interface.
pub(super) struct MissTap {
    descriptor: OwnedFd,
    name: String,
    index: u32,
    drops: Option<DeviceDrops>,
    buffer: Box<[u8]>,
}

impl MissTap {
    /// Creates an interface in the calling thread's network namespace. It is down, until
    /// [`MissTap::start`].
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, or CAP_NET_ADMIN is missing.
    pub fn create() -> io::Result<MissTap> {
        let descriptor = OwnedFd::from(tap_device::open_driver()?);
        let name = tap_device::create(&descriptor, NAME, 0)?;
        let socket = request_socket()?;
        let index = interface_request(&socket, &name, libc::SIOCGIFINDEX)?;
        // SAFETY: SIOCGIFINDEX succeeded, so it has set this member of the union.
        let index = unsafe { index.ifr_ifru.ifru_ifindex } as u32;
        let drops = DeviceDrops::of(&name);
        Ok(MissTap { descriptor, name, index, drops, buffer: vec![0; MAX_LEN + 1].into() })
    }

    /// Takes the interface up.
    ///
    /// # Errors
    /// The system's error.
    pub fn start(&self) -> io::Result<()> {
        let socket = request_socket()?;
        let mut length = interface_name(&self.name)?;
        length.ifr_ifru.ifru_metric = QUEUE;
        // SAFETY: the request is a valid structure that lives across the call.
        check_result(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN as _, &raw mut length) })?;
        tap_device::bring_up(&socket, &self.name)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn index(&self) -> u32 {
        self.index
    }

    /// Receives up to `max_count` packets into a batch, of at most `max_len` bytes each. Calls
    /// `count` with the length of each, and whether it was received; otherwise it was too long.
    pub fn receive(
        &mut self,
        id: PortId,
        batch: &mut Batch,
        (max_count, max_len): (usize, usize),
        mut count: impl FnMut(usize, bool),
    ) {
        let time = crate::port::now();
        for _ in 0..max_count {
            // One byte more than the longest packet, because the kernel cuts off what does not fit.
            let end = (max_len + 1).min(self.buffer.len());
            // Errors: no packet, a signal, or an interface that was taken down.
            let Ok(len) = rustix::io::read(&self.descriptor, &mut self.buffer[..end]) else { return };
            let received = len <= max_len && batch.push_bytes(&self.buffer[..len], id, time).is_ok();
            count(len, received);
        }
    }

    /// Returns the number of packets that were lost since the last call, because this process did
    /// not receive them in time.
    pub fn take_lost(&mut self) -> u64 {
        self.drops.as_mut().map_or(0, DeviceDrops::take_dropped)
    }
}

impl AsFd for MissTap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
